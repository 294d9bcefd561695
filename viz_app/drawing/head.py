"""The payload of one head: exact weights, masks and tokens, or blocks of a long text."""

from typing import Any

from models.analysis.joined_words import is_joined
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.cells import Tile, cells
from viz_app.drawing.labels import axes_labels, queries_are_written
from viz_app.drawing.payload import pack
from viz_app.drawing.pooling import slabs
from viz_app.drawing.provenance import head_name
from viz_app.drawing.scale import Scale, sinks
from viz_app.drawing.stamp import facts, saving


def head_payload(
    trace: Trace,
    site: AttentionSite,
    index: int,
    terms: words.Terms,
    lock: str = "",
    tile: Tile = None,
    scale: Scale | None = None,
) -> bytes:
    """Return the payload of the head component.

    `lock` is the held query or key token, "q3" or "k0", or "". `tile` is the (query, key) at the
    centre of the exact part of a long text; None shows the whole text in blocks.
    """
    query_axis, key_axis = words.axes(site, terms, queries_are_written(trace, site))
    choice, hidden = scale or Scale(), sinks(trace.axes(site)[1])
    scale = choice.of(site.n_key)
    grid = cells(trace, site, index, tile, hidden if scale.hides_sinks else ())
    names = axes_labels(trace, site)[1]
    header: dict[str, Any] = {
        "site": site.name,
        "head": index,
        "lock": lock,
        "title": words.head_title(site, index, terms),
        "queryAxis": query_axis,
        "keyAxis": key_axis,
        "queries": [label.as_json() for label in grid.queries],
        "keys": [label.as_json() for label in grid.keys],
        "block": grid.block,
        "first": list(grid.first),
        "size": [site.n_query, site.n_key],
        "masks": [layer.name for layer in site.mask.layers],
        **saving(head_name(trace, site, index), facts(trace)),
        "scale": scale.name,
        "asked": choice.name,
        "hides": scale.hides_sinks,
        "sinks": hidden,
        "sinkNames": [names[i].text for i in hidden],
        "sinkShare": _share(site, index, hidden),
        "joins": words.as_sentence(words.JOINED) * is_joined(trace),
    }
    arrays = {"weights": grid.weights, "blocked": grid.blocked}
    if grid.largest is not None:
        arrays["largest"] = grid.largest
    return pack(header, **arrays)


def _share(site: AttentionSite, head: int, keys: list[int]) -> float:
    """Return the total weight on these keys, averaged over the queries."""
    if not keys:
        return 0.0
    site = site.read("q", "k")
    return (
        sum(float(site.weights(head, rows=rows)[:, keys].sum()) for rows in slabs(site))
        / site.n_query
    )
