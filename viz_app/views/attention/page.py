"""The first page: who looks at whom. All heads, then one head twice, then what it is and whether it is right."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from models.trace import AttentionSite, Trace
from viz_app import ui, words
from viz_app.components.catalogue import HEAD, OVERVIEW, PLAIN
from viz_app.components.mounting import show
from viz_app.controls import similarity_text
from viz_app.controls.no_attention import no_attention
from viz_app.controls.similarity import choose_similarity, note_similarity
from viz_app.controls.tile import choose_tile, tile
from viz_app.drawing.labels import writes
from viz_app.session import live
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import chosen_focus, lock_token, pick_head
from viz_app.session.live import Pictures
from viz_app.views.attention import controls, growth
from viz_app.views.attention.payloads import Choices, payloads, words_joined

MANY = 16  # heads of a layer that can be told apart in the narrower column


def attention(run: CurrentRun) -> Callable[[CurrentRun], Pictures]:
    """Draw the page; returns how its pictures are made of another run."""
    heads = (
        "Each small square is one head. The stronger the colour, the more one token reads another."
    )
    none = "This model has no attention, so no token reads another."
    ui.headline("Attention: who reads whom?", heads if run.trace.attention else none)
    strip = st.container()
    growth.choose(run)
    if not run.trace.attention:
        return no_attention(run, strip)
    if run.spec.model.similarity:  # chosen on the page Inside a head
        with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
            choose_similarity(run)
    site, focus = chosen_focus(run.trace)
    choices = Choices(focus, tile(), controls.scale(), controls.joins())
    drawn = payloads(run, choices)
    with strip:
        show(PLAIN, drawn["written"], key="written")
        if "unrecorded" in drawn:
            show(PLAIN, drawn["unrecorded"], key="unrecorded")
    note_similarity(drawn)
    _lay_out(drawn, run, choices, site.name)
    return partial(payloads, choices=choices)


def _lay_out(drawn: Pictures, run: CurrentRun, choices: Choices, site_name: str) -> None:
    """All heads beside the one head; below that one what it is, its checks and its files."""
    focus = choices.focus
    shown_as = partial(words_joined, joins=choices.words)
    trace = run.trace
    site, session = shown_as(trace).attention[site_name], live.session()
    all_heads, one_head = st.columns(widths(trace), gap="medium")
    with all_heads:
        show(OVERVIEW, drawn["overview"], on_pick=pick_head, on_join=controls.choose_words)
    with one_head:
        show(
            HEAD,
            drawn["head"],
            on_lock=lock_token,
            on_look=controls.choose_scale,
            on_tile=choose_tile,
        )
        explanation, checks = st.columns([1.2, 1], gap="medium")
        with explanation, st.container(key="explanation"):
            st.markdown(_explanation(run, trace, site, focus.head))
        with checks:
            ui.checks_panel(drawn["checks"], similarity_text.trained(run))
        ui.downloads(
            lambda: shown_as(session.shown.trace),
            site,
            focus.head,
            run.terms,
            choices.scale,
            choices.tile,
        )
        growth.download(
            lambda: session.shown, site, focus.head, choices.scale, shown_as, choices.tile
        )


def _explanation(run: CurrentRun, trace: Trace, site: AttentionSite, head: int) -> str:
    """What the head is, how its picture is read, and how the model departs from the paper's."""
    place = words.place(site, head)
    read = words.how_to_read(site, writes(trace, site))
    config, snapshots = run.scope.config, run.scope.snapshots
    parts = (
        f"**{place}.** {words.where_from(site, run.terms)}",
        read,
        words.departures(config),
        words.no_snapshots(snapshots),
    )
    return "\n\n".join(part for part in parts if part)


def widths(trace: Trace) -> tuple[float, float]:
    """The shares of the page that all heads and the one head have, side by side."""
    return (
        (1, 2.9) if max(site.n_heads for site in trace.attention.values()) <= MANY else (1.6, 2.3)
    )
