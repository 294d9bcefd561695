"""One head: its exact weights, which mask blocks which cell, and the tokens on both axes."""

from typing import Any

from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.labels import axes_labels, writes
from viz_app.drawing.payload import pack
from viz_app.drawing.sites import blocked_bits


def head(trace: Trace, site: AttentionSite, index: int, terms: words.Terms, lock: str = "") -> bytes:
    """The payload of the head component. `lock` is "q3" or "k0" for a held query or key token, or empty."""
    query, key = axes_labels(trace, site)
    query_axis, key_axis = words.axes(site, terms, writes(trace, site))
    header: dict[str, Any] = {
        "site": site.name, "head": index, "lock": lock,
        "title": words.head_title(site, index, terms),
        "queryAxis": query_axis, "keyAxis": key_axis,
        "queries": [label.as_json() for label in query], "keys": [label.as_json() for label in key],
        "masks": [layer.name for layer in site.mask.layers], "file": words.file_name(site, index),
    }
    return pack(header, weights=site.weights(index).numpy(), blocked=blocked_bits(site, index).numpy())
