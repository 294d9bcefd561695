"""A module that handles only one row per batch: requests for many rows run each row alone."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from by_hand import HEADS, LETTERS, TEXT, WIDTH, Decoder, drawn, ids, split
from torch import Tensor, nn

import models
from models.analysis import (
    LogProbability,
    cell_effects,
    head_effects,
    integrated_gradients,
)
from models.analysis.metrics import logits_of
from models.errors import IndistinctRowsError
from models.trace.edits import HeadOff, MaskChange, Where, editing
from models.trace.edits.gradients import GivenWeights, HeadOutputGradients

METRIC = LogProbability(5)


class MaskOfOneRow(nn.Module):
    """torch's attention under a padding mask made for one row."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(17, WIDTH), nn.Linear(WIDTH, 17)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, row: Tensor) -> Tensor:
        x, padding = self.embedding(row), torch.zeros(1, row.shape[1], dtype=torch.bool)
        return self.head(x + self.attention(x, x, x, key_padding_mask=padding)[0])


class FirstRow(MaskOfOneRow):
    """A module that reads the first row only and returns its answer for every row."""

    def forward(self, row: Tensor) -> Tensor:
        x, part = self.embedding(row), self.attention
        q, k, v = (split(t)[0] for t in nn.functional.linear(x, part.in_proj_weight).chunk(3, -1))
        mixed = (q @ k.mT).softmax(-1) @ v
        return self.head(x + part.out_proj(mixed.transpose(0, 1).flatten(1))[None])


class InGroups(nn.Module):
    """Two groups of two heads each on the first axis, and texts and heads of a group on the second."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(17, 12)
        self.q, self.k, self.v = (nn.Linear(12, 12) for _ in range(3))

    def forward(self, row: Tensor) -> Tensor:
        n, t = row.shape
        x = self.embedding(row)
        grouped = (
            part(x).view(n, t, 2, 2, 3).permute(2, 0, 3, 1, 4) for part in (self.q, self.k, self.v)
        )
        q, k, v = (part.reshape(2, -1, t, 3) for part in grouped)
        mixed = ((q @ k.mT).softmax(-1) @ v).view(2, n, 2, t, 3)
        return x + mixed.permute(1, 3, 0, 2, 4).reshape(n, t, 12)


def scope_of(make: Callable[[], nn.Module]) -> models.Scope:
    return models.watch(
        drawn(make()), encode=ids, decode=lambda row: "".join(LETTERS[i] for i in row)
    )


MAKERS = (MaskOfOneRow, FirstRow, partial(Decoder, "no batch"), partial(Decoder, "matmul"))


@pytest.mark.parametrize("make", MAKERS)
def test_each_head_has_the_effect_of_a_run_of_its_own(make: Callable[[], nn.Module]) -> None:
    scope = scope_of(make)
    run = scope.run(TEXT)
    effects = head_effects(scope, run, METRIC, HeadOff)
    for kind, paths in effects.sites.items():
        for layer, path in enumerate(paths):
            for head in range(HEADS):
                alone = scope.run(TEXT, edits=[HeadOff(Where(site=path, heads=(head,)))])
                expected = float(METRIC(logits_of(run.outputs), logits_of(alone.outputs)))
                assert float(effects.values[kind][layer][head]) == pytest.approx(expected, abs=1e-4)


def test_a_mask_of_a_kind_is_an_error_where_no_axis_is_that_of_the_texts() -> None:
    scope = scope_of(InGroups)
    run, rows = scope.run(TEXT), [scope.run(text).streams for text in (TEXT, TEXT[::-1], TEXT)]
    (site,) = run.attention.values()
    edit = MaskChange(Where(kind=site.kind), block=((3, 1),))
    with editing([edit]), pytest.raises(IndistinctRowsError, match="batch of 3: it is unknown"):
        scope.model(*scope.model.inputs(rows))
    for trace in scope.run_batch([[TEXT]] * 3, edits=[edit]):
        assert trace.attention[site.name].weights()[:, 3, 1].eq(0).all()


def test_a_beam_decodes_each_of_its_texts_alone() -> None:
    whole, alone = (scope_of(partial(Decoder, form)) for form in ("matmul", "no batch"))
    expected = whole.write("bad", "beam", max_new=5, width=3).ids
    assert alone.write("bad", "beam", max_new=5, width=3).ids == expected


def test_a_path_of_gradients_and_patched_cells_are_those_of_a_module_that_reads_batches() -> None:
    whole, alone = (scope_of(partial(Decoder, form)) for form in ("matmul", "no batch"))
    parts = []
    for scope in (whole, alone):
        run, other = scope.run(TEXT), scope.run("cabbage fa")
        gradients = integrated_gradients(scope, run, METRIC, ["layers.0"], steps=3)
        names = ["layers.0.attn_out", "layers.1.attn_out"]
        parts.append((gradients, cell_effects(scope, run, METRIC, other, names)))
    (expected, cells), (came, cells_alone) = parts
    torch.testing.assert_close(came.parts, expected.parts, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(cells_alone, cells, atol=1e-4, rtol=1e-4)


def test_gradients_collected_over_a_batch_are_not_taken_row_by_row() -> None:
    scope = scope_of(partial(Decoder, "no batch"))
    streams = scope.run(TEXT).streams
    with pytest.raises(IndistinctRowsError, match="gradients"):
        scope.outputs_batch([streams] * 2, [HeadOutputGradients()], gradients=True)


def test_weights_given_for_each_row_are_put_in_its_own_run() -> None:
    rows = torch.rand(3, HEADS, len(TEXT), len(TEXT)).softmax(-1)
    answers = []
    for form in ("matmul", "no batch"):
        scope = scope_of(partial(Decoder, form))
        streams = scope.run(TEXT).streams
        edit = GivenWeights(Where(site="layers.0"), tensors={"layers.0": rows})
        outputs = scope.outputs_batch([streams] * len(rows), [edit])
        answers.append([logits_of(one) for one in outputs])
    torch.testing.assert_close(answers[1], answers[0], atol=1e-5, rtol=1e-4)
    assert (answers[0][0] - answers[0][2]).abs().max() > 1e-3
