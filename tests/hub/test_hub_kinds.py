"""Hugging Face models that label, compare or encode: each opens, and its logits, attentions and answer are the library's."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from hub_kinds import _END, BY_NAME, HOW, SECOND, SIZE, TEXT, save, texts
from hub_models import _SEQ, _T5, _WIDE, VOCABULARY, Case, library_tokenizer
from tokenizers.processors import TemplateProcessing
from torch import nn

import models
from models import Scope
from models.cli import main
from models.errors import CheckpointError
from models.hub.choosers import CHOICE_ROWS
from models.hub.kinds import why_nothing_is_shown
from models.trace import Trace
from models.trace.outputs import TokenClasses
from viz_app.drawing.notes import first_output
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.views.task.presentations import presentation, task_payloads
from viz_app.views.task.reading import TaskChoices


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("kinds")
    for name in BY_NAME:
        save(name, root / name)
    return {name: root / name for name in BY_NAME}


@torch.no_grad()
def library(folder: Path, name: str) -> Any:
    """Return the library's own answer to the same texts, tokenised by the library."""
    module = getattr(transformers, name).from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    first, *others = texts(name)
    if name == "BertForMultipleChoice":
        rows = tokenizer([first] * len(others), others, padding=True, **HOW)
        return module(**{key: t[None] for key, t in rows.items()}, output_attentions=True)
    row = tokenizer(first, *others, **HOW)
    if name in ("BartForSequenceClassification", "T5EncoderModel", "BartModel"):
        row.pop("token_type_ids", None)
    return module(**row, output_attentions=True)


def run(folders: dict[str, Path], name: str) -> tuple[Scope, Trace, Any]:
    scope = models.load(folders[name], device="cpu")
    return scope, scope.run(*texts(name)), library(folders[name], name)


def attentions(made: Any) -> list[torch.Tensor]:
    if "encoder_attentions" not in made:
        return list(made.attentions)
    decoder = zip(made.decoder_attentions, made.cross_attentions, strict=True)
    return [*made.encoder_attentions, *(m for pair in decoder for m in pair)]


@pytest.mark.parametrize("name", list(BY_NAME))
def test_attentions_are_the_librarys(folders: dict[str, Path], name: str) -> None:
    _, trace, made = run(folders, name)
    sites, expected = list(trace.attention.values()), attentions(made)
    if name == "BertForMultipleChoice":  # its batch axis holds the choices
        expected = [layer[i : i + 1] for i in range(3) for layer in expected]
    assert len(sites) == len(expected)
    for site, wanted in zip(sites, expected, strict=True):
        n_query, n_key = site.weights().shape[-2:]
        assert (site.weights() - wanted[0, :, :n_query, :n_key]).abs().max() < 2e-6, site.name
        assert (n_query, n_key) == (len(site.query_tokens), len(site.key_tokens))
    assert len({site.name for site in sites}) == len(sites)


@pytest.mark.parametrize(
    ("name", "output", "wanted"),
    [
        ("BertForTokenClassification", "token classes", lambda made: made.logits[0]),
        ("ElectraForPreTraining", "token classes", lambda made: made.logits[0].new_zeros(0)),
        ("BertForNextSentencePrediction", "next sentence", lambda made: made.logits[0]),
        ("BertForPreTraining", "next sentence", lambda made: made.seq_relationship_logits[0]),
        ("BertForMultipleChoice", "choice", lambda made: made.logits[0]),
        ("BartForSequenceClassification", "classes", lambda made: made.logits[0]),
    ],
)
def test_answers_are_the_librarys(
    folders: dict[str, Path], name: str, output: str, wanted: Any
) -> None:
    _, trace, made = run(folders, name)
    found = trace.outputs[output]
    if name == "ElectraForPreTraining":  # the library takes the sigmoid of one logit a token
        p = torch.sigmoid(made.logits[0])
        torch.testing.assert_close(found.log_probs.exp()[:, 1], p, atol=2e-6, rtol=0)
        assert found.predicted == tuple("replaced" if one > 0.5 else "original" for one in p)
        return
    torch.testing.assert_close(found.logits, wanted(made), atol=2e-5, rtol=1e-5)
    p = wanted(made).softmax(-1)
    own = found.log_probs.exp() if name == "BertForTokenClassification" else found.probabilities
    torch.testing.assert_close(own, p, atol=2e-6, rtol=0)


def test_masks_of_a_pretrained_pair_are_the_librarys(folders: dict[str, Path]) -> None:
    scope, trace, made = run(folders, "BertForPreTraining")
    found = trace.outputs["masked token"]
    assert found.positions == (trace.streams["text"].ids.index(scope.tokenizer.mask_id),)
    wanted = made.prediction_logits[0, list(found.positions)]
    torch.testing.assert_close(found.logits, wanted, atol=2e-5, rtol=1e-5)
    assert "next sentence" not in scope.run(TEXT).outputs


def test_each_token_is_named_by_its_class(folders: dict[str, Path]) -> None:
    _, trace, made = run(folders, "BertForTokenClassification")
    found, names = trace.outputs["token classes"], ("O", "B-PER", "B-LOC")
    assert found.predicted == tuple(names[i] for i in made.logits[0].argmax(-1))
    row = trace.streams["text"]
    inside = [f"{t}/{n}" for t, n in zip(row.tokens, found.predicted, strict=True)][1:-1]
    assert trace.output == " ".join(inside)


def test_each_choice_is_a_separate_row_after_the_question(folders: dict[str, Path]) -> None:
    _, trace, made = run(folders, "BertForMultipleChoice")
    found, choices = trace.outputs["choice"], texts("BertForMultipleChoice")[1:]
    assert found.names == choices
    best = int(made.logits[0].argmax())
    assert (found.predicted, found.stream, found.position) == (choices[best], CHOICE_ROWS[best], 0)
    assert list(trace.streams) == list(CHOICE_ROWS[:3])
    scope, long = models.load(folders["BertForMultipleChoice"], device="cpu"), " ".join(["a"] * 300)
    with pytest.raises(models.InputError, match="row of choice 2 has"):
        scope.run(long, TEXT, long)


def test_a_decoder_that_reads_the_text_again_answers_from_its_end(folders: dict[str, Path]) -> None:
    scope, trace, made = run(folders, "BartForSequenceClassification")
    row, shifted = trace.streams["text"], trace.streams["decoder input"]
    assert shifted.ids == (1, *row.ids[:-1])
    assert trace.outputs["classes"].position == len(row.ids) - 1
    last = scope.model.readout(
        trace.activations[scope.model.sublayers[-1].after].value[0], "classes"
    )[-1]
    torch.testing.assert_close(last, made.logits[0], atol=2e-5, rtol=1e-5)


def test_a_decoder_begins_with_the_texts_last_token_if_its_library_wraps_it(tmp_path: Path) -> None:
    sizes = BY_NAME["BartForSequenceClassification"].sizes
    module = Case("MBartForSequenceClassification", "MBartConfig", sizes).save(tmp_path)
    tokenizer = library_tokenizer(tmp_path, SIZE)
    end, language = tokenizer.sep_token_id, tokenizer.mask_token_id
    template = TemplateProcessing("$A [SEP] [MASK]", None, [("[SEP]", end), ("[MASK]", language)])
    tokenizer.backend_tokenizer.post_processor = template  # as the texts of mBART end
    tokenizer.save_pretrained(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    trace = scope.run(TEXT)
    row = trace.streams["text"].ids
    assert row[-2:] == (end, language)
    assert trace.streams["decoder input"].ids == (language, *row[:-1])
    with torch.no_grad():
        wanted = module(input_ids=torch.tensor([trace.streams["text"].ids])).logits[0]
    torch.testing.assert_close(trace.outputs["classes"].logits, wanted, atol=2e-5, rtol=1e-5)
    assert trace.outputs["classes"].position == len(row) - 2  # the library reads the end token


def test_the_lens_of_an_opt_with_a_projected_stream_ends_in_its_answer(tmp_path: Path) -> None:
    sizes = {"hidden_size": 22, "num_attention_heads": 2, "ffn_dim": 31, "num_hidden_layers": 2}
    more = {"vocab_size": VOCABULARY, "max_position_embeddings": 61, "word_embed_proj_dim": 14}
    module = Case("OPTForCausalLM", "OPTConfig", sizes | more).save(tmp_path / "opt")
    scope = models.load(tmp_path / "opt", device="cpu")
    trace = scope.run("5 7 11 13")
    with torch.no_grad():
        logits = module(torch.tensor([trace.streams["text"].ids])).logits[0]
    torch.testing.assert_close(trace.next_token.logits, logits, atol=2e-5, rtol=1e-5)
    last = trace.activations[scope.model.sublayers[-1].after].value[0]
    torch.testing.assert_close(scope.model.readout(last), logits, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("name", list(BY_NAME))
def test_inspect_prints(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["inspect", str(folders[name])]) == 0
    assert "attention: 2 layers" in capsys.readouterr().out


_CLIP = {
    "hidden_size": 22,
    "intermediate_size": 31,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
REFUSED = {
    "CLIPModel": (
        "CLIPConfig",
        {
            "text_config": _CLIP | {"vocab_size": VOCABULARY},
            "vision_config": _CLIP,
            "projection_dim": 7,
        },
        "preprocessor_config.json is missing",
    ),
    "MambaForCausalLM": (
        "MambaConfig",
        {"vocab_size": VOCABULARY, "hidden_size": 22, "num_hidden_layers": 2},
        "no softmax is computed",
    ),
    "RwkvForCausalLM": (
        "RwkvConfig",
        {"vocab_size": VOCABULARY, "hidden_size": 22, "num_hidden_layers": 2},
        "no softmax is computed",
    ),
    "FNetForMaskedLM": ("FNetConfig", _WIDE, "no softmax is computed"),
    "PerceiverForMaskedLM": (
        "PerceiverConfig",
        {
            "vocab_size": VOCABULARY,
            "d_model": 24,
            "d_latents": 24,
            "num_latents": 7,
            "num_self_attends_per_block": 2,
            "num_self_attention_heads": 2,
            "num_cross_attention_heads": 2,
            "max_position_embeddings": 61,
        },
        "it weighs .*7 × 7",
    ),
    "BrosModel": ("BrosConfig", _WIDE, r"not run on a text of 3 tokens alone \(.* bbox\)"),
    "FunnelForMaskedLM": (  # pools a text of 3 tokens to fewer than it can compare
        "FunnelConfig",
        {"vocab_size": VOCABULARY, "d_model": 22, "n_head": 2, "d_head": 11, "d_inner": 31}
        | {"block_sizes": [1, 1, 1], "sep_token_id": 3},
        "not run on a text of 3 tokens alone",
    ),
    "CanineModel": (  # hashes each letter
        "CanineConfig",
        {key: size for key, size in _WIDE.items() if key != "vocab_size"}
        | {"hidden_size": 24, "num_hash_buckets": 17, "type_vocab_size": 2},
        "CanineModel provides no table with one embedding for each token",
    ),
    "LxmertModel": (  # has layers of three kinds, and a number for each
        "LxmertConfig",
        _WIDE | {"num_hidden_layers": {"vision": 1, "language": 1, "cross_encoder": 1}},
        "reads .*image",
    ),
    "ViTForImageClassification": (
        "ViTConfig",
        {"hidden_size": 22, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 16},
        "preprocessor_config.json is missing",
    ),
    "ViTForMaskedImageModeling": (
        "ViTConfig",
        {"hidden_size": 22, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 16},
        "reads pixel values; besides models that read text, only models that classify or embed images",
    ),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_model_without_attention_between_tokens_is_refused_with_the_reason(
    tmp_path: Path, name: str
) -> None:
    config, sizes, sentence = REFUSED[name]
    getattr(transformers, name)(getattr(transformers, config)(**sizes)).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=sentence):
        models.load(tmp_path, device="cpu")


class Calling(nn.Module):
    """A module that attends with a function of torch, and takes no softmax itself."""

    def __init__(self, attend: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.embedding, self.attend = nn.Embedding(11, 6), attend
        self.config = SimpleNamespace(vocab_size=11)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.attend(self.embedding(input_ids))


def test_a_softmax_inside_torchs_attention_counts_as_one() -> None:
    layer = nn.MultiheadAttention(6, 2, batch_first=True).eval()
    calls = [
        lambda x: F.scaled_dot_product_attention(x, x, value=x),
        lambda x: F.scaled_dot_product_attention(query=x, key=x, value=x),
        lambda x: layer(x, x, x, need_weights=False)[0],
    ]
    for call in calls:
        assert why_nothing_is_shown(Calling(call), "for another reason") == "for another reason"
    one = Calling(lambda x: F.scaled_dot_product_attention(x[:, :2], x, x))
    assert "it weighs 2 × 5 positions" in why_nothing_is_shown(one)
    assert "no softmax is computed" in why_nothing_is_shown(Calling(torch.tanh))


@pytest.mark.parametrize("made", ["Bart", "T5"])
def test_two_texts_of_two_stacks_are_two_blocks_that_share_the_row(
    made: str, tmp_path: Path
) -> None:
    """The library's tokenizer separates the texts; its cross-attention is split between them."""
    sizes = (_SEQ | _END if made == "Bart" else _T5 | _END) | {"vocab_size": SIZE, "num_labels": 3}
    Case(f"{made}ForSequenceClassification", f"{made}Config", sizes).save(tmp_path)
    tokenizer = library_tokenizer(tmp_path, SIZE)
    inputs = tokenizer(TEXT, SECOND, return_tensors="pt", return_token_type_ids=True)
    texts = inputs.pop("token_type_ids")[0]
    module = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path, attn_implementation="eager"
    )
    with torch.no_grad():
        output = module(**inputs, output_attentions=True)
    scope = models.load(tmp_path, device="cpu")
    run = CurrentRun(scope, scope.run(TEXT, SECOND))
    torch.testing.assert_close(
        first_output(run.trace).logits, output.logits[0], atol=1e-5, rtol=1e-4
    )
    first_cross, *_ = (name for name, s in run.trace.attention.items() if s.role == "cross")
    pictures = task_payloads(run, TaskChoices(None, Focus(first_cross, 1)))
    header, _ = unpack(pictures["pair"])
    assert header["segments"] == texts.tolist()
    weights = output.cross_attentions[0][0, 1, -1]
    shares = [float(weights[texts == i].sum()) for i in range(2)]
    assert [share for _, share in header["blocks"]] == [f"{s:.2f} of the attention" for s in shares]
    assert min(shares) > 0.01
    assert len(run.trace.streams["decoder input"].segments) == len(texts)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("O", "B-PER", "I-PER"), True),
        (("O", "I-PER", "I-LOC"), False),  # I- begins entities there
        (("O", "B-PER", "B-LOC"), False),
        (("B-PER", "I-PER"), False),
    ],
)
def test_the_labelling_convention_is_explained_if_all_of_it_is_used(
    names: tuple[str, ...], said: bool
) -> None:
    output = TokenClasses("text", names, torch.zeros(2, len(names)))
    trace = SimpleNamespace(streams={})
    assert ("B- begins a name" in presentation(output).explanation(trace, output, "")) == said
