"""Texts of different lengths in one batch: each gives the answer it gives alone, or the model runs one text at a time."""

from pathlib import Path

import pytest
import torch
import transformers
from hub_models import _GROUPED, _SEQ, _T5, _WIDE, Case

import models
from models import Scope
from models.analysis.checks import check_site
from models.hub import probe

TEXTS = "5 6 7", "8 9 10 11 12 13"
_END = {"eos_token_id": 3, "vocab_size": 53}
XLNET = {"vocab_size": 53, "d_model": 24, "n_head": 3, "n_layer": 2, "d_inner": 31, "num_labels": 3}
CASES = {
    "XLNetForSequenceClassification": ("XLNetConfig", XLNET, False),  # reads the last position
    "T5ForConditionalGeneration": ("T5Config", _T5, True),
    "BertForSequenceClassification": ("BertConfig", _WIDE | {"num_labels": 3}, True),
    "GPT2ForSequenceClassification": (
        "GPT2Config", {"vocab_size": 53, "n_embd": 24, "n_head": 2, "n_layer": 2, "num_labels": 3}, True,
    ),
    "BartForSequenceClassification": ("BartConfig", _SEQ | _END | {"num_labels": 3}, True),
    "LlamaForCausalLM": ("LlamaConfig", _GROUPED, True),
    "BertForMultipleChoice": ("BertConfig", _WIDE, True),
}  # fmt: skip


def open_scope(name: str, folder: Path, **more: object) -> Scope:
    config, sizes, _ = CASES[name]
    Case(name, config, sizes | more).save(folder)
    return models.load(folder, device="cpu")


@pytest.mark.parametrize("name", CASES)
def test_each_text_gives_its_own_answer_or_texts_run_one_at_a_time(
    name: str, tmp_path: Path
) -> None:
    scope = open_scope(name, tmp_path)
    assert scope.model.pads == CASES[name][2]
    assert scope.model.pads == probe.answers_beside_a_longer_text(scope.model)
    if name in ("BertForMultipleChoice", "BartForSequenceClassification"):
        return  # of several texts, or ended by a token that ids alone do not name
    rows = [(text, text) if scope.model.translates else (text,) for text in TEXTS]
    apart = 0.0
    for trace, row in zip(scope.run_each(rows), rows, strict=True):
        alone = scope.run(*row)
        for output, own in zip(trace.outputs.values(), alone.outputs.values(), strict=True):
            apart = max(apart, float((output.logits - own.logits).abs().max()))
        if scope.model.pads:
            for site_name, site in alone.attention.items():
                weights = trace.attention[site_name].weights()
                torch.testing.assert_close(weights, site.weights(), atol=1e-5, rtol=1e-4)
    assert apart < 1e-4


def test_padding_renames_no_mask_layer_and_adds_no_bias(tmp_path: Path) -> None:
    """A window of 3 holds nothing but padding after the second text; finite numbers block those rows, which read everything."""
    sizes = {"vocab_size": 53, "hidden_size": 22, "num_heads": 2, "num_layers": 2, "window_size": 3}
    local = {"attention_types": [[["local"], 2]], "max_position_embeddings": 61}
    Case("GPTNeoForCausalLM", "GPTNeoConfig", sizes | local).save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    rows = [("8 9 10 11 12 13 14 15",), ("5 6 7",)]
    padded = scope.run_batch(rows)
    for trace in (*scope.run_each(rows), *padded):
        for site in trace.attention.values():
            layers = [layer.name for layer in site.mask.layers]
            assert layers == ["padding", "look-ahead", "window of 2"]
            assert bool(site.terms) == (trace is padded[1])  # of rows that read padding alone
            assert [check for check in check_site(site) if not check.passed] == []


def test_a_model_that_fails_on_a_batch_takes_one_text_at_a_time(tmp_path: Path) -> None:
    """The library's mask for an XLNet that looks back only is made for one row."""
    scope = open_scope("XLNetForSequenceClassification", tmp_path, attn_type="uni")
    assert not scope.model.pads
    assert scope.run(TEXTS[0]).attention
    for trace, text in zip(scope.run_each([(text,) for text in TEXTS]), TEXTS, strict=True):
        assert torch.equal(
            trace.outputs["classes"].logits, scope.run(text).outputs["classes"].logits
        )
    assert isinstance(scope.model.module, transformers.XLNetForSequenceClassification)


def test_keys_and_values_are_made_of_what_the_site_names_as_their_input(tmp_path: Path) -> None:
    """W·x is computed by hand; for a cross-attention, x comes from the other text."""
    Case("BartForConditionalGeneration", "BartConfig", _SEQ).save(tmp_path)
    trace = models.load(tmp_path, device="cpu").run("5 6 7 8 9", "10 11 12")
    assert {site.role for site in trace.attention.values()} == {"self", "cross"}
    for site in trace.attention.values():
        inputs = {
            "W_Q": (site.x, site.q),
            "W_K": (site.memory, site.k),
            "W_V": (site.memory, site.v),
        }
        for name, (x, wanted) in inputs.items():
            weight, bias = site.projections[name]
            made = torch.nn.functional.linear(x, weight, bias)
            torch.testing.assert_close(
                made, wanted.transpose(1, 2).flatten(2), atol=1e-5, rtol=1e-4
            )


@pytest.mark.parametrize(
    ("name", "place"), [("GPT2ForSequenceClassification", -1), ("BertForSequenceClassification", 0)]
)
def test_the_answering_token_is_the_one_whose_state_the_head_reads(
    name: str, place: int, tmp_path: Path
) -> None:
    scope = open_scope(name, tmp_path)
    trace, module = scope.run(TEXTS[1]), scope.model.module
    output, row = trace.outputs["classes"], trace.streams["text"]
    with torch.no_grad():
        states = module.base_model(torch.tensor([row.ids])).last_hidden_state[0]
        pooled = states if place else module.bert.pooler(states[:, None])
        logits = (module.score if place else module.classifier)(pooled)
    apart = (logits - output.logits).abs().amax(-1)
    assert output.position == place % len(row.ids) == int(apart.argmin())
    assert apart[output.position] < 1e-5 < apart.topk(2, largest=False).values[1]


@pytest.mark.parametrize(
    ("name", "config", "sizes"),
    [
        ("GPT2ForSequenceClassification", "GPT2Config", CASES["GPT2ForSequenceClassification"][1]),
        ("LlamaForSequenceClassification", "LlamaConfig", _GROUPED | {"num_labels": 3}),
    ],
)
def test_a_classifier_without_padding_reads_rows_of_one_length_at_once(
    name: str, config: str, sizes: dict[str, object], tmp_path: Path
) -> None:
    """Effects of heads run one text under several edits in one batch."""
    module = Case(name, config, sizes | {"pad_token_id": None}).save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    assert not scope.model.pads
    rows = [scope.streams(text) for text in ("5 6 7", "9 2 11")]
    for row, outputs in zip(rows, scope.outputs_batch(rows, []), strict=True):
        with torch.no_grad():
            alone = module(input_ids=torch.tensor([row["text"].ids])).logits[0]
        torch.testing.assert_close(outputs["classes"].logits, alone, atol=1e-5, rtol=1e-4)
