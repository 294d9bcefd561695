"""The exact part of a long text that a map of weights shows."""

from viz_app.drawing.cells import Tile
from viz_app.session import url_state
from viz_app.session.parameters import Text

# "query.key", or "" for the whole text
CHOSEN_TILE = Text(
    "tile", is_step=True, pattern=r"[0-9]{1,5}\.[0-9]{1,5}|", form="query.key, such as 3.12"
)


def tile() -> Tile:
    """Return the (query, key) at the centre of the shown part; None for the whole text."""
    text = url_state.get(CHOSEN_TILE)
    return tuple(map(int, text.split("."))) if text else None


def choose_tile(centre: Tile) -> None:
    """Show the exact weights around this (query, key), or the whole text for None."""
    url_state.set_value(
        CHOSEN_TILE, "" if centre is None else CHOSEN_TILE.from_url([f"{centre[0]}.{centre[1]}"])
    )
