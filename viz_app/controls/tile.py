"""The part of a long text that a map of weights shows."""

from viz_app.drawing.cells import Tile
from viz_app.session import url_state
from viz_app.session.parameters import Text

# a query and a key, or the whole text
TILE = Text("tile", is_step=True, pattern=r"[0-9]{1,5}\.[0-9]{1,5}|")


def tile() -> Tile:
    """Return the query and key whose neighbourhood is shown, or None for the whole text."""
    places = url_state.get(TILE)
    return tuple(map(int, places.split("."))) if places else None


def choose_tile(places: Tile) -> None:
    """Show the exact weights around this query and key, or the whole text (None)."""
    url_state.keep(TILE, "" if places is None else TILE.from_url([f"{places[0]}.{places[1]}"]))
