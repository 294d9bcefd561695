"""The first page: who looks at whom. All heads, then one head twice, then what it is and whether it is right."""

from collections.abc import Callable

import streamlit as st

from models.analysis.checks import check_site
from viz_app import ui, words
from viz_app.components.head import head
from viz_app.components.overview import overview
from viz_app.drawing.head import head as head_payload
from viz_app.drawing.overview import overview as overview_payload
from viz_app.session import live, url_state
from viz_app.session.current_run import Shown
from viz_app.session.live import Pictures
from viz_app.views.attention import growth
from viz_app.views.attention.no_attention import no_attention
from viz_app.views.inside import similarity
from viz_app.views.inside.controls import choose_similarity, note_similarity, other_similarity


def attention(shown: Shown) -> Callable[[Shown], Pictures] | None:
    """Draw the page; returns how its pictures are made of another run."""
    terms = shown.terms
    heads = "Each small square is one head. The stronger the colour, the more one token reads another."
    none = "Nobody reads anybody here: this model has no attention."
    ui.headline("Attention: who reads whom?", heads if shown.trace.attention else none)
    ui.written(shown.trace, terms, shown.stale)
    step = growth.choose(shown)
    if not shown.trace.attention:
        no_attention(growth.at(shown, step))
        return None
    name = other_similarity(shown)                  # chosen on the page Inside a head
    if name:
        with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
            name = choose_similarity(shown)
    def seen(shown: Shown) -> Shown:
        return similarity.under(growth.at(shown, step), name)

    def pictures(shown: Shown) -> Pictures:
        own = growth.at(shown, step)
        then = similarity.under(own, name)
        trace, at = then.trace, focus.within(then.trace)
        there = trace.attention[at.site]
        return {
            **growth.said(step, own), **similarity.note(own, then, at.site, at.head, name),
            "overview": overview_payload(trace, terms, at.site, at.head),
            "head": head_payload(trace, there, at.head, terms, at.lock),
            "checks": ui.checked(check_site(there)),
        }

    site, focus = url_state.focus(seen(shown).trace)
    drawn = pictures(shown)
    note_similarity(drawn)
    all_heads, one_head = st.columns([1, 2.3], gap="medium")
    with all_heads:
        overview(drawn["overview"], url_state.pick)
    with one_head:
        head(drawn["head"], url_state.lock)
        explained, checked = st.columns([1.2, 1], gap="medium")
        with explained, st.container(key="explanation"):
            place = words.place(site, focus.head)
            said = f"**{place}.** {words.where_from(site, terms)}", words.how_to_read(site), words.departures(shown.scope.config)
            st.markdown("\n\n".join(part for part in said if part))
        with checked:
            ui.checks_panel(drawn["checks"], similarity.trained(growth.at(shown, step), name))
        desk = live.desk()
        ui.downloads(lambda: seen(desk.shown).trace, site, focus.head, terms)
        growth.download(lambda: desk.shown, site, focus.head)
    return pictures
