"""All masks of a run, one of them to paint on, and what that does to one head and to the given target."""

from collections.abc import Callable

from viz_app.components import news, register

SCRIPTS = ("../walk/signed.js", "board.js", "strip.js", "brush.js", "effect.js", "mask_painter.js")

component = register("mask_painter", *SCRIPTS)


def mask_painter(
    payload: bytes,
    on_paint: Callable[[str, list[tuple[int, int, int]]], None],
    on_kind: Callable[[str], None],
    on_tile: Callable[[tuple[int, int] | None], None],
    key: str = "mask_painter",
) -> None:
    """Show views.masks.painter.masks' payload. `on_paint(kind, cells)` is called when a stroke ends, with all painted cells,
    (query, key, 0 = forbidden or 1 = allowed); `on_kind(kind)` when another mask is chosen; `on_tile((query, key) | None)` when
    a part of a long text is to be shown or all of it."""

    def painted() -> None:
        if (stroke := news(key, "paint")) is not None:
            on_paint(
                str(stroke["kind"]),
                [(int(q), int(k), int(allowed)) for q, k, allowed in stroke["cells"]],
            )

    def chosen() -> None:
        if (kind := news(key, "kind")) is not None:
            on_kind(str(kind["kind"]))

    def enlarged() -> None:
        if (tile := news(key, "tile")) is not None:
            on_tile((int(tile["query"]), int(tile["key"])) if "query" in tile else None)

    component(
        key=key,
        data=payload,
        on_paint_change=painted,
        on_kind_change=chosen,
        on_tile_change=enlarged,
    )
