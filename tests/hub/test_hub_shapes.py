"""Returned weights that are not from tokens to tokens: windows, pooled tokens, scores, sinks."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from hub_models import _SEQ, Case

import models
from models import CheckpointError, InputError, Scope
from models.analysis.checks import check_site
from models.cli import main
from models.decoding import runs
from models.decoding.run_checks import check_runs
from models.trace.edits import MaskChange, for_kinds
from viz_app import words
from viz_app.drawing.provenance import site_name
from viz_app.views.decoding.decoding_runs import DecodingRuns

_WIDE = {
    "vocab_size": 53, "hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 48,
    "max_position_embeddings": 61, "sep_token_id": 2,
}  # fmt: skip
_EXPERTS = {"num_key_value_heads": 1, "head_dim": 16, "num_local_experts": 4, "eos_token_id": None}
# the weights of a window of 4 are 5 wide, as long as one of the runs made on opening
LONGFORMER = Case("LongformerForMaskedLM", "LongformerConfig", _WIDE | {"attention_window": [4, 4]})
SQUEEZEBERT = Case("SqueezeBertForMaskedLM", "SqueezeBertConfig", _WIDE | {"embedding_size": 32})
LED = Case("LEDForConditionalGeneration", "LEDConfig", _SEQ | {"attention_window": 4})
GPT_OSS = Case("GptOssForCausalLM", "GptOssConfig", _WIDE | _EXPERTS)
_POOLED = {"vocab_size": 53, "d_model": 22, "n_head": 2, "d_head": 11, "d_inner": 31}
FUNNEL = Case("FunnelModel", "FunnelConfig", _POOLED | {"block_sizes": [1, 1]})
_BLOCKS = {"d_model": 24, "num_global_tokens": 5, "block_size": 8}
PEGASUS_X = Case("PegasusXForConditionalGeneration", "PegasusXConfig", _SEQ | _BLOCKS)
_STREAMS = {
    "vocab_size": 53, "hidden_size": 22, "encoder_ffn_dim": 31, "decoder_ffn_dim": 37, "ngram": 2,
    "num_encoder_layers": 2, "num_decoder_layers": 2, "num_encoder_attention_heads": 2, "num_decoder_attention_heads": 2,
    "max_position_embeddings": 61, "decoder_start_token_id": 1,
}  # fmt: skip
PROPHET_NET = Case("ProphetNetForConditionalGeneration", "ProphetNetConfig", _STREAMS)
TEXT = "5 6 7 8 9 10 11 12 14 16 18"


def open_scope(folder: Path, case: Case) -> Scope:
    case.save(folder)
    return models.load(folder, device="cpu")


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (LONGFORMER, "its library returns weights of 3 × 5 for 3 × 3 tokens"),
    ],
    ids=["windows"],
)
def test_a_model_with_no_weights_of_tokens_to_tokens_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: Case, reason: str
) -> None:
    case.save(tmp_path)
    with pytest.raises(CheckpointError, match="its attention cannot be shown") as error:
        models.load(tmp_path, device="cpu")
    assert reason in str(error.value)
    capsys.readouterr()
    assert main(["inspect", str(tmp_path)]) != 0
    assert reason in "".join(capsys.readouterr())


def test_windows_that_fit_one_length_by_chance_keep_no_mask_from_being_painted(
    tmp_path: Path,
) -> None:
    """The weights of LED's encoder are 5 wide, like the run of 5 tokens on opening; its decoder's are recorded with their causes."""
    scope = open_scope(tmp_path, LED)
    assert scope.model.shows_causes
    edits = for_kinds(cross=MaskChange(block=((2, 1),)))
    trace = scope.run(TEXT, "21 23 29", edits=edits)
    assert set(trace.unrecorded.values()) == {
        "its library returns weights of 11 × 5 for 11 × 11 tokens"
    }
    assert {site.kind for site in trace.attention.values()} == {"decoder_self", "cross"}
    for site in trace.attention.values():
        assert site.has_causes
        assert bool(site.weights()[:, 2, 1].eq(0).all()) is (site.kind == "cross")


def test_where_a_library_returns_scores_the_weights_are_those_of_its_softmax(
    tmp_path: Path,
) -> None:
    scope = open_scope(tmp_path, SQUEEZEBERT)
    trace = scope.run(TEXT)
    assert trace.unrecorded == {}
    module = transformers.SqueezeBertForMaskedLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        ids = torch.tensor([trace.streams["text"].ids])
        returned = module(input_ids=ids, output_attentions=True).attentions
    for site, scores in zip(trace.attention.values(), returned, strict=True):
        assert site.has_causes
        assert site.weights().equal(scores[0].softmax(-1))
        assert (site.scores() - scores[0]).abs().max() < 1e-5


def test_pooled_tokens_are_not_labelled_as_tokens(tmp_path: Path) -> None:
    """Funnel's second block has half as many queries; the weights of the others are the library's own."""
    scope = open_scope(tmp_path, FUNNEL)
    trace = scope.run(TEXT)
    assert trace.unrecorded == {
        "encoder.blocks.1.0.attention": "its library returns weights of 6 × 11 for 11 × 11 tokens"
    }
    module = transformers.FunnelModel.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        ids = torch.tensor([trace.streams["text"].ids])
        wanted = module(input_ids=ids, output_attentions=True).attentions
    wanted = [weights[0] for weights in wanted if weights.shape[-2] == 11]
    assert len(trace.attention) == len(wanted) == 3
    assert len({words.layer_place(site) for site in trace.attention.values()}) == 3
    assert (
        site_name(trace.attention["encoder.blocks.0.0.attention"]) == "encoder.block1.1.attention"
    )
    for site, weights in zip(trace.attention.values(), wanted, strict=True):
        assert site.weights().equal(weights)


def test_weights_that_the_library_returns_in_no_known_form_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """PEGASUS-X returns those of its encoder as a dict: of 5 global tokens, and of blocks of 8."""
    scope = open_scope(tmp_path, PEGASUS_X)
    trace = scope.run(TEXT, "21 23 29")
    shapes = ["1 × 2 × 5 × 21 and 1 × 2 × 2 × 8 × 13", "1 × 2 × 5 × 29 and 1 × 2 × 3 × 8 × 13"]
    assert trace.unrecorded == {
        f"model.encoder.layers.{i}.self_attn": (
            f"it takes a softmax of {shape} weights, not of one for each pair of tokens"
        )
        for i, shape in enumerate(shapes)
    }
    assert {site.stack for site in trace.attention.values()} == {"decoder"}
    assert main(["inspect", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "not recorded: model.encoder.layers.1.self_attn: it takes a softmax of" in printed


def test_a_stream_beside_that_of_the_tokens_is_named(tmp_path: Path) -> None:
    """ProphetNet predicts from a separate stream, whose weights are 2 streams × 3 queries × 6 keys."""
    trace = open_scope(tmp_path, PROPHET_NET).run(TEXT, "21 23")
    named = {name for name in trace.unrecorded if name.endswith("self_attn (2)")}
    assert named == {f"prophetnet.decoder.layers.{i}.self_attn (2)" for i in range(2)}
    reasons = {trace.unrecorded[name] for name in named}
    wanted = "it takes a softmax of 1 × 2 × 2 × 3 × 6 weights, not of one for each pair of tokens"
    assert reasons == {wanted}


def test_if_one_pass_and_single_steps_disagree_the_story_says_so(tmp_path: Path) -> None:
    """The model's positions fall into buckets whose bounds depend on the length of the row."""
    scope = open_scope(tmp_path, PROPHET_NET)
    given = (20, 21, 22, 23, 24, 25)
    trace = scope.run(TEXT, " ".join(map(str, given)))
    inputs, (start, *target) = (trace.streams[name].ids for name in ("source", "target"))
    method = runs.Method(forced=tuple(enumerate(target)), max_new=len(target))
    serial = runs.autoregressive(scope.model, inputs, method).run
    story = DecodingRuns(trace, runs.of_trace(trace), serial, method)
    with torch.no_grad():
        probabilities = [
            scope.model.module(
                input_ids=torch.tensor([inputs]),
                decoder_input_ids=torch.tensor([[start, *target[:n]]]),
                use_cache=False,
            ).logits[0].softmax(-1)
            for n in range(len(target) + 1)
        ]  # fmt: skip
    apart = [
        float((row[-1] - probabilities[-1][i]).abs().max()) for i, row in enumerate(probabilities)
    ]
    assert max(apart[: len(target)]) > 1e-3
    assert story.disagreement == next(i for i, one in enumerate(apart) if one > 1e-4)
    same = replace(story, teacher_forced=serial)
    assert (story.divergence, same.disagreement) == (None, None)


def test_a_text_that_does_not_fit_at_all_is_refused_at_its_field(tmp_path: Path) -> None:
    scope = open_scope(tmp_path, FUNNEL)
    scope.model.misfits = dict.fromkeys(scope.run(TEXT).attention, "they are of blocks")
    with pytest.raises(InputError, match="its attention cannot be shown") as error:
        scope.run(TEXT)
    assert error.value.field == "text"


def test_a_row_with_a_sink_is_checked_to_sum_to_at_most_1(tmp_path: Path) -> None:
    scope = open_scope(tmp_path, GPT_OSS)
    module = transformers.GptOssForCausalLM.from_pretrained(tmp_path, attn_implementation="eager")
    trace = scope.run(TEXT)
    with torch.no_grad():
        ids = torch.tensor([trace.streams["text"].ids])
        wanted = module.eval()(input_ids=ids, output_attentions=True).attentions
    for site, weights in zip(trace.attention.values(), wanted, strict=True):
        assert site.weights().equal(weights[0])
        first = check_site(site)[0]
        assert (first.name, first.passed) == ("rows sum to at most 1", True)
        assert f"{float(weights[0].sum(-1).min()):.3f}" in first.sentence
    serial = runs.autoregressive(scope.model, scope.input_ids(TEXT), runs.Method(max_new=5)).run
    whole = runs.uncached_run(scope.model, scope.input_ids(TEXT), serial.taken)
    checks = {check.name: check.passed for check in check_runs(whole, serial, whole)}
    assert checks["attention rows sum to at most 1"]
    assert all(checks.values())
