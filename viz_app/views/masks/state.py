"""What the page Masks has changed, kept in the session and in the URL: a short text for each kind of attention."""

from collections.abc import Iterable

from models.trace import AttentionSite, Trace
from models.trace.edits import Edits, MaskChange
from viz_app.session import url_state
from viz_app.session.parameters import Choice, Notation, Text
from viz_app.views.masks import notation as masks_notation

SECOND, WHICH = Text("masks-second", default=None), Choice("masks-shown", "first", options=("first", "second"))
PAINTED = Text("mask", is_step=True)    # the kind whose mask is painted; with ".own", beside a head of any kind
CHANGES = {
    kind: Notation(name, MaskChange(), read=masks_notation.from_text, write=masks_notation.to_text)
    for kind, name in {"encoder_self": "encoder-mask", "decoder_self": "decoder-mask", "cross": "cross-mask"}.items()
}
_FIRST = "decoder_self"


def changes(trace: Trace) -> Edits:
    """The changes of this session to the kinds of attention that this trace has."""
    kinds = {site.kind for site in trace.attention.values()}
    return Edits.of_kinds(**{kind: _of(kind) for kind in CHANGES if kind in kinds})


def _of(kind: str) -> MaskChange:
    return url_state.get(CHANGES[kind])


def choose(kind: str, ready: str, k: int) -> None:
    """Take a ready-made mask."""
    url_state.keep(CHANGES[kind], masks_notation.choose(kind, _of(kind), ready, k))


def mask_padding(kind: str, on: bool) -> None:
    """Mask padding, or let it be read."""
    url_state.keep(CHANGES[kind], masks_notation.mask_padding(_of(kind), on))


def paint(kind: str, cells: Iterable[tuple[int, int, int]]) -> None:
    """Have exactly these painted cells: (query, key, 0 = forbidden or 1 = allowed)."""
    url_state.keep(CHANGES[kind], masks_notation.paint(_of(kind), cells))


def undo() -> None:
    """The model's own masks again, everywhere."""
    for parameter in CHANGES.values():
        url_state.keep(parameter, MaskChange())


def view(trace: Trace) -> tuple[str, AttentionSite, int]:
    """The kind whose mask is painted, and the site and head shown with it: those chosen on the other pages if they are
    of that kind or were chosen here, else that kind's of the same layer."""
    kind, _, own = url_state.get(PAINTED).partition(".")
    kinds = {site.kind for site in trace.attention.values()}
    kind = next(k for k in (kind, _FIRST, *CHANGES) if k in kinds)
    site, focus = url_state.focus(trace)
    if site.kind != kind and not own:
        sites = [s for s in trace.attention.values() if s.kind == kind]
        site = sites[min(site.layer, len(sites) - 1)]
    _look(kind, bool(own))
    return kind, site, min(focus.head, site.n_heads - 1)


def _look(kind: str, own: bool) -> None:
    url_state.keep(PAINTED, kind + (".own" if own else ""))


def show_kind(kind: str) -> None:
    """Paint on this kind's mask, and look at one of its heads."""
    if kind in CHANGES:
        _look(kind, own=False)


def look_at(kind: str, site: str, head: int) -> None:
    """Look at this head, of whatever kind it is, while painting on this kind's mask."""
    url_state.pick(site, head)
    _look(kind, own=True)
