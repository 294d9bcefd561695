"""Decoding: teacher-forced beside autoregressive, token by token, with forced tokens and beam."""

from collections.abc import Sequence

from viz_app import words
from viz_app.components.catalogue import BEAM_TREE, PLAIN, STEPPER
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import Facts, facts
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views import onward
from viz_app.views.decoding import files, state, text
from viz_app.views.decoding.controls import choose
from viz_app.views.decoding.payloads import (
    Choices,
    given_ids,
    has_room,
    payloads,
    quantities,
    story,
    within,
)
from viz_app.views.decoding.steps import HOW
from viz_app.views.decoding.story import Story
from viz_app.views.page import Cell, File, Foot, Page, Shown, View


def _find(run: CurrentRun) -> View[Choices] | str:
    """Return the view of this run, or why there is nothing to decode."""
    model = run.scope.model
    if not model.can_write:
        return text.does_not_write(model)
    if not model.is_recurrent and not run.trace.attention:
        return text.NO_LAYERS
    return TWO_RUNS if has_room(run) else text.no_room(run.scope.n_ctx)


def _layout(run: CurrentRun, choices: Choices, drawn: Pictures) -> Sequence[Cell]:
    force = {"on_force": state.force, "on_free": state.let_go}
    return [
        Shown(BEAM_TREE, choose={"on_node": state.choose_node}),
        Shown(PLAIN, "note decoding"),
        Shown(STEPPER, choose={"on_step": state.go}, change=force),
        Foot((1, 1)),
    ]


def _text(run: CurrentRun, choices: Choices) -> str:
    parts = text.why(run.scope.model, run.spec.edits), words.departures(run.scope.config)
    return "\n\n".join(part for part in parts if part)


def _files(run: CurrentRun, choices: Choices) -> Sequence[File]:
    def story_of(now: CurrentRun) -> Story:
        return story(now, choices)[1]

    def about(now: CurrentRun) -> Facts:
        shown = story_of(now)
        return facts(shown.trace, decoding=HOW[shown.method.how])

    def drawing(now: CurrentRun) -> str:
        shown, scope = story_of(now), now.scope
        position = min(choices.of(given_ids(now)).place.step, shown.n_steps - 1)
        source, how = shown.trace.fields[scope.model.fields[0].name], HOW[shown.method.how]
        title = f"{source} — decoding, step {position + 1}: training beside inference ({how})"
        return files.drawing(shown, scope, choices.reading, position, title)

    name = file_name(run.trace, "decoding")
    step = f"{name}.token{choices.place.step + 1}.svg"
    return [
        File(
            "Both runs, CSV",
            lambda now: files.table(story_of(now), now.scope),
            f"{name}.csv",
            about,
        ),
        File("This step, SVG", drawing, step, about),
        File(
            "All steps, npz",
            lambda now: files.arrays(story_of(now), now.scope),
            f"{name}.npz",
            about=about,
        ),
    ]


TWO_RUNS = View(
    payloads,
    _layout,
    choose=choose,
    within=within,
    text=_text,
    files=_files,
    quantities=quantities,
)
DECODING = Page(
    "Decoding",
    text.QUESTION,
    lambda run: text.answer(run.scope.model),
    {"": _find},
    lambda run, choices: onward.what_attention_changed(run),
)
