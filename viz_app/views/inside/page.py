"""Inside a head: how one weight comes about, step by step, as matrices, with and without √d_k, and as one of many heads."""

from collections.abc import Callable

import streamlit as st

from models.analysis import head_walk
from models.trace import Trace
from viz_app import ui, words
from viz_app.components.choice import choice
from viz_app.components.heads import heads
from viz_app.components.matrices import matrices
from viz_app.components.walk import walk
from viz_app.drawing.sites import by_kind
from viz_app.session import live, url_state
from viz_app.session.current_run import Shown
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice, Whole
from viz_app.views.attention.no_attention import no_attention
from viz_app.views.inside import files as export
from viz_app.views.inside import matrices as inside_matrices
from viz_app.views.inside import payloads as figures
from viz_app.views.inside import scaling as inside_scaling
from viz_app.views.inside import similarity
from viz_app.views.inside import text as inside_text
from viz_app.views.inside.payloads import Cell

VIEW, CONVENTION = Choice("inside-view"), Choice("inside-convention")
KEY, STAGE = Whole("inside-key"), Whole("inside-stage", 0)
_KIND, _LAYER, _HEAD = "inside-kind", "inside-layer", "inside-head"


def inside(shown: Shown) -> Callable[[Shown], Pictures] | None:
    """Draw the page; returns how its pictures are made of another run."""
    terms = shown.terms
    ui.headline(
        "Inside a head: how does this one weight come about?",
        "One token reads another. Walk from their two vectors to the number, with the values this model computed.",
    )
    ui.written(shown.trace, terms, shown.stale)
    if not shown.trace.attention:
        no_attention(shown)
        return None
    controls = st.container(horizontal=True, gap="medium", key="inside-controls", vertical_alignment="bottom")
    with controls:
        name = similarity.choose(shown)
    site, focus = url_state.focus(similarity.under(shown, name).trace)
    lock = int(focus.lock[1:]) if focus.lock else None
    query, key = (None, lock) if focus.lock.startswith("k") else (lock, url_state.get(KEY))

    def seen(shown: Shown) -> tuple[Shown, Cell]:
        then = similarity.under(shown, name)
        return then, figures.cell(then.trace, then.trace.attention[site.name], focus.head, query, key)

    then, at = seen(shown)
    with controls:
        view = _controls(then.trace, at)
    similarity.say(similarity.said(shown, then, site.name, focus.head, name))
    choice(figures.token_choice(then.trace, at, terms), _choose)
    payload = _VIEWS[view](then, at)
    left, right = st.columns(2, gap="medium")
    with left, st.container(key="explanation"):
        unlike = words.departures(shown.scope.config) if view == "walk" else ""
        said = f"**{words.place(site, focus.head)}.** {inside_text.explain(view, site, terms)}", unlike
        st.markdown("\n\n".join(part for part in said if part))
        desk = live.desk()
        _downloads(lambda: seen(desk.shown), at, view)
    with right:
        ui.checks_panel(_checked(then, at), similarity.trained(shown, name))
    if payload is None:
        return None

    def pictures(shown: Shown) -> Pictures:
        then, at = seen(shown)
        return {
            **similarity.said(shown, then, site.name, focus.head, name),
            "choice": figures.token_choice(then.trace, at, terms),
            view: payload(then, at),
            "checks": _checked(then, at),
        }

    return pictures


def _checked(shown: Shown, at: Cell) -> dict:
    return ui.checked(head_walk.check_walk(shown.trace, at.site, at.query, at.head))


Payload = Callable[[Shown, Cell], bytes]


def _walk(shown: Shown, at: Cell) -> Payload:
    def payload(shown: Shown, at: Cell) -> bytes:
        return figures.walk(shown.trace, at, shown.terms, stage)

    stage = url_state.get(STAGE)
    walk(payload(shown, at), _choose, lambda stage: url_state.keep(STAGE, stage))
    return payload


def _matrices(shown: Shown, at: Cell) -> Payload:
    convention = _pick("Convention", CONVENTION, inside_text.conventions(at.site), hidden=True)

    def payload(shown: Shown, at: Cell) -> bytes:
        return inside_matrices.matrices(shown.trace, at, shown.terms, convention)

    matrices(payload(shown, at), _choose)
    return payload


def _scaling(shown: Shown, at: Cell) -> None:
    dark = st.context.theme.type == "dark"
    curves = {
        "entropy": ("How evenly attention is spread", "entropy (nats)"),
        "product_gradient": ("How strongly weights answer to q·k", "‖∂weights/∂(q·k)‖"),
    }
    st.markdown(inside_scaling.says(at))
    left, right = st.columns([1.25, 1], gap="medium")
    with left:
        st.altair_chart(inside_scaling.weights_chart(shown.trace, at, dark), key="inside-bars")
        st.markdown(inside_scaling.table(at))
    with right:
        for field, (title, unit) in curves.items():
            st.altair_chart(inside_scaling.curve_chart(at, field, title, unit, dark), key=f"inside-{field}")


def _heads(shown: Shown, at: Cell) -> Payload:
    def payload(shown: Shown, at: Cell) -> bytes:
        return figures.heads(shown.trace, at, shown.terms)

    heads(payload(shown, at), lambda head: url_state.pick(at.site.name, head))
    return payload


# Each draws its picture and returns how it is made of another weight, if it can be made beside Streamlit.
_VIEWS: dict[str, Callable[[Shown, Cell], Payload | None]] = {
    "walk": _walk, "matrices": _matrices, "scaling": _scaling, "heads": _heads,
}  # fmt: skip


def _controls(trace: Trace, at: Cell) -> str:
    """Which picture, and which head: the same choice as on the Attention page. Returns the view's name."""
    kinds = dict(by_kind(trace))
    sites = kinds[at.site.kind]
    st.session_state[_KIND], st.session_state[_LAYER], st.session_state[_HEAD] = at.site.kind, at.site.layer + 1, at.head + 1

    def moved() -> None:
        if st.session_state[_KIND] != at.site.kind:
            url_state.keep(KEY, None)                        # another kind reads other tokens
        chosen = kinds[st.session_state[_KIND]]
        layer = min(st.session_state[_LAYER], len(chosen)) - 1
        url_state.pick(chosen[layer].name, min(st.session_state[_HEAD], chosen[layer].n_heads) - 1)

    view = _pick("Show", VIEW, inside_text.views(at.site))
    for label, key, options, named in (
        ("Attention", _KIND, list(kinds), lambda kind: words.kind_short(kinds[kind][0])),
        ("Layer", _LAYER, [s.layer + 1 for s in sites], str), ("Head", _HEAD, list(range(1, at.site.n_heads + 1)), str),
    )[: 1 if words.is_alignment(at.site) else 3]:
        st.segmented_control(label, options, required=True, key=key, format_func=named, on_change=moved)
    return view


def _downloads(now: Callable[[], tuple[Shown, Cell]], at: Cell, view: str) -> None:
    """The numbers of the picture that stands there `now`. Pictures have their own button."""

    def of(make: Callable[[Trace, Cell], str | bytes]) -> Callable[[], str | bytes]:
        def made() -> str | bytes:
            shown, at = now()
            return make(shown.trace, at)

        return made

    head = words.file_name(at.site, at.head)
    name = f"{head}.query{at.query}"
    npz, text = "application/octet-stream", "text/csv"
    offered = {
        "walk": [("This walk, CSV", of(export.walk_csv), f"{name}.csv", text),
                 ("This walk, npz", of(export.walk_npz), f"{name}.npz", npz)],
        "matrices": [("The matrices, npz", of(lambda _, at: export.matrices_npz(at)), f"{head}.matrices.npz", npz)],
        "scaling": [("These numbers, CSV", of(export.scaling_csv), f"{name}.scaling.csv", text)],
        "heads": [("The heads, CSV", of(export.heads_csv), f"{at.site.name}.heads.query{at.query}.csv", text)],
    }[view]
    with st.container(horizontal=True, gap="small", key="downloads"):
        for label, make, file, mime in offered:
            ui.download(label, make, file, mime)


def _choose(query: int, key: int) -> None:
    """Look at another weight; a negative key means the strongest."""
    url_state.lock(f"q{query}")
    url_state.keep(KEY, key if key >= 0 else None)


def _pick(label: str, choice: Choice, names: dict[str, str], hidden: bool = False) -> str:
    """One of several by its short name, which is what stands in the URL; the first is where one starts."""
    return st.segmented_control(
        label, list(names), required=True, format_func=names.get, label_visibility="collapsed" if hidden else "visible",
        **url_state.bound(choice, url_state.one_of(choice, list(names), next(iter(names)))),
    )
