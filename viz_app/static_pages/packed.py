"""The stills of a static page as one payload, which static.js reads."""

import json
from collections.abc import Sequence
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
    """The payloads of a page's components, equal ones stored once."""

    def __init__(self) -> None:
        self.names: dict[bytes, str] = {}
        self.objects: set[str] = set()  # the names of those that are JSON objects

    def name(self, key: str, payload: bytes | dict[str, Any]) -> str:
        whole = stamp_payload(payload, key, (0, 0))
        if isinstance(whole, bytes):
            return self.names.setdefault(whole, f"p{len(self.names)}")
        return self.name_of_object(whole)

    def name_of_object(self, content: dict[str, Any]) -> str:
        packed = json.dumps(content, ensure_ascii=False).encode()
        name = self.names.setdefault(packed, f"p{len(self.names)}")
        self.objects.add(name)
        return name


def pack_stills(pages: Pages, place: StaticPage, texts: Sequence[str]) -> bytes:
    """Return the stills of a place; `texts` are the templates that they refer to by number."""
    stills = pages.stills[place]
    store = _Store()
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
                    key: store.name_of_object(dict(chart)) for key, chart in still.charts.items()
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
        header, **{name: np.frombuffer(content, np.uint8) for content, name in store.names.items()}
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
