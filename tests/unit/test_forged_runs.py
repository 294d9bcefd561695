"""Each check of a run fails, alone, when the one thing it guards is changed; its value is the change, computed by hand."""

from dataclasses import replace

import pytest
import torch
from small import VOCAB, random_ids, random_seq2seq, trace_of

from models.analysis import walk_checks
from models.analysis.checks import Check, check_site
from models.analysis.fixed_vector import check_fixed_vector, fixed_vector
from models.decoding import runs as decoding_runs
from models.decoding.run_checks import check_runs
from models.decoding.run_rows import StepRows
from models.decoding.runs import Method, Run
from models.layers import similarity
from models.runs.scope import Scope
from models.tokenizers.base import END, START, Encoding
from models.trace import AttentionSite, Trace, record

SUM, CACHE, PREFIX = (
    "probabilities sum to 1",
    "with the cache = without it",
    "same prefix, same probabilities",
)
ROWS, USED, STATE = (
    "attention rows sum to 1",
    "weights · v is what the model used",
    "the kept state is the right one",
)
SELF, CROSS = "decoder.layers.0.self_attn", "decoder.layers.0.cross_attn"


def failed(checks: list[Check]) -> dict[str, float]:
    """Return name → value of the checks that do not hold."""
    return {check.name: check.value for check in checks if not check.passed}


@pytest.fixture(scope="module")
def runs(scope: Scope) -> dict[str, Run]:
    """Runs with "cab" as the given target of "abc", for which the model itself writes "cba": they share two positions."""
    trace = scope.run("abc", "cab")
    serial = decoding_runs.autoregressive(scope.model, trace.streams["source"].ids, Method()).run
    assert scope.tokenizer.decode(serial.taken) == "cba"
    uncached = decoding_runs.uncached_run(scope.model, trace.streams["source"].ids, serial.taken)
    return {"parallel": decoding_runs.of_trace(trace), "serial": serial, "uncached": uncached}


def test_a_true_run_passes_and_each_check_names_its_measurement(runs):
    checks = check_runs(**runs)
    assert failed(checks) == {}
    assert [(c.name, c.limit, c.sentence) for c in checks] == [
        (SUM, 1e-5, "Largest difference from 1, over all positions of both runs"),
        (
            CACHE,
            1e-4,
            "Largest difference of any probability, 4 steps from the cache against one pass without it",
        ),
        (
            PREFIX,
            1e-4,
            "Largest difference between the given text and its own, where both have read the same (2 positions)",
        ),
        (ROWS, 1e-5, "Largest difference from 1, over all heads, layers and steps"),
        (
            USED,
            1e-5,
            "Largest difference from the model's own output, all steps; "
            "relative to values above 1 and to large scores' rounding",
        ),
    ]


def likelier(run: Run, position: int, factor: float) -> Run:
    """Multiply the probabilities at one position by a factor."""
    forged = run.log_probs.clone()
    forged[position] += torch.tensor(factor).log()
    return replace(run, log_probs=forged)


@pytest.mark.parametrize(
    ("which", "position", "factor", "names"),
    [
        ("parallel", 3, 1.01, [SUM]),
        ("parallel", 2, 0.99, [SUM]),  # too low is no better than too high
        (
            "parallel",
            1,
            1.01,
            [SUM, PREFIX],
        ),  # at the position where they diverge, both have still read the same
        ("serial", 3, 1.01, [SUM, CACHE]),
        ("serial", 0, 0.99, [SUM, CACHE, PREFIX]),
        ("uncached", 3, 1.01, [CACHE]),
        ("uncached", 0, 0.99, [CACHE]),
    ],
)
def test_probabilities_that_are_not_the_models_fail(runs, which, position, factor, names):
    found = failed(check_runs(**runs | {which: likelier(runs[which], position, factor)}))
    assert list(found) == names
    largest = float(runs[which].log_probs[position].exp().max())
    for name, value in found.items():
        assert value == pytest.approx(0.01 if name == SUM else 0.01 * largest, rel=0.01)


def test_if_both_texts_are_the_same_every_position_is_compared(scope, runs):
    parallel = decoding_runs.of_trace(scope.run("abc", "cba"))
    checks = check_runs(parallel, runs["serial"], runs["uncached"])
    assert failed(checks) == {}
    assert checks[2].sentence.endswith("(4 positions)")
    rolled = replace(
        parallel, log_probs=torch.cat([parallel.log_probs[:3], parallel.log_probs[3:].roll(1, -1)])
    )
    assert list(failed(check_runs(rolled, runs["serial"], runs["uncached"]))) == [PREFIX]


def with_row(run: Run, site: str, position: int, factor: float) -> Run:
    """Multiply the last head's row of weights at one position by a factor."""
    row = run.rows[site][position].clone()
    row[-1] *= factor
    rows = StepRows(
        tuple(row if i == position else other for i, other in enumerate(run.rows[site]))
    )
    return replace(run, rows={**run.rows, site: rows})


@pytest.mark.parametrize("which", ["parallel", "serial"])
@pytest.mark.parametrize("site", [SELF, CROSS])
@pytest.mark.parametrize(("position", "factor"), [(0, 1.001), (3, 0.999)])
def test_a_row_that_does_not_sum_to_one_fails(runs, which, site, position, factor):
    found = failed(check_runs(**runs | {which: with_row(runs[which], site, position, factor)}))
    assert found == {ROWS: pytest.approx(1e-3, rel=0.01)}


@pytest.mark.parametrize("which", ["parallel", "serial"])
def test_weights_that_the_model_did_not_use_fail(runs, which):
    assert failed(check_runs(**runs | {which: replace(runs[which], kernel_error=2e-5)})) == {
        USED: 2e-5
    }


@pytest.mark.parametrize("site", [SELF, CROSS])
def test_the_kernels_error_is_measured_at_every_site_of_the_decoder(scope, site):
    trace = scope.run("abc", "cab")
    shown = replace(
        trace.attention[site], lazy_q=trace.attention[site].q / 100
    )  # with no tolerance for the rounding of scores
    out = shown.head_out()[None].clone()
    out[0, 1, 2, 3] -= 0.25
    size = max(1.0, float(shown.v.abs().max()))
    forged = replace(trace, attention={**trace.attention, site: replace(shown, out=out)})
    assert decoding_runs.of_trace(forged).kernel_error == pytest.approx(0.25 / size, rel=0.01)
    assert decoding_runs.of_trace(trace).kernel_error < 1e-5


@pytest.mark.parametrize(("factor", "expected"), [(0.125, 0.25), (1000.0, 0.25 / 1000)])
def test_the_kernels_error_is_relative_to_values_above_1(scope, factor, expected):
    """Values a thousand times as large have rounding errors a thousand times as large; small ones are held to 1e-5 all the same.
    The rounding of scores gets no tolerance."""
    trace = scope.run("abc", "cab")
    site = trace.attention[CROSS]
    v = site.v / site.v.abs().max() * factor
    shown = replace(site, lazy_v=v, lazy_q=site.q / 100)
    out = shown.head_out()[None].clone()
    out[0, 1, 2, 3] -= 0.25
    forged = replace(trace, attention={CROSS: replace(shown, out=out)})
    assert decoding_runs.of_trace(forged).kernel_error == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    "n_key", [2, 4]
)  # only at step 2 of the self-attention; only in the cross-attention
def test_the_kernels_error_is_measured_at_every_step(scope, monkeypatch, n_key):
    kernel = similarity.F.scaled_dot_product_attention
    source = scope.encode(source="abc")["source"].ids
    true = decoding_runs.autoregressive(scope.model, source, Method(forced=((2, END),))).run

    def forged(q, k, v, **how):
        return kernel(q, k, v, **how) + 0.5 * (k.shape[2] == n_key and q.shape[2] == 1)

    monkeypatch.setattr(similarity.F, "scaled_dot_product_attention", forged)
    run = decoding_runs.autoregressive(scope.model, source, Method(forced=((2, END),))).run
    assert true.kernel_error < 1e-5
    sites = decoding_runs.decoding.greedy(
        scope.model, source, forced=true.taken, max_new=3, recorded=True
    )
    largest = {
        int(s.k.shape[2]): float(s.v.abs().max())
        for one in sites
        for s in one.recording.attention.values()
    }
    assert run.kernel_error == pytest.approx(0.5 / max(1.0, largest[n_key]), rel=1e-2)


@pytest.mark.parametrize("attention", ["bahdanau", "none"])
def test_a_kept_state_that_is_not_the_runs_own_fails(attention):
    model, source = random_seq2seq(attention=attention), [5, 9, 4, 7, END]
    serial = decoding_runs.autoregressive(model, source, Method(forced=((4, END),))).run
    uncached = decoding_runs.uncached_run(model, source, serial.taken)
    names = ["decoder.states"] + ["decoder.contexts"] * (attention == "bahdanau")
    assert sorted(serial.states) == sorted(names)
    checks = check_runs(uncached, serial, uncached)
    assert failed(checks) == {}
    middle = [ROWS, USED] if attention == "bahdanau" else []
    assert [c.name for c in checks] == [SUM, CACHE, PREFIX, *middle, STATE]
    assert checks[-1].limit == 1e-4
    said = "Largest difference of any state or context, steps from the kept state against one run from the beginning"
    assert checks[-1].sentence == said
    for name in names:
        states = serial.states[name].clone()
        states[2, 1] -= 0.125
        forged = replace(serial, states={**serial.states, name: states})
        assert failed(check_runs(uncached, forged, uncached)) == {
            STATE: pytest.approx(0.125, abs=1e-4)
        }
        forged = replace(uncached, states={**uncached.states, name: states})
        assert failed(check_runs(uncached, serial, forged)) == {
            STATE: pytest.approx(0.125, abs=1e-4)
        }


# One head taken apart


TERMS, SHARES, B = "the terms add up to the score", "weights are shares", "b is what the model used"
PROJECTED, HEADS = "projections give q, k and v", "the heads add up"
QUERY, HEAD = 2, 1


@pytest.fixture(scope="module")
def trace(scope: Scope) -> Trace:
    return scope.run("abcd", "dcba")


class Tampered(AttentionSite):
    """A site that shows scores or weights other than those of the run."""

    add_scores, weigh = 0.0, 1.0

    def scores(self, head=None, batch=0, rows=None):
        return super().scores(head, batch, rows) + self.add_scores

    def weights(self, head=None, batch=0, rows=None):
        return self.weigh * super().weights(head, batch, rows)


def tampered(site: AttentionSite, **how: float) -> AttentionSite:
    made = Tampered(**{name: getattr(site, name) for name in site.__dataclass_fields__})
    for name, value in how.items():
        object.__setattr__(made, name, value)
    return made


def with_shifted_number(tensor: torch.Tensor, at: tuple, by: float) -> torch.Tensor:
    forged = tensor.clone()
    forged[at] += by
    return forged


def projected(site: AttentionSite, name: str, head: int, by: float) -> AttentionSite:
    """Shift one number of a head's projection bias, and so of every vector that it makes."""
    weight, bias = site.projections[name]
    at = (head * site.d_head + 1,)
    return replace(
        site, projections={**site.projections, name: (weight, with_shifted_number(bias, at, by))}
    )


SITE_FORGERIES = {
    "another W_Q": (lambda s: projected(s, "W_Q", HEAD, 0.5), {PROJECTED: 0.5}),
    "another W_K": (lambda s: projected(s, "W_K", HEAD, 0.5), {PROJECTED: 0.5}),
    "another W_V": (lambda s: projected(s, "W_V", HEAD, -0.5), {PROJECTED: 0.5}),
    "another bias of W_O": (lambda s: projected(s, "W_O", HEAD, 0.5), {HEADS: 0.5}),
    "another head's W_Q": (lambda s: projected(s, "W_Q", HEAD + 1, 0.5), {}),
    "other scores": (lambda s: tampered(s, add_scores=0.5), {TERMS: 0.5}),
    "another output": (
        lambda s: replace(s, out=with_shifted_number(s.out, (0, HEAD, QUERY, 3), -0.5)),
        {B: 0.5},
    ),
    "another query's output": (
        lambda s: replace(s, out=with_shifted_number(s.out, (0, HEAD, QUERY - 1, 3), 0.5)),
        {},
    ),
    "another head's output": (
        lambda s: replace(s, out=with_shifted_number(s.out, (0, HEAD - 1, QUERY, 3), 0.5)),
        {},
    ),
}


@pytest.mark.parametrize("name", ["encoder.layers.0.self_attn", SELF, CROSS])
@pytest.mark.parametrize("what", SITE_FORGERIES)
def test_a_forged_step_of_the_walk_fails(trace, name, what):
    forge, wanted = SITE_FORGERIES[what]
    site = trace.attention[name]
    assert failed(walk_checks.check_walk(trace, site, QUERY, HEAD)) == {}
    found = failed(walk_checks.check_walk(trace, forge(site), QUERY, HEAD))
    assert found == {check: pytest.approx(value, abs=1e-4) for check, value in wanted.items()}


def test_weights_that_sum_to_more_than_1_fail(trace):
    """Weights that sum to 1.25 are no distribution, and their sum over v is not what the model used."""
    site = trace.attention[CROSS]
    found = failed(walk_checks.check_walk(trace, tampered(site, weigh=1.25), QUERY, HEAD))
    assert list(found) == [SHARES, B, HEADS] or list(found) == [HEADS, SHARES, B]
    assert found[SHARES] == pytest.approx(0.25, abs=1e-4)
    assert found[B] == pytest.approx(0.25 * float(site.out[0, HEAD, QUERY].abs().max()), abs=1e-4)


def test_a_recorded_output_that_is_not_the_sum_of_the_heads_fails(trace):
    site = trace.attention[CROSS]
    recorded = trace.activations[f"{CROSS}.attn_out"]
    for query, wanted in ((QUERY, {HEADS: pytest.approx(0.5, abs=1e-4)}), (QUERY + 1, {})):
        forged = replace(
            recorded, lazy_value=with_shifted_number(recorded.value, (0, query, 4), 0.5)
        )
        other = replace(trace, activations={**trace.activations, f"{CROSS}.attn_out": forged})
        assert failed(walk_checks.check_walk(other, site, QUERY, HEAD)) == wanted


def test_the_limits_of_the_walk_grow_with_the_summands(trace):
    """They are 1e-5 of the largest term of the sum, and at least 1e-5."""
    site = trace.attention[CROSS]
    q, k, v = site.q[0, HEAD, QUERY], site.k[0, HEAD], site.v[0, HEAD]
    out = site.head_out()[:, QUERY]
    blocks = site.projections["W_O"][0].unflatten(1, (site.n_heads, -1))
    added = torch.einsum("hd,mhd->hm", out, blocks)
    sizes = {
        PROJECTED: max(float(t.abs().max()) for t in (q, k, v)),
        HEADS: float(added.abs().sum(0).max()),
        TERMS: float((q * k).abs().sum(-1).max()) / site.d_head**0.5,
        SHARES: 1.0,
        B: float(v.abs().max()),
    }
    checks = walk_checks.check_walk(trace, site, QUERY, HEAD)
    assert {c.name: c.limit for c in checks} == {
        n: pytest.approx(1e-5 * max(1.0, size)) for n, size in sizes.items()
    }
    assert [c.sentence for c in checks] == [
        "Largest difference of W·a + bias from the q, k and v recorded in the run",
        "Largest difference of Σ b·W_O + bias from the sublayer's recorded output",
        "Largest difference of their sum from the score q·k/√d, over all keys of this query",
        "Difference of the weights' sum from 1 (from 0 where the mask leaves no key)",
        "Largest difference of Σ weight·v from the forward pass's own attention output",
    ]
    large = replace(site, lazy_v=site.v * 1000, out=site.out * 1000)
    limit = {c.name: c.limit for c in walk_checks.check_walk(trace, large, QUERY, HEAD)}[B]
    assert limit == pytest.approx(1e-5 * 1000 * float(v.abs().max()))


# The recurrent models


def recurrent(attention: str = "bahdanau"):
    """Return a random recurrent model and its trace over five source and four target tokens."""
    model = random_seq2seq(attention=attention)
    source, target = (
        random_ids(1, 5, seed=4),
        torch.cat([torch.tensor([[START]]), random_ids(1, 4, seed=5)], dim=1),
    )
    with torch.no_grad(), record() as recording:
        logits = model(source, target)[0]
    tokens = {"source": tuple("abcde"), "target": tuple("<wxyz")}
    ids = {"source": tuple(source[0].tolist()), "target": tuple(target[0].tolist())}
    streams = {
        name: Encoding("", ids[name], row, (None,) * len(row)) for name, row in tokens.items()
    }
    return model, trace_of(recording, streams, logits), source


BEFORE, H = "queries are the states before", "keys and values are the h_j"


def test_a_forged_alignment_fails():
    _, trace, _ = recurrent()
    site = trace.attention["decoder.alignment"]
    checks = walk_checks.check_walk(trace, site, QUERY, 0)
    assert failed(checks) == {}
    assert [c.name for c in checks] == [BEFORE, H, TERMS, SHARES, B]
    assert [c.sentence for c in checks[:2]] == [
        "Largest difference of query i from the decoder's state s(i−1), for i ≥ 2",
        "Largest difference from the encoder's recorded states",
    ]
    for name, check, at in (
        ("decoder.states", BEFORE, (0, 3, 1)),
        ("encoder.states", H, (0, 4, 1)),
    ):
        forged = replace(
            trace.activations[name],
            lazy_value=with_shifted_number(trace.activations[name].value, at, 0.5),
        )
        other = replace(trace, activations={**trace.activations, name: forged})
        assert failed(walk_checks.check_walk(other, site, QUERY, 0)) == {check: pytest.approx(0.5)}
    last = replace(
        trace.activations["decoder.states"],
        lazy_value=with_shifted_number(trace.activations["decoder.states"].value, (0, 4, 1), 0.5),
    )
    other = replace(trace, activations={**trace.activations, "decoder.states": last})
    assert (
        failed(walk_checks.check_walk(other, site, QUERY, 0)) == {}
    )  # no query reads the last state
    with_q = replace(
        site, lazy_q=with_shifted_number(site.q, (0, 0, 4, 1), 0.5)
    )  # not the query that is walked
    assert failed(walk_checks.check_walk(trace, with_q, QUERY, 0)) == {BEFORE: pytest.approx(0.5)}
    for part in ("k", "v"):
        forged = replace(
            site, **{f"lazy_{part}": with_shifted_number(getattr(site, part), (0, 0, 1, 2), 0.5)}
        )
        found = failed(walk_checks.check_walk(trace, forged, QUERY, 0))
        assert list(found) == [H, B]
        assert found[H] == pytest.approx(0.5)


def test_the_fixed_vector_is_where_torchs_recurrence_ends():
    model, trace, source = recurrent("none")
    with torch.no_grad():
        _, last = model.encoder.recurrence(model.embedding(source) * model.config.d_model**0.5)
    torch.testing.assert_close(fixed_vector(model, trace), last[:, 0].flatten())


def test_a_decoder_that_sees_more_than_the_fixed_vector_fails():
    model, trace, _ = recurrent("none")
    (check,) = check_fixed_vector(model, trace)
    assert check.passed
    assert check.name == "only h(m) reaches the decoder"
    assert (
        check.sentence
        == "Largest difference of any logit when every other state of the encoder is replaced by zeros"
    )
    assert check.limit == pytest.approx(1e-5 * max(1.0, float(trace.next_token.logits.abs().max())))
    assert float(trace.next_token.logits.abs().max()) > 1
    other = replace(
        trace.next_token, logits=with_shifted_number(trace.next_token.logits, (3, VOCAB - 1), -0.25)
    )
    forged = replace(trace, outputs={"next token": other})
    assert failed(check_fixed_vector(model, forged)) == {check.name: pytest.approx(0.25, abs=1e-4)}
    aligned_model, aligned_trace, _ = recurrent("bahdanau")  # its decoder reads every state
    (check,) = check_fixed_vector(aligned_model, aligned_trace)
    assert check.value > 0.1


@pytest.mark.parametrize("at", [(0, 0, 1), (0, 2, 3), (0, 4, 9), (0, 0, 9)])
def test_which_states_make_up_the_fixed_vector(at):
    """A changed state matters if it is part of h_m: the last one forwards, the first one backwards."""
    model, trace, _ = recurrent("none")
    states = trace.activations["encoder.states"]
    other = replace(states, lazy_value=with_shifted_number(states.value, at, 0.5))
    (check,) = check_fixed_vector(
        model, replace(trace, activations={**trace.activations, "encoder.states": other})
    )
    d = model.config.d_hidden
    of_h_m = (at[1] == 4) == (at[2] < d) and at[1] in (0, 4)
    assert check.passed is not of_h_m


# Checks of the site itself


def test_the_limit_and_the_words_of_a_sites_checks(trace):
    site = trace.attention[SELF]
    checks = check_site(site)
    size = float(site.v.abs().max())
    assert [c.limit for c in checks] == [1e-5, 0.0, pytest.approx(1e-5 * max(1.0, size))]
    assert (
        [c.sentence for c in checks]
        == [
            "Each row of weights sums to 1; largest difference over all heads",
            "Largest weight on the 30 blocked cells of all heads",  # 3 heads, 5 tokens: 3 · (4 + 3 + 2 + 1)
            "Largest difference from the model's own output",
        ]
    )
    assert check_site(replace(site, lazy_v=site.v * 1000, out=site.out * 1000))[
        2
    ].limit == pytest.approx(1e-2 * size)
    for times in (3, 5, 7, 11, 13):  # a limit that float32 rounds up is no wider limit
        assert (
            check_site(replace(site, lazy_v=site.v * times, out=site.out * times))[2].sentence
            == checks[2].sentence
        )
    less = check_site(replace(site, out=with_shifted_number(site.out, (0, 2, 4, 0), -0.5)))
    assert less[2].value == pytest.approx(0.5, abs=1e-4)
