"""The first page: who looks at whom. All heads, then one head twice, then what it is and whether it is right."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from models.trace import Trace
from viz_app import ui, words
from viz_app.components.head import head
from viz_app.components.overview import overview
from viz_app.components.plain import plain
from viz_app.drawing.labels import writes
from viz_app.session import live
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import chosen_focus, lock_token, pick_head
from viz_app.session.live import Pictures
from viz_app.views.attention import controls, growth
from viz_app.views.attention.no_attention import no_attention
from viz_app.views.attention.payloads import Choices, at_step, compared, payloads, words_joined
from viz_app.views.inside import similarity
from viz_app.views.inside.controls import choose_similarity, note_similarity, other_similarity

MANY = 16       # heads of a layer that can be told apart in the narrower column


def attention(shown: CurrentRun) -> Callable[[CurrentRun], Pictures]:
    """Draw the page; returns how its pictures are made of another run."""
    terms = shown.terms
    heads = "Each small square is one head. The stronger the colour, the more one token reads another."
    none = "This model has no attention, so no token reads another."
    ui.headline("Attention: who reads whom?", heads if shown.trace.attention else none)
    strip = st.container()
    step = growth.choose(shown)
    if not shown.trace.attention:
        return no_attention(shown, strip, step)
    name = other_similarity(shown)                  # chosen on the page Inside a head
    if name:
        with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
            name = choose_similarity(shown)
    run = compared(shown, step, name)
    site, focus = chosen_focus(run.trace)
    joins = controls.joins()
    shown_as = partial(words_joined, joins=joins)
    site = shown_as(run.trace).attention[site.name]
    choices = Choices(step, name, focus, controls.tile(), controls.scale(), joins)
    drawn = payloads(shown, choices)
    with strip:
        plain(drawn["written"], key="written")
    note_similarity(drawn)
    all_heads, one_head = st.columns(widths(run.trace), gap="medium")
    with all_heads:
        overview(drawn["overview"], pick_head, controls.choose_words)
    with one_head:
        head(drawn["head"], lock_token, controls.choose_scale, controls.choose_tile)
        explained, checked = st.columns([1.2, 1], gap="medium")
        with explained, st.container(key="explanation"):
            place = words.place(site, focus.head)
            read = words.how_to_read(site, writes(run.trace, site))
            config, snapshots = shown.scope.config, shown.scope.snapshots
            parts = f"**{place}.** {words.where_from(site, terms)}", read, words.departures(config), words.unkept(snapshots)
            st.markdown("\n\n".join(part for part in parts if part))
        with checked:
            ui.checks_panel(drawn["checks"], similarity.trained(at_step(shown, step), name))
        session = live.session()
        ui.downloads(
            lambda: shown_as(compared(session.shown, step, name).trace), site, focus.head, terms, choices.scale, choices.tile
        )
        growth.download(lambda: session.shown, site, focus.head, choices.scale, shown_as, choices.tile)
    return partial(payloads, choices=choices)


def widths(trace: Trace) -> tuple[float, float]:
    """The shares of the page that all heads and the one head have, side by side."""
    return (1, 2.9) if max(site.n_heads for site in trace.attention.values()) <= MANY else (1.6, 2.3)
