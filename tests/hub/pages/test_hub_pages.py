"""A Hugging Face folder in the app: every page opens with it, and says where a model's library returns too little."""

import textwrap
from pathlib import Path

import numpy as np
import pytest
from app_parts import (
    app_at,
    component,
    page_at,
    picker,
    picker_models,
    picture,
    prose,
    said,
    with_key,
)
from hub_models import BY_NAME, Case, own_module_of_readme
from streamlit.testing.v1 import AppTest

import models
import viz_app
from models.decoding import greedy, length_penalty
from viz_app import checkpoints
from viz_app.navigation import PAGES
from viz_app.session import cache
from viz_app.session.byte_cache import MEGABYTE, ByteCache
from viz_app.session.cache import store
from viz_app.views.decoding.text import passed_over

APP = Path(viz_app.__file__).with_name("app.py")


def open_page(folder: Path, name: str, **asked: str) -> AppTest:
    return page_at(name, checkpoint=str(folder), **asked)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for name in (
        "GPT2LMHeadModel",
        "LlamaForCausalLM",
        "DebertaV2ForMaskedLM",
        "XLNetForSequenceClassification",
        "GptOssForCausalLM",
        "GPT2ForSequenceClassification",
    ):
        found[name] = tmp_path_factory.mktemp("hub") / name
        BY_NAME[name].save(found[name])
    return found


@pytest.mark.parametrize("name", list(PAGES))
def test_every_page_opens_with_a_gpt2(folders: dict[str, Path], name: str) -> None:
    app = open_page(folders["GPT2LMHeadModel"], name)
    assert picker(app)["value"] == str(folders["GPT2LMHeadModel"])


def test_the_second_attention_of_a_layer_can_be_chosen_on_decoding(tmp_path: Path) -> None:
    sizes = BY_NAME["LlamaForCausalLM"].sizes | {"head_dim": 4}
    Case("DiffLlamaForCausalLM", "DiffLlamaConfig", sizes).save(tmp_path)
    app = open_page(tmp_path, "decoding", site="model.layers.1.self_attn (2)")
    assert with_key(app.button_group, "which-layer").options == ["1", "1 (2)", "2", "2 (2)"]
    assert picture(app, "stepper")[0]["reading"].startswith("decoder layer 2 (2), ")


def test_masks_of_a_model_whose_projections_are_not_known(folders: dict[str, Path]) -> None:
    app = open_page(folders["LlamaForCausalLM"], "masks")
    assert "continues with its residual stream and the bias of W_O, if it has one, alone" in prose(
        app
    )


def test_heads_are_taken_from_another_run_where_no_activation_can_be(
    folders: dict[str, Path],
) -> None:
    """The library's XLNet lets no edit change its streams."""
    asked = {"interventions-section": "Patch", "text": "1 2 3 4 5", "patch-text": "1 2 9 4 5"}
    app = open_page(folders["XLNetForSequenceClassification"], "interventions", **asked)
    kinds = [kind for panel in said(app, "patch")["panels"] for kind in panel["kinds"]]
    effects = [effect for kind in kinds for layer in kind["effects"] for effect in layer]
    assert len(effects) == 2 * 2 * 2  # sides, layers, heads
    assert any(effects)
    assert [panel["grid"] for panel in said(app, "patch")["panels"]] == [None, None]


@pytest.mark.parametrize("name", ["attention", "inside", "layer", "positions", "masks"])
def test_a_classifying_gpt2_is_never_called_an_encoder(folders: dict[str, Path], name: str) -> None:
    app = open_page(folders["GPT2ForSequenceClassification"], name)
    assert "ncoder" not in prose(app)
    drawn = {"attention": "head", "inside": "walk", "layer": "layer", "masks": "mask_painter"}
    if name in drawn:
        told = str(picture(app, drawn[name])[0])
        assert "ecoder" in told
        assert "ncoder" not in told


def test_the_page_of_a_head_with_rotated_queries_says_so(folders: dict[str, Path]) -> None:
    app = open_page(folders["LlamaForCausalLM"], "inside")
    assert "No walk from the tokens here" in prose(app)


GIVEN = {
    "attention": "Only the weights of this attention are known", "task": "", "inside": "Only the finished weights are known",
    "layer": "The residual stream",
    "positions": "",
    "masks": "cannot be changed", "interventions": "no attention head whose output can be changed",
    "decoding": "", "from-rnn": "", "models": "", "compare": "", "lessons": "", "train": "",
}  # fmt: skip


@pytest.mark.parametrize("name", list(PAGES))
def test_returned_weights_are_shown_and_missing_parts_are_explained(
    folders: dict[str, Path], name: str
) -> None:
    """Nothing that such a model lacks is claimed of it: no q·k, no walk, no term of its score, no mask to paint."""
    app = open_page(folders["GptOssForCausalLM"], name)
    said = prose(app)
    if name == "positions":  # it opens on a section that the model has
        said += component(app, "section-reasons").json
    assert GIVEN[name] in said
    for claim in (
        "mathrm{softmax}",
        "all come from",
        "Each score has a term",
        "Click or drag cells",
    ):
        assert claim not in said


@pytest.mark.parametrize("model", ["DebertaV2ForMaskedLM", "XLNetForSequenceClassification"])
@pytest.mark.parametrize("name", list(PAGES))
def test_every_page_opens_with_attention_that_its_library_writes_out(
    folders: dict[str, Path], model: str, name: str
) -> None:
    said = prose(open_page(folders[model], name))
    assert "Only the weights" not in said
    assert "cannot be changed" not in said


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Generating models with attention written out by their library: one with a cache of keys, and one without."""
    sizes = {"vocab_size": 53, "n_head": 2, "n_layer": 2, "eos_token_id": None}
    cases = [
        Case("BloomForCausalLM", "BloomConfig", sizes | {"hidden_size": 22}),
        Case("OpenAIGPTLMHeadModel", "OpenAIGPTConfig", sizes | {"n_embd": 22, "n_positions": 61}),
    ]
    folders = {case.model: tmp_path_factory.mktemp("writers") / case.model for case in cases}
    for case in cases:
        case.save(folders[case.model])
    return folders


@pytest.mark.parametrize("model", ["BloomForCausalLM", "OpenAIGPTLMHeadModel"])
@pytest.mark.parametrize("name", list(PAGES))
def test_every_page_opens_with_a_generating_model_whose_attention_is_written_out(
    writers: dict[str, Path], model: str, name: str
) -> None:
    app = open_page(writers[model], name)
    assert picker(app)["value"] == str(writers[model])


@pytest.mark.parametrize("model", ["BloomForCausalLM", "OpenAIGPTLMHeadModel"])
def test_decoding_with_attention_written_out_shows_each_step_and_checks_it(
    writers: dict[str, Path], model: str
) -> None:
    app = open_page(writers[model], "decoding")
    assert picture(app, "stepper")[1]
    checks = said(app, "checks")["rows"]
    looks = [look for look, _ in checks]
    assert looks.count("failed") == 0
    assert "weights · v" in str(checks)
    keeps = model == "BloomForCausalLM"
    assert ("with the cache = without it" in str(checks)) is keeps
    assert ("No cache is used here" not in prose(app)) is keeps


def test_the_vectors_that_a_model_looks_up_are_distinguished_from_others(
    folders: dict[str, Path],
) -> None:
    own, others = (
        "show this model's own position vectors",
        "This one shows no position vectors",
    )
    asked = {"positions-section": "Shuffle test"}
    assert own in prose(open_page(folders["GPT2LMHeadModel"], "positions", **asked))
    assert "It rotates its queries and keys" in prose(
        open_page(folders["LlamaForCausalLM"], "positions", **asked)
    )
    assert others in prose(open_page(folders["GptOssForCausalLM"], "positions", **asked))
    assert own in prose(open_page(folders["DebertaV2ForMaskedLM"], "positions", **asked))


@pytest.mark.parametrize("how", ["greedy", "sampling", "beam"])
def test_decoding_says_where_the_settings_passed_over_the_most_probable_token(
    tmp_path: Path, how: str
) -> None:
    """It samples from the tokens that they leave, as the library does."""
    module = BY_NAME["MarianMTModel"].make()
    module.save_pretrained(tmp_path)
    plain = models.load(tmp_path, device="cpu")
    (first, *_), given = plain.write("5 6 7 8 9").ids, plain.input_ids("5 6 7 8 9")
    module.generation_config.suppress_tokens = [first]
    module.save_pretrained(tmp_path)
    link = {"source": "5 6 7 8 9", "decoding-how": how, "decoding-picture": "step by step"}
    app = open_page(tmp_path, "decoding", **link)
    header, arrays = picture(app, "stepper")
    barred = arrays["serial_ids"] == first
    assert arrays["serial_p"][barred].max() > 0
    places = [
        i for i, step in enumerate(greedy(models.load(tmp_path, device="cpu").model, given))
        if int(step.log_probs.argmax()) == first
    ]  # fmt: skip
    assert (passed_over(places) in header["note"]) == (how == "greedy")
    assert ("passed over" in header["note"]) == (how == "greedy")
    assert "failed" not in [look for look, _ in said(app, "checks")["rows"]]
    if how == "beam":
        tree, _ = picture(
            open_page(tmp_path, "decoding", **link | {"decoding-picture": "tree"}), "beam_tree"
        )
        for node in (node for step in tree["steps"] for node in step):
            penalty = length_penalty(node["n"], tree["alpha"])
            assert node["score"] == pytest.approx(node["total"] / penalty)
    if how == "sampling":
        assert arrays["drawn_p"][barred].max() == 0
    else:
        assert "drawn_p" not in arrays


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["attention", "inside", "decoding"])
def test_checks_of_a_model_that_runs_in_half_precision_pass(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, dtype: str, name: str
) -> None:
    monkeypatch.setenv(checkpoints.DTYPE_VARIABLE, dtype)
    monkeypatch.setattr(store, "cache_store", ByteCache(512 * MEGABYTE))
    app = open_page(folders["GPT2LMHeadModel"], name)
    assert cache.scope(str(folders["GPT2LMHeadModel"])).config.dtype == dtype
    assert not app.exception
    looks = [look for look, _ in said(app, "checks")["rows"]]
    assert "passed" in looks
    assert "failed" not in looks


def test_an_incomplete_folder_is_reported_beside_the_picker(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    damaged = tmp_path / "cut"
    damaged.mkdir()
    for file in folders["GPT2LMHeadModel"].iterdir():
        (damaged / file.name).write_bytes(
            file.read_bytes()[: 999 if file.suffix == ".safetensors" else None]
        )
    app = open_page(damaged, "attention")
    assert "was cut off" in prose(app)


def test_forty_thousand_tokens_are_refused_in_a_sentence_and_the_picture_stays(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folders["GPT2LMHeadModel"]
    monkeypatch.setenv(checkpoints.MODELS_VARIABLE, str(folder.parent))
    app = open_page(Path(folder.parent.name, folder.name), "attention")
    before, weights = picture(app, "head")
    for text, sentence in (
        (
            " ".join(["7"] * 40_000),
            "The text has 79,999 characters; this model reads at most 61 tokens.",
        ),
        (" ".join(["7"] * 70), "The text has 70 tokens; this model reads at most 61."),
    ):
        app.text_area(key="text").set_value(text).run()
        assert not app.exception
        assert said(app, "note text") == {
            **said(app, "note text"),
            "look": "note bad",
            "rows": [["line", sentence]],
        }
        after, still = picture(app, "head")
        assert after["caption"] == before["caption"]
        np.testing.assert_array_equal(still["weights"], weights["weights"])
    app.text_area(key="text").set_value("7 11").run()
    assert picture(app, "head")[1]["weights"].size == 4


def test_the_app_opens_with_the_users_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The README's lines are started as by `attnscope --module`: no name is in the address, and Attention shows the module."""
    file = tmp_path / "mine.py"
    file.write_text(own_module_of_readme(), "utf-8")
    monkeypatch.setenv(checkpoints.MODULE_VARIABLE, f"{file}:make_scope")
    app = app_at(text="hello")
    assert picker(app)["value"] == f"{file}:make_scope"
    own = picker(app)["groups"][-1]
    assert (own["title"], own["options"][0]["label"]) == ("Own module", "mine.py:make_scope")
    header, arrays = picture(app, "head")
    scope = cache.scope(f"{file}:make_scope")
    assert header["site"] in ("1.layers.0.self_attn", "1.layers.1.self_attn")
    assert [key for key, *_ in header["keys"]] == list("hello")
    weights = scope.run("hello").attention[header["site"]].weights(header["head"]).numpy()
    np.testing.assert_allclose(arrays["weights"].reshape(5, 5), weights, atol=1e-6)
    assert weights[0, 0] == 1  # it looks back only


def test_a_module_whose_letters_know_no_line_break_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most scripts that read letters have a table of the letters of their own text only."""
    file = tmp_path / "mine.py"
    lines = own_module_of_readme()
    for old, new in (
        ('list(text.encode("ascii"))', "[LETTERS.index(letter) for letter in text]"),
        ('bytes(ids).decode("ascii")', "''.join(LETTERS[i % 9] for i in ids)"),
    ):
        assert old in lines
        lines = lines.replace(old, new)
    file.write_text("LETTERS = 'abcdefghi'\n" + lines, "utf-8")
    monkeypatch.setenv(checkpoints.MODULE_VARIABLE, f"{file}:make_scope")
    app = app_at(text="badcafe")
    assert not app.exception
    assert [key for key, *_ in picture(app, "head")[0]["keys"]] == list("badcafe")


def test_a_failing_module_is_reported_beside_the_picker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def make_scope():\n    raise KeyError('<b>no weights</b>')\n", "utf-8")
    monkeypatch.setenv(checkpoints.MODULE_VARIABLE, f"{file}:make_scope")
    app = app_at()
    note = said(app, "note checkpoint")
    assert (note["look"], note["rows"]) == (
        "note bad",
        [["line", f"{file}:make_scope: KeyError: '<b>no weights</b>'"]],
    )


def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, name: str) -> AppTest:
    """Open one page of the app with the module that `lines` call `net`, watched with the options `how`."""
    file = tmp_path / "mine.py"
    start = "import models\nfrom torch import nn\n\n\ndef make_scope():\n"
    body = textwrap.indent(textwrap.dedent(lines).strip(), "    ")
    end = "\n    return models.watch(net.eval(), encode=lambda text: [ord(c) % 7 for c in text], **how)\n"
    file.write_text(start + body + end, "utf-8")
    monkeypatch.setenv(checkpoints.MODULE_VARIABLE, f"{file}:make_scope")
    return page_at(name, text="hello")


HAND_WRITTEN = """
net = nn.Sequential(nn.Embedding(7, 22), nn.Linear(22, 22))
how = {}
"""
RAISES = """
net = nn.Sequential(nn.Embedding(3, 22))
how = {}
"""
SHORT = """
layer = nn.TransformerEncoderLayer(22, 2, 31, batch_first=True)
net = nn.ModuleList([nn.Embedding(7, 22), nn.Embedding(6, 22), layer, nn.Linear(22, 7)])
def call(net, ids):
    import torch
    x = net[0](ids) + net[1](torch.arange(ids.shape[1]))
    mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
    return net[3](net[2](x, src_mask=mask, is_causal=True))
how = {"call": call, "decode": lambda ids: "".join("abcdefg"[i] for i in ids)}
"""


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (HAND_WRITTEN, "there is no attention to show"),
        (RAISES, "Sequential: cannot read this text (IndexError: index out of range in self)"),
    ],
)
def test_a_module_that_cannot_be_recorded_is_reported_under_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, sentence: str
) -> None:
    app = own(tmp_path, monkeypatch, lines, "attention")
    assert not app.exception
    note = said(app, "note text")
    assert note["look"] == "note bad"
    assert sentence in note["rows"][0][1]


def test_a_module_that_fails_on_one_page_is_reported_there_and_shown_on_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has six positions: the text fits, but its continuation does not."""
    app = own(tmp_path, monkeypatch, SHORT, "attention")
    assert not app.exception
    assert picture(app, "head")[1]["weights"].size == 25
    app = own(tmp_path, monkeypatch, SHORT, "decoding")
    assert not app.exception
    assert "ModuleList: cannot read this text (IndexError" in prose(app)


def described(checkpoint: str) -> tuple[str, str]:
    """Return the description of a model in the picker and in the note, which are in the same place."""
    app = app_at("attention", checkpoint=checkpoint)
    rows = said(app, "note checkpoint")["rows"]
    return picker_models(app).get(checkpoint, ""), "".join(str(line) for _, line in rows)


def test_a_model_is_described_in_one_place(tmp_path: Path, monkeypatch) -> None:
    """That is the picker if the model is listed, else the note."""
    BY_NAME["GPT2LMHeadModel"].save(tmp_path / "shelf" / "mine")
    picked, noted = described(str(tmp_path / "shelf" / "mine"))
    assert picked == ""
    assert "GPT2LMHeadModel" in noted
    monkeypatch.setenv(checkpoints.MODELS_VARIABLE, str(tmp_path / "shelf"))
    listed = next(name for name in checkpoints.available() if name.endswith("mine"))
    picked, noted = described(listed)
    assert "GPT2LMHeadModel" in picked
    assert noted == ""
