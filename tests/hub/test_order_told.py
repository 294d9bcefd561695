"""How a model knows the order of its tokens, measured on a run of equal tokens; and the page Positions on that."""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
import transformers
from drawn import letters
from hub_models import _SPECIAL, BY_NAME, Case
from test_hub_shapes import LED

import models
from models.architectures.base import (
    BY_MASK,
    BY_ROTATION,
    BY_SCORES,
    BY_STATES,
    BY_VECTORS,
    UNSEEN,
)
from models.hub.describe import capabilities
from models.layers.positions import sinusoidal
from viz_app.controls.other_models import shows
from viz_app.session import cache
from viz_app.views.positions import adding, page, shuffle, text
from viz_app.views.positions.rotation import no_rotation

TOLD_BY = {
    "GPT2LMHeadModel": BY_VECTORS,
    "GPT2Model": BY_VECTORS,
    "BertForMaskedLM": BY_VECTORS,
    "RobertaForMaskedLM": BY_VECTORS,
    "AlbertForMaskedLM": BY_VECTORS,
    "MarianMTModel": BY_VECTORS,
    "OPTForCausalLM": BY_VECTORS,
    "LlamaForCausalLM": BY_ROTATION,
    "MistralForCausalLM": BY_ROTATION,
    "GPTNeoXForCausalLM": BY_ROTATION,
    "ModernBertForMaskedLM": BY_ROTATION,
    "T5ForConditionalGeneration": BY_SCORES,
    "BloomForCausalLM": BY_SCORES,
    "XLNetForSequenceClassification": BY_SCORES,
    "GptOssForCausalLM": UNSEEN,  # only its weights are known
}


@pytest.fixture(scope="module")
def opened(hub_scope: Callable[[str], models.Scope]) -> dict[str, models.Scope]:
    return {name: hub_scope(name) for name in TOLD_BY}


@pytest.mark.parametrize("name", TOLD_BY)
def test_a_run_shows_how_the_model_knows_the_order(
    opened: dict[str, models.Scope], name: str
) -> None:
    model = opened[name].model
    assert model.order_source == TOLD_BY[name]
    assert (model.positions is not None) == (TOLD_BY[name] == BY_VECTORS)
    if name != "GptOssForCausalLM":
        assert model.rotation(2) is None or TOLD_BY[name] == BY_ROTATION


@pytest.mark.parametrize("name", TOLD_BY)
def test_the_page_claims_no_more_than_the_run_shows(
    opened: dict[str, models.Scope], name: str
) -> None:
    model, by = opened[name].model, TOLD_BY[name]
    answer = page.positions_answer(model)
    assert ("a position vector is added" in answer) == (by == BY_VECTORS)
    assert "has no position vectors" not in answer  # each of these models knows the order
    assert ("look-ahead mask" in answer) == (by == BY_VECTORS and model.stack == "decoder")
    assert ("a term for the distance" in answer) == (by == BY_SCORES)
    assert ("rotates each query" in answer) == (model.rotation(2) is not None)
    help_, table = text.own_help("none", by), text.explain_table("paper", "none", by)
    for sentence in (help_, table):
        assert ("at all" in sentence) == (by == BY_MASK)
        assert ("queries and keys" in sentence) == (by == BY_ROTATION)
    assert ("do not attend to each other" in adding.not_added(model, attends=True)) is False
    rotation = no_rotation(model)
    assert ("has no rotary positions" in rotation) == (by == BY_SCORES)


def test_rotated_values_are_not_called_added_vectors(tmp_path: Path) -> None:
    sizes = {"vocab_size": 53, "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2}
    more = {"intermediate_size": 31, "rotary_value": True}
    Case("RoFormerForMaskedLM", "RoFormerConfig", sizes | more).save(tmp_path)
    model = models.load(tmp_path, device="cpu").model
    assert model.order_source == BY_ROTATION
    assert "a position vector is added" not in page.positions_answer(model)


SINUSOIDS = {
    "MarianMTModel": {},
    "DistilBertForMaskedLM": {"sinusoidal_pos_embds": True},
}  # sines before cosines, and each sine beside its cosine


@pytest.mark.parametrize("name", SINUSOIDS)
def test_sines_and_cosines_in_either_order_are_not_called_learned(
    tmp_path: Path, name: str
) -> None:
    """A different route than the squares: the paper's formula, with its dimensions in either order."""
    case = BY_NAME[name]
    config = getattr(transformers, case.config)(**(_SPECIAL | case.sizes | SINUSOIDS[name]))
    getattr(transformers, name)(config).save_pretrained(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    expected = sinusoidal(61, 22)
    if name == "MarianMTModel":
        expected = torch.cat([expected[:, ::2], expected[:, 1::2]], 1)
    torch.testing.assert_close(scope.model.positions.table, expected, atol=1e-4, rtol=0)
    assert scope.config.positions == "fixed"
    about = [text.explain_table(table, "fixed", BY_VECTORS) for table in ("paper", text.OWN_TABLE)]
    assert "learned its vectors" not in about[0]
    assert "not learned" in about[1]


@torch.no_grad()
def test_a_table_of_angles_is_not_one_of_vectors(tmp_path: Path) -> None:
    """A different route than the table's width: for equal tokens, the first layer reads equal vectors."""
    sizes = BY_NAME["BertModel"].sizes | {"hidden_size": 24}
    module = Case("RoFormerForMaskedLM", "RoFormerConfig", sizes).save(tmp_path)
    read = module(torch.full((1, 5), 7), output_hidden_states=True).hidden_states[0]
    assert torch.equal(read, read[:, :1].expand_as(read))
    scope = models.load(tmp_path, device="cpu")
    assert (scope.model.order_source, scope.config.positions) == (BY_ROTATION, "none")
    assert not any("position" in name for name in scope.run("5 6 7").activations)


def test_vectors_of_boxes_do_not_replace_those_of_positions(tmp_path: Path) -> None:
    sizes = BY_NAME["BertModel"].sizes | {"hidden_size": 48, "channel_shrink_ratio": 2}
    module = Case("LiltModel", "LiltConfig", sizes).save(tmp_path)
    table = models.load(tmp_path, device="cpu").model.positions.table
    assert torch.equal(table, module.embeddings.position_embeddings.weight[1 : 1 + len(table)])


def test_vectors_of_no_known_table_are_not_denied(
    opened: dict[str, models.Scope], tmp_path: Path
) -> None:
    """XGLM adds position vectors that its module selects itself; T5 and Llama add none."""
    sizes = {"vocab_size": 53, "d_model": 22, "ffn_dim": 31, "num_layers": 1, "attention_heads": 2}
    module = Case("XGLMForCausalLM", "XGLMConfig", sizes).save(tmp_path)
    read = module(torch.full((1, 5), 7), output_hidden_states=True).hidden_states[0]
    assert not torch.allclose(read[0, 0], read[0, 1])
    scope = models.load(tmp_path, device="cpu")
    assert scope.model.order_source == BY_VECTORS
    line = list(capabilities(scope, scope.run("5 6 7")))[-1]
    assert line == "position vectors are not shown: no table of them was found"
    for name in ("T5ForConditionalGeneration", "LlamaForCausalLM"):
        other = opened[name]
        trace = other.run(*other.examples[:1])
        assert list(capabilities(other, trace))[-1].endswith("the model adds none")


def test_attention_that_is_not_shown_is_not_denied(tmp_path: Path) -> None:
    """LED's encoder learned its positions, and its tokens attend in windows, which are not shown."""
    module, scope = LED.save(tmp_path), models.load(tmp_path, device="cpu")
    encoder = module.led.encoder
    first, other = (encoder(torch.tensor([row]))[0][0] for row in ([5, 6, 7], [5, 7, 6]))
    assert not torch.allclose(first[0], other[0])  # with no positions, the two would be equal
    assert "has no position vectors" not in page.positions_answer(scope.model)
    run = SimpleNamespace(scope=scope, trace=scope.run("5 6 7", "8 9"))
    assert "do not attend to each other" not in adding.find_adding(run)


@pytest.mark.parametrize("section", [text, adding])
def test_a_section_names_models_that_have_it(section: ModuleType) -> None:
    """The buttons below the sentence open the same two models."""
    find = {text: shuffle.find_shuffle, adding: adding.find_adding}[section]
    sentences = [value for value in vars(section).values() if isinstance(value, str)]
    names = {name for one in sentences for name in re.findall(r"(?:Open|or) \*\*(\S+?)\*\*", one)}
    assert names == {"eng-fra", "bert"}
    assert all(shows(find, cache.scope(name)) for name in names)


def test_equal_tokens_without_positions_are_alike_and_nothing_is_found() -> None:
    """The measurement relies on this rule, checked here on a model of ours with and without positions."""
    for positions in ("none", "sinusoidal", "learned"):
        scope = letters(positions=positions)
        site = scope.run("aaaaa", "a").attention["encoder.layers.0.self_attn"]
        inner = slice(0, 5)  # the end token differs
        alike = all(torch.allclose(t[0, :, inner], t[0, :, :1]) for t in (site.q, site.k, site.v))
        assert alike == (positions == "none")
        assert scope.model.order_source == (BY_MASK if positions == "none" else BY_VECTORS)
    assert letters("recurrent").model.order_source == BY_STATES
    assert models.load("xlnet", device="cpu").model.order_source == BY_SCORES


def test_nothing_is_claimed_of_an_unknown_module(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Embedding(128, 12), torch.nn.TransformerEncoderLayer(12, 2, 17, batch_first=True)
    ).eval()
    scope = models.watch(net, encode=lambda typed: list(typed.encode("ascii")))
    assert scope.model.order_source == UNSEEN
    assert "has no position vectors" not in page.positions_answer(scope.model)
