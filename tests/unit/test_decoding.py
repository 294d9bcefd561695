"""Each decoding method against another route to the same text: cached and uncached, beam and brute force, stepwise and stacked."""

import itertools
import math
import random
from fractions import Fraction
from functools import reduce

import pytest
import torch
from small import (
    N_CTX,
    VOCAB,
    padded_ids,
    random_attention_only,
    random_ids,
    random_model,
    random_seq2seq,
)

from models.architectures.transformer import Transformer
from models.decoding import (
    Step,
    beam,
    filtered,
    generate,
    greedy,
    greedy_batch,
    length_penalty,
    runs,
    sample,
    teacher_forced,
)
from models.decoding.beam_search import MAX_BEAM_WIDTH
from models.decoding.incremental import Incremental
from models.layers.masks import LOOK_AHEAD
from models.tokenizers.base import END, PAD, START
from models.trace.edits import MaskChange, for_kinds

SOURCE = (*random_ids(1, 6)[0].tolist(), END)


@pytest.fixture(scope="module")
def endless() -> Transformer:
    """A model that never generates </s> by itself, so that runs are long."""
    model = random_model(seed=3)
    with torch.no_grad():
        model.embedding.weight[END] = 0
        model.embedding.weight[4:] *= 3
    return model


def test_an_error_that_is_no_number_is_not_lost_among_smaller_ones() -> None:
    """`max` would drop it, and the check of the rows would pass."""
    for errors in ([0.5, math.nan, 0.25], [math.nan, 0.5], [None, 0.5, math.nan]):
        assert math.isnan(reduce(runs._larger, errors))
    assert reduce(runs._larger, [None, 0.5, 0.25]) == 0.5
    assert runs._larger(None, None) is None


def by_hand(
    model: Transformer, prefix: tuple[int, ...], source: tuple[int, ...] = SOURCE
) -> torch.Tensor:
    """Return the log-probabilities after a prefix, by one whole forward pass."""
    with torch.no_grad():
        return model(torch.tensor([source]), torch.tensor([[START, *prefix]]))[0, -1].log_softmax(
            -1
        )


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_cached_decoding_equals_uncached_decoding(norm):
    model = random_model(seed=3, norm=norm)
    forced = [
        *random_ids(1, 17, seed=4)[0].tolist(),
        PAD,
        START,
        9,
        PAD,
        PAD,
        8,
    ]  # a model may generate <pad> and <s> too
    cached, uncached = (
        list(greedy(model, SOURCE, forced=forced, max_new=29, use_cache=c)) for c in (True, False)
    )
    assert len(cached) == len(uncached) >= len(forced)
    for a, b in zip(cached, uncached, strict=True):
        torch.testing.assert_close(
            a.log_probs, b.log_probs, atol=1e-4, rtol=1e-4
        )  # sums in another order, 29 tokens
        torch.testing.assert_close(a.log_probs, by_hand(model, a.prefix), atol=1e-4, rtol=1e-4)
        assert a.token == b.token


def test_a_run_after_a_change_of_weights_uses_the_new_weights():
    """Values derived from the weights outlive a run, but no change: of the embedding, or of a single bias of an attention."""
    model, before = random_model(), None
    attention = model.decoder.layers[1].self_attn
    for parameter in (None, model.embedding.weight, attention.W_V.bias, attention.W_Q.weight):
        if parameter is not None:
            with torch.no_grad():
                parameter.add_(torch.randn(parameter.shape))
        cached, plain = (
            torch.stack(
                [
                    step.log_probs
                    for step in greedy(
                        model, SOURCE, forced=[7, 11, 13], max_new=3, use_cache=use_cache
                    )
                ]
            )
            for use_cache in (True, False)
        )
        torch.testing.assert_close(cached, plain, atol=1e-4, rtol=1e-4)
        assert before is None or (cached - before).abs().max() > 1e-2
        before = cached


def test_greedy_takes_the_most_probable_token_each_time(tiny):
    steps = list(greedy(tiny, SOURCE, max_new=11))
    prefix = ()
    for i, step in enumerate(steps):
        assert (step.index, step.prefix) == (i, prefix)
        assert step.token == int(by_hand(tiny, prefix).argmax())
        assert step.log_prob == pytest.approx(float(by_hand(tiny, prefix)[step.token]), abs=1e-4)
        prefix = (*prefix, step.token)


def test_teacher_forced_steps_equal_the_stacked_forward_pass(tiny):
    target = random_ids(1, 7, seed=8)[0].tolist()
    steps = list(teacher_forced(tiny, SOURCE, target))
    with torch.no_grad():
        stacked = tiny(torch.tensor([SOURCE]), torch.tensor([[START, *target]]))[0].log_softmax(-1)
    torch.testing.assert_close(torch.stack([s.log_probs for s in steps]), stacked)
    assert [s.token for s in steps] == [*target, END]
    assert [s.prefix for s in steps] == [tuple(target[:i]) for i in range(8)]
    one_by_one = list(greedy(tiny, SOURCE, forced=target, max_new=8))
    for a, b in zip(steps, one_by_one, strict=False):
        torch.testing.assert_close(a.log_probs, b.log_probs, atol=1e-4, rtol=1e-4)


WRITTEN = [
    step.token for step in greedy(random_model(seed=3), SOURCE, max_new=20, forced={19: END})
]


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize(
    "draft",
    [
        WRITTEN,
        WRITTEN[:-1],
        WRITTEN[:7],
        [*WRITTEN[:7], 9, *WRITTEN[7:]],
        [9, 8, 7],
        [*WRITTEN, 5, 6],
        WRITTEN * 9,
        [END],
        [],
    ],
    ids=[
        "right",
        "no end",
        "too short",
        "one too many",
        "wrong",
        "beyond the end",
        "far too long",
        "only the end",
        "none",
    ],
)
def test_a_draft_does_not_change_the_generated_text(draft, use_cache):
    model, how = random_model(seed=3), {"max_new": 20, "forced": {19: END}, "use_cache": use_cache}
    plain, drafted = (
        list(greedy(model, SOURCE, **how)),
        list(greedy(model, SOURCE, draft_tokens=[draft], **how)),
    )
    assert [(s.index, s.prefix, s.token) for s in drafted] == [
        (s.index, s.prefix, s.token) for s in plain
    ]
    for step in drafted:
        torch.testing.assert_close(
            step.log_probs, by_hand(model, step.prefix), atol=1e-4, rtol=1e-4
        )
    lucky = (
        list(sample(model, SOURCE, seed=5, temperature=3.0, draft_tokens=[d], **how))
        for d in (draft, ())
    )
    assert len({tuple(step.token for step in steps) for steps in lucky}) == 1


def test_nothing_is_generated_after_the_end_though_a_draft_continues():
    """The model would accept each of the draft's tokens, had the text not ended before them."""
    model = random_model(seed=3)
    beyond = [step.token for step in greedy(model, SOURCE, max_new=29, forced=WRITTEN[:-1])]
    assert END not in beyond
    how = {"max_new": 29, "forced": {19: END}}
    after = [int(by_hand(model, (*WRITTEN, *tail)).argmax()) for tail in ((), (5,))]
    for draft in ([*WRITTEN, *after], [*WRITTEN, after[0], *beyond], [*WRITTEN, *WRITTEN]):
        steps = list(greedy(model, SOURCE, draft_tokens=[draft], **how))
        assert [step.token for step in steps] == WRITTEN


WANTED = list(range(4, 16))


@pytest.mark.parametrize(
    ("drafts", "positions"),
    [
        ([WANTED], [12]),
        ([WANTED[:8]], [9, *[1] * 3]),  # the pass of a draft gives the token after it
        (
            [[*WANTED[:5], 3, *WANTED[6:]]],
            [12, 1, 5],
        ),  # in place of the wrong token, after it, and then along the draft
        ([WANTED, [WANTED[0], 3, 3]], [4, 10]),  # the last draft first, then the one that continues
        (
            [[4, 6, 4, 5, 9], [5, 9]],
            [3, 5, 2, 4, *[1] * 8],
        ),  # along the nearest draft, then along the one with the longest match before it
        ([[]], [1] * 12),
    ],
)
def test_tokens_that_a_draft_guesses_right_are_read_in_one_pass(
    endless, monkeypatch, drafts, positions
):
    passes = []
    decode = type(endless).decode
    monkeypatch.setattr(
        type(endless),
        "decode",
        lambda model, target, *rest: passes.append(target.shape[1]) or decode(model, target, *rest),
    )
    steps = greedy(endless, SOURCE, max_new=12, forced=WANTED, draft_tokens=drafts)
    assert [step.token for step in steps] == WANTED
    assert passes == positions


@pytest.mark.parametrize(
    "model",
    [random_seq2seq(attention="none"), random_seq2seq(), random_attention_only()],
    ids=["rnn", "bahdanau", "attention"],
)
def test_a_draft_changes_nothing_for_other_models_either(model):
    plain = [step.token for step in greedy(model, SOURCE, max_new=12)]
    for draft in (plain, [*plain[:3], 9, 9]):
        assert [
            step.token for step in greedy(model, SOURCE, max_new=12, draft_tokens=[draft])
        ] == plain


def test_a_draft_is_not_read_where_a_position_sees_the_ones_after_it(endless):
    ahead = for_kinds(decoder_self=MaskChange(removed_layers=(LOOK_AHEAD,)))
    plain = [step.token for step in greedy(endless, SOURCE, max_new=9, edits=ahead)]
    assert [
        step.token
        for step in greedy(endless, SOURCE, max_new=9, edits=ahead, draft_tokens=[plain[::-1]])
    ] == plain


def test_a_decoder_without_a_mask_reads_its_whole_text_at_every_step():
    """A cache would keep values from before the later positions existed."""
    model = random_model(decoder_mask="none", end_id=VOCAB - 1)
    source = torch.tensor([[3, 4, 5, 6]])
    run = Incremental(model, source)
    assert run.cache is None
    steps = list(greedy(model, source[0].tolist(), max_new=6))
    for step in steps:
        row = torch.tensor([[model.config.start_id, *step.prefix]])
        alone = model(source, row)[0, -1].log_softmax(-1)
        torch.testing.assert_close(step.log_probs, alone)


def test_forced_tokens_are_kept_and_the_rest_is_the_models(endless):
    free = [s.token for s in greedy(endless, SOURCE, max_new=13)]
    assert [s.token for s in greedy(endless, SOURCE, max_new=13, forced=free[:5])] == free
    other = (free[2] + 1 - 4) % (VOCAB - 4) + 4
    swapped = [s.token for s in greedy(endless, SOURCE, max_new=13, forced={2: other})]
    assert swapped[:3] == [*free[:2], other]
    assert swapped[3] == int(by_hand(endless, tuple(swapped[:3])).argmax())


def test_forcing_the_end_ends(endless):
    assert [s.token for s in greedy(endless, SOURCE, forced=[7, END, 9])] == [7, END]


def test_limits(endless):
    assert (
        len(list(greedy(endless, SOURCE)))
        == endless.max_new_tokens(len(SOURCE))
        == 2 * len(SOURCE) + 20
        < N_CTX - 1
    )
    assert len(list(greedy(endless, SOURCE, max_new=3))) == 3
    assert len(list(greedy(endless, SOURCE, max_new=1000))) == N_CTX - 1  # with <s>, n_ctx tokens
    assert endless.max_new_tokens(N_CTX) == N_CTX - 1
    assert [step.index for step in beam(endless, SOURCE, max_new=3)] == [0, 1, 2]
    for decode in (greedy, beam):
        with pytest.raises(ValueError, match="max_new must be at least 1, not 0"):
            list(decode(endless, SOURCE, max_new=0))


def test_each_row_of_a_batch_generates_what_it_would_alone():
    """The text of a row depends on its own source only; a limit set by the longest row may cut it later."""
    model = random_model(seed=1)
    source, _ = padded_ids()
    together = greedy_batch(model, source)
    assert together[0] != together[1]
    for row, length, ids in zip(source, (11, 7), together, strict=True):
        alone = [s.token for s in greedy(model, row[:length].tolist())]
        alone = [i for i in alone if i not in (PAD, END)]
        assert ids[: len(alone)] == alone
        assert alone


def test_beam_of_width_one_is_greedy(tiny, endless):
    for model in (tiny, endless):
        tokens = tuple(s.token for s in greedy(model, SOURCE, max_new=11))
        *_, last = beam(model, SOURCE, width=1, max_new=11)
        assert last.hypotheses[0].tokens == tokens


SMALL_VOCAB, SHORT = 5, (4, 3, END)


def small_vocabulary(seed: int) -> Transformer:
    """Return a model whose vocabulary is the special tokens and one letter."""
    return random_model(seed, vocab_size=SMALL_VOCAB)


def every_text(
    model: Transformer, n: int, alpha: float
) -> list[tuple[float, float, tuple[int, ...]]]:
    """Return (score, log-probability, tokens) of all texts that end with </s> within n tokens, or are cut there; best first."""
    rows = {}
    texts = []
    for length in range(1, n + 1):
        for tokens in itertools.product(range(SMALL_VOCAB), repeat=length):
            if END in tokens[:-1] or (length < n and tokens[-1] != END):
                continue
            for i in range(length):
                if tokens[:i] not in rows:
                    rows[tokens[:i]] = by_hand(model, tokens[:i], SHORT)
            log_prob = sum(float(rows[tokens[:i]][token]) for i, token in enumerate(tokens))
            texts.append((log_prob / length_penalty(length, alpha), log_prob, tokens))
    return sorted(texts, reverse=True)


@pytest.mark.parametrize(("seed", "alpha"), [(1, 0.0), (2, 1.7)])
def test_a_beam_as_wide_as_everything_finds_the_best_of_all_texts(seed, alpha):
    model = small_vocabulary(seed)
    best = every_text(model, 3, alpha)
    *_, last = beam(model, SHORT, width=SMALL_VOCAB**3, alpha=alpha, max_new=3)
    assert len(last.hypotheses) == len(best) == 1 + 4 + 4 * 4 * 5
    for hypothesis, (score, log_prob, _) in zip(last.hypotheses, best, strict=True):
        assert hypothesis.score == pytest.approx(score, abs=1e-4)
        assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-4)
    assert {h.tokens for h in last.hypotheses} == {tokens for _, _, tokens in best}
    assert last.hypotheses[0].tokens == best[0][2]


def test_a_wider_beam_finds_a_better_text_than_greedy():
    gains = []
    for seed in range(7):
        model = small_vocabulary(seed)
        first = sum(s.log_prob for s in greedy(model, SHORT, max_new=4))
        *_, last = beam(model, SHORT, width=SMALL_VOCAB**4, alpha=0.0, max_new=4)
        gains.append(last.hypotheses[0].log_prob - first)
    assert min(gains) > -1e-4
    assert max(gains) > 0.1


def test_beam_steps_form_a_tree_best_first(tiny):
    steps = list(beam(tiny, SOURCE, width=5, max_new=9))
    assert all(h.parent == -1 and len(h.tokens) == 1 for h in steps[0].hypotheses)
    for before, step in itertools.pairwise(steps):
        scores = [h.score for h in step.hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({h.tokens for h in step.hypotheses}) == len(step.hypotheses) == 5
        for h in step.hypotheses:
            parent = before.hypotheses[h.parent]
            assert h.tokens == parent.tokens if parent.ended else h.tokens[:-1] == parent.tokens
            assert h.log_prob <= parent.log_prob
    for h in steps[-1].hypotheses:
        rows = [float(by_hand(tiny, h.tokens[:i])[token]) for i, token in enumerate(h.tokens)]
        assert h.log_prob == pytest.approx(sum(rows), abs=1e-3)
        assert h.score == pytest.approx(h.log_prob / ((5 + len(h.tokens)) / 6) ** 0.6)


def test_a_forced_token_has_its_own_probability_in_the_beam(tiny):
    free = next(beam(tiny, SOURCE, width=1)).hypotheses[0].tokens[0]
    other = (free + 1 - 4) % (VOCAB - 4) + 4
    *_, last = beam(tiny, SOURCE, width=3, max_new=4, forced={0: other})
    for h in last.hypotheses:
        assert h.tokens[0] == other
        rows = [float(by_hand(tiny, h.tokens[:i])[token]) for i, token in enumerate(h.tokens)]
        assert h.log_prob == pytest.approx(sum(rows), abs=1e-3)


def test_a_waiting_hypothesis_is_found_again_at_any_rank():
    """Longer hypotheses overtake it under a strong length penalty, so that its rank changes from step to step."""
    moved = 0
    for seed in range(7):
        steps = list(beam(small_vocabulary(seed), SHORT, width=3, alpha=1.3, max_new=7))
        for before, step in itertools.pairwise(steps):
            waiting = [h for h in step.hypotheses if len(h.tokens) <= step.index]
            for h in waiting:
                parent = before.hypotheses[h.parent]
                assert (parent.tokens, parent.score) == (h.tokens, h.score)
                moved += parent.parent != h.parent
    assert moved > 3


def test_the_beam_ends_when_all_its_hypotheses_have_ended():
    lengths = set()
    for seed in range(7):
        *before, last = beam(small_vocabulary(seed), SHORT, width=2, max_new=17)
        assert len(before) == 16 or all(h.ended for h in last.hypotheses)
        assert not any(all(h.ended for h in step.hypotheses) for step in before)
        lengths.add(len(before) + 1)
    assert min(lengths) < 17


@pytest.mark.parametrize("width", [0, MAX_BEAM_WIDTH + 1])
def test_beam_width_is_bounded(tiny, width):
    with pytest.raises(ValueError, match=f"must be from 1 to {MAX_BEAM_WIDTH}, not {width}"):
        list(beam(tiny, SOURCE, width=width))


P = torch.tensor([0.05, 0.4, 0.1, 0.25, 0.2])


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ({}, [0.05, 0.4, 0.1, 0.25, 0.2]),
        ({"top_k": 2}, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]),
        ({"top_k": 99}, [0.05, 0.4, 0.1, 0.25, 0.2]),
        ({"top_p": 0.6}, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]),  # 0.4 is not enough, 0.4 + 0.25 is
        ({"top_p": 0.66}, [0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85]),
        ({"top_p": 1e-9}, [0, 1, 0, 0, 0]),  # the best is always kept
        ({"top_p": 1.0}, [0.05, 0.4, 0.1, 0.25, 0.2]),
        (
            {"top_k": 3, "top_p": 0.7},
            [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0],
        ),  # of 0.85: 0.47, then 0.76 reaches 0.7
        ({"temperature": 0.5}, [p * p / 0.275 for p in (0.05, 0.4, 0.1, 0.25, 0.2)]),
        ({"temperature": 0.5, "top_k": 1}, [0, 1, 0, 0, 0]),
        ({"temperature": 0.5, "top_p": 0.7}, [0, 64 / 89, 0, 25 / 89, 0]),
    ],
)
def test_sampling_filters_against_tables_by_hand(how, wanted):
    torch.testing.assert_close(
        filtered(P.log(), **how).exp(), torch.tensor(wanted, dtype=torch.float32)
    )


@pytest.mark.parametrize(
    ("p", "kept"), [(0.5, 1), (0.500001, 2), (0.75, 2), (0.750001, 3), (0.875, 3), (0.9, 4), (0.9375, 4)]
)  # fmt: skip
def test_the_nucleus_ends_with_the_token_at_which_its_sum_is_exactly_p(p, kept):
    """The probabilities ½, ¼, ⅛ … are exact as floats, and so are their sums."""
    shares = torch.tensor([1 / 16, 1 / 2, 1 / 16, 1 / 8, 1 / 4])
    order = [1, 4, 3, 0, 2]
    found = filtered(shares.log(), top_p=p).exp()
    assert found.nonzero().flatten().tolist() == sorted(order[:kept])
    torch.testing.assert_close(
        found[order[:kept]], shares[order[:kept]] / shares[order[:kept]].sum()
    )


def test_the_nucleus_is_the_one_of_exact_fractions():
    """With whole numbers as weights, and p a sum of them, the tokens that reach p are known without rounding."""
    rng = random.Random(5)
    for _ in range(211):
        counts = rng.sample(range(1, 997), 31)
        order = sorted(range(31), key=lambda i: -counts[i])
        n = rng.randint(1, 30)
        p = Fraction(sum(counts[i] for i in order[:n]), sum(counts))
        log_probs = (torch.tensor(counts).float().log() + rng.uniform(-20, 20)).log_softmax(-1)
        found = filtered(log_probs, top_p=float(p)).isfinite().nonzero().flatten().tolist()
        assert found == sorted(order[:n]), (counts, n)


def test_top_p_of_one_keeps_every_token_of_a_large_vocabulary():
    assert filtered(torch.randn(5003).log_softmax(-1) * 3, top_p=1.0).isfinite().all()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"temperature": 0}, "temperature must be above 0, not 0; greedy decoding is its limit"),
        ({"top_k": 0}, "top_k must be at least 1, not 0"),
        ({"top_p": 0}, "top_p must be above 0 and at most 1, not 0"),
        ({"top_p": 1.1}, "top_p must be above 0 and at most 1, not 1.1"),
    ],
)
def test_settings_that_leave_nothing_to_draw(how, message):
    with pytest.raises(ValueError, match=message):
        filtered(P.log(), **how)


def test_the_same_seed_samples_the_same_text_whatever_else_was_sampled(endless):
    def text(seed: int) -> list[int]:
        return [s.token for s in sample(endless, SOURCE, seed=seed, temperature=2.0, max_new=13)]

    first = text(5)
    torch.rand(7)
    assert text(5) == first
    assert len({tuple(text(seed)) for seed in range(5)}) == 5


def test_draws_follow_the_distribution(endless):
    """A token drawn from p has the log-probability −H(p) on average; greedy's would be higher, that of a higher temperature lower."""
    drawn = [step for seed in range(5) for step in sample(endless, SOURCE, seed=seed, max_new=36)]
    excess = torch.tensor([step.log_prob + step.entropy for step in drawn])
    assert excess.std() > 0.1
    assert excess.mean().abs() < 4 * excess.std() / len(drawn) ** 0.5  # four standard errors
    best = set(by_hand(endless, ()).topk(2).indices.tolist())
    assert {next(sample(endless, SOURCE, seed=seed, top_k=2)).token for seed in range(17)} == best


def test_entropy_and_top():
    step = Step(0, (), 1, torch.tensor([0.5, 0.25, 0.25, 0.0]).log())
    assert step.entropy == pytest.approx(1.5 * math.log(2))
    assert step.log_prob == pytest.approx(math.log(0.25))
    assert step.top(1) == [(0, 0.5)]
    assert [p for _, p in step.top(99)] == pytest.approx([0.5, 0.25, 0.25, 0])
    other = Step(0, (), 2, torch.tensor([0.125, 0.25, 0.0625, 0.5, 0.0625]).log())
    assert other.top(3) == [(3, 0.5), (1, 0.25), (0, 0.125)]  # likeliest first
    assert other.entropy == pytest.approx(1.875 * math.log(2))  # ½·1 + ¼·2 + ⅛·3 + 2·(1/16)·4 bits
    assert other.log_prob == pytest.approx(-4 * math.log(2))  # of the chosen token, not of the best


def test_a_recorded_step_holds_its_own_attention(tiny):
    steps = list(greedy(tiny, SOURCE, max_new=4, forced=[5, 6, 7, 8], recorded=True))
    for i, step in enumerate(steps):
        site = step.recording.attention["decoder.layers.1.self_attn"]
        assert site.weights().shape == (
            3,
            1,
            i + 1,
        )  # only the new query; its keys come from the cache
        torch.testing.assert_close(site.head_out(), site.out[0])
    whole = list(teacher_forced(tiny, SOURCE, [5, 6, 7], recorded=True))[0].recording
    for name in ("decoder.layers.1.self_attn", "decoder.layers.0.cross_attn"):
        together = whole.attention[name].weights(1)
        for i, step in enumerate(steps):
            alone = step.recording.attention[name].weights(1)[0]
            torch.testing.assert_close(alone, together[i, : len(alone)], atol=1e-4, rtol=1e-4)
    assert next(greedy(tiny, SOURCE)).recording is None
    assert next(teacher_forced(tiny, SOURCE, [5, 6, 7])).recording is None


def test_each_record_is_complete_before_the_next_token_is_computed(tiny):
    run = generate(tiny, SOURCE, choose=lambda log_probs: 9)
    assert next(run).token == 9
    assert next(run).prefix == (9,)
    run.close()
