"""Edited states and contexts of a recurrence affect later steps as in the equations by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

import pytest
import torch
from recurrence_by_hand import Change, logits_by_hand
from sample_edits import Added, Copied, ramp
from small import N_TARGET, padded_ids, random_ids, random_seq2seq
from torch import Tensor

from models.analysis.checks import check_site
from models.architectures.seq2seq import Seq2Seq
from models.decoding import greedy
from models.trace import record
from models.trace.edits import ActivationPart, Edit, Patch, Where, editing
from models.trace.edits.material import PositionVectors, RecordingEdit

KINDS = [
    {"attention": attention, "cell": cell, "bidirectional": both}
    for attention, cell, both in product(("bahdanau", "none"), ("gru", "tanh"), (True, False))
]
PLACES = ["encoder.states", "decoder.states", "decoder.contexts"]
CASES = [
    (kind, place)
    for kind, place in product(KINDS, PLACES)
    if place != "decoder.contexts" or kind["attention"] == "bahdanau"
]
D = 7  # d_hidden of the small models
LENGTHS = {0: (11, 13), 1: (7, 5)}  # of source and target, in the rows of padded_ids


def case_name(value: object) -> str:
    return " ".join(map(str, value.values())) if isinstance(value, dict) else str(value)


def size_of(model: Seq2Seq, place: str) -> int:
    return D if place == "decoder.states" else model.config.d_memory


def patch_of(place: str, positions: tuple[int, ...], vectors: Tensor) -> Patch:
    where = Where(activation=place, queries=positions)
    return Patch(where, fields=("x",), material={place: PositionVectors(vectors)})


def patching(place: str, positions: tuple[int, ...], vectors: Tensor) -> Change:
    def change(name: str, i: int, vector: Tensor, half: int) -> Tensor:
        if name != place or i not in positions:
            return vector
        return vectors[i, half * D : half * D + len(vector)]

    return change


def adding(place: str, size: int) -> Change:
    def change(name: str, i: int, vector: Tensor, half: int) -> Tensor:
        added = ramp(size)[half * D : half * D + len(vector)]
        return vector + added if name == place else vector

    return change


def close_to_hand(model: Seq2Seq, edits: list[Edit], change: Change) -> None:
    """Compare both rows of a padded batch, each with its own sentence alone."""
    source, target = padded_ids()
    with torch.no_grad(), editing(edits):
        logits = model(source, target)
        for row, (n, m) in LENGTHS.items():
            ids = source[row, :n].tolist(), target[row, :m].tolist()
            by_hand = logits_by_hand(model, *ids, change)
            torch.testing.assert_close(logits[row, :m], by_hand, rtol=1e-4, atol=1e-4)
            assert not torch.allclose(by_hand, logits_by_hand(model, *ids), atol=1e-2)


@pytest.mark.parametrize(("kind", "place"), CASES, ids=case_name)
def test_a_replaced_state_is_what_the_next_step_starts_from(kind: dict, place: str) -> None:
    """Position 8 is padding in the second row, where the edit does nothing."""
    model = random_seq2seq(**kind)
    vectors, positions = torch.randn(N_TARGET, size_of(model, place)), (3, 8)
    edit = patch_of(place, positions, vectors)
    close_to_hand(model, [edit], patching(place, positions, vectors))


@pytest.mark.parametrize(("kind", "place"), CASES, ids=case_name)
def test_an_edit_is_applied_once_to_each_state(kind: dict, place: str) -> None:
    model = random_seq2seq(**kind)
    edit = Added(Where(activation=place))
    close_to_hand(model, [edit], adding(place, size_of(model, place)))


@pytest.mark.parametrize(("kind", "place"), CASES, ids=case_name)
def test_an_edited_state_is_the_same_from_a_cache(kind: dict, place: str) -> None:
    model, source = random_seq2seq(**kind), random_ids(1, 5)[0].tolist()
    edits = [Added(Where(activation=place, queries=(1, 3)))]
    runs = [
        list(
            greedy(model, source, edits=edits, forced=[5, 6, 7, 8, 9], max_new=5, use_cache=cached)
        )
        for cached in (True, False)
    ]
    cached, uncached = (torch.stack([step.log_probs for step in steps]) for steps in runs)
    torch.testing.assert_close(cached, uncached, atol=1e-5, rtol=1e-4)
    with torch.no_grad(), editing(edits):
        logits = model(torch.tensor([source]), torch.tensor([[1, 5, 6, 7, 8]]))
    torch.testing.assert_close(cached, logits[0].log_softmax(-1), atol=1e-5, rtol=1e-4)
    with torch.no_grad():
        plain = model(torch.tensor([source]), torch.tensor([[1, 5, 6, 7, 8]]))[0].log_softmax(-1)
    assert not torch.allclose(cached, plain, atol=1e-3)


@pytest.mark.parametrize(("kind", "place"), CASES, ids=case_name)
def test_a_state_replaced_by_itself_and_what_comes_before_are_bit_equal(
    kind: dict, place: str
) -> None:
    model, ids = random_seq2seq(**kind), (random_ids(1, 11), random_ids(1, 13))
    with torch.no_grad(), record() as plain:
        logits = model(*ids)
    own = plain.activations[place].value[0]
    with torch.no_grad():
        for edit in (patch_of(place, (4,), own), Copied()):
            with editing([edit]):
                assert torch.equal(model(*ids), logits)
        with editing([patch_of("decoder.states", (4,), torch.randn(13, D))]):
            changed = model(*ids)
    assert torch.equal(changed[:, :4], logits[:, :4])
    assert not torch.isclose(changed[:, 4:], logits[:, 4:]).all(-1).any()


@dataclass(frozen=True)
class Nudges(Edit, stored=False):
    """Add zeros to a token of an intermediate, with respect to which the run can be differentiated."""

    zeros: Mapping[int, Tensor] = field(default_factory=dict, compare=False)

    def activation(self, value: Tensor, part: ActivationPart) -> Tensor:
        none = torch.zeros(value.shape[-1], dtype=value.dtype)
        tokens = [self.zeros.get(i, none) for i in part.tokens]
        return value + torch.stack(tokens) * part.chosen(self.where)


@pytest.mark.parametrize(("kind", "place"), CASES, ids=case_name)
def test_a_gradient_includes_the_later_steps(kind: dict, place: str) -> None:
    """It is compared with a finite difference of runs in which the state itself is moved."""
    model, ids = random_seq2seq(**kind).double(), (random_ids(1, 5), random_ids(1, 6))
    size, where = size_of(model, place), Where(activation=place, queries=(2,))
    zeros = torch.zeros(size, dtype=torch.float64, requires_grad=True)
    way = torch.randn(size, dtype=torch.float64)
    with editing([Nudges(where, zeros={2: zeros})]):
        model(*ids)[0, 3, 5].backward()  # of the token after
    ends = []
    for step in (1e-4, -1e-4):
        with torch.no_grad(), editing([Nudges(where, zeros={2: step * way})]):
            ends.append(float(model(*ids)[0, 3, 5]))
    slope = (ends[0] - ends[1]) / 2e-4
    assert zeros.grad is not None
    assert float(zeros.grad @ way) == pytest.approx(slope, rel=1e-4)
    assert abs(slope) > 1e-6


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[-1]], ids=case_name)
def test_an_edit_that_only_reads_sees_each_intermediate_whole_and_the_fused_states(
    kind: dict,
) -> None:
    model, ids = random_seq2seq(**kind), padded_ids()
    kept = RecordingEdit(wants_activations=True)
    with torch.no_grad(), record() as plain:
        logits = model(*ids)
    with torch.no_grad(), editing([kept]):
        assert torch.equal(model(*ids), logits)
    for name, activation in plain.activations.items():
        assert torch.equal(kept.activations[name], activation.value[0]), name
    kept.forget()
    edits = [Added(Where(activation="decoder.states")), kept]
    with torch.no_grad(), record() as edited, editing(edits):
        model(*ids)
    for name, activation in edited.activations.items():
        assert torch.equal(kept.activations[name], activation.value[0]), name


def test_the_alignment_reads_the_edited_state_and_stays_its_own_sum() -> None:
    model, ids = random_seq2seq(), padded_ids()
    edits = [Added(Where(activation=place)) for place in PLACES]
    with torch.no_grad(), record() as recording, editing(edits):
        model(*ids)
    site = recording.attention["decoder.alignment"]
    states, contexts = (recording.activations[name].value for name in PLACES[1:])
    assert torch.equal(site.q[:, 0, 1:], states[:, :-1])
    assert torch.equal(contexts, site.out[:, 0] + ramp(contexts.shape[-1]))
    assert all(check.passed for row in (0, 1) for check in check_site(site, row))
