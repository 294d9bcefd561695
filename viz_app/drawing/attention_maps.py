"""The payload of `maps` for all heads of one site, with weights of any training step."""

from collections.abc import Mapping

import numpy as np

from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.labels import axes_labels, queries_are_written
from viz_app.drawing.payload import pack

MASKED_LABEL = "masked: it may not be read"
SAYS = "attention weight"


def attention_maps(
    trace: Trace,
    site: AttentionSite,
    weights: np.ndarray,
    terms: words.Terms,
    title: str,
    saved: Mapping[str, str],
) -> bytes:
    """Return the picture of weights (head, query, key) over the tokens of a site, from 0 to 1.

    The tokens and the mask are those of `trace`; the mask is the same at every step.
    """
    queries, keys = axes_labels(trace, site)
    query = (
        "read → written" if queries_are_written(trace, site) else terms.of(site.query_stream).text
    )
    row_axis, column_axis = f"query: {query}", f"key: {terms.of(site.key_stream).text}"
    maps = [
        {
            "title": f"Head {head + 1}", "note": "", "array": f"map{head}", "scale": "linear",
            "least": 0.0, "largest": 1.0, "none": MASKED_LABEL, "without": f"masked{head}", "says": SAYS,
        }
        for head in range(len(weights))
    ]  # fmt: skip
    header = {
        "title": title,
        **saved,
        "rowAxis": row_axis,
        "colAxis": column_axis,
        "rows": [label.as_json() for label in queries],
        "cols": [label.as_json() for label in keys],
        "maps": maps,
    }
    arrays = {f"map{head}": one.astype(np.float32) for head, one in enumerate(weights)}
    # a weight that the softmax rounds to 0 is not masked
    blocked = ~site.allowed(head=None)
    arrays |= {f"masked{head}": one.numpy().astype(np.uint8) for head, one in enumerate(blocked)}
    return pack(header, **arrays)
