"""The stills of a static page as one payload, which static.js reads."""

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from viz_app.components import stamp_payload
from viz_app.drawing.payload import pack
from viz_app.static_pages.contents import StaticPage
from viz_app.static_pages.crawl import Pages
from viz_app.static_pages.events import KEPT_EVENTS
from viz_app.static_pages.still import Still

UNAVAILABLE = "Only the app can show this: the model would have to run again."
ELSEWHERE = "This address is not in the static edition. This is the first view of the page."


class _Store:
    """The payloads of a page, equal ones stored once, without those that are `shared`."""

    def __init__(self, shared: Sequence[bytes]) -> None:
        self.names = {payload: shared_name(i) for i, payload in enumerate(shared)}
        self.own: dict[str, bytes] = {}
        self.objects: set[str] = set()  # the names of those that are JSON objects

    def name(self, key: str, payload: bytes | dict[str, Any]) -> str:
        content = stamped(key, payload)
        if content not in self.names:
            name = self.names[content] = f"p{len(self.own)}"
            self.own[name] = content
        if isinstance(payload, dict):
            self.objects.add(self.names[content])
        return self.names[content]


def shared_name(i: int) -> str:
    """Return the name of a payload that is stored elsewhere, by its number there."""
    return f"s{i}"


def stamped(key: str, payload: bytes | dict[str, Any]) -> bytes:
    """Return the payload of a part or a chart as its page stores it."""
    whole = stamp_payload(payload, key, (0, 0))
    return whole if isinstance(whole, bytes) else json.dumps(whole, ensure_ascii=False).encode()


def payloads(still: Still) -> Iterator[bytes]:
    """Yield the payloads of the parts and the charts of a still."""
    yield from (stamped(key, part.payload) for key, part in still.parts.items())
    yield from (stamped(key, dict(chart)) for key, chart in still.charts.items())


def zipped(content: bytes) -> str:
    """Return a payload as the text that parts.js unzips."""
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


def pack_stills(
    pages: Pages, place: StaticPage, texts: Sequence[str], shared: Sequence[bytes]
) -> bytes:
    """Return the stills of a place, without the payloads that are `shared` (shared.py).

    `texts` are the templates that they refer to by number.
    """
    stills = pages.stills[place]
    store = _Store(shared)
    layouts = list(dict.fromkeys(json.dumps(still.layout) for still in stills.values()))
    header = {
        "stills": [
            {
                "query": still.query,
                "parts": {
                    key: [part.component.name, store.name(key, part.payload)]
                    for key, part in still.parts.items()
                },
                "charts": {
                    key: store.name(key, dict(chart)) for key, chart in still.charts.items()
                },
                "choices": {
                    key: store.name(key, dict(choice)) for key, choice in still.choices.items()
                },
                "texts": {name: texts.index(text) for name, text in still.texts.items()},
                "layout": layouts.index(json.dumps(still.layout)),
                "moves": _moves(pages, place, still),
                "next": _next(pages, still),
            }
            for still in stills.values()
        ],
        "layouts": [json.loads(layout) for layout in layouts],
        "kept": KEPT_EVENTS,
        "objects": sorted(store.objects),
        "says": {"unavailable": UNAVAILABLE, "elsewhere": ELSEWHERE},
    }
    return pack(
        header, **{name: np.frombuffer(content, np.uint8) for name, content in store.own.items()}
    )


def _moves(
    pages: Pages, place: StaticPage, still: Still
) -> list[tuple[str, str, dict[str, Any], int]]:
    """Return the key, trigger, message and number of the still of each move that leads to one."""
    numbers = {query: i for i, query in enumerate(pages.stills[place])}
    targets = [(move, pages.at(place, move.query)) for move in still.moves]
    return [
        (move.key, move.trigger, move.message, numbers[query])
        for move, query in targets
        if query is not None
    ]


def _next(pages: Pages, still: Still) -> str:
    """Return the link of the question at the end; "" if its answer is not a static page."""
    tab, query = still.leads_to
    target = pages.target(tab, query)
    at = target and pages.at(target, query)
    return f"../{target.file}#{at}" if target and at is not None else ""
