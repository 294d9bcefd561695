"""What the page Masks has changed, kept in the session and in the URL: a short text for each kind of attention."""

from collections.abc import Collection, Iterable

from models.layers.masks import SiteKind
from models.trace import AttentionSite, Trace
from models.trace.edits import MaskChange
from viz_app.drawing.sites import by_kind
from viz_app.session import mask_notation, url_state
from viz_app.session.focus import chosen_focus, pick_head
from viz_app.session.parameters import Choice, Text
from viz_app.session.run_changes import mask_change
from viz_app.views.masks.mask_view import site_of

SECOND, WHICH = (
    Text("masks-second", default=None),
    Choice("masks-shown", "first", options=("first", "second")),
)
PAINTED = Text(
    "mask", is_step=True
)  # the kind whose mask is painted; with ".own", beside a head of any kind


def kinds(trace: Trace) -> dict[str, SiteKind]:
    """The kinds of attention that this trace has, by name, in the order of `by_kind`."""
    return {kind: sites[0].site_kind for kind, sites in by_kind(trace)}


def _of(kind: str) -> MaskChange:
    return url_state.get(mask_change(kind))


def choose(kind: SiteKind, ready: str, k: int, own: Collection[str] = ()) -> None:
    """Take a ready-made mask in place of the model's `own` layers, which are given by name."""
    url_state.keep(
        mask_change(kind.name), mask_notation.choose(kind, _of(kind.name), ready, k, own)
    )


def mask_padding(kind: str, on: bool) -> None:
    """Mask padding, or let it be read."""
    url_state.keep(mask_change(kind), mask_notation.mask_padding(_of(kind), on))


def paint(kind: str, cells: Iterable[tuple[int, int, int]]) -> None:
    """Have exactly these painted cells: (query, key, 0 = forbidden or 1 = allowed)."""
    url_state.keep(mask_change(kind), mask_notation.paint(_of(kind), cells))


def view(trace: Trace) -> tuple[str, AttentionSite, int]:
    """The kind whose mask is painted, and the site and head shown with it: those chosen on the other pages if they are
    of that kind or were chosen here, else that kind's of the same layer."""
    kind, _, own = url_state.get(PAINTED).partition(".")
    found = kinds(trace)
    if kind not in found:
        kind = next(
            (name for name, one in found.items() if mask_notation.hides_the_future(one)),
            next(iter(found)),
        )
    site, focus = chosen_focus(trace)
    if not own:
        site = site_of(trace, kind, site)
    _look(kind, bool(own))
    return kind, site, min(focus.head, site.n_heads - 1)


def _look(kind: str, own: bool) -> None:
    url_state.keep(PAINTED, kind + (".own" if own else ""))


def show_kind(kind: str) -> None:
    """Paint on this kind's mask, and look at one of its heads."""
    _look(kind, own=False)


def look_at(kind: str, site: str, head: int) -> None:
    """Look at this head, of whatever kind it is, while painting on this kind's mask."""
    pick_head(site, head)
    _look(kind, own=True)
