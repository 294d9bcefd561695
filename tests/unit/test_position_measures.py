"""The measurements of position tables and the shuffle test, against computations by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from small import N_CTX, random_attention_only, random_ids, random_model, random_seq2seq, words_of

from models.analysis.position_measures import (
    add_or_concatenate,
    best_linear_miss,
    measure_formula,
    n_varying,
    neighbours,
    rotation_matrix,
    rotation_miss,
    similarity_by_distance,
)
from models.analysis.shuffle import (
    ORDERS,
    movable_positions,
    new_order,
    reorder,
    shuffle_test,
    without_positions,
)
from models.layers.masks import Mask, padding
from models.layers.positions import FORMULAS, formula_table, sinusoidal, wavelengths
from models.tokenizers.encoding import concatenate
from models.trace import record


@pytest.mark.parametrize(
    ("formula", "exponent", "odd"),
    [
        ("paper", lambda j: 2 * (j // 2) / 14, math.cos),
        ("2^i", lambda j: 2 ** (j // 2) / 14, math.cos),
        ("sin-sin", lambda j: j / 14, math.sin),
    ],
)
def test_every_entry_of_every_formula(formula, exponent, odd):
    table = formula_table(formula, 11, 14)
    for pos in range(11):
        for j in range(14):
            angle = pos / 10000 ** exponent(j)
            assert table[pos, j].item() == pytest.approx(
                odd(angle) if j % 2 else math.sin(angle), abs=1e-12
            )


def test_the_model_uses_the_papers():
    assert torch.equal(sinusoidal(11, 14), formula_table("paper", 11, 14).float())


def test_an_unknown_formula_is_an_error():
    with pytest.raises(ValueError, match=r"must be one of paper, 2\^i, sin-sin, not 'rotary'"):
        formula_table("rotary", 3, 4)


def test_a_wavelength_is_the_period_of_a_dimension():
    waves = wavelengths("paper", 6)
    assert waves.tolist() == pytest.approx(
        [2 * math.pi * 10000 ** (i / 3) for i in (0, 0, 1, 1, 2, 2)]
    )
    assert wavelengths("2^i", 512)[-1] == math.inf  # 10000^(2^255/512) is beyond every float


@pytest.mark.parametrize("k", [1, 7, 31])
@pytest.mark.parametrize("formula", ["paper", "2^i"])
def test_a_shift_is_one_rotation(formula, k):
    turn = rotation_matrix(formula, k, 14)
    table = formula_table(formula, 53, 14)
    for pos in range(53 - k):
        torch.testing.assert_close(turn @ table[pos], table[pos + k], atol=1e-12, rtol=0)
    torch.testing.assert_close(turn @ turn.T, torch.eye(14, dtype=torch.float64))
    assert rotation_miss(formula, k, 53, 14) < 1e-12
    assert best_linear_miss(formula, k, 53, 14) < 1e-12


def test_no_matrix_shifts_the_sines():
    """PE(0) = 0, so with any matrix the error at position 0 is all of PE(k); the best matrix cannot beat that."""
    n, k = 53, 7
    table = formula_table("sin-sin", n + k, 14)
    assert table[0].abs().max() == 0
    floor = float(table[k].norm() / table[k:].norm())
    assert best_linear_miss("sin-sin", k, n, 14) > floor > 0
    assert rotation_miss("sin-sin", k, n, 14) >= best_linear_miss("sin-sin", k, n, 14) > 0.1


def test_sizes_with_nothing_to_measure_are_errors():
    with pytest.raises(ValueError, match="d_model must be even to pair its dimensions, not 7"):
        rotation_matrix("paper", 1, 7)
    with pytest.raises(ValueError, match=r"n \(27\) must be at least twice d_model \(14\)"):
        best_linear_miss("paper", 1, 27, 14)
    with pytest.raises(ValueError, match="1 position has no neighbour"):
        neighbours(torch.ones(1, 3))


def test_similarity_by_distance():
    """For pairs (sin, cos) it is Σ cos(k/10000^e) at any position; for sines alone the position matters."""
    similarity = similarity_by_distance(formula_table("paper", 17, 6))
    by_hand = [sum(math.cos(k / 10000 ** (i / 3)) for i in range(3)) for k in range(17)]
    assert similarity.mean.tolist() == pytest.approx(by_hand)
    assert similarity.spread < 1e-12
    assert similarity.floor == pytest.approx(min(by_hand) / 3)
    sines = formula_table("sin-sin", 17, 6)
    uneven = similarity_by_distance(sines)
    assert uneven.spread == pytest.approx(
        float(sines.norm(dim=1).max() ** 2), rel=1e-6
    )  # distance 0: 0 … |PE|²


def test_positions_alias_after_a_full_period():
    """A single pair has a wavelength of 2π: position 44 is almost 0 again (44 ≈ 7·2π), and 6 is nearer to 0 than 1 is."""
    found = neighbours(formula_table("paper", 45, 2))
    assert found.closest_pair == (0, 44)
    assert found.least == pytest.approx(2 * math.sin((44 - 14 * math.pi) / 2), abs=1e-9)
    assert found.aliased == 45
    assert neighbours(formula_table("paper", 45, 64)).aliased == 0


def test_neighbours_by_hand():
    found = neighbours(torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 5.0]]))
    assert found.nearest.tolist() == [2, 0, 0, 2]
    assert found.distance.tolist() == [1, 3, 1, 4]
    assert found.aliased == 2  # 0 ↔ 2; positions 1 and 3 are nearest to an adjacent one


def test_most_dimensions_of_the_doubled_exponent_stand_still():
    assert n_varying(formula_table("2^i", 101, 64)) == 12
    assert n_varying(formula_table("paper", 101, 64)) > 50
    assert n_varying(torch.tensor([[0.0, 1.0], [0.02, 1.0]])) == 1


def turned(row: np.ndarray, k: int, exponents: list[float]) -> np.ndarray:
    """Rotate the pairs (sin, cos) of a position vector by k/10000^e, through complex numbers."""
    turn = np.array([np.exp(1j * k / 10000**e) for e in exponents])
    pairs = (row[1::2] + 1j * row[0::2]) * turn  # cos + i·sin, times e^(iφ)
    return np.stack([pairs.imag, pairs.real], axis=1).ravel()


@pytest.mark.parametrize(("n", "n_fit"), [(19, 24), (31, 31)])
@pytest.mark.parametrize("formula", FORMULAS)
def test_every_measurement_matches_numpy(formula, n, n_fit):
    """There are at least 4·d_model positions, so that no matrix fits by chance."""
    m, d, k = measure_formula(formula, n, 6, 3), 6, 3
    assert (m.formula, m.shift, m.n_fit) == (formula, 3, n_fit)
    exponents = {
        "paper": [0, 1 / 3, 2 / 3],
        "2^i": [1 / 6, 2 / 6, 4 / 6],
        "sin-sin": [0, 2 / 6, 4 / 6],
    }[formula]
    odd = [1 / 6, 3 / 6, 5 / 6] if formula == "sin-sin" else exponents
    long = np.zeros((n_fit + k, d))
    for pos in range(n_fit + k):
        for i in range(3):
            long[pos, 2 * i] = math.sin(pos / 10000 ** exponents[i])
            long[pos, 2 * i + 1] = (math.sin if formula == "sin-sin" else math.cos)(
                pos / 10000 ** odd[i]
            )
    here, there = long[:n_fit], long[k:]
    np.testing.assert_allclose(m.table.numpy(), long[:n], atol=1e-12)
    again = np.array([turned(row, k, exponents) for row in here])
    assert m.rotation_miss == pytest.approx(
        np.linalg.norm(again - there) / np.linalg.norm(there), abs=1e-12
    )
    best = here @ (np.linalg.pinv(here) @ there)
    assert m.best_linear_miss == pytest.approx(
        np.linalg.norm(best - there) / np.linalg.norm(there), abs=1e-6
    )
    rows = long[:n]
    assert m.n_varying == sum(max(column) - min(column) >= 0.01 for column in rows.T)
    distances = {
        (i, j): np.linalg.norm(rows[i] - rows[j]) for i in range(n) for j in range(n) if i != j
    }
    assert m.neighbours.least == pytest.approx(min(distances.values()))
    assert m.neighbours.distance.tolist() == pytest.approx(
        [min(distances[i, j] for j in range(n) if j != i) for i in range(n)]
    )
    assert m.neighbours.length == pytest.approx(math.sqrt(np.mean(np.sum(rows**2, axis=1))))
    products = [[rows[i] @ rows[i + apart] for i in range(n - apart)] for apart in range(n)]
    assert m.similarity.mean.tolist() == pytest.approx([np.mean(p) for p in products])
    assert m.similarity.least.tolist() == pytest.approx([min(p) for p in products])
    assert m.similarity.largest.tolist() == pytest.approx([max(p) for p in products])
    assert m.similarity.spread == pytest.approx(max(max(p) - min(p) for p in products))
    assert m.similarity.floor == pytest.approx(min(min(p) for p in products) / np.mean(products[0]))


def test_the_length_is_the_root_of_the_mean_square_and_the_closest_pair_the_nearest():
    found = neighbours(torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 5.0]]))
    assert found.length == pytest.approx(
        math.sqrt((0 + 9 + 1 + 25) / 4)
    )  # 2.958; distances 1, 3, 1, 4
    assert found.closest_pair == (0, 2)
    assert neighbours(torch.tensor([[5.0], [9.0], [1.0], [0.5]])).closest_pair == (2, 3)


def test_of_tied_neighbours_the_adjacent_one_counts():
    """Position 2 is as near to 0 as to 3; position 3 as near to 1 as to 2."""
    found = neighbours(torch.tensor([[0.0], [4.0], [1.0], [2.0]]))
    assert found.nearest.tolist() == [2, 3, 3, 2]
    assert found.aliased == 2  # 0 → 2 and 1 → 3


def test_adding_is_concatenating_and_projecting():
    x, p, W = torch.randn(5, 7), torch.randn(5, 7), torch.randn(7, 3)
    both = add_or_concatenate(x, p, W)
    by_hand = torch.einsum("nd,do->no", x, W) + torch.einsum("nd,do->no", p, W)
    torch.testing.assert_close(both.added, by_hand)
    torch.testing.assert_close(both.concatenated, by_hand)
    assert torch.equal(both.folded, x + p)
    assert both.difference < 1e-5
    apart = both.added.clone()
    apart[4, 2] -= 0.25
    assert replace(both, concatenated=apart).difference == pytest.approx(0.25, abs=1e-5)
    apart[1, 0] += 0.5
    assert replace(both, concatenated=apart).difference == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize("how", ORDERS)
@pytest.mark.parametrize("n", [1, 2, 3, 11])
def test_an_order_names_each_position_once_and_keeps_the_end(how, n):
    order = new_order(n, how, seed=3)
    assert sorted(order) == list(range(n))
    assert order[-1] == n - 1
    assert (order == tuple(range(n))) == (n < 3)  # below two words there is nothing to change


def test_orders():
    assert new_order(6, "reversed") == (4, 3, 2, 1, 0, 5)
    assert new_order(6, "two swapped") == (0, 1, 3, 2, 4, 5)
    assert (
        new_order(11, "shuffled", 5) == new_order(11, "shuffled", 5) != new_order(11, "shuffled", 6)
    )
    with pytest.raises(
        ValueError, match="order must be one of shuffled, reversed, two swapped, not 'sorted'"
    ):
        new_order(6, "sorted")


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_without_positions_order_is_invisible(kind, norm):
    model = random_model(positions=kind, norm=norm, n_encoder_layers=3)
    ids, order = random_ids(1, 11)[0].tolist(), new_order(11, "shuffled")
    bare = shuffle_test(without_positions(model), ids, order)
    assert bare.largest.max() < 1e-4
    positioned = shuffle_test(model, ids, order)
    assert (positioned.mean > 1000 * bare.largest.clamp(min=1e-7)).all()
    last = ("last LayerNorm",) if norm == "pre" else ()
    assert positioned.stages == ("input", "layer 1", "layer 2", "layer 3", *last)


def test_the_shuffle_test_against_two_runs_by_hand():
    model = random_model(n_encoder_layers=2)
    ids, order = random_ids(1, 7)[0], new_order(7, "reversed")
    test = shuffle_test(model, ids.tolist(), order)
    with torch.no_grad():
        rows = [
            (row[None], {"encoder_self": Mask([padding(row[None], 0)])})
            for row in (ids, ids[list(order)])
        ]
        plain, turned = (model.encode(row, masks)[0] for row, masks in rows)
    torch.testing.assert_close(test.original[-1], plain)
    for place, token in enumerate(order):
        torch.testing.assert_close(test.restored[-1, token], turned[place])
        by_hand = (turned[place] - plain[token]).norm() / plain[token].norm()
        assert float(test.change[-1, token]) == pytest.approx(float(by_hand), rel=1e-4)


def test_every_stage_is_one_of_the_encoders():
    """The stages are the input with its positions, then each layer; of attention-only models each sublayer; of an RNN each direction."""
    ids, order = random_ids(1, 7)[0].tolist(), (0, 2, 1, 3, 4, 5, 6)
    for model in (random_model(n_encoder_layers=2, norm="pre"), random_attention_only()):
        test = shuffle_test(model, ids, order)
        x = (
            model.embedding(torch.tensor([ids])) * model.config.d_model**0.5 + model.positions(7)
        ).detach()
        torch.testing.assert_close(test.original[0], x[0])
        swapped = (
            model.embedding(torch.tensor(ids)[list(order)]) * model.config.d_model**0.5
            + model.positions(7)
        ).detach()
        torch.testing.assert_close(test.restored[0], swapped[list(order)])  # its own inverse
        for i, layer in enumerate(model.encoder.layers):
            x = (
                layer["self_attn"](x, x, Mask())
                if isinstance(layer, torch.nn.ModuleDict)
                else layer(x, Mask())
            ).detach()
            torch.testing.assert_close(test.original[i + 1], x[0], rtol=1e-4, atol=1e-4)
        last = [] if isinstance(model, type(random_attention_only())) else ["last LayerNorm"]
        assert test.stages == ("input", "layer 1", "layer 2", *last)
        if last:
            torch.testing.assert_close(
                test.original[3], model.encoder.last_norm(x)[0].detach(), rtol=1e-4, atol=1e-4
            )
        assert test.order == order
        assert test.largest.tolist() == pytest.approx([max(row) for row in test.change.tolist()])
        assert test.mean.tolist() == pytest.approx(
            [sum(row) / 7 for row in test.change.tolist()], rel=1e-4
        )


@pytest.mark.parametrize(
    ("both_ways", "stages"), [(True, ("forwards", "backwards")), (False, ("states",))]
)
def test_the_stages_of_an_rnn_are_its_directions(both_ways, stages):
    model, ids = random_seq2seq(bidirectional=both_ways), random_ids(1, 7)[0].tolist()
    test, d = shuffle_test(model, ids, (0, 2, 1, 3, 4, 5, 6)), model.config.d_hidden
    with torch.no_grad():
        y = model.encoder.recurrence(
            model.embedding(torch.tensor([ids])) * model.config.d_model**0.5
        )[0][0]
    assert test.stages == stages
    for i in range(len(stages)):
        torch.testing.assert_close(test.original[i], y[:, i * d : (i + 1) * d])
    assert (
        float(test.change[0, 0]) < 1e-6 < float(test.change[0, 1])
    )  # read before the first moved token


def test_positions_are_switched_off_in_a_view_only():
    """The view shares every weight, adds zeros, and the model itself is not touched, not even while the view runs."""
    model = random_model(positions="learned")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    bare = without_positions(model)
    assert bare.embedding is model.embedding
    assert bare.encoder is model.encoder
    assert bare.positions(N_CTX).abs().max() == 0
    ids = random_ids(2, 7)
    with torch.no_grad(), record() as recording:
        bare(ids, ids)
    assert recording.activations["encoder.position"].value.abs().max() == 0
    assert recording.activations["decoder.position"].value.abs().max() == 0
    assert model.config.positions == model.positions.kind == "learned"
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_an_order_must_fit_the_text():
    with pytest.raises(ValueError, match=r"each of the 3 positions once, not \(0, 1\)"):
        shuffle_test(random_model(), [4, 5, 2], (0, 1))


def test_tokens_are_reordered_within_their_text_and_special_ones_stay() -> None:
    tokenizer = words_of("Mary went to the garden.")
    first, second = (
        tokenizer.encode("Mary went to", before="cls", after="sep"),
        tokenizer.encode("the garden.", after="sep"),
    )
    row = concatenate(first, second, " ")
    row = tokenizer.hiding(replace(row, segments=(0,) * 5 + (1,) * 4), [2, 6])
    assert movable_positions(row) == [[1, 2, 3], [5, 6, 7]]
    assert new_order(9, "reversed", groups=movable_positions(row)) == (0, 3, 2, 1, 4, 7, 6, 5, 8)
    assert new_order(9, "two swapped", groups=[[1, 2], [4, 5, 6, 7]]) == (0, 1, 2, 3, 4, 6, 5, 7, 8)
    shuffled = new_order(9, "shuffled", 3, movable_positions(row))
    assert sorted(shuffled[1:4]) == [1, 2, 3] != list(shuffled[1:4])
    assert sorted(shuffled[5:8]) == [5, 6, 7] != list(shuffled[5:8])
    assert (
        new_order(5, "shuffled", groups=[[2]])
        == (0, 1, 2, 3, 4)
        == new_order(5, "two swapped", groups=[])
    )
    other = reorder(row, (0, 2, 3, 1, 4, 6, 5, 7, 8))
    assert other.text == "[MASK] to mary [MASK] the ."
    assert other.tokens == ("[CLS]", "[MASK]", "to", "mary", "[SEP]", "[MASK]", "the", ".", "[SEP]")
    assert [other.text[slice(*place)] for place in other.offsets if place] == list(
        other.text.split()
    )
    assert (other.segments, other.offsets[4], other.ids[3]) == (row.segments, None, row.ids[1])
    assert other.hidden == ((1, row.hidden[0][1]), (5, row.hidden[1][1]))
