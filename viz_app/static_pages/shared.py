"""Payloads that the same page of several models has: one script holds them for all."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from viz_app.drawing.payload import pack
from viz_app.static_pages.contents import StaticPage
from viz_app.static_pages.links import Site
from viz_app.static_pages.packed import payloads, shared_name, zipped

MIN_SHARED_BYTES = 4096  # smaller payloads stay in their pages


@dataclass(frozen=True)
class SharedPayloads:
    """The payloads that the pages of one name share, and the name of their script."""

    name: str
    payloads: tuple[bytes, ...]

    @property
    def script(self) -> bytes:
        """The script, from which static.js reads them."""
        arrays = {
            shared_name(i): np.frombuffer(one, np.uint8) for i, one in enumerate(self.payloads)
        }
        return f'attnscope.shared = "{zipped(pack({}, **arrays))}";\n'.encode()


def shared_payloads(site: Site) -> Mapping[StaticPage, SharedPayloads]:
    """Return what each place shares with the same page of another model, where it shares any."""
    counts: dict[str, Counter[bytes]] = {}
    of_place: dict[StaticPage, set[bytes]] = {}
    for pages in site.values():
        for place, stills in pages.stills.items():
            of_place[place] = {one for still in stills.values() for one in payloads(still)}
            counts.setdefault(_name(place), Counter()).update(sorted(of_place[place]))
    shared = {
        name: SharedPayloads(
            name,
            tuple(one for one, n in count.items() if n > 1 and len(one) >= MIN_SHARED_BYTES),
        )
        for name, count in counts.items()
    }
    return {
        place: shared[_name(place)]
        for place, of_this in of_place.items()
        if of_this & set(shared[_name(place)].payloads)
    }


def _name(place: StaticPage) -> str:
    return f"shared-{PurePosixPath(place.file).stem}"
