"""Parts of other runs put into a run: mean head outputs over held-out texts, and patches."""

import pytest
import torch
from small_scopes import HELD_OUT, MAKERS, fields, scope_of

from models.decoding import greedy
from models.runs.scope import Scope
from models.trace import Trace
from models.trace.edits import HeadOff, Patch, Where

TEXT, OTHER = "ab cd ef", "ba ga cd"
FAMILIES = [*MAKERS]


@pytest.fixture(scope="module")
def scopes() -> dict[str, Scope]:
    return {family: scope_of(family) for family in FAMILIES}


def equal(a: Trace, b: Trace) -> bool:
    """Return whether two values are equal bit for bit."""
    last = list(a.activations)[-1]
    answers = [(a.activations[last].value, b.activations[last].value)]
    for name, output in a.outputs.items():
        logits = getattr(output, "logits", None)
        if logits is not None:
            answers.append((logits, b.outputs[name].logits))
    return all(torch.equal(one, other) for one, other in answers)


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_patched_with_itself_is_unchanged_bit_for_bit(scopes, family):
    scope = scopes[family]
    run = scope.run(*fields(scope, TEXT))
    patches = [Patch(name, of="attention row", from_run=run) for name in run.attention]
    patches += [Patch(name, from_run=run) for name in (*run.attention, *run.activations)]
    assert {patch.of for patch in patches} == {"head output", "attention row", "activation"}
    for patch in [*([patch] for patch in patches), patches]:
        assert equal(scope.run(*fields(scope, TEXT), edits=patch), run), patch


def test_a_run_of_another_model_is_refused(scopes):
    scope = scopes["transformer"]
    run = scope.run(*fields(scope, TEXT))
    for other in (scope.without_positions(), scope.with_similarity("additive")):
        patch = Patch(next(iter(run.attention)), from_run=other.run(*fields(scope, TEXT)))
        with pytest.raises(ValueError, match="takes from a run of the same model"):
            scope.run(*fields(scope, TEXT), edits=[patch])
        other.run(*fields(scope, TEXT), edits=[patch])


@pytest.mark.parametrize("family", FAMILIES)
def test_patching_everything_gives_the_other_run(scopes, family):
    scope = scopes[family]
    run, other = (scope.run(*fields(scope, text)) for text in (TEXT, OTHER))
    assert not equal(run, other)
    first = scope.model.streams[0]
    names = [n for n, a in run.activations.items() if a.axes[1] == first and "embedding" in n]
    patched = scope.run(*fields(scope, TEXT), edits=[Patch(n, from_run=other) for n in names])
    if family != "xlnet":  # whose two streams begin at different positions, too
        assert equal(patched, other)
    every = [Patch(name, from_run=other) for name in run.activations]
    every += [Patch(name, from_run=other) for name in run.attention]
    everything = scope.run(*fields(scope, TEXT), edits=every)
    assert equal(everything, other)


def test_a_missing_target_is_the_one_of_the_run_itself(scopes):
    scope = scopes["transformer"]
    run = scope.run("abcd")
    other = scope.run("bagc", run.streams["target"])
    every = Patch(Where(activation="encoder.embedding"), fields=("bagc",))
    assert equal(scope.run("abcd", edits=[every]), other)
    cross = Patch(Where(kind="cross"), fields=("bagc", None))
    assert equal(scope.run("abcd", edits=[cross]), other)


def test_an_alignment_defines_which_position_takes_from_which(scopes):
    scope, name = scopes["gpt"], "decoder.layers.1.self_attn"
    run, other = scope.run("abcde"), scope.run("gfab")
    patch = Patch(name, head=1, from_run=other, alignment=((1, 3), (4, 0)))
    patched = scope.run("abcde", edits=[patch]).attention[name].out[0]
    own, there = run.attention[name].out[0], other.attention[name].out[0]
    assert torch.equal(patched[1, 1], there[1, 3])
    assert torch.equal(patched[1, 4], there[1, 0])
    assert torch.equal(patched[1, [0, 2, 3]], own[1, [0, 2, 3]])
    assert torch.equal(patched[[0, 2]], own[[0, 2]])
    rows = Patch(name, of="attention row", head=1, from_run=other, alignment=((1, 1), (4, 3)))
    weights = scope.run("abcde", edits=[rows]).attention[name].weights(1)
    wanted = other.attention[name].weights(1)[3, [1, 3]]
    torch.testing.assert_close(weights[4, [1, 4]], wanted / wanted.sum())
    assert not weights[4, [0, 2, 3]].any()


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_mean_over_held_out_texts(scopes, family):
    scope = scopes[family]
    run = scope.run(*fields(scope, TEXT))
    others = [scope.run(*text) for text in scope.held_out]
    for name in run.attention:
        site = scope.run(*fields(scope, TEXT), edits=[HeadOff(name, head=0, baseline="mean")])
        out = site.attention[name].out[0, 0]
        outs = [other.attention[name].out[0, 0] for other in others]
        shared = [o[p] for o in outs for p in range(len(o)) if sum(len(q) > p for q in outs) < 8]
        for p in range(len(out)):
            here = [o[p] for o in outs if len(o) > p]
            mean = torch.stack(here if len(here) >= 8 else shared).mean(0)
            torch.testing.assert_close(out[p], mean, atol=1e-5, rtol=1e-4)


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_head_taken_from_another_text(scopes, family):
    scope = scopes[family]
    run = scope.run(*fields(scope, TEXT))
    others = [scope.run(*text) for text in scope.held_out]
    for name, site in run.attention.items():
        off = HeadOff(name, head=0, baseline="resample", seed=5)
        grows = site.query_stream == scope.model.writes
        traces = [scope.run(*fields(scope, TEXT), edits=[off]) for _ in range(2)]
        assert equal(*traces)
        out = traces[0].attention[name].out[0, 0]
        for p in range(len(out)):
            sources = [o.attention[name].out[0, 0] for o in others]
            fitting = [o[p] for o in sources if (len(o) > p if grows else len(o) == len(out))]
            assert any(torch.allclose(one, out[p], atol=1e-5) for one in fitting)
        assert not torch.allclose(out, site.out[0, 0], atol=1e-3)
        rest = traces[0].attention[name].out[0, 1:]
        if family != "seq2seq":
            assert torch.equal(rest, site.out[0, 1:])


def test_each_row_of_a_batch_is_given_its_own_numbers(scopes):
    scope = scopes["transformer"]
    requests = [fields(scope, TEXT), fields(scope, "ab cd", "ef")]
    edits = [
        HeadOff(Where(kind="encoder_self"), baseline="resample", seed=2),
        HeadOff(baseline="mean"),
    ]
    for trace, request in zip(scope.run_batch(requests, edits=edits), requests, strict=True):
        alone = scope.run(*request, edits=edits)
        assert trace.edits == tuple(edits)
        torch.testing.assert_close(trace.next_token.logits, alone.next_token.logits)
        for name, site in trace.attention.items():
            assert site.edits == alone.attention[name].edits
            torch.testing.assert_close(site.head_out()[None], site.out)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["transformer", "seq2seq", "attention only", "gpt"])
def test_while_generating_they_hold_at_every_step(scopes, family):
    scope = scopes[family]
    given = fields(scope, TEXT)[0]
    other = fields(scope, OTHER)[0]
    steps = scope.write(given, forced=[5] * 9, max_new=9).steps
    plain = torch.stack([step.log_probs for step in steps])
    for kind in [kind.name for kind in scope.model.kinds]:
        where = Where(kind=kind, heads=(0,))
        several = [
            *(HeadOff(where, baseline=baseline) for baseline in ("mean", "resample", "uniform")),
            HeadOff(where, baseline="offset", offset=-1),
            Patch(where, fields=(other,)),
            Patch(where, of="attention row", fields=(other,)),
        ]
        for edit in several:
            runs = [
                scope.write(given, edits=[edit], use_cache=use_cache, forced=[5] * 9, max_new=9)
                for use_cache in (True, False)
            ]
            cached, anew = (torch.stack([s.log_probs for s in run.steps]) for run in runs)
            torch.testing.assert_close(cached, anew, atol=1e-4, rtol=1e-4)
            assert not torch.allclose(plain, cached, atol=1e-6), edit


def test_the_same_numbers_generated_and_in_one_pass(scopes):
    scope = scopes["gpt"]
    edits = [
        HeadOff(Where(heads=(1,)), baseline="resample", seed=1),
        HeadOff(baseline="mean", head=0),
    ]
    steps = scope.write("abc", edits=edits, max_new=4, forced=[5, 6, 7, 8]).steps
    text = scope.tokenizer.decode([5, 6, 7])
    trace = scope.run(f"abc{text}", edits=edits)
    together = trace.next_token.log_probs[-4:]
    torch.testing.assert_close(
        torch.stack([s.log_probs for s in steps]), together, atol=1e-4, rtol=1e-4
    )


def test_missing_numbers_are_never_made_up(scopes):
    scope = scopes["gpt"]
    with pytest.raises(RuntimeError, match="pass the edit through Scope.with_material"):
        list(greedy(scope.model, scope.input_ids("abc"), edits=[HeadOff(baseline="mean")]))


SITE, RESID = "decoder.layers.0.self_attn", Where(activation="decoder.layers.0.resid_mid")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (Patch(SITE, head=3, fields=("bcd",)), "heads are 0 to 2, got 3"),
        (Patch("decoder.layers.7.self_attn", fields=("bcd",)), "the attentions are decoder.layers.0"),
        (Patch(SITE, fields=("bcde",)), "this run has 4 text tokens and the other 5"),
        (Patch(RESID, fields=("bcde",)), "this run has 4 text tokens and the other 5"),
        (Patch(RESID, fields=("bcd",), positions=[4]), "text positions are 0 to 3, got 4"),
        (Patch(RESID, fields=("bcd",), alignment=((0, 9),)), "of the other run are 0 to 3, got 9"),
        (Patch(Where(activation="decoder.x"), fields=("bcd",)), "'decoder.x' is not one of the"),
        (Patch(RESID, fields=(" ",)), "the text is empty"),
        (HeadOff(Where(layers=(2,))), "layers are 0 to 1, got 2"),
        (HeadOff(RESID), "this changes attention, not 'decoder.layers.0.resid_mid'"),
        (HeadOff(baseline="mean", texts=("ab",) * 7), "at least 8 texts, got 7"),
        (HeadOff(baseline="resample", texts=("ab", "abc")), "the longest of 1 other texts has 3 text tokens"),
        (HeadOff(baseline="mean", texts=("",)), "the text is empty"),
    ],
)  # fmt: skip
def test_parts_that_cannot_be_taken_from_another_run(scopes, edit, message):
    with pytest.raises(ValueError, match=message):
        scopes["gpt"].run("abc", edits=[edit])


def test_too_few_texts_of_the_same_length(scopes):
    with pytest.raises(
        ValueError, match=f"none of {len(HELD_OUT)} other texts has 13 source tokens"
    ):
        scopes["transformer"].run("aabbccddeeff", "ab", edits=[HeadOff(baseline="resample")])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: HeadOff(baseline="random"),
            "a baseline is one of zero, uniform, .*, got 'random'",
        ),
        (lambda: Patch("a.b"), "a patch names the other run"),
        (lambda: Patch("a.b", of="mlp", fields=("x",)), "a patch is of head output, .*, got 'mlp'"),
        (lambda: Patch(of="activation", fields=("x",)), "a patch of an activation names one"),
        (
            lambda: Patch("a", fields=("x",), alignment=((0, 1), (0, 2))),
            "each position one counterpart",
        ),
    ],
)
def test_incomplete_edits_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
