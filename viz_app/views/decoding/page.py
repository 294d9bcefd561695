"""Decoding: teacher-forced beside autoregressive, token by token, with forced tokens and beam."""

from collections.abc import Sequence

from viz_app import words
from viz_app.components.catalogue import BEAM_TREE, PLAIN, STEPPER
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import Facts
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views import onward
from viz_app.views.decoding import files, state, text
from viz_app.views.decoding.controls import choose_decoding
from viz_app.views.decoding.decoding_facts import METHOD_NAMES, decoding_facts
from viz_app.views.decoding.decoding_runs import DecodingRuns
from viz_app.views.decoding.payloads import (
    DecodingChoices,
    compare_decoding,
    decoding_choices_within,
    decoding_payloads,
    decoding_quantities,
    decoding_strip,
    has_room,
)
from viz_app.views.page import File, Foot, Page, PageCell, ShownComponent, View


def _find(run: CurrentRun) -> View[DecodingChoices] | str:
    """Return the view of this run, or why there is nothing to decode."""
    model = run.scope.model
    if not model.can_write:
        return text.does_not_write(model)
    if not model.is_recurrent and not run.trace.attention:
        return text.NO_LAYERS
    return TWO_RUNS if has_room(run) else text.no_room(run.scope.n_ctx)


def _layout(run: CurrentRun, choices: DecodingChoices, pictures: Pictures) -> Sequence[PageCell]:
    force = {"on_force": state.force_token, "on_free": state.discard_forced}
    return [
        ShownComponent(BEAM_TREE, choose={"on_node": state.choose_node}),
        ShownComponent(PLAIN, "note decoding"),
        ShownComponent(STEPPER, choose={"on_step": state.go_to_position}, change=force),
        Foot((1, 1)),
    ]


def _text(run: CurrentRun, choices: DecodingChoices) -> str:
    parts = (
        text.explain_decoding(run.scope.model, run.spec.edits),
        text.not_applied(run.scope.model.not_applied),
        words.departures(run.scope.config),
    )
    return "\n\n".join(part for part in parts if part)


def _files(run: CurrentRun, choices: DecodingChoices) -> Sequence[File]:
    def runs_of(now: CurrentRun) -> DecodingRuns:
        return compare_decoding(now, choices)[1]

    def about(now: CurrentRun) -> Facts:
        return decoding_facts(runs_of(now), now.scope.tokenizer)

    def drawing(now: CurrentRun) -> str:
        runs, scope = runs_of(now), now.scope
        position = min(choices.of(now.input_ids).place.step, runs.n_steps - 1)
        source, how = (
            runs.trace.fields[scope.model.fields[0].name],
            METHOD_NAMES[runs.method.strategy],
        )
        title = f"{source} — decoding, step {position + 1}: training beside inference ({how})"
        return files.drawing(runs, scope, choices.reading, position, title)

    name = file_name(run.trace, "decoding")
    step = f"{name}.token{choices.place.step + 1}.svg"
    return [
        File(
            "Both runs, CSV",
            lambda now: files.decoding_table(runs_of(now), now.scope),
            f"{name}.csv",
            about,
        ),
        File("This step, SVG", drawing, step, about),
        File(
            "All steps, npz",
            lambda now: files.arrays(runs_of(now), now.scope),
            f"{name}.npz",
            about=about,
        ),
    ]


TWO_RUNS = View(
    decoding_payloads,
    _layout,
    choose=choose_decoding,
    within=decoding_choices_within,
    text=_text,
    files=_files,
    written=decoding_strip,
    quantities=decoding_quantities,
)
DECODING_PAGE = Page(
    "Decoding",
    text.DECODING_QUESTION,
    lambda run: text.decoding_answer(run.scope.model),
    {"": _find},
    lambda run, choices: onward.what_attention_changed(run),
)
