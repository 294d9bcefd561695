"""What the shuffle test shows of a run: how far each vector moves when the tokens change places, and what is answered then."""

from dataclasses import replace

import torch

from models import Scope
from models.analysis.checks import Check
from models.analysis.output_comparison import compare_outputs
from models.analysis.shuffle import (
    ShuffleTest,
    encoder_stages,
    movable,
    new_order,
    reordered,
)
from models.architectures import Model
from models.tokenizers.encoding import Encoding
from viz_app.drawing import notes
from viz_app.drawing.labels import labels
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts, saving
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.positions import claims as claims
from viz_app.views.positions import files as files
from viz_app.views.positions import order_text as say
from viz_app.views.positions import shuffle as draw_shuffle

FILE = "shuffle-test"  # what its files are called, behind the model's name


def can_shuffle(model: Model) -> bool:
    """Return True for a model that reads a text all at once and tells the order of its tokens by position vectors or recurrence."""
    reads_all = not model.can_write and not model.continues and model.reads_itself
    return model.positions_can_go and (
        model.translates or (reads_all and model.positions is not None)
    )


def pictures(run: CurrentRun, models: dict[str, Model], how: str, seed: int) -> Pictures:
    """All that the section's components show of a run: by these models, in this order."""
    source, found, about = row_of(run), tests_of(run, models, how, seed), facts(run.trace)
    titled, file = (
        dict(zip(_titles(found), found.values(), strict=True)),
        file_name(run.trace, FILE),
    )
    stages = {}
    if len(found) > 1:
        stages["positions-stages"] = draw_shuffle.by_stage(
            source, found, saving(f"{file}.stages", about)
        )
    return {
        "positions-shuffle": draw_shuffle.shuffle(source, titled, saving(file, about)),
        "positions-explained": notes.rows(
            "explained", *_found(run, *found.values()), *_answers(run, how, seed)
        ),
        "checks": notes.check_rows(_checks(run, *found.values())),
        **stages,
    }


def row_of(run: CurrentRun) -> Encoding:
    """The row of tokens that change places."""
    return run.trace.streams[run.scope.model.fields[0].stream]


def order_of(row: Encoding, how: str, seed: int) -> tuple[int, ...]:
    return new_order(len(row.ids), how, seed, movable(row))


def tests_of(
    run: CurrentRun, models: dict[str, Model], how: str, seed: int
) -> dict[str, ShuffleTest]:
    row = row_of(run)
    order = order_of(row, how, seed)
    return {
        name: cache.shuffle(run.scope, name, model, row, order) for name, model in models.items()
    }


def _answers(run: CurrentRun, how: str, seed: int) -> list[tuple[str, str]]:
    """What a model that does not write answers to the row as typed and reordered, with positions and without."""
    if run.scope.model.can_write:
        return []
    if not compare_outputs(run.trace, run.trace).names:
        return [("line", say.NOTHING_ASKED)]
    row, lines = row_of(run), []
    other = reordered(row, order_of(row, how, seed))
    for where, scope in (
        (draw_shuffle.WITH, run.scope),
        (draw_shuffle.WITHOUT, without_positions(run)),
    ):
        for what, asked in (("as typed", row), ("reordered", other)):
            lines.append(
                (
                    "line",
                    say.answer_sentence(
                        where, what, *notes.answer_line(cache.given_trace(scope, asked))
                    ),
                )
            )
    return lines


def without_positions(run: CurrentRun) -> Scope:
    """Return the run's model with its position vectors left out."""
    return cache.changed_model(run.unchanged.scope, replace(run.spec.model, positions=False))


def _titles(tests: dict[str, ShuffleTest]) -> list[str]:
    if len(tests) == 1:
        return ["The encoder's states: how far each moved"]
    return [
        "With positions: how far each vector moved",
        "Positions switched off: how far each moved",
    ]


def _found(
    run: CurrentRun, test: ShuffleTest, bare: ShuffleTest | None = None
) -> list[tuple[str, str]]:
    if bare:
        fixed = "the end mark" if run.scope.model.translates else "special tokens"
        return [("line", say.shuffled(test, bare, run.scope.config.positions, fixed))]
    _, lead, rest = say.recurrent(test).split("**")
    return [("lead", lead), ("line", rest)]


def _checks(run: CurrentRun, test: ShuffleTest, bare: ShuffleTest | None = None) -> list[Check]:
    stages = list(encoder_stages(run.scope.model, run.trace.activations).values())
    return (
        claims.shuffled(test, bare, stages[-1][0])
        if bare
        else claims.recurrent(test, torch.cat(stages))
    )


def csv_of(run: CurrentRun, test: ShuffleTest, bare: ShuffleTest | None = None) -> str:
    tokens = [label.text for label in labels(row_of(run))]
    return files.shuffle_csv(tokens, test, bare) if bare else files.states_csv(tokens, test)
