"""The mask changes of the page Masks, kept in the session and in the URL."""

from collections.abc import Collection, Iterable

from models.layers.masks import SiteKind
from models.trace import AttentionSite, Trace
from models.trace.edits import MaskChange
from viz_app.drawing.sites import by_kind
from viz_app.session import mask_notation, url_state
from viz_app.session.focus import chosen_focus, pick_head
from viz_app.session.parameters import Choice, Text
from viz_app.session.run_changes import mask_parameter
from viz_app.views.masks.mask_view import site_of

SECOND_MASKED_TEXT, SHOWN_TEXT = (
    Text("masks-second", default=None),
    Choice("masks-shown", "first", options=("first", "second")),
)
# the kind whose mask is painted; the suffix ".own" keeps the shown head, of whatever kind
PAINTED = Text("mask", is_step=True)


def kinds_by_name(trace: Trace) -> dict[str, SiteKind]:
    """Return the kinds of attention in this trace by name, in the order of `by_kind`."""
    return {kind: sites[0].site_kind for kind, sites in by_kind(trace)}


def _of(kind: str) -> MaskChange:
    return url_state.get(mask_parameter(kind))


def choose_preset(kind: SiteKind, ready: str, k: int, own_layers: Collection[str] = ()) -> None:
    """Choose a ready-made mask in place of the model's `own_layers`, given by name."""
    url_state.set_value(
        mask_parameter(kind.name),
        mask_notation.with_preset(kind, _of(kind.name), ready, k, own_layers),
    )


def choose_padding(kind: str, on: bool) -> None:
    """Mask padding, or allow it."""
    url_state.set_value(mask_parameter(kind), mask_notation.with_padding_masked(_of(kind), on))


def paint_cells(kind: str, cells: Iterable[tuple[int, int, int]]) -> None:
    """Set exactly these painted cells: (query, key, 0 = forbidden or 1 = allowed)."""
    url_state.set_value(mask_parameter(kind), mask_notation.with_painted(_of(kind), cells))


def view(trace: Trace) -> tuple[str, AttentionSite, int]:
    """Return the kind whose mask is painted, and the shown site and head.

    The site is the one chosen on any page if it is of that kind or was chosen here, else that
    kind's site in the same layer.
    """
    kind, _, keeps_site = url_state.get(PAINTED).partition(".")
    present = kinds_by_name(trace)
    if kind not in present:
        kind = next(
            (name for name, site_kind in present.items() if site_kind.is_causal),
            next(iter(present)),
        )
    site, focus = chosen_focus(trace)
    if not keeps_site:
        site = site_of(trace, kind, site)
    _remember_kind(kind, bool(keeps_site))
    return kind, site, min(focus.head, site.n_heads - 1)


def _remember_kind(kind: str, keeps_site: bool) -> None:
    url_state.set_value(PAINTED, kind + (".own" if keeps_site else ""))


def show_kind(kind: str) -> None:
    """Paint on this kind's mask, and show one of its heads."""
    _remember_kind(kind, keeps_site=False)


def look_at(kind: str, site: str, head: int) -> None:
    """Show this head, of any kind, while painting on this kind's mask."""
    pick_head(site, head)
    _remember_kind(kind, keeps_site=True)
