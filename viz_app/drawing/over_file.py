"""The picture of a head over the file that it reads: an image, or a sound's spectrogram."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from models.trace import AttentionSite, Trace
from viz_app.drawing.image_map import image_map, image_of, shown_query
from viz_app.drawing.scale import Scale
from viz_app.drawing.sound_map import shown_sound_query, sound_map, sound_of


@dataclass(frozen=True)
class _Map:
    """A component, the file that it is drawn over, its payload, and the query that it shows."""

    component: str
    file_of: Callable[[Trace, AttentionSite], Any]
    payload: Callable[..., bytes]
    query: Callable[[Trace, AttentionSite, str], int]


_MAPS = (
    _Map("image_map", image_of, image_map, shown_query),
    _Map("sound_map", sound_of, sound_map, shown_sound_query),
)


def reads_file(trace: Trace, stream: str) -> bool:
    """Return True if the tokens of a stream are parts of an image or of a sound."""
    return any(
        one.file_of(trace, site) is not None
        for site in trace.attention.values()
        if site.key_stream == stream
        for one in _MAPS
    )


def over_file(
    trace: Trace, site: AttentionSite, head: int, lock: str, scale: Scale
) -> tuple[dict[str, bytes], int]:
    """Return the picture of a head over the file that it reads, if any, and its query."""
    for one in _MAPS:
        if one.file_of(trace, site) is not None:
            query = one.query(trace, site, lock)
            return {one.component: one.payload(trace, site, head, lock, scale)}, query
    return {}, 0
