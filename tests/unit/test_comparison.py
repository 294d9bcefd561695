"""Two runs compared: distances and differences by a second route, by words, and runs that cannot be compared."""

import math
from functools import cache

import numpy as np
import pytest
import torch
from small import random_gpt
from small_scopes import HELD_OUT, MAKERS, as_scope, fields, scope_of

import models
from models.analysis.comparison import (
    POSITIONS,
    TOKENS,
    WORDS,
    axis_of,
    compare,
    head_distances,
    row_distances,
    same_vocabulary,
)
from models.hub.tokenizer import IdTokenizer
from models.hub.user_module.tokenizer import UserTokenizer
from models.runs.scope import Scope
from models.tokenizers.encoding import Encoding
from models.trace import Trace
from models.trace.edits import MaskChange, SetWeights, Where, for_kinds
from viz_app.views.compare.text import DISTANCE_HELP

TEXT = "She is reading a book."
FAMILIES = list(MAKERS)


@cache
def shipped(name: str) -> Scope:
    return models.load(name, device="cpu")


@cache
def run_of(name: str, text: str = TEXT) -> Trace:
    return shipped(name).run(text)


def ascii_of(text: str) -> list[int]:
    return list(text.encode())


def len_of(text: str) -> list[int]:
    return [len(text)]


def divergence(p: list[float], q: list[float]) -> float:
    """Return the Jensen-Shannon divergence in bits, in plain Python: half of KL(p‖m) and half of KL(q‖m)."""
    total = 0.0
    for a, b in zip(p, q, strict=True):
        middle = (a + b) / 2
        total += (a / 2) * math.log2(a / middle) if a else 0.0
        total += (b / 2) * math.log2(b / middle) if b else 0.0
    return total


def by_hand(first: np.ndarray, second: np.ndarray) -> float:
    rows = [
        divergence(p.tolist(), q.tolist())
        for p, q in zip(first, second, strict=True)
        if p.any() or q.any()
    ]
    return sum(rows) / len(rows) if rows else 0.0


def two_runs(family: str, text: str = HELD_OUT[0]) -> tuple[Trace, Trace]:
    """Run two models of a family with different random weights on one text."""
    make, tokenizer = MAKERS[family]
    scopes = [as_scope(make(s, vocab_size=tokenizer.vocab_size), tokenizer, family) for s in (1, 2)]
    first, second = (scope.run(*fields(scope, text)) for scope in scopes)
    return first, second


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_is_at_distance_0_from_itself_and_from_the_same_run_again(family: str) -> None:
    scope = scope_of(family)
    first, again = (scope.run(*fields(scope, HELD_OUT[0])) for _ in range(2))
    for other in (first, again):
        found = compare(first, other)
        assert {pair.kind for pair in found.kinds} == {s.kind for s in first.attention.values()}
        assert found.reasons == {}
        for pair in found.kinds:
            assert pair.how == TOKENS
            assert torch.equal(pair.distances, torch.zeros_like(pair.distances))
            assert not pair.difference(0, 0).any()


@pytest.mark.parametrize("family", FAMILIES)
def test_distances_match_plain_python(family: str) -> None:
    first, second = two_runs(family)
    for pair in compare(first, second).kinds:
        for layer in range(pair.n_layers):
            for head in range(pair.n_heads):
                maps = [sites[layer].weights(head).numpy() for sites in (pair.first, pair.second)]
                expected = by_hand(*(one.astype(float) for one in maps))
                assert float(pair.distances[layer, head]) == pytest.approx(expected, abs=1e-5)
                assert 0 < expected < 1 + 1e-6
                difference = pair.difference(layer, head).numpy()
                np.testing.assert_array_equal(difference, maps[0] - maps[1])


@pytest.mark.parametrize("family", FAMILIES)
def test_swapped_sides_negate_the_difference_and_keep_the_distance(family: str) -> None:
    first, second = two_runs(family)
    for one, other in zip(compare(first, second).kinds, compare(second, first).kinds, strict=True):
        assert torch.equal(one.distances, other.distances)
        for layer in range(one.n_layers):
            assert torch.equal(
                one.difference(layer, 1 % one.n_heads), -other.difference(layer, 1 % one.n_heads)
            )


def test_rows_without_a_common_key_are_at_distance_1() -> None:
    first, second = torch.eye(3)[None], torch.eye(3).roll(1, 0)[None]
    assert float(head_distances(first, second)) == 1.0
    nothing = torch.zeros(1, 3, 3)
    assert float(head_distances(nothing, nothing)) == 0.0


def test_a_row_empty_in_both_runs_does_not_count() -> None:
    first, second = torch.eye(4)[None].clone(), torch.eye(4).roll(1, 0)[None].clone()
    first[0, 2], second[0, 2] = 0, 0
    first[0, 3] = second[0, 3] = torch.tensor([0.25] * 4)
    assert float(head_distances(first, second)) == pytest.approx(2 / 3)


def test_the_one_head_that_was_changed_is_found() -> None:
    scope, site = shipped("eng-fra"), "decoder.layers.1.cross_attn"
    own = run_of("eng-fra")
    edit = SetWeights(Where(site=site, heads=(2,), queries=(1,)), cells=((4, 1.0),))
    edited = scope.run(TEXT, own.streams["target"], edits=[edit])
    pair, layer, head = compare(own, edited).most_different()
    assert (pair.kind, layer, head) == ("cross", 1, 2)
    changed = pair.rows(layer, head)
    assert changed[1] > 0.1
    assert float(torch.cat([changed[:1], changed[2:]]).max()) < 1e-6


def test_a_lifted_mask_gains_weight_where_it_blocked() -> None:
    scope, own = shipped("eng-fra"), run_of("eng-fra")
    lifted = scope.run(
        TEXT,
        own.streams["target"],
        edits=for_kinds(decoder_self=MaskChange(removed_layers=("look-ahead",))),
    )
    found = {pair.kind: pair for pair in compare(lifted, own).kinds}
    assert not found["encoder_self"].distances.any()
    gained = found["decoder_self"].difference(0, 0).triu(1)
    assert bool((gained >= 0).all())
    assert bool((gained.sum(-1)[:-1] > 0).all())


def test_another_tokenizer_is_compared_by_words() -> None:
    pieces, letters = run_of("gpt"), run_of("gpt-char")
    (pair,) = compare(pieces, letters).kinds
    assert pair.how == WORDS
    words = [pieces.streams["text"].text[slice(*span)].strip() for span in pair.keys.spans]
    assert " ".join(words) == TEXT
    for side, trace in enumerate((pieces, letters)):
        row = trace.streams["text"]
        owner = [
            None
            if span is None
            else next(
                (i for i, (a, b) in enumerate(pair.keys.spans) if a <= span[0] and span[1] <= b),
                None,
            )
            for span in row.offsets
        ]
        weights = trace.attention[pair.first[1].name if side == 0 else pair.second[1].name].weights(
            2
        )
        expected = np.zeros((len(words), len(words) + 1))
        counts = np.zeros(len(words))
        for q, to in enumerate(owner):
            if to is None:
                continue
            counts[to] += 1
            for k, at in enumerate(owner):
                expected[to, len(words) if at is None else at] += float(weights[q, k])
        expected /= counts[:, None]
        np.testing.assert_allclose(pair.maps(side, 1, 2).numpy(), expected, atol=1e-6)
        np.testing.assert_allclose(expected.sum(1), 1, atol=1e-5)


def test_different_texts_of_the_same_length_are_compared_by_position() -> None:
    (pair,) = compare(run_of("gpt", "The cat sat."), run_of("gpt", "The dog ran.")).kinds
    assert pair.how == POSITIONS


def test_models_without_a_tokenizer_are_compared_by_position() -> None:
    """The tokens of such models are the ids themselves."""
    traces = [
        as_scope(random_gpt(vocab_size=n), IdTokenizer({"pad": 0}, n), f"gpt {n}").run(text)
        for n, text in ((11, "7 5"), (11, "8 6"), (13, "8 6"))
    ]
    assert compare(*traces[:2]).kinds[0].how == POSITIONS
    with pytest.raises(ValueError, match="different texts in different vocabularies"):
        compare(traces[0], traces[2])


def test_functions_of_an_owner_are_a_vocabulary_of_their_own() -> None:
    first, again, other = (UserTokenizer(f, None, "text") for f in (ascii_of, ascii_of, len_of))
    assert same_vocabulary(first, again)
    assert not same_vocabulary(first, other)


def test_kinds_of_other_names_that_read_the_same_text_belong_together() -> None:
    found = compare(run_of("eng-fra"), run_of("bert"))
    assert [(pair.kind, pair.second[0].kind, pair.how) for pair in found.kinds] == [
        ("encoder_self", "self", WORDS)
    ]
    assert set(found.reasons) == {"decoder_self", "cross"}
    assert all("no attention of this kind" in why for why in found.reasons.values())
    (pair,) = found.kinds
    assert pair.is_partial == (
        len(pair.first) != len(pair.second) or pair.first[0].n_heads != pair.second[0].n_heads
    )


def test_one_fixed_head_of_the_other_run() -> None:
    own = run_of("eng-fra")
    pair = compare(own, own).kinds[0]
    found = pair.to_head(1, 3)
    assert float(found[1, 3]) == 0.0
    assert float(found.flatten().sort().values[1]) > 0
    assert float(found[0, 2]) == pytest.approx(
        by_hand(*(pair.maps(0, *at).double().numpy() for at in ((0, 2), (1, 3)))), abs=1e-5
    )


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (("eng-fra", TEXT), ("eng-fra-rnn", TEXT), "eng-fra-rnn has no attention"),
        (("eng-fra-rnn", TEXT), ("eng-fra", TEXT), "eng-fra-rnn has no attention"),
        (("gpt", TEXT), ("gpt", "Two."), "different texts, of 7 and 3 tokens"),
        (("gpt", TEXT), ("bert", "Two."), "different texts in different vocabularies"),
        (("eng-fra-bahdanau", TEXT), ("bert", TEXT), "bert has no attention of this kind"),
    ],
)  # fmt: skip
def test_runs_that_cannot_be_compared_give_a_reason(first, second, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        compare(run_of(*first), run_of(*second))


def test_a_text_without_letters_has_no_words() -> None:
    first = Encoding("", (1,), ("<s>",), (None,))
    second = Encoding("", (7, 8), ("[CLS]", "[SEP]"), (None, None))
    assert axis_of(first, second) is None
    assert axis_of(first, first).how == TOKENS


def test_a_row_empty_in_one_run_counts() -> None:
    some, none = torch.tensor([[[0.5, 0.5]]]), torch.zeros(1, 1, 2)
    assert float(row_distances(some, none)) == pytest.approx(0.5)  # H of half the row, in bits
    assert "only one run may attend to anything counts ½" in " ".join(DISTANCE_HELP.split())
    assert bool(row_distances(none, none).isnan())


def test_tokens_that_hold_the_space_before_them_are_words_of_their_own() -> None:
    first = Encoding("ab cd", (5, 6), ("ab", " cd"), ((0, 2), (2, 5)))
    second = Encoding("ab cd", (7, 8, 6), ("a", "b", " cd"), ((0, 1), (1, 2), (2, 5)))
    axis = axis_of(first, second)
    assert axis is not None
    assert (axis.how, axis.n, axis.units) == (WORDS, 2, ((0, 1), (0, 0, 1)))
