"""The payload of one query over its image: the chosen head, and all heads of its layer."""

from typing import Any

import numpy as np

from models.images import PatchRow
from models.trace import AttentionSite, Trace
from models.trace.outputs import ClassProbabilities, MultiLabelProbabilities
from viz_app.drawing.cells import MAX_WHOLE_TOKENS
from viz_app.drawing.held_query import held_query, pack_over_file
from viz_app.drawing.labels import labels
from viz_app.drawing.scale import Scale

MAX_IMAGE_SIDE = 336  # pixels of the image that is sent


def image_of(trace: Trace, site: AttentionSite) -> PatchRow | None:
    """Return the image whose patches a site reads with its own; None for any other site."""
    row = trace.streams.get(site.key_stream)
    is_of_image = isinstance(row, PatchRow) and site.query_stream == site.key_stream
    return row if is_of_image else None


def shown_query(trace: Trace, site: AttentionSite, lock: str) -> int:
    """Return the query to show: the held one, or the token that answers, or the middle patch."""
    if (query := held_query(lock, site)) is not None:
        return query
    for output in trace.outputs.values():
        if (
            isinstance(output, ClassProbabilities | MultiLabelProbabilities)
            and output.position is not None
        ):
            return output.position
    row = trace.streams[site.query_stream]
    if not isinstance(row, PatchRow):
        return 0
    middle = row.grid.rows // 2 * row.grid.columns + row.grid.columns // 2
    return len(row.grid.before) + middle


def image_map(
    trace: Trace,
    site: AttentionSite,
    head: int,
    lock: str = "",
    scale: Scale | None = None,
) -> bytes:
    """Return the payload of the component `image_map`.

    For an image with many patches it holds only the row of the shown query.
    """
    row = image_of(trace, site)
    if row is None:
        raise ValueError(f"{site.name} reads no image")
    query, pixels = shown_query(trace, site, lock), _pixels(row)
    header: dict[str, Any] = {
        "rows": row.grid.rows,
        "columns": row.grid.columns,
        "size": list(pixels.shape[:2]),
        "isStretched": row.is_stretched,
        "before": len(row.grid.before),
        "tokens": [label.as_json() for label in labels(row)],
        "scale": (scale or Scale()).of(site.n_key).name,
    }
    is_whole = site.n_query <= MAX_WHOLE_TOKENS
    return pack_over_file(
        trace, site, head, query, lock, "image", header, is_whole=is_whole, pixels=pixels
    )


def _pixels(row: PatchRow) -> np.ndarray:
    """Return (height, width, 3) uint8: what the model was given, every k-th pixel if large."""
    step = -(-max(row.seen.shape[:2]) // MAX_IMAGE_SIDE)
    return (row.seen[::step, ::step] * 255).round().byte().numpy()
