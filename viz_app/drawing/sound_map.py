"""The payload of one query over its sound: the chosen head, and all heads of its layer."""

from typing import Any, cast

import numpy as np
import torch

from models.sounds import FrameIds, PatchedSound, SoundRow, SpectrogramGrid
from models.trace import AttentionSite, Trace
from viz_app.drawing.cells import MAX_WHOLE_TOKENS
from viz_app.drawing.held_query import held_query, pack_over_file
from viz_app.drawing.labels import axes_labels
from viz_app.drawing.scale import AUTO, ROW_SCALE, Scale

MAX_SPECTROGRAM_COLUMNS = 1500  # of the spectrogram that is sent


def sound_of(trace: Trace, site: AttentionSite) -> SoundRow | None:
    """Return the sound whose frames or patches a site reads; None for any other site."""
    row = trace.streams.get(site.key_stream)
    return row if isinstance(row, SoundRow) else None


def shown_sound_query(trace: Trace, site: AttentionSite, lock: str) -> int:
    """Return the query to show: the held one, or the one in the middle of what is heard."""
    if (query := held_query(lock, site)) is not None:
        return query
    row = trace.streams[site.query_stream]
    if not isinstance(row, SoundRow):
        return site.n_query // 2
    grid = _grid(row)
    return len(grid.before) + grid.rows // 2 * grid.columns + row.n_heard // 2


def _grid(row: SoundRow) -> SpectrogramGrid:
    """Return the grid of a sound's tokens: frames are patches as high as the spectrogram."""
    return row.grid if isinstance(row, PatchedSound) else SpectrogramGrid(1, len(row.ids))


def sound_map(
    trace: Trace,
    site: AttentionSite,
    head: int,
    lock: str = "",
    scale: Scale | None = None,
) -> bytes:
    """Return the payload of the component `sound_map`.

    If there are many cells, it holds only the row of the shown query.
    """
    row = sound_of(trace, site)
    if row is None:
        raise ValueError(f"{site.name} reads no sound")
    query, levels, choice = shown_sound_query(trace, site, lock), _levels(row), scale or Scale()
    (queries, _), grid = axes_labels(trace, site), _grid(row)
    header: dict[str, Any] = {
        "queries": [label.as_json() for label in queries],
        "keys": list(row.tokens),
        "areFrames": not isinstance(row, PatchedSound),
        "rows": grid.rows,
        "columns": grid.columns,
        "before": len(grid.before),
        "size": grid.size,
        "stride": grid.stride,
        "readsItself": site.query_stream == site.key_stream,
        "isInput": cast(FrameIds, row.ids).features.dim() == 2,
        "step": row.step,
        "seconds": row.seconds,
        "bands": len(levels),
        "heard": row.n_heard,
        "scale": ROW_SCALE if choice.name == AUTO else choice.name,
    }
    is_whole = site.n_query * site.n_key <= MAX_WHOLE_TOKENS**2
    return pack_over_file(
        trace, site, head, query, lock, "sound", header, is_whole=is_whole, spectrogram=levels
    )


def _levels(row: SoundRow) -> np.ndarray:
    """Return the spectrogram as (band, time) uint8, high frequencies first, as it is drawn."""
    bands = row.spectrogram
    n = min(bands.shape[1], MAX_SPECTROGRAM_COLUMNS)
    pooled = torch.nn.functional.adaptive_avg_pool1d(bands[None], n)[0]
    return (pooled.flip(0) * 255).round().byte().numpy()
