"""The shuffle test: the same tokens reordered, with positions and without, and what is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from models import Scope
from models.analysis.checks import Check
from models.analysis.output_comparison import compare_outputs
from models.analysis.shuffle import (
    ORDERS,
    ShuffleTest,
    edits_positions,
    encoder_stages,
    movable_positions,
    new_order,
    reorder,
)
from models.architectures import Model
from models.decoding import greedy
from models.tokenizers.encoding import Encoding
from viz_app.components.catalogue import PLAIN, SHUFFLE
from viz_app.controls import pick
from viz_app.drawing import notes
from viz_app.drawing.labels import Label, labels, mask_token
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import Facts, facts, saving
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice, Switch, Whole
from viz_app.views.page import File, Foot, PageCell, ShownComponent, View
from viz_app.views.positions import claims, files
from viz_app.views.positions import text as say
from viz_app.views.run_difference import Quantity

SHUFFLE_ORDER = Choice("positions-order", "shuffled", options=tuple(ORDERS))
SHUFFLE_SEED, SHUFFLE_WRITES = Whole("positions-seed", 0), Switch("positions-write")
FILE = "shuffle-test"  # its files are called this, after the model's name
WITH_POSITIONS, WITHOUT_POSITIONS = "with positions", "positions switched off"
EXPLAINED = ShownComponent(PLAIN, "positions-explained")


@dataclass(frozen=True)
class ShuffleChoices:
    """The reordering, the seed of a shuffle, and whether the model generates from each order."""

    how: str
    seed: int
    writes: bool

    def order_of(self, row: Encoding) -> tuple[int, ...]:
        """Return the new order of this row's tokens."""
        return new_order(len(row.ids), self.how, self.seed, movable_positions(row))

    def file(self, *parts: str) -> str:
        """Return the part of a file name that tells the order: "shuffle-test.shuffled.seed0"."""
        return ".".join([FILE, self.how, *[f"seed{self.seed}"] * self._is_drawn, *parts])

    def facts(self, run: CurrentRun) -> Facts:
        """Return the facts about the run and the new order."""
        order = ", ".join(map(str, self.order_of(shuffled_encoding(run))))
        seed = f", seed {self.seed}" * self._is_drawn
        return facts(run.trace, reordered=f"{self.how}{seed}: {order}")

    @property
    def _is_drawn(self) -> bool:
        return self.how == "shuffled"


def find_shuffle(run: CurrentRun) -> View[ShuffleChoices] | str:
    """Return the view of a model that reads a text all at once, or why there is no test.

    Position vectors or recurrence must tell it the order of its tokens, and no edit.
    """
    model = run.scope.model
    reads_all = not model.can_write and not model.continues and model.reads_itself
    suits = model.translates or (reads_all and model.positions is not None)
    if not (model.can_drop_positions and suits):
        return say.not_shuffled(model)
    edits_order = edits_positions(run.trace, model.fields[0].stream)
    return say.EDITS_POSITIONS if edits_order else SHUFFLED


def _choose(run: CurrentRun) -> ShuffleChoices:
    model = run.scope.model
    with pick.control_row():
        how = pick.pick_few(
            "Reorder tokens", SHUFFLE_ORDER, list(ORDERS), help=say.order_help(model)
        )
        seed = pick.pick_typed("Shuffle seed", SHUFFLE_SEED, width=150, disabled=how != "shuffled")
        writes = model.can_write and pick.pick_setting(
            "Also translate the shuffled text",
            SHUFFLE_WRITES,
            help="Greedy decoding of both orders. Where positions can be switched off, also without them, in the "
            "decoder as well.",
        )
    return ShuffleChoices(how, seed, writes)


def _within(choices: ShuffleChoices, run: CurrentRun, other: CurrentRun) -> ShuffleChoices:
    return replace(choices, writes=choices.writes and other.scope.model.can_write)


def _payloads(run: CurrentRun, choices: ShuffleChoices) -> Pictures:
    """Make all pictures of the section."""
    source, tests, about = shuffled_encoding(run), _tests(run, choices), choices.facts(run)
    file = file_name(run.trace, choices.file())
    titled = dict(zip(_titles(tests), tests.values(), strict=True))
    explained = [*_result_lines(run, *tests.values()), *_answers(run, choices)]
    pictures: Pictures = {
        "positions-shuffle": shuffle_payload(source, titled, saving(file, about)),
        "positions-explained": notes.rows("explained", *explained),
        "checks": notes.check_rows(_checks(run, *tests.values())),
    }
    if len(tests) > 1:
        pictures["positions-stages"] = by_stage(source, tests, saving(f"{file}.stages", about))
    return pictures | (_texts(run, choices) if choices.writes else {})


def shuffled_encoding(run: CurrentRun) -> Encoding:
    """Return the row of tokens that change places."""
    return run.trace.streams[run.scope.model.fields[0].stream]


def _models(run: CurrentRun) -> dict[str, Model]:
    """Return the tested models: the run's with its positions and, where possible, without them."""
    if run.scope.model.is_recurrent:
        return {WITH_POSITIONS: run.scope.model}
    return {
        WITH_POSITIONS: _positioned(run, True).model,
        WITHOUT_POSITIONS: _positioned(run, False).model,
    }


def _positioned(run: CurrentRun, has_positions: bool) -> Scope:
    """Return the run's model with its position vectors, or without, whichever the run has."""
    return cache.changed_model(
        run.unchanged.scope, replace(run.spec.model, positions=has_positions)
    )


def _tests(run: CurrentRun, choices: ShuffleChoices) -> dict[str, ShuffleTest]:
    row = shuffled_encoding(run)
    order = choices.order_of(row)
    return {
        name: cache.cached_shuffle(run, name, model, row, order)
        for name, model in _models(run).items()
    }


def _quantities(run: CurrentRun, choices: ShuffleChoices) -> list[Quantity]:
    """Return how far each token's vector moves at each stage, in shares of its length."""
    tokens, tests = labels(shuffled_encoding(run)), _tests(run, choices)
    return [
        Quantity(
            f"the change {name}",
            "share of the length",
            test.change,
            [Label(stage) for stage in test.stages],
            "stage",
            columns=tokens.__getitem__,
            of_columns="token",
            file=choices.file(name),
            about=choices.facts(run),
        )
        for name, test in tests.items()
    ]


def _answers(run: CurrentRun, choices: ShuffleChoices) -> list[tuple[str, str]]:
    """Say what a model that does not write answers to the row as typed and reordered.

    It is measured with positions and without.
    """
    if run.scope.model.can_write:
        return []
    if not compare_outputs(run.trace, run.trace).names:
        return [("line", say.NOTHING_ASKED.format(mask_token(run.trace)))]
    row, lines = shuffled_encoding(run), []
    other = reorder(row, choices.order_of(row))
    for where, scope in (
        (WITH_POSITIONS, _positioned(run, True)),
        (WITHOUT_POSITIONS, _positioned(run, False)),
    ):
        traces = [cache.given_trace(scope, tokens, edits=run.spec.edits) for tokens in (row, other)]
        answers = [notes.quoted_answer_line(trace) for trace in traces]
        lines.append(("line", say.answer_sentence(where, *answers)))
    return lines


def _texts(run: CurrentRun, choices: ShuffleChoices) -> Pictures:
    """Return what each model writes from the text as typed and reordered, a line each."""
    row, models = shuffled_encoding(run), _models(run)
    if edits_positions(run.trace, run.scope.model.fields[0].stream, as_keys=True):
        return {"note not translated": notes.small_print(say.NOT_TRANSLATED)}
    other = [row.ids[i] for i in choices.order_of(row)]
    edits, lines = run.scope.with_material(run.spec.edits, run.trace.streams), {}
    for name, model in models.items():
        where = name if len(models) > 1 else "the model"
        for what, ids in (("as typed", row.ids), ("reordered", other)):
            steps = greedy(model, ids, edits=edits)
            text = run.scope.tokenizer.decode([step.token for step in steps])
            lines[f"note {where} {what}"] = notes.small_print(f"{where}, {what}: {text}")
    return lines


def _titles(tests: Mapping[str, ShuffleTest]) -> list[str]:
    if len(tests) == 1:
        return ["The encoder's states: relative change of each"]
    return [
        "With positions: relative change of each vector",
        "Positions switched off: relative change",
    ]


def _result_lines(
    run: CurrentRun, test: ShuffleTest, bare: ShuffleTest | None = None
) -> list[tuple[str, str]]:
    if bare:
        fixed = "the end mark" if run.scope.model.translates else "special tokens"
        kind = _positioned(run, True).config.positions
        return [("line", say.explain_shuffle(test, bare, kind, fixed))]
    _, lead, rest = say.explain_recurrent_shuffle(test).split("**")
    return [("lead", lead), ("line", rest)]


def _checks(run: CurrentRun, test: ShuffleTest, bare: ShuffleTest | None = None) -> list[Check]:
    stages = list(encoder_stages(run.scope.model, run.trace.activations).values())
    if bare:
        result = test if run.spec.model.positions else bare
        return claims.shuffle_checks(result, bare, stages[-1][0])
    return claims.recurrent_checks(test, torch.cat(stages))


def shuffle_payload(
    source: Encoding, maps: Mapping[str, ShuffleTest], saved: Mapping[str, str]
) -> bytes:
    """Return the payload of each token at its old and its new place.

    For each test, by its title, it holds how far each token's vector moved at each stage, from 0
    (the page's background) to √2 (the accent). `saved` is what `drawing.stamp.saving` returns.
    """
    parts: list[dict[str, Any]] = [{"kind": "tangle", "title": "The tokens in their new order"}]
    parts += [
        {"kind": "map", "title": title, "stages": test.stages, "array": f"map{i}"}
        for i, (title, test) in enumerate(maps.items())
    ]
    order = next(iter(maps.values())).order
    changes = {f"map{i}": test.change.T.numpy() for i, test in enumerate(maps.values())}
    return _pack(source, order, parts, saved, **changes)


def by_stage(source: Encoding, tests: Mapping[str, ShuffleTest], saved: Mapping[str, str]) -> bytes:
    """Return the payload of the mean change at each stage of each test."""
    stages, *_ = (test.stages for test in tests.values())
    title = "Mean change at the encoder's input and after each layer"
    part = {
        "kind": "bars",
        "title": title,
        "stages": stages,
        "names": list(tests),
        "array": "means",
    }
    means = np.stack([test.mean.numpy() for test in tests.values()])
    return _pack(source, (), [part], saved, means=means)


def _pack(
    source: Encoding,
    order: Sequence[int],
    parts: list[dict[str, Any]],
    saved: Mapping[str, str],
    **arrays: np.ndarray,
) -> bytes:
    header = {
        "title": "The shuffle test: " + "; ".join(part["title"].lower() for part in parts), **saved,
        "tokens": [label.as_json() for label in labels(source)], "order": list(order), "unrelated": say.UNRELATED, "parts": parts,
    }  # fmt: skip
    return pack(header, **{name: array.astype(np.float32) for name, array in arrays.items()})


def _layout(run: CurrentRun, choices: ShuffleChoices, pictures: Pictures) -> Sequence[PageCell]:
    """Place what happens to the tokens and the writing; the drawer has the means of each stage."""
    texts = [ShownComponent(PLAIN, key) for key in pictures if key.startswith("note ")]
    means = [ShownComponent(SHUFFLE, "positions-stages")]
    return [ShownComponent(SHUFFLE, "positions-shuffle"), EXPLAINED, *texts, Foot(cells=means)]


def _files(run: CurrentRun, choices: ShuffleChoices) -> Sequence[File]:
    def changes(now: CurrentRun) -> str:
        tokens = [label.text for label in labels(shuffled_encoding(now))]
        tests = list(_tests(now, choices).values())
        return (files.shuffle_csv if len(tests) > 1 else files.state_moves_csv)(tokens, *tests)

    name = f"{file_name(run.trace, choices.file())}.csv"
    return [File("The changes, CSV", changes, name, about=choices.facts)]


SHUFFLED = View(
    _payloads,
    _layout,
    choose=_choose,
    within=_within,
    files=_files,
    is_live=lambda choices: not choices.writes,
    quantities=_quantities,
)
