"""One head twice: a heatmap with exact weights, and lines from token to token. Hover and lock are linked between them."""

from collections.abc import Callable
from typing import Any

from viz_app.components import news, register

SCRIPTS = ("scale.js", "heatmap.js", "lines.js", "head.js")
component = register("head", *SCRIPTS)


def head(
    payload: bytes,
    on_lock: Callable[[str], None],
    on_look: Callable[[str, bool], None],
    on_tile: Callable[[tuple[int, int] | None], None],
    key: str = "head",
) -> None:
    """Show drawing.head.head's payload; `on_lock("q3" | "k0" | "")` is called when a token is locked or let go,
    `on_look(name of a scale, whether sinks are hidden)` when one of the switches is used, `on_tile((query, key) | None)` when
    a part of a long text is to be shown or all of it."""

    def sent(name: str, act: Callable[[Any], None]) -> Callable[[], None]:
        def handle_news() -> None:
            if (value := news(key, name)) is not None:
                act(value)

        return handle_news

    component(
        key=key,
        data=payload,
        on_lock_change=sent("lock", lambda lock: on_lock(str(lock["token"]))),
        on_look_change=sent("look", lambda look: on_look(str(look["scale"]), bool(look["hides"]))),
        on_tile_change=sent(
            "tile",
            lambda tile: on_tile(
                (int(tile["query"]), int(tile["key"])) if "query" in tile else None
            ),
        ),
    )
