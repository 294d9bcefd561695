"""Other weights for a row, and the answer under them, recomputed by a second route."""

import math

import numpy as np
import pytest
import torch
from forward_by_hand import ByHand
from small_scopes import HELD_OUT, MAKERS, as_text, fields, scope_of

from models.analysis.divergence import jensen_shannon
from models.analysis.metrics import logits_of
from models.runs import explanation
from models.runs.attention_row import AttentionRow, query_of, round_weights
from models.runs.explanation import (
    EPSILON,
    adversary,
    is_movable,
    js_divergence,
    permute_weights,
    permuted_weights,
    quick_tests,
    total_variation,
    trials,
    uniform_weights,
)
from models.runs.scope import Scope
from models.trace.edits import HeadOff, MaskChange, SetWeights, Where, for_kinds

FAMILIES = ["transformer", "seq2seq", "gpt", "bert", "xlnet"]
LN2 = math.log(2)


@pytest.fixture(scope="module")
def scopes() -> dict[str, Scope]:
    return {family: scope_of(family, task="mlm") for family in MAKERS}


def row_in(scope: Scope, text: str = "ab cd ef", decision: int = 1, head: int = 0) -> AttentionRow:
    """Return a row of the last attention of a run that leads to this decision."""
    masked = scope.tokenizer.mask_id is not None
    texts = ("ab [MASK] ef [MASK]",) if masked else fields(scope, text)
    trace = scope.run(*texts)
    (*_, site) = (name for name, one in trace.attention.items() if one.kind != "content")
    return AttentionRow(scope, trace, site, head, decision)


def js_by_hand(p: list[float], q: list[float]) -> float:
    """Return the mean of two relative entropies, term by term."""
    terms = (
        (a * math.log(2 * a / (a + b)) if a else 0.0)
        for x, y in ((p, q), (q, p))
        for a, b in zip(x, y, strict=True)
    )
    return sum(terms) / 2  # fmt: skip


def after(row: AttentionRow, *edits) -> torch.Tensor:
    """Return the answer's distribution in a whole run with edits."""
    outputs = row.scope.outputs_batch([row.trace.streams], [*row.trace.edits, *edits])[0]
    return logits_of(outputs)[row.decision].double().softmax(-1)


def test_the_divergence_matches_one_by_hand_and_is_at_most_ln_2() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        p, q = (rng.dirichlet(np.full(5, 0.3)) * [1, 1, 1, 1, 1] for _ in range(2))
        found = float(js_divergence(torch.tensor(p), torch.tensor(q)))
        assert found == pytest.approx(js_by_hand(p.tolist(), q.tolist()), abs=1e-9)
        assert 0 <= found <= LN2 + 1e-12
        bits = jensen_shannon(torch.tensor(p), torch.tensor(q).double())
        assert found == pytest.approx(float(bits) * LN2, abs=1e-7)
        assert found == pytest.approx(float(js_divergence(torch.tensor(q), torch.tensor(p))))
        apart = float(total_variation(torch.tensor(p), torch.tensor(q)))
        assert apart == pytest.approx(sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2)
    one, other = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    assert float(js_divergence(one, one)) == 0
    assert float(js_divergence(one, other)) == pytest.approx(LN2, abs=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_new_position_answers_as_the_whole_run_does(scopes, family) -> None:
    """The quick route (one position, many rows) is compared with a whole run under the edit."""
    row = row_in(scopes[family])
    rng, n = np.random.default_rng(1), int(row.allowed.sum())
    weights = torch.zeros(4, len(row.weights), dtype=torch.float64)
    weights[:, row.allowed] = torch.tensor(rng.dirichlet(np.ones(n), 4))
    weights[0] = row.weights
    answers = row.answers(weights).double().softmax(-1)
    torch.testing.assert_close(answers[0], row.logits.double().softmax(-1), atol=1e-5, rtol=0)
    for trial, answer in zip(trials(row, weights), answers, strict=True):
        torch.testing.assert_close(after(row, trial.edit), answer, atol=1e-5, rtol=0)
        made = row.scope.run_batch(
            [tuple(row.trace.streams.values())] if row.scope.model.translates else [tuple(row.trace.fields.values())],
            edits=[trial.edit],
        )[0].attention[row.site].weights(row.head)[row.query]  # fmt: skip
        torch.testing.assert_close(made.double(), trial.weights, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", ["transformer", "gpt"])
def test_the_answers_are_those_of_a_forward_pass_by_hand(scopes, family) -> None:
    row = row_in(scopes[family], head=1)
    found = [uniform_weights(row), *permuted_weights(row, 5).each]
    found.append(adversary(row, n_steps=5, max_seconds=60).trial)
    ids = [one.ids for one in row.trace.streams.values()]
    for trial in found:
        logits = ByHand(scopes[family].model, ids, [trial.edit]).logits[row.decision]
        wanted = np.exp(logits - np.logaddexp.reduce(logits))
        np.testing.assert_allclose(trial.log_probs.exp().numpy(), wanted, atol=1e-4)
        own = row.logits.double().softmax(-1).numpy()
        assert trial.variation == pytest.approx(np.abs(own - wanted).sum() / 2, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_uniform_weights_are_the_head_off_at_one_query(scopes, family) -> None:
    row = row_in(scopes[family])
    trial = uniform_weights(row)
    off = HeadOff(Where(site=row.site, heads=(row.head,), queries=(row.query,)), baseline="uniform")
    torch.testing.assert_close(after(row, off), trial.log_probs.exp(), atol=1e-5, rtol=0)
    assert not trial.weights[~row.allowed].any()
    assert len(set(trial.weights[row.allowed].tolist())) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_permutations_hold_the_same_weights_and_the_identity_changes_nothing(
    scopes, family
) -> None:
    row = row_in(scopes[family])
    keys = row.allowed.nonzero()[:, 0]
    (same,) = trials(row, permute_weights(row, keys)[None])
    assert same.divergence == 0.0
    assert same.variation < 1e-6
    found = permuted_weights(row, 30)
    for one in found.each:
        torch.testing.assert_close(one.weights.sort().values, row.weights.sort().values)
        assert not one.weights[~row.allowed].any()
    low, middle, high = found.variations
    each = sorted(one.variation for one in found.each)
    assert each[0] <= low <= middle <= high <= each[-1]
    assert middle == each[14]
    assert found.median.variation == middle
    again, other = permuted_weights(row, 30), permuted_weights(row, 30, seed=1)
    assert [one.edit for one in again.each] == [one.edit for one in found.each]
    differs = [one.edit for one in other.each] != [one.edit for one in found.each]
    assert differs == (len(keys) > 1)
    predicted = [int(after(row, one.edit).argmax()) for one in found.each]
    assert found.kept(predicted[0]) == predicted.count(predicted[0])


WINDOW = MaskChange(preset="window", k=1)
PAINTED = MaskChange(block=((4, 0), (4, 2)), allow=((4, 5), (1, 3)))


@pytest.mark.parametrize("change", [WINDOW, PAINTED], ids=["preset", "painted"])
@pytest.mark.parametrize("family", ["transformer", "gpt"])
def test_under_a_changed_mask_only_the_allowed_keys_exchange_weights(
    scopes, family: str, change: MaskChange
) -> None:
    """The run and each permutation are recomputed by hand in a forward pass under that mask."""
    scope = scopes[family]
    (*_, site) = (name for name in scope.run(*fields(scope, "ab cd ef")).attention)
    edits = for_kinds(**{scope.run(*fields(scope, "ab cd ef")).attention[site].kind: change})
    trace = scope.run(*fields(scope, "ab cd ef"), edits=edits)
    row = AttentionRow(scope, trace, site, 1, 4)

    def may(path: str, query: int, key: int) -> bool:
        own = key <= query or "decoder" not in path or "cross" in path
        if ("cross" in path) != ("cross" in site):
            return own
        if change == WINDOW:
            return own and abs(query - key) <= 1
        return (own or (query, key) in change.allow) and (query, key) not in change.block

    ids = [one.ids for one in trace.streams.values()]
    by_hand = ByHand(scope.model, ids, may=may)
    np.testing.assert_allclose(row.weights, by_hand.weights[site][1, row.query], atol=1e-6)
    keys = {j for j in range(len(row.weights)) if may(site, row.query, j)}
    assert 1 < len(keys) < len(row.weights)
    before = np.exp(by_hand.logits[4] - np.logaddexp.reduce(by_hand.logits[4]))
    found = permuted_weights(row, 6)
    for trial in [uniform_weights(row), *found.each]:
        assert set(trial.weights.nonzero()[:, 0].tolist()) == keys
        logits = ByHand(scope.model, ids, [trial.edit], may).logits[4]
        wanted = np.exp(logits - np.logaddexp.reduce(logits))
        np.testing.assert_allclose(trial.log_probs.exp().numpy(), wanted, atol=1e-4)
        assert trial.variation == pytest.approx(np.abs(before - wanted).sum() / 2, abs=1e-4)
    assert found.median.variation > 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_an_adversary_keeps_the_answer_the_mask_and_the_sum(scopes, family) -> None:
    for decision in (0, 1):
        row = row_in(scopes[family], decision=decision)
        found = adversary(row, n_steps=10, max_seconds=60)
        trial, own = found.trial, row.logits.double().softmax(-1)
        now = after(row, trial.edit)  # the edit as it goes into the URL, rounded
        assert now.argmax() == own.argmax()
        assert float(total_variation(own, now)) <= EPSILON + 1e-6
        assert trial.divergence == pytest.approx(
            js_by_hand(row.weights.tolist(), trial.weights.tolist()), abs=1e-9
        )
        assert trial.divergence <= LN2
        assert not trial.weights[~row.allowed].any()
        total = float(row.weights.sum())  # XLNet's first query has nothing to attend to
        assert float(trial.weights.sum()) == pytest.approx(round(total), abs=1e-6)
        if is_movable(row):
            corners = torch.eye(len(row.weights), dtype=torch.float64)[row.allowed]
            kept = [
                one.divergence
                for one in trials(row, corners)
                if one.variation <= EPSILON and one.predicted == int(own.argmax())
            ]
            assert trial.divergence >= max(kept, default=0.0) - 1e-6
            assert found.corners == len(kept)
        parameters = scopes[family].model.parameters()
        assert all(parameter.grad is None for parameter in parameters)


@pytest.mark.slow
def test_an_adversary_goes_further_with_a_wider_bound_and_all_the_way_without(scopes) -> None:
    row = row_in(scopes["gpt"], decision=5)
    reached = [
        adversary(row, epsilon=e, max_seconds=60).trial.divergence for e in (0.0005, 0.005, 1.0)
    ]
    assert reached[0] < reached[1] <= reached[2] + 1e-9
    assert adversary(row, max_seconds=60).trial.edit == adversary(row, max_seconds=60).trial.edit


def test_gradient_ascent_goes_further_than_the_ways_to_the_corners(scopes) -> None:
    row = row_in(scopes["gpt"], decision=5)
    still, moved = (adversary(row, epsilon=0.002, n_steps=n, max_seconds=60) for n in (0, 60))
    assert (still.n_steps, moved.n_steps) == (0, 60)
    assert moved.trial.divergence > still.trial.divergence
    assert adversary(row, epsilon=0.002, max_seconds=-1.0).n_steps == 0


def test_a_row_with_one_key_has_nothing_to_move(scopes) -> None:
    row = row_in(scopes["gpt"], decision=0)
    assert not is_movable(row)
    assert uniform_weights(row).divergence == 0
    assert {one.divergence for one in permuted_weights(row, 5).each} == {0.0}
    assert adversary(row).trial.divergence == 0


def test_the_edits_of_the_run_stay_in_force(scopes) -> None:
    scope = scopes["gpt"]
    off = HeadOff(
        "decoder.layers.0.self_attn", head=1, baseline="mean", texts=tuple(HELD_OUT_LETTERS)
    )
    trace = scope.run("abcdef", edits=[off])
    row = AttentionRow(scope, trace, "decoder.layers.0.self_attn", 0, 4)
    (same,) = trials(row, row.weights[None])
    assert same.variation < 1e-6
    trial = uniform_weights(row)
    torch.testing.assert_close(after(row, trial.edit), trial.log_probs.exp(), atol=1e-5, rtol=0)


HELD_OUT_LETTERS = [as_text(text, MAKERS["gpt"][1]) for text in HELD_OUT]


def test_rounded_weights_sum_to_1_and_keep_their_zeros() -> None:
    weights = torch.tensor([1 / 3, 0.0, 1 / 3, 1 / 3], dtype=torch.float64)
    new = round_weights(weights)
    assert float(new.sum()) == pytest.approx(1, abs=1e-12)
    assert new[1] == 0
    assert (new - weights).abs().max() < 1.1e-6
    many = torch.rand(500, dtype=torch.float64)
    assert (round_weights(many / many.sum()) - many / many.sum()).abs().max() < 1.1e-6
    SetWeights(cells=tuple(enumerate(round_weights(torch.full((3000,), 1 / 3000)).tolist())))


def test_a_row_that_belongs_to_no_single_answer_is_refused(scopes) -> None:
    scope = scopes["transformer"]
    trace = scope.run(*fields(scope, "ab cd ef"))
    encoder = "encoder.layers.0.self_attn"
    with pytest.raises(ValueError, match="queries of .* are source tokens"):
        AttentionRow(scope, trace, encoder, 0, 0)
    with pytest.raises(ValueError, match="attentions are"):
        AttentionRow(scope, trace, "decoder.layers.9.cross_attn", 0, 0)
    with pytest.raises(ValueError, match="heads are 0 to"):
        AttentionRow(scope, trace, "decoder.layers.0.cross_attn", 99, 0)
    with pytest.raises(ValueError, match="decisions are 0 to"):
        query_of(trace, trace.attention["decoder.layers.0.cross_attn"], 99)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_quick_tests_of_one_batch_are_those_one_by_one(scopes, family) -> None:
    decision = 2 if family == "xlnet" else 1  # XLNet's second token reads one key
    row = row_in(scopes[family], decision=decision)
    found = quick_tests(row, 7, seed=3)
    assert found.uniform is not None
    assert found.permuted is not None
    alone = [
        trials(row, row.weights[None])[0],
        uniform_weights(row),
        *permuted_weights(row, 7, seed=3).each,
    ]
    together = [found.own, found.uniform, *found.permuted.each]
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one.weights, other.weights)
        torch.testing.assert_close(one.log_probs, other.log_probs, atol=1e-5, rtol=1e-5)
        assert one.edit == other.edit


def test_every_token_is_tried_alone_however_long_the_text(
    scopes: dict[str, Scope], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes the tokens with the largest weights, which a search towards the smallest ones skips."""
    monkeypatch.setattr(explanation, "MAX_CORNERS", 3)
    row = row_in(scopes["gpt"], "ab cd ef ab", decision=8)
    found = adversary(row, epsilon=0.4, n_steps=0, max_seconds=60.0)
    keys = row.allowed.nonzero()[:, 0]
    alone = row.answers(torch.nn.functional.one_hot(keys, len(row.weights)).double())
    before, after = (t.double().softmax(-1) for t in (row.logits, alone))
    apart = (after - before).abs().sum(-1) / 2
    kept = (apart <= 0.4) & (after.argmax(-1) == int(before.argmax()))
    assert len(keys) > 3
    assert (found.corners, found.n_tried, found.n_keys) == (int(kept.sum()), len(keys), len(keys))
    hurried = adversary(row, epsilon=0.4, n_steps=0, max_seconds=0.0)
    assert (hurried.n_tried, hurried.n_keys) == (3, len(keys))
    smallest = row.weights[keys].argsort()[:3]
    assert hurried.corners == int(kept[smallest].sum())
