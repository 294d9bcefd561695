"""Teacher-forced and autoregressive runs by position: two routes to the same numbers, and where they diverge."""

import threading
from dataclasses import replace

import pytest
import torch
from small import VOCAB, random_attention_only, random_ids, random_model, random_seq2seq
from work_by_hand import decoder_pass

from models import decoding
from models.architectures.transformer import Transformer
from models.decoding import runs as decoding_runs
from models.decoding.multiply_adds import CountFlops, MultiplyAdds, count_multiply_adds
from models.decoding.runs import Method
from models.layers import masks
from models.layers.masks import Mask
from models.layers.similarity import SIMILARITIES
from models.runs.scope import Scope
from models.tokenizers.base import END, START
from models.trace import record

GREEDY = Method()
SOURCE = [5, 9, 4, 7, 11, 6, 8]
SITES = [
    "decoder.layers.0.self_attn",
    "decoder.layers.0.cross_attn",
    "decoder.layers.1.self_attn",
    "decoder.layers.1.cross_attn",
]


def run_to(model: Transformer, method: Method = GREEDY, n: int = 5) -> decoding_runs.Run:
    """Return a run whose end is forced after n tokens: a random model need not end by itself."""
    return decoding_runs.autoregressive(
        model, SOURCE, replace(method, forced=(*method.forced, (n, END)))
    ).run


def test_teacher_forced_and_step_by_step_passes_give_the_same_numbers(tiny: Transformer) -> None:
    serial = run_to(tiny)
    parallel = decoding_runs.uncached_run(tiny, SOURCE, serial.taken)
    assert serial.taken == parallel.taken
    assert serial.read == parallel.read == (START, *serial.taken[:-1])
    torch.testing.assert_close(serial.log_probs, parallel.log_probs, rtol=1e-4, atol=1e-4)
    assert list(serial.rows) == list(parallel.rows) == SITES
    for site in SITES:
        torch.testing.assert_close(
            serial.weights(site, 2), parallel.weights(site, 2), rtol=1e-4, atol=1e-5
        )


def test_every_step_from_the_cache_equals_the_step_without_it(tiny: Transformer) -> None:
    serial = run_to(tiny)
    plain = list(
        decoding.greedy(tiny, SOURCE, forced=serial.taken, use_cache=False, max_new=len(serial))
    )
    torch.testing.assert_close(
        serial.log_probs, torch.stack([s.log_probs for s in plain]), rtol=1e-4, atol=1e-4
    )


def test_the_cached_keys_are_those_of_the_earlier_positions(tiny: Transformer) -> None:
    assert run_to(tiny).cached == (0, 1, 2, 3, 4, 5)
    assert decoding_runs.uncached_run(tiny, SOURCE, [5, 6, 7]).cached == (0, 0, 0)


def test_weights_are_those_of_a_recorded_pass_by_hand(tiny: Transformer) -> None:
    run = run_to(tiny)
    ids = torch.tensor([[START, *run.taken[:-1]]])
    source = torch.tensor([SOURCE])
    with torch.inference_mode(), record() as recording:
        tiny(source, ids)
    for site in SITES:
        by_hand = recording.attention[site].weights()
        torch.testing.assert_close(run.weights(site, 1), by_hand[1], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(run.weights(site), by_hand.mean(0), rtol=1e-4, atol=1e-5)


def test_a_trace_by_position(scope: Scope) -> None:
    trace = scope.run("abc", "cab")
    run = decoding_runs.of_trace(trace)
    assert run.read == trace.streams["target"].ids
    assert run.taken == (*trace.streams["target"].ids[1:], END)
    torch.testing.assert_close(run.log_probs.exp(), trace.next_token.logits.softmax(-1))
    site = "decoder.layers.0.self_attn"
    torch.testing.assert_close(run.weights(site, 1), trace.attention[site].weights(1))


def test_entropy_in_bits(tiny: Transformer) -> None:
    run = run_to(tiny)
    p = run.log_probs.double().exp()
    torch.testing.assert_close(
        run.entropy_bits.double(), -(p * p.log2()).sum(-1), rtol=1e-4, atol=1e-5
    )
    assert (run.entropy_bits < torch.tensor(float(VOCAB)).log2()).all()


def test_the_first_divergence(scope: Scope) -> None:
    right = decoding_runs.of_trace(scope.run("abc", "cba"))
    other = decoding_runs.of_trace(scope.run("abc", "cab"))
    assert decoding_runs.first_divergence(right, other) == 1
    assert decoding_runs.first_divergence(right, right) is None


def test_a_forced_token_is_kept_and_the_model_continues_from_it(scope: Scope) -> None:
    source = scope.encode(source="abc")["source"].ids
    token = scope.tokenizer.encode("e").ids[0]
    run = decoding_runs.autoregressive(scope.model, source, Method(forced=((1, token),))).run
    free = decoding_runs.autoregressive(scope.model, source, Method()).run
    assert run.taken[0] == free.taken[0]
    assert run.taken[1] == token
    after = decoding_runs.uncached_run(scope.model, source, [run.taken[0], token, END])
    assert run.taken[2] == int(after.log_probs[2].argmax())


def test_forcing_the_end_ends_the_run(scope: Scope) -> None:
    run = decoding_runs.autoregressive(
        scope.model, scope.encode(source="abc")["source"].ids, Method(forced=((1, END),))
    ).run
    assert len(run) == 2
    assert run.ended


def test_sampling_keeps_its_random_numbers_where_a_token_is_forced(tiny: Transformer) -> None:
    method = Method("sample", seed=3, temperature=2.0)
    free = run_to(tiny, method)
    same = run_to(tiny, Method("sample", seed=3, temperature=2.0, forced=((1, free.taken[1]),)))
    assert same.taken == free.taken


def test_beam_reads_its_best_step_by_step(scope: Scope) -> None:
    source = scope.encode(source="abc")["source"].ids
    result = decoding_runs.autoregressive(scope.model, source, Method("beam", width=3))
    best = result.beam[-1].hypotheses[0]
    assert result.run.taken == best.tokens
    given = result.run.log_probs.gather(1, torch.tensor(best.tokens)[:, None]).sum()
    assert float(given) == pytest.approx(best.log_prob, abs=1e-4)


def test_a_beam_continues_only_from_the_forced_token(scope: Scope) -> None:
    token = scope.tokenizer.encode("e").ids[0]
    source = scope.encode(source="abc")["source"].ids
    result = decoding_runs.autoregressive(
        scope.model, source, Method("beam", width=3, forced=((1, token),))
    )
    assert {
        h.tokens[1] for step in result.beam[1:] for h in step.hypotheses if len(h.tokens) > 1
    } == {token}


def test_the_distribution_of_a_method(tiny: Transformer) -> None:
    """Only sampling changes it: by hand, at temperature 2, the three best, then those within 0.9."""
    log_probs = run_to(tiny).log_probs[0]
    for how in ("greedy", "beam"):
        assert Method(how, temperature=2.0, top_k=3, top_p=0.9).filtered(log_probs) is log_probs
    p = (log_probs.double() / 2).exp()
    kept = p.argsort(descending=True)[:3].tolist()
    shares = [float(p[i] / p[kept].sum()) for i in kept]
    kept = [i for n, i in enumerate(kept) if sum(shares[:n]) < 0.9]
    drawn = Method("sample", temperature=2.0, top_k=3, top_p=0.9).filtered(log_probs).exp()
    assert {i: float(x) for i, x in enumerate(drawn) if x > 0} == {
        i: pytest.approx(float(p[i] / p[kept].sum())) for i in kept
    }
    torch.testing.assert_close(Method("sample").filtered(log_probs), log_probs)


@pytest.mark.parametrize("how", ["greedy", "sample", "beam"])
def test_a_method_is_run_with_its_own_settings(tiny: Transformer, how: str) -> None:
    method = Method(
        how,
        temperature=1.7,
        top_k=5,
        top_p=0.8,
        seed=4,
        width=3,
        alpha=0.2,
        forced=((1, 9), (6, END)),
    )
    result = decoding_runs.autoregressive(tiny, SOURCE, method)
    forced = {1: 9, 6: END}
    if how == "beam":
        steps = list(decoding.beam(tiny, SOURCE, width=3, alpha=0.2, forced=forced))
        assert result.beam == tuple(steps)
        wanted = steps[-1].hypotheses[0].tokens
    elif how == "sample":
        wanted = tuple(
            s.token
            for s in decoding.sample(
                tiny, SOURCE, seed=4, temperature=1.7, top_k=5, top_p=0.8, forced=forced
            )
        )
        assert result.beam == ()
    else:
        wanted = tuple(s.token for s in decoding.greedy(tiny, SOURCE, forced=forced))
    assert result.method is method
    assert result.run.taken == wanted
    assert result.run.read == (START, *wanted[:-1])
    assert result.run.taken[1] == 9
    assert result.run.ended is (wanted[-1] == END)
    assert len(result.run) == len(wanted)


def test_a_run_that_was_cut_has_not_ended(scope: Scope) -> None:
    run = decoding_runs.autoregressive(
        scope.model, scope.encode(source="abc")["source"].ids, Method()
    ).run
    assert run.ended
    end, given = scope.config.end_id, scope.encode(source="abc")["source"].ids
    cut = replace(
        scope.config, end_id=7
    )  # a letter: the model is stopped at its limit, and a </s> is one token of many
    endless = Transformer(cut).eval()
    endless.load_state_dict(scope.model.state_dict())
    assert run.taken[-1] == end
    assert not decoding_runs.uncached_run(endless, given, run.taken).ended
    assert decoding_runs.uncached_run(endless, given, (*run.taken[:-1], 7)).ended


def test_the_first_divergence_of_runs_of_unequal_length(scope: Scope) -> None:
    run = decoding_runs.of_trace(scope.run("abc", "cba"))
    assert (
        decoding_runs.first_divergence(run, replace(run, taken=run.taken[:2])) is None
    )  # no token differs where both have one
    for i in range(len(run)):
        other = replace(run, taken=(*run.taken[:i], 9, *run.taken[i + 1 :]))
        assert (
            decoding_runs.first_divergence(run, other)
            == decoding_runs.first_divergence(other, run)
            == i
        )


def test_an_unknown_method_is_an_error(tiny: Transformer) -> None:
    with pytest.raises(ValueError, match=r"greedy, sample, beam, not 'luck'"):
        decoding_runs.autoregressive(tiny, SOURCE, Method("luck"))


WORKERS = [
    *((make, {"similarity": name}) for make in (random_model, random_attention_only) for name in SIMILARITIES),
    *((random_seq2seq, {"attention": a, "cell": c}) for a in ("bahdanau", "none") for c in ("gru", "tanh")),
]  # fmt: skip


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize(("make", "sizes"), WORKERS)
def test_the_work_follows_the_formulas(make, sizes: dict[str, str]) -> None:
    model, n, steps = make(**sizes), 11, 7
    every = range(1, steps + 1)
    assert count_multiply_adds(model, n, steps) == MultiplyAdds(
        cached=tuple(decoder_pass(model.config, 1, t, n, memory_cached=t > 1) for t in every),
        uncached=tuple(decoder_pass(model.config, t, t, n) for t in every),
        parallel=decoder_pass(model.config, steps, steps, n),
    )


@pytest.mark.parametrize("use_cache", [True, False])
def test_the_work_of_each_step_matches_the_count(tiny: Transformer, use_cache: bool) -> None:
    """This holds beyond the sizes that the polynomials are fitted to, too."""
    target, work = random_ids(1, 9, seed=5), count_multiply_adds(tiny, len(SOURCE), 9)
    with torch.no_grad():
        run = decoding.Incremental(tiny, torch.tensor([SOURCE]), use_cache=use_cache)
        for t in range(1, 10):
            with CountFlops() as counter:
                run.next_log_probs(target[:, :t])
            assert counter.flops == 2 * (work.cached if use_cache else work.uncached)[t - 1]


def test_counting_is_not_disturbed_by_other_threads(tiny: Transformer) -> None:
    def decode() -> None:
        with torch.no_grad():
            tiny(torch.tensor([SOURCE]), torch.tensor([[START, 5]]))

    with CountFlops() as counter:
        other = threading.Thread(target=decode)
        other.start()
        other.join()
    assert counter.flops == 0


def test_work_that_is_not_a_polynomial_is_not_reported() -> None:
    """The decoder here does one more multiplication for rows of odd length."""
    model = random_model()
    decode = model.decode

    def uneven(row: torch.Tensor, *rest: object) -> torch.Tensor:
        logits = decode(row, *rest)
        return logits @ torch.eye(VOCAB) if row.shape[1] % 2 else logits

    model.decode = uneven
    assert count_multiply_adds(model, 5, 3) is None


def test_the_look_ahead_mask_keeps_the_cache_valid(tiny: Transformer) -> None:
    """Without the mask a later token would change the keys of earlier positions from the second layer on."""
    ids = torch.tensor([[START, 5, 6, 7, 9]])
    unmasked = {kind.name: Mask() for kind in tiny.kinds}
    ahead = [unmasked | {"decoder_self": Mask([masks.look_ahead(n, n)])} for n in (5, 3)]
    memory = tiny.encode(torch.tensor([SOURCE]), unmasked)
    with torch.no_grad():
        open_, masked = (tiny.decode(ids, memory, m) for m in (unmasked, ahead[0]))
        prefix = tiny.decode(ids[:, :3], memory, ahead[1])
    torch.testing.assert_close(masked[:, :3], prefix, rtol=1e-4, atol=1e-4)
    assert (open_[:, :3] - prefix).abs().max() > 0.01
