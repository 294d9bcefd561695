"""The first page: who looks at whom. All heads, then one head twice, then what it is and whether it is right."""

import streamlit as st

from models.checks import check_site
from viz_app import parts, state, words
from viz_app.components.head import head
from viz_app.components.overview import overview
from viz_app.figures.head import head as head_payload
from viz_app.figures.overview import overview as overview_payload
from viz_app.sidebar import Shown
from viz_app.views import growth, similarity
from viz_app.views.no_attention import no_attention


def attention(shown: Shown) -> None:
    """Draw the page."""
    terms = shown.terms
    heads = "Each small square is one head. The stronger the colour, the more one token reads another."
    none = "Nobody reads anybody here: this model has no attention."
    parts.headline("Attention: who reads whom?", heads if shown.trace.attention else none)
    parts.written(shown.trace, terms, shown.stale)
    then = growth.at_step(shown)
    if not then.trace.attention:
        no_attention(then)
        return
    own = then
    if similarity.other(own):                       # chosen on the page Inside a head
        with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
            then = similarity.choose(own)
    trace = then.trace
    site, focus = state.focus(trace)
    similarity.say(own, then, site, focus.head)
    all_heads, one_head = st.columns([1, 2.3], gap="medium")
    with all_heads:
        overview(overview_payload(trace, terms, focus.site, focus.head), state.pick)
    with one_head:
        head(head_payload(trace, site, focus.head, terms, focus.lock), state.lock)
        explained, checked = st.columns([1.2, 1], gap="medium")
        with explained, st.container(key="explanation"):
            place = words.place(site, focus.head)
            st.markdown(f"**{place}.** {words.where_from(site, terms)}\n\n{words.how_to_read(site)}")
        with checked:
            parts.checks_panel(check_site(site), words.trained(then.scope.training))
        parts.downloads(trace, site, focus.head, terms)
        growth.download(shown, trace, site, focus.head)
