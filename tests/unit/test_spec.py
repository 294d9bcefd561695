"""A run as a value: its changes, alone and together, each against a model changed by hand."""

from dataclasses import replace
from functools import cache as cached
from functools import partial

import pytest
import torch
from small_runs import edited

import models
from models.decoding.runs import Method
from models.runs.spec import ModelRef, RunSpec
from models.trace.edits import HeadOff, MaskChange, for_kinds
from viz_app import words
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.views.decoding import payloads as decoding
from viz_app.views.decoding.decoding_runs import decoder_attention

TEXT = "3 May 1999"
SELF = "decoder.layers.1.self_attn"
STEP = 125
LOOKING_AHEAD = for_kinds(decoder_self=MaskChange(removed_layers=("look-ahead",)))
FORBIDDEN = for_kinds(cross=MaskChange(block=((1, 2), (2, 0))))

open_model = partial(ModelRef.open, load=partial(models.load, device="cpu"))


@pytest.fixture(scope="module")
def own() -> models.Trace:
    return models.load("dates", device="cpu").run(TEXT)


def logits(trace: models.Trace) -> torch.Tensor:
    return trace.next_token.logits


def test_an_unchanged_spec_gives_the_plain_run(own: models.Trace) -> None:
    trace = RunSpec(ModelRef("dates"), (TEXT, None)).run(open_model)
    assert torch.equal(logits(trace), logits(own))
    assert trace.output == own.output


def test_a_forced_token_alone_changes_no_forward_pass() -> None:
    spec = RunSpec(ModelRef("dates"), (TEXT, None), forced=((1, 3),))
    assert spec.is_unchanged
    changed = (
        replace(spec, edits=FORBIDDEN),
        replace(spec, model=ModelRef("dates", positions=False)),
        replace(spec, model=ModelRef("dates", STEP)),
    )
    assert not any(one.is_unchanged for one in changed)


def test_equal_specs_share_a_key_and_different_ones_do_not() -> None:
    spec = RunSpec(ModelRef("dates", STEP, "cosine"), (TEXT, None), FORBIDDEN, ((1, 2),))
    same = RunSpec(ModelRef("dates", STEP, "cosine"), (TEXT, None), FORBIDDEN, ((1, 2),))
    others = [
        replace(spec, fields=(TEXT, "1999")),
        replace(spec, edits=LOOKING_AHEAD),
        replace(spec, forced=((1, 3),)),
        *(spec.without(change) for change in ("step", "similarity", "masks", "forced")),
        replace(spec, model=replace(spec.model, positions=False)),
    ]
    assert len({spec, same, *others}) == 1 + len(others)
    with pytest.raises(ValueError, match="'weights'"):
        spec.without("weights")


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("similarity", ["", "cosine"])
@pytest.mark.parametrize("step", [None, STEP])
def test_changes_compose_as_if_each_were_made_by_hand(
    own: models.Trace, step: int | None, similarity: str, positions: bool
) -> None:
    """The second route loads the snapshot, swaps its similarity, zeroes its position vectors and runs the tokens under the mask."""
    ref = ModelRef("dates", step, similarity, positions)
    opened = cached(open_model)
    scope = models.load("dates", device="cpu", snapshot=step)
    scope = scope.with_similarity(similarity) if similarity else scope
    if not positions:
        scope.model.positions.table.zero_()
    rows = own.streams["source"], own.streams["target"]
    for edits in ((), FORBIDDEN, LOOKING_AHEAD):
        trace = RunSpec(ref, (TEXT, None), edits).run(opened)
        (by_hand,) = scope.run_batch([rows], edits=edits)
        torch.testing.assert_close(logits(trace), logits(by_hand), rtol=0, atol=1e-5)
        weights = trace.attention[SELF].weights(), by_hand.attention[SELF].weights()
        torch.testing.assert_close(*weights, rtol=0, atol=1e-5)
        assert trace.streams["target"].ids == own.streams["target"].ids
        changed = ref != ref.unchanged or edits
        assert torch.allclose(logits(trace), logits(own), atol=1e-5) == (not changed)


def test_impossible_changes_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="dates-bahdanau"):
        ModelRef("dates-bahdanau", positions=False).open(models.load)
    with pytest.raises(ValueError, match="similarity"):
        ModelRef("dates-bahdanau", similarity="dot").open(models.load)
    with pytest.raises(models.CheckpointError, match="7"):
        ModelRef("dates", step=7).open(models.load)


def test_generation_applies_the_edits_and_the_forced_tokens(own: models.Trace) -> None:
    scope = models.load("dates", device="cpu")
    run = edited(CurrentRun(scope, own), FORBIDDEN)
    given = own.streams["source"].ids
    written = cache.autoregression(run, given, Method(forced=((1, 5),))).run
    again = cache.cached_single_pass(run, given, written.taken)
    assert written.taken[1] == 5
    torch.testing.assert_close(written.log_probs, again.log_probs, rtol=0, atol=1e-4)
    plain = cache.cached_single_pass(run.unchanged, given, written.taken)
    assert not torch.allclose(written.log_probs, plain.log_probs, atol=1e-3)
    cross = "decoder.layers.0.cross_attn"
    assert float(written.weights(cross, 0)[1, 2]) == 0 == float(written.weights(cross, 0)[2, 0])
    assert float(plain.weights(cross, 0)[1, 2]) > 0


def test_a_changed_run_reads_the_unchanged_models_text(own: models.Trace) -> None:
    run = CurrentRun(models.load("dates", device="cpu"), own)
    typed = replace(run, trace=run.scope.run(TEXT, "1999-05-03"))
    for one, writers in ((run, ("the model's own", "the unchanged model's")), (typed, ("", ""))):
        for shown, writer in zip((one, edited(one, FORBIDDEN)), writers, strict=True):
            choices = decoding.DecodingChoices(
                Method(),
                decoder_attention(shown.trace),
                decoding.DecodingPosition(),
                shown.input_ids,
            )
            assert decoding.compare_decoding(shown, choices)[1].writer == writer


def test_changes_are_named_and_nothing_else_is(own: models.Trace) -> None:
    sites = own.attention
    assert words.changes(RunSpec(ModelRef("dates"), ()), "scaled dot", sites) == {}
    spec = RunSpec(ModelRef("dates", 1250, "cosine", positions=False), (), FORBIDDEN)
    labels = words.changes(spec, "scaled dot", sites)
    assert list(labels) == ["step", "similarity", "positions", "masks"]
    assert "1,250" in labels["step"]
    assert labels["similarity"].index("cosine") < labels["similarity"].index("scaled dot")
    assert "Cross" in labels["masks"]
    assert "Decoder" not in labels["masks"]
    for change in labels:
        assert change not in words.changes(spec.without(change), "scaled dot", sites)


def test_an_edit_is_named_by_the_title_of_its_attention(own: models.Trace) -> None:
    spec, off, layer = RunSpec(ModelRef("dates"), ()), HeadOff(SELF, head=2), HeadOff(SELF)
    several = HeadOff(where=replace(off.where, heads=(2, 0)))
    heads = words.changes(replace(spec, edits=(several,)), "", own.attention)["edits"]
    assert ", heads 1 and 3: " in heads
    labels = words.changes(replace(spec, edits=(off, layer)), "", own.attention)
    title = "Decoder masked self-attention, layer 2"
    assert labels["edits"].split("; ") == [
        f"{title}, head 3: head output set to 0", f"{title}: head output set to 0",
    ]  # fmt: skip
    assert str(off).startswith(SELF)
