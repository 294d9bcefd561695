"""The page Models: the card of a checkpoint, and its masks against truth tables written by hand."""

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
import torch
from hub_models import BY_NAME
from small import (
    N_CTX,
    random_attention_only,
    random_bert,
    random_gpt,
    random_model,
    random_seq2seq,
    words_of,
)

import models
from models import weights
from models.analysis.outline import example_masks, outline
from models.architectures.xlnet import XLNetConfig
from models.checkpoint import save_checkpoint
from models.tokenizers.base import Tokenizer
from viz_app import checkpoints
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.views.models import page, text

ALL, NONE = "1", "0"


def table(mask: torch.Tensor) -> list[str]:
    return ["".join(ALL if cell else NONE for cell in row) for row in mask.tolist()]


CAUSAL = {
    5: ["10000", "11000", "11100", "11110", "11111"],
    6: ["100000", "110000", "111000", "111100", "111110", "111111"],
}


@pytest.mark.parametrize(("model", "expected"), [
    (random_gpt(), {"self": CAUSAL[6]}),
    (random_gpt(window=2), {"self": ["100000", "110000", "111000", "011100", "001110", "000111"]}),
    (random_bert(), {"self": ["111111"] * 6}),
    (random_model(), {"encoder_self": ["111111"] * 6, "decoder_self": CAUSAL[5], "cross": ["111111"] * 5}),
    (random_attention_only(n_self_layers=0), {"cross": ["111111"] * 5}),
    (random_seq2seq(), {"cross": ["111111"] * 5}),
    (random_seq2seq(attention="none"), {}),
])  # fmt: skip
def test_the_masks_are_the_models_own_on_a_short_row(model, expected) -> None:
    assert {kind.name: table(mask) for kind, mask in example_masks(model).items()} == expected


def test_a_model_with_an_order_is_shown_in_the_papers_order() -> None:
    """3 → 2 → 4 → 1 (Yang et al. 2019, fig. 1): token 3 sees itself alone, 2 sees 3, 4 sees 3 and 2, 1 sees all."""
    made = example_masks(weights.blank(XLNetConfig(31, d_model=15, n_heads=3, n_layers=1, n_ctx=7)))
    assert {kind.name: table(mask) for kind, mask in made.items()} == {
        "content": ["1111", "0110", "0010", "0111"],
        "query": ["0111", "0010", "0000", "0110"],
    }


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Four checkpoints, one of which is broken."""
    letters, words = Tokenizer.characters("abc"), words_of("Mary went.")
    record = {
        "step": 7,
        "licence": "Public domain",
        "data": {"file": "book.txt", "documents": {"train": 23}},
    }
    scores = {"held-out perplexity": 5.25, "bits per byte": 2.0, "cases": 1300}
    made = {
        "z-rnn": (
            random_seq2seq(vocab_size=letters.vocab_size),
            letters,
            record | {"task": "dates"},
        ),
        "a-gpt": (
            random_gpt(vocab_size=letters.vocab_size),
            letters,
            record | {"task": "language", "scores": scores},
        ),
        "b-gpt": (
            random_gpt(vocab_size=letters.vocab_size, n_layers=1),
            letters,
            {"step": 0, "task": "chess"},
        ),
        "bert": (random_bert(vocab_size=words.vocab_size), words, record | {"task": "mlm"}),
    }
    for name, (model, tokenizer, training) in made.items():
        save_checkpoint(tmp_path / name, model, tokenizer, training)
    (tmp_path / "broken").mkdir()
    named = {name: str(tmp_path / name) for name in ("bert", "broken", "b-gpt", "a-gpt", "z-rnn")}
    monkeypatch.setattr(checkpoints, "offered", lambda: named)
    return [str(tmp_path / name) for name in made]


def open_run(folder: str | Path, text: str) -> CurrentRun:
    scope = models.load(folder, device="cpu")
    return CurrentRun(scope, scope.run(text))


def test_the_open_model_comes_before_the_families_in_the_order_of_history(
    offered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(offered[1], "abc")  # which has a card already
    monkeypatch.setattr(models, "load", lambda *_: pytest.fail("no weights are read for a card"))
    payload, unreadable = page.cards(run)
    header, arrays = unpack(payload)
    ((name, reason),) = unreadable
    assert name == "broken"
    assert "config.json" in reason
    assert [group["title"] for group in header["groups"]] == [
        "Open now",
        "RNN with alignment (Bahdanau et al. 2015)",
        "GPT (Radford et al. 2018, 2019)",
        "BERT (Devlin et al. 2019)",
    ]
    shown = [card for group in header["groups"] for card in group["cards"]]
    assert [card["name"] for card in shown] == ["a-gpt", "z-rnn", "b-gpt", "bert"]
    assert [card["name"] for card in shown if "href" not in card] == ["a-gpt"]
    gpt, shown = shown[0], [shown[1], shown[0], *shown[2:]]
    n = sum(parameter.numel() for parameter in random_gpt(vocab_size=7).parameters())
    assert (
        gpt["sizes"] == f"{n:,} parameters, 2 layers × 3 heads, d_model 15, at most {N_CTX} tokens"
    )
    assert gpt["scores"] == "Held-out perplexity 5.25; bits per byte 2 over 1,300 cases."
    assert (gpt["purpose"], gpt["made"]) == (
        "Continues a text.",
        "Trained for 7 steps on 23 documents.",
    )
    assert gpt["licence"] == "Public domain"
    assert (shown[2]["scores"], shown[2]["purpose"], shown[2]["made"]) == (
        "No score was measured.",
        "Task: chess.",
        "",
    )
    assert "1 layer × 3 heads" in shown[2]["sizes"]
    assert shown[0]["sizes"].split(", ")[1:] == [
        "d_model 17",
        f"at most {N_CTX} tokens",
    ]  # no heads
    link = urlsplit(shown[2]["href"])
    assert (link.path, parse_qs(link.query)) == ("task", {"checkpoint": ["b-gpt"]})
    assert [card["masks"] for card in shown] == [
        [["alignment", "The target attends to the source: 0 of 30 cells are blocked", 5, 6]],
        *[[["decoder self", "The text attends to itself: 15 of 36 cells are blocked", 6, 6]]] * 2,
        [["encoder self", "The text attends to itself: 0 of 36 cells are blocked", 6, 6]],
    ]
    causal = "".join(CAUSAL[6])
    assert "".join(map(str, arrays["cells"])) == causal + "1" * 30 + causal + "1" * 36


def test_a_card_is_redrawn_when_its_record_changes(offered: list[str]) -> None:
    run = open_run(offered[0], "abc")
    page.cards(run)
    record = Path(offered[1]) / "training.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"licence": "CC BY 4.0"}))
    header, _ = unpack(page.cards(run)[0])
    assert header["groups"][1]["cards"][0]["licence"] == "CC BY 4.0"


def test_an_opened_folder_of_the_user_comes_first(
    offered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "offered", lambda: {"bert": offered[-1]})
    header, _ = unpack(page.cards(open_run(offered[1], "abc"))[0])
    (card,) = header["groups"][0]["cards"]
    assert [group["title"] for group in header["groups"]] == [
        "Open now",
        "BERT (Devlin et al. 2019)",
    ]
    assert (card["name"], card["purpose"], card["licence"]) == (
        "a-gpt",
        "Continues a text.",
        "Public domain",
    )
    assert card["shown"][0] == "Attention: 2 layers × 3 heads of decoder self-attention."
    assert "href" not in card


@pytest.mark.parametrize(("name", "lines"), [
    ("T5ForConditionalGeneration", [
        "Output: another text, token by token.",
        "Attention: 2 layers × 3 heads of encoder self-attention, 2 layers × 3 heads of decoder self-attention, "
        "2 layers × 3 heads of decoder cross-attention.",
    ]),
    ("DebertaV2ForMaskedLM", [
        "Output: the token behind each mask.", "Attention: 2 layers × 2 heads of encoder self-attention.",
        "Queries, keys, values, scores and named mask layers are shown; masks can be painted.",
    ]),
])  # fmt: skip
def test_a_third_party_model_is_described_once_it_is_open(
    offered: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    lines: list[str],
) -> None:
    module = BY_NAME[name].save(tmp_path / name)
    monkeypatch.setattr(
        checkpoints, "offered", lambda: {one: str(tmp_path / one) for one in ("a-gpt", name)}
    )
    shut, unreadable = page.cards(open_run(offered[1], "abc"))
    assert unreadable == []
    (card,) = unpack(shut)[0]["groups"][-1]["cards"]
    assert (card["name"], card["family"], card["purpose"]) == (
        name,
        f"{name} (Hugging Face)",
        text.UNOPENED,
    )
    assert parse_qs(urlsplit(card["href"]).query) == {"checkpoint": [name]}
    run = open_run(tmp_path / name, "3 5 7 11")
    header, _ = unpack(page.cards(run)[0])
    assert [[card["name"] for card in group["cards"]] for group in header["groups"]] == [
        [name],
        ["a-gpt"],
    ]
    (card,) = header["groups"][0]["cards"]
    n = sum(tensor.numel() for tensor in {p.data_ptr(): p for p in module.parameters()}.values())
    assert card["sizes"] == f"{n:,} parameters, at most {run.scope.n_ctx:,} tokens"
    assert card["shown"][: len(lines)] == lines
    assert "href" not in card


def test_unreadable_checkpoints_are_named() -> None:
    assert text.missing_checkpoints([], None)["rows"] == []
    first, *rest = text.missing_checkpoints([("a", "too large"), ("b\n\u202ec", "gone")], None)[
        "rows"
    ]
    assert "cannot be read" in first[1]
    assert [line for _, line in rest] == ["a: too large", "bU+000AU+202Ec: gone"]


def test_the_outline_counts_without_building_anything() -> None:
    model = random_attention_only(n_self_layers=0, n_heads=1)
    found = outline(model.config)
    assert found.n_parameters == sum(parameter.numel() for parameter in model.parameters())
    assert (
        text.sizes(model.config, found.n_parameters).split(", ")[1]
        == "0 self-attention layers × 1 head"
    )
    assert np.array_equal(next(iter(found.masks.values())).numpy(), np.ones((5, 6), bool))
