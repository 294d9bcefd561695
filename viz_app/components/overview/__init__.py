"""All heads at a glance on canvases, one block a kind of attention; a click or the arrow keys choose a head."""

from collections.abc import Callable

from viz_app.components import news, register

SCRIPTS = ("grid.js", "overview.js")
component = register("overview", *SCRIPTS)


def overview(
    payload: bytes,
    on_pick: Callable[[str, int], None],
    on_join: Callable[[bool], None],
    key: str = "overview",
) -> None:
    """Show drawing.overview.overview's payload; `on_pick(site name, head)` is called when a head is chosen, `on_join` with whether
    sub-words are to be joined to words when that is switched."""

    def picked() -> None:
        if (pick := news(key, "pick")) is not None:
            on_pick(str(pick["site"]), int(pick["head"]))

    def switched() -> None:
        if (join := news(key, "join")) is not None:
            on_join(bool(join["on"]))

    component(key=key, data=payload, on_pick_change=picked, on_join_change=switched)
