"""The weights of one query over a file: of the chosen head, and of all heads of its layer."""

from typing import Any

import numpy as np

from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import head_name
from viz_app.drawing.sites import blocked_bits
from viz_app.drawing.stamp import facts, saving


def held_query(lock: str, site: AttentionSite) -> int | None:
    """Return the query that is held, None if there is none here."""
    held = lock.startswith("q") and int(lock[1:]) < site.n_query
    return int(lock[1:]) if held else None


def pack_over_file(
    trace: Trace,
    site: AttentionSite,
    head: int,
    query: int,
    lock: str,
    what: str,
    header: dict[str, Any],
    *,
    is_whole: bool,
    **arrays: np.ndarray,
) -> bytes:
    """Return the payload of a head over a file; `what` names its kind, "image" or "sound".

    `header` and `arrays` are the file's own. Unless `is_whole`, the chosen head's weights are those
    of the shown query alone.
    """
    one = slice(query, query + 1)
    rows = slice(0, site.n_query) if is_whole else one
    about = {
        "site": site.name,
        "head": head,
        "title": f"{words.head_place(site, head)}, over the {what}",
        "layer": words.layer_place(site),
        "query": query,
        "lock": lock,
        "first": rows.start,
        "masks": [layer.name for layer in site.mask.layers],
        **saving(head_name(trace, site, head, f"over-{what}"), facts(trace)),
    }
    heads = range(site.n_heads)
    return pack(
        about | header,
        **arrays,
        weights=site.weights(head, rows=rows).numpy(),
        blocked=blocked_bits(site, head, rows).numpy(),
        heads=np.stack([site.weights(h, rows=one)[0].numpy() for h in heads]),
        headsBlocked=np.stack([blocked_bits(site, h, one)[0].numpy() for h in heads]),
    )
