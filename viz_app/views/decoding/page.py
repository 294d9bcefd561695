"""Decoding: teacher-forced beside autoregressive, one token at a time; forced tokens, three ways to choose, a beam."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from models.architectures.seq2seq import Seq2Seq
from models.decoding.runs import Autoregression, Method, Run, check_runs, of_trace
from models.tokenizers.base import END
from viz_app import ui, words
from viz_app.components.beam_tree import beam_tree
from viz_app.components.stepper import stepper
from viz_app.session import cache, live
from viz_app.session.current_run import Shown
from viz_app.session.live import Pictures
from viz_app.views.decoding import beam as decoding_beam
from viz_app.views.decoding import files as decoding_files
from viz_app.views.decoding import payloads as figures
from viz_app.views.decoding import state as decoding_state
from viz_app.views.decoding import svg as decoding_svg
from viz_app.views.decoding import text as decoding_text
from viz_app.views.decoding.controls import controls
from viz_app.views.decoding.payloads import Reading, Story
from viz_app.views.decoding.state import Place


def decoding(shown: Shown) -> Callable[[Shown], Pictures] | None:
    """Draw the page; returns how its pictures are made of another run."""
    trace, terms = shown.trace, shown.terms
    recurrent = isinstance(shown.scope.model, Seq2Seq)
    ui.headline(decoding_text.QUESTION, decoding_text.answer(recurrent))
    ui.written(trace, terms, shown.stale)
    if not recurrent and not trace.attention:
        ui.note(st.empty(), "This model's decoder has no layers, so there is no decoding to show.", key="decoding")
        return None
    place = decoding_state.place(shown.scope, trace)
    method, reading = controls(trace, place)
    written, story = _story(shown, method)
    place = _inside(place, story)
    payload = figures.stepper(story, shown.scope, reading, terms, place.step, _note(shown, story, place))
    stepper(payload, decoding_state.go, decoding_state.force, decoding_state.let_go)
    if written.beam:
        _beam(shown, written, place, reading)
    left, right = st.columns(2, gap="medium")
    with left:
        _explain(shown)
        desk = live.desk()
        _downloads(lambda: _story(desk.shown, method)[1], shown, reading, place.step)
    with right:
        ui.checks_panel(_checked(shown, story), words.trained(shown.scope.training))
    if place.forced or written.beam:        # both belong to this source
        return None

    def pictures(shown: Shown) -> Pictures:
        _, story = _story(shown, method)
        step = place.step if shown.trace.source.ids == trace.source.ids else 0
        return {
            "stepper": figures.stepper(story, shown.scope, reading, terms, min(step, story.n_steps - 1)),
            "checks": _checked(shown, story),
        }

    return pictures


def _checked(shown: Shown, story: Story) -> dict:
    uncached = cache.along(shown.scope, shown.trace.source.ids, story.serial.taken)
    return ui.checked(check_runs(story.parallel, story.serial, uncached))


def _story(shown: Shown, method: Method) -> tuple[Autoregression, Story]:
    """What inference writes, and the whole of what the page tells."""
    written = cache.decoded(shown.scope, shown.trace.source.ids, method)
    free: Run | None = None
    if written.method.forced:
        free = cache.decoded(shown.scope, shown.trace.source.ids, replace(written.method, forced=())).run
    return written, Story(shown.trace, of_trace(shown.trace), written.run, written.method, free)


def _inside(place: Place, story: Story) -> Place:
    """The place, clipped to the steps there are."""
    clipped = replace(place, step=min(place.step, story.n_steps - 1))
    if clipped != place:
        decoding_state.keep(clipped)
    return clipped


def _note(shown: Shown, story: Story, place: Place) -> str:
    """What is forced, and what has become of it."""
    said = []
    if decoding_state.cleared():
        said.append("The forced tokens belonged to another source and were let go.")
    reached = [(p, t) for p, t in place.forced if p < len(story.serial)]
    for position, token in reached:
        name = figures.token_label(shown.scope.tokenizer, token, first=position == 0).text
        said.append(f"Forced at position {position + 1}: {name}{', which ends the text' if token == END else ''}.")
    if len(reached) < len(place.forced):
        said.append("Tokens forced beyond the end of this run are waiting.")
    return " ".join(said)


def _beam(shown: Shown, written: Autoregression, place: Place, reading: Reading) -> None:
    node = decoding_beam.nearest(written.beam, place.node)
    hypothesis = written.beam[node[0]].kept[node[1]]
    run = cache.along(shown.scope, shown.trace.source.ids, hypothesis.tokens)
    st.markdown("**The beam as a tree.** At each step the best few texts so far are kept; the rest are dropped.")
    payload = decoding_beam.beam_tree(
        written.beam, node, run, shown.trace, shown.scope, reading, shown.terms, written.method.alpha
    )
    beam_tree(payload, decoding_state.choose_node)


def _explain(shown: Shown) -> None:
    config = shown.scope.config
    said = decoding_text.why(config, shown.trace), words.departures(config)
    with st.container(key="explanation"):
        st.markdown("\n\n".join(part for part in said if part))


def _downloads(now: Callable[[], Story], shown: Shown, reading: Reading, step: int) -> None:
    scope, name = shown.scope, f"decoding.step{step + 1}"

    def drawing() -> str:
        story = now()
        at, how = min(step, story.n_steps - 1), figures.HOW[story.method.how]
        title = f"{story.trace.source.text} — decoding, step {at + 1}: training beside inference ({how})"
        return decoding_svg.drawing(story, scope, reading, at, title)

    with st.container(horizontal=True, gap="small", key="downloads"):
        for label, make, file, mime in (
            ("Both runs, CSV", lambda: decoding_files.table(now(), scope), "decoding.csv", "text/csv"),
            (
                "This step, SVG",
                drawing,
                f"{name}.svg",
                "image/svg+xml",
            ),
            (
                "All steps, npz",
                lambda: decoding_files.arrays(now(), scope),
                "decoding.npz",
                "application/octet-stream",
            ),
        ):
            ui.download(label, make, file, mime)
