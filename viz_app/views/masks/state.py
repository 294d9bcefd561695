"""What the page Masks has changed, kept in the session and in the URL: a short text for each kind of attention."""

from collections.abc import Collection, Iterable
from functools import cache

from models.layers.masks import SiteKind
from models.trace import AttentionSite, Trace
from models.trace.edits import Edits, MaskChange
from viz_app.drawing.sites import by_kind
from viz_app.session import url_state
from viz_app.session.focus import chosen_focus, pick_head
from viz_app.session.parameters import Choice, Notation, Text
from viz_app.views.masks import notation as masks_notation

SECOND, WHICH = (
    Text("masks-second", default=None),
    Choice("masks-shown", "first", options=("first", "second")),
)
PAINTED = Text(
    "mask", is_step=True
)  # the kind whose mask is painted; with ".own", beside a head of any kind
_NAMES = {
    "encoder_self": "encoder-mask",
    "decoder_self": "decoder-mask",
}  # in links that are out; others have their kind's


@cache
def changes_of(kind: str) -> Notation:
    """The parameter of the changes to the mask of this kind of attention (SiteKind.name)."""
    name = _NAMES.get(kind, f"{kind.replace('_', '-')}-mask")
    return Notation(
        name, MaskChange(), True, read=masks_notation.from_text, write=masks_notation.to_text
    )


CHANGES = {
    kind: changes_of(kind)
    for kind in ("encoder_self", "decoder_self", "cross", "self", "content", "query")
}


def kinds(trace: Trace) -> dict[str, SiteKind]:
    """The kinds of attention that this trace has, by name, in the order of `by_kind`."""
    return {kind: sites[0].site_kind for kind, sites in by_kind(trace)}


def changes(trace: Trace) -> Edits:
    """The changes of this session to the kinds of attention that this trace has."""
    return Edits.of_kinds(**{kind: _of(kind) for kind in kinds(trace)})


def _of(kind: str) -> MaskChange:
    return url_state.get(changes_of(kind))


def choose(kind: SiteKind, ready: str, k: int, own: Collection[str] = ()) -> None:
    """Take a ready-made mask in place of the model's `own` layers, which are given by name."""
    url_state.keep(
        changes_of(kind.name), masks_notation.choose(kind, _of(kind.name), ready, k, own)
    )


def mask_padding(kind: str, on: bool) -> None:
    """Mask padding, or let it be read."""
    url_state.keep(changes_of(kind), masks_notation.mask_padding(_of(kind), on))


def paint(kind: str, cells: Iterable[tuple[int, int, int]]) -> None:
    """Have exactly these painted cells: (query, key, 0 = forbidden or 1 = allowed)."""
    url_state.keep(changes_of(kind), masks_notation.paint(_of(kind), cells))


def undo(others: Iterable[str] = ()) -> None:
    """The model's own masks again, everywhere: of the kinds in CHANGES and of these others."""
    for kind in {*CHANGES, *others}:
        url_state.keep(changes_of(kind), MaskChange())


def view(trace: Trace) -> tuple[str, AttentionSite, int]:
    """The kind whose mask is painted, and the site and head shown with it: those chosen on the other pages if they are
    of that kind or were chosen here, else that kind's of the same layer."""
    kind, _, own = url_state.get(PAINTED).partition(".")
    found = kinds(trace)
    if kind not in found:
        kind = next(
            (name for name, one in found.items() if masks_notation.hides_the_future(one)),
            next(iter(found)),
        )
    site, focus = chosen_focus(trace)
    if site.kind != kind and not own:
        sites = [s for s in trace.attention.values() if s.kind == kind]
        site = sites[min(site.layer, len(sites) - 1)]
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
