"""Edits of a run: what each changes and what it leaves alone, in every family, with and without a cache."""

import json
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from checked import unchecked
from sample_edits import Added, Copied, CopiedWeights, Everywhere, ramp
from small import (
    padded_ids,
    random_attention_only,
    random_bert,
    random_gpt,
    random_ids,
    random_model,
    random_seq2seq,
    random_xlnet,
)
from torch import Tensor

from models import edits
from models.analysis.checks import check_site, check_used
from models.architectures import Model
from models.decoding import greedy
from models.trace import Recording, record
from models.trace.edits import (
    Edit,
    HeadOff,
    HeadScale,
    MaskChange,
    Patch,
    SetWeights,
    Where,
    ZeroValue,
)
from models.trace.edits.material import PositionVectors

FAMILIES = {
    "transformer": (random_model, padded_ids),
    "seq2seq": (random_seq2seq, padded_ids),
    "attention only": (lambda: random_attention_only(n_self_layers=2), padded_ids),
    "gpt": (random_gpt, lambda: padded_ids()[:1]),
    "bert": (random_bert, lambda: padded_ids()[:1]),
    "xlnet": (random_xlnet, lambda: padded_ids()[:1]),
}
FIRST = {  # the first attention of each kind, before which nothing is edited
    "transformer": ("encoder.layers.0.self_attn", "decoder.layers.0.self_attn"),
    "seq2seq": ("decoder.alignment",),
    "attention only": ("encoder.layers.0.self_attn", "decoder.layers.0.self_attn"),
    "gpt": ("decoder.layers.0.self_attn",),
    "bert": ("encoder.layers.0.self_attn",),
    "xlnet": ("encoder.layers.0.content_attn", "encoder.layers.0.query_attn"),
}
ALL_FIRST = [(family, site) for family, sites in FIRST.items() for site in sites]


def run(
    family: str, found: Iterable[Edit] = (), model: Model | None = None
) -> tuple[dict[str, Tensor], Recording]:
    """Return the logits and the recording of a family's model on its inputs."""
    make, ids = FAMILIES[family]
    model = model or make()
    with torch.no_grad(), record() as recording, edits.editing(found):
        answers = model(*ids())
    return {"": answers} if isinstance(answers, Tensor) else dict(answers), recording


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(("family", "name"), ALL_FIRST)
def test_a_head_that_is_off_passes_nothing_on(family, name):
    answers, plain = run(family)
    n_heads = plain.attention[name].n_heads
    off = HeadOff(name, head=n_heads - 1)
    changed, recording = run(family, [off])
    own, site = plain.attention[name], recording.attention[name]
    assert site.edits == (off,)
    assert torch.equal(site.out[:, -1], torch.zeros_like(site.out[:, -1]))
    assert own.out[:, -1, 1:].abs().min() > 0
    assert not equal(answers, changed)
    if family != "seq2seq":  # whose next query comes after the context
        assert torch.equal(site.out[:, :-1], own.out[:, :-1])
    for batch in range(2):
        assert torch.equal(site.weights(batch=batch).sum(-1) > 0, own.allowed(batch, None).any(-1))
        for head in range(n_heads):
            torch.testing.assert_close(site.head_out(head, batch), site.out[batch, head])
        torch.testing.assert_close(site.head_out(None, batch, slice(3, 7)), site.out[batch, :, 3:7])
        assert all(check.passed for check in check_site(site, batch))
        assert check_used(site, batch).passed
    for other in recording.attention.values():
        assert (other.name == name) == bool(other.edits)
        assert check_used(other).passed


@pytest.mark.parametrize(("family", "name"), ALL_FIRST)
def test_with_every_head_off_only_the_bias_of_w_o_remains(family, name):
    _, recording = run(family, [HeadOff(name)])
    if family == "seq2seq":
        assert not recording.activations["decoder.contexts"].value.any()
        return
    _, bias = recording.attention[name].projections["W_O"]
    attn_out = recording.activations[f"{name}.attn_out"].value
    assert torch.equal(attn_out, (torch.zeros(1) if bias is None else bias).expand_as(attn_out))


@pytest.mark.parametrize("family", FAMILIES)
def test_an_edit_that_changes_nothing_is_bit_equal(family):
    answers, plain = run(family)
    same, recording = run(
        family, [Copied(), CopiedWeights(), HeadOff("no such place"), MaskChange()]
    )
    assert equal(answers, same)
    assert list(plain.activations) == list(recording.activations)
    for name, site in plain.attention.items():
        assert torch.equal(site.out, recording.attention[name].out)
        assert torch.equal(site.weights(), recording.attention[name].weights())
        assert check_used(recording.attention[name]).value <= check_used(site).limit


@pytest.mark.parametrize("family", FAMILIES)
def test_without_an_edit_of_weights_none_is_computed(family, monkeypatch):
    """Edits of masks and head outputs keep the fused path."""
    for module in ("layers.attention", "layers.relative"):
        monkeypatch.setattr(f"models.{module}.masked_softmax", None)
    run(family, [HeadOff(), MaskChange(preset="window", k=3)])


@pytest.mark.parametrize(("family", "name"), ALL_FIRST)
def test_a_masked_key_never_gets_weight(family, name):
    _, recording = run(family, [Everywhere(Where(site=name, heads=(0,)))])
    site = recording.attention[name]
    for batch in range(2):
        allowed = site.allowed(batch, 0)
        n_allowed = allowed.sum(-1, keepdim=True)
        torch.testing.assert_close(site.weights(0, batch), allowed / n_allowed.clamp(min=1))
        assert all(check.passed for check in check_site(site, batch))
    assert any(not site.allowed(batch, 0).all() for batch in range(2))


def test_a_fixed_offset_to_a_blocked_key_is_the_nearest_open_one_the_earlier_first():
    name = "decoder.layers.0.self_attn"
    off = HeadOff(name, baseline="offset", offset=-2)
    for blocked, key in ({}, 3), ({3}, 2), ({2, 3}, 4), ({3, 4}, 2):
        change = MaskChange(Where(site=name), block=tuple((5, one) for one in blocked))
        site = run("gpt", [change, off])[1].attention[name]
        assert site.weights(0)[5].argmax() == key


@pytest.mark.parametrize(("family", "name"), ALL_FIRST)
def test_each_row_of_a_batch_has_its_own_edits(family, name):
    make, _ = FAMILIES[family]
    model, plain = make(), run(family)[1].attention[name]
    off = [
        HeadOff(Where(site=name, heads=(head % plain.n_heads,), rows=(head,))) for head in (0, 1)
    ]
    _, recording = run(family, off, model)
    for row in (0, 1):
        alone = run(family, [off[row]], model)[1]
        for other in recording.attention:
            assert torch.equal(recording.attention[other].out[row], alone.attention[other].out[row])
        untouched = [head for head in range(plain.n_heads) if head != row % plain.n_heads]
        assert not recording.attention[name].out[row, row % plain.n_heads].any()
        if family != "seq2seq":
            assert torch.equal(
                recording.attention[name].out[row, untouched], plain.out[row, untouched]
            )


@pytest.mark.parametrize("family", ["transformer", "seq2seq", "attention only", "gpt"])
@pytest.mark.parametrize("queries", [None, (2, 5)])
def test_decoding_under_edits_is_the_same_with_a_cache(family, queries):
    make, _ = FAMILIES[family]
    model, given = make(), random_ids(1, 7)[0].tolist()
    own, cross = [], []
    for kind in model.kinds:
        own += [HeadOff(Where(kind=kind.name, heads=(0,), queries=queries))]
        cross += [Everywhere(Where(kind=kind.name, heads=(0,), queries=queries))]
    for found in (own, cross):
        texts = []
        for use_cache in (True, False):
            steps = greedy(model, given, edits=found, use_cache=use_cache, max_new=9)
            texts.append(torch.stack([step.log_probs for step in steps]))
        plain = torch.stack([s.log_probs for s in greedy(model, given, max_new=9)])
        torch.testing.assert_close(texts[0], texts[1], atol=1e-4, rtol=1e-4)
        assert not torch.allclose(texts[0][-1], plain[-1], atol=1e-3)


def test_an_edited_token_is_the_same_with_a_cache():
    model, given, place = random_gpt(), random_ids(1, 4)[0].tolist(), "decoder.layers.0.resid_mid"
    found = [Added(Where(activation=place, queries=(2, 6)))]
    cached, uncached, plain = (
        torch.stack([step.log_probs for step in greedy(model, given, max_new=5, **how)])
        for how in ({"edits": found}, {"edits": found, "use_cache": False}, {})
    )
    torch.testing.assert_close(cached, uncached, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(cached[-1], plain[-1], atol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_edited_intermediate_reaches_the_answer(family):
    """This holds for each intermediate that a run names: the recorded value is the one that the model continues with."""
    answers, plain = run(family)
    for name in plain.activations:
        if family == "xlnet" and name.startswith("encoder.layers.1.") and "query" not in name:
            continue  # no layer reads the content stream after the last one
        changed, recording = run(family, [Added(Where(activation=name))])
        assert not equal(answers, changed), name
        before, after = (r.activations[name].value for r in (plain, recording))
        expected = before + ramp(before.shape[-1])
        if name.endswith(("states", "contexts")):  # the others continue from it
            after, expected = (t[:, 0, :7] for t in (after, expected))
        torch.testing.assert_close(after, expected)


def test_an_edited_token_changes_nothing_before_it():
    answers, _ = run("gpt")
    changed, _ = run(
        "gpt", [Added(Where(activation="decoder.layers.0.resid_mid", queries=(4,), rows=(1,)))]
    )
    assert torch.equal(answers[""][:, :4], changed[""][:, :4])
    assert torch.equal(answers[""][0], changed[""][0])
    assert not torch.equal(answers[""][1, 4], changed[""][1, 4])


@pytest.mark.parametrize(("family", "name"), ALL_FIRST)
def test_one_row_of_one_head(family, name):
    _, plain = run(family)
    own = plain.attention[name]
    where = Where(site=name, heads=(0,), queries=(4,), rows=(1,))

    _, doubled = run(family, [HeadScale(where, factor=2.0)])
    assert torch.equal(doubled.attention[name].out[1, 0, 4], 2 * own.out[1, 0, 4])

    keys = own.allowed(1, 0)[4].nonzero().flatten().tolist()
    row = [float(key == keys[0]) for key in range(own.n_key)]
    _, fixed = run(family, [SetWeights(where, cells=((keys[0], 1.0),))])
    site = fixed.attention[name]
    assert site.weights(0, 1)[4].tolist() == row
    torch.testing.assert_close(site.out[1, 0, 4], site.v[1, 0, keys[0]])

    _, zeroed = run(family, [ZeroValue(where, token=keys[0])])
    site = zeroed.attention[name]
    column = own.weights(0, 1)[4].index_fill(0, torch.tensor([keys[0]]), 0.0)
    torch.testing.assert_close(site.out[1, 0, 4], column @ own.v[1, 0], atol=1e-5, rtol=1e-4)
    assert check_used(site, 1).passed

    table = {name: PositionVectors(own.out[1])}
    itself, patched = run(family, [Patch(where, fields=("itself",), material=table)])
    assert torch.equal(patched.attention[name].out, own.out)
    assert equal(itself, run(family)[0])


def test_edits_compose_in_order():
    name = "decoder.layers.0.self_attn"
    twice = [HeadScale(name, head=1, factor=1.5), HeadOff(name, head=1)]
    for found in (twice, twice[::-1]):
        assert not run("transformer", found)[1].attention[name].out[:, 1].any()
    (_, once), (_, both) = (run("transformer", twice[:n]) for n in (0, 1))
    assert torch.equal(both.attention[name].out[:, 1], 1.5 * once.attention[name].out[:, 1])


@pytest.mark.parametrize(
    "edit",
    [
        HeadOff(),
        HeadOff("decoder.layers.2.cross_attn", head=3),
        HeadOff(Where(kind="cross", layers=(0, 2), heads=(1,), queries=(4,), rows=(0, 5))),
        MaskChange(Where(kind="self"), removed_layers=("padding",), preset="window", k=3),
        MaskChange(block=((2, 1), (0, 4)), allow=((1, 3),)),
        HeadScale("a.b", head=0, factor=-0.1),
        HeadOff("a.b", baseline="mean", texts=("one", ("two", None), ("three", "four"))),
        HeadOff(Where(kind="cross"), baseline="resample", seed=7),
        HeadOff(Where(kind="cross"), baseline="offset", offset=-2),
        SetWeights("a.b", head=1, cells=((0, 0.25), (3, 0.5))),
        ZeroValue(Where(layers=(1,)), token=4),
        Patch("a.b", head=2, fields=("the dog", None), positions=[3]),
        Patch("a.b", of="attention row", fields=("a", (2, 0, 1)), alignment=((0, 1), (2, 0))),
        Patch(Where(activation="a.resid_mid", queries=(2,)), fields=("the “dog” & <cat>",)),
    ],
)
def test_an_edit_survives_json(edit):
    stored = json.loads(json.dumps(edits.to_json(edit)))
    assert edits.from_json(stored) == edit
    assert hash(edits.from_json(stored)) == hash(edit)
    assert stored["type"] == type(edit).__name__
    both = (edit, HeadOff("x"))
    assert edits.from_text(edits.to_text(both)) == both
    assert "\n" not in edits.to_text(both)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ([], r"an edit must be a JSON object, got \[\]"),
        ({"where": {}}, "type of an edit must be one of .*HeadOff.*, got None"),
        ({"type": "HeadOf"}, "type of an edit must be one of .*HeadOff.*, got 'HeadOf'"),
        ({"type": "HeadOff", "what": 1}, "HeadOff has no field 'what'; it has baseline, .*where"),
        (
            {"type": "HeadOff", "where": {"head": 1}},
            "HeadOff.where has no field 'head'; it has activation, heads, .*",
        ),
        (
            {"type": "HeadOff", "where": {"heads": "1"}},
            "HeadOff.where.heads must be a list, got '1'",
        ),
        ({"type": "HeadOff", "where": {"heads": [True]}}, "heads must be an integer, got True"),
        ({"type": "MaskChange", "k": "2"}, "MaskChange.k must be an integer, got '2'"),
        ({"type": "MaskChange", "allow": [[1]]}, "MaskChange.allow must have 2 entries, got 1"),
        (
            {"type": "Patch", "fields": ["half \ud800 of one"]},
            "Patch.fields must consist of whole characters, got",
        ),
        (
            {"type": "HeadScale", "factor": 10**400},
            "HeadScale.factor must be at most about 1.8e308",
        ),
    ],
)
def test_invalid_edits_are_refused(stored, message):
    with pytest.raises(ValueError, match=message):
        edits.from_json(stored)


def test_an_edit_prints_its_effect():
    off = HeadOff("decoder.layers.2.cross_attn", head=3)
    assert str(off) == "decoder.layers.2.cross_attn: head output set to 0, in head 3"
    assert off.describe(1).endswith("in head 4")
    change = MaskChange(Where(kind="decoder_self", layers=(1,)), removed_layers=("look-ahead",))
    assert str(change) == "decoder self: look-ahead removed, in layer 1"
    assert change.describe(1) == "decoder self: look-ahead removed, in layer 2"
    for offset, key in {
        -2: "the token 2 before",
        -1: "the previous token",
        0: "the token itself",
        1: "the next token",
        3: "the token 3 after",
    }.items():
        assert str(HeadOff("a", baseline="offset", offset=offset)) == f"a: all weight on {key}"
    taken = Patch("a", fields=("the dog",), alignment=((0, 0), (3, 1)))
    assert str(taken) == "a: head output taken from “the dog”, aligned 0←0 3←1"


def test_a_scope_runs_under_edits(scope):
    name = "decoder.layers.0.cross_attn"
    plain, off = scope.run("abc", "cba"), HeadOff(name, head=1)
    trace = scope.run("abc", "cba", edits=[off])
    assert trace.edits == (off,)
    assert trace.attention[name].edits == (off,)
    assert not trace.attention[name].out[0, 1].any()
    assert torch.equal(
        trace.attention[name].head_out(1), torch.zeros_like(trace.attention[name].head_out(1))
    )
    assert not torch.equal(trace.next_token.logits, plain.next_token.logits)


def test_every_head_off_in_one_batch(scope):
    """One row per head, each with its own edit: each equals the run with that head off."""
    name = "decoder.layers.0.cross_attn"
    off = [HeadOff(Where(site=name, heads=(head,), rows=(head,))) for head in range(3)]
    traces = scope.run_batch([("abc", "cba")] * 3, edits=off)
    for head, trace in enumerate(traces):
        alone = scope.run("abc", "cba", edits=[HeadOff(name, head=head)])
        assert trace.edits == alone.edits == (HeadOff(name, head=head),)
        assert trace.attention[name].edits == alone.edits
        torch.testing.assert_close(trace.next_token.logits, alone.next_token.logits)
        assert check_used(trace.attention[name]).passed


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            HeadOff("decoder.layers.7.cross_attn"),
            "'decoder.layers.7.cross_attn': the attentions are",
        ),
        (HeadOff("decoder.layers.0.cross_attn", head=3), "heads are 0 to 2, got 3"),
        (HeadOff(Where(rows=(1,))), "batch rows are 0 to 0, got 1"),
        (
            HeadOff(Where(kind="self")),
            "edits are for encoder_self, decoder_self, cross, got 'self'",
        ),
    ],
)
def test_an_edit_of_a_missing_part_is_refused(scope, edit, message):
    with pytest.raises(ValueError, match=message):
        scope.run("abc", "cba", edits=[edit])


def test_sessions_with_other_edits_get_their_own_numbers(scope):
    """32 threads use one model, each with a different head off, or none."""
    name = "decoder.layers.0.cross_attn"
    choices = [(), *((HeadOff(name, head=head),) for head in range(3))]
    alone = [scope.run("abc", "cba", edits=found).next_token.logits for found in choices]
    with ThreadPoolExecutor(32) as pool:
        together = list(
            pool.map(
                lambda i: scope.run("abc", "cba", edits=choices[i % 4]).next_token.logits,
                range(96),
            )
        )
    assert all(torch.equal(logits, alone[i % 4]) for i, logits in enumerate(together))
    assert len({tuple(logits.flatten().tolist()) for logits in alone}) == 4


def test_lists_make_the_same_edits_as_tuples() -> None:
    with unchecked():
        painted = MaskChange(
            Where(kind="self", heads=[0, 1]),
            removed_layers=["padding"],
            block=[[3, 1]],
            allow=[(0, 2)],
        )
    same = MaskChange(
        Where(kind="self", heads=(0, 1)),
        removed_layers=("padding",),
        block=((3, 1),),
        allow=((0, 2),),
    )
    assert painted == same
    assert hash(painted) == hash(same)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Where(heads=3), "heads must be whole numbers in a list, got 3"),
        (lambda: Where(layers=(0.5,)), "layers must be whole numbers in a list, got (0.5,)"),
        (lambda: Where(queries=(2, -1)), "positions are counted from 0, got -1"),
        (lambda: MaskChange(block=((0, 1), (-1, 0))), "cells are counted from 0, got (-1, 0)"),
        (
            lambda: MaskChange(allow=(0, 1)),
            "allow must be (query, key) pairs in a list, got (0, 1)",
        ),
        (
            lambda: MaskChange(removed_layers="padding"),
            "removed_layers must be names in a list, got 'padding'",
        ),
        (
            lambda: HeadOff(baseline="mean", texts="abcdefgh"),
            "texts must be in a list, got 'abcdefgh'",
        ),
        (lambda: Patch(fields="ab"), "fields of the other run must be in a list, got 'ab'"),
    ],
)
def test_values_that_would_be_misread_are_refused(make: Callable[[], object], said: str) -> None:
    with unchecked(), pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        make()
