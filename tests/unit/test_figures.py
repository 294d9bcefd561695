"""Drawing without Streamlit: a picture holds what `models` computed, and nothing is lost on the way."""

import csv
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from drawn import letters, saved
from small import random_model, trace_of
from torch import nn

from models import watch
from models.checkpoint import Checkpoint
from models.layers.masks import Mask, MaskLayer, look_ahead
from models.runs.scope import Scope
from models.tokenizers.base import Encoding, Tokenizer
from models.trace import Trace, record
from models.trace.edits import HeadOff, SetWeights, Where
from viz_app import words
from viz_app.drawing import export
from viz_app.drawing.colours import ACCENT_COLOUR, PAPER_COLOUR, ramp
from viz_app.drawing.head import head_payload
from viz_app.drawing.labels import labels, visible
from viz_app.drawing.overview import (
    MAX_OVERVIEW_BYTES,
    MAX_THUMBNAIL_SIDE,
    overview,
    pooled_codes,
    side_for,
)
from viz_app.drawing.payload import pack, unpack
from viz_app.drawing.pooling import block_side
from viz_app.drawing.sites import blocked_bits, by_kind, sharpest_head

TERMS = words.terms("translation", ("en", "fr"))


@pytest.fixture(scope="module")
def random_scope() -> Scope:
    """An untrained model: enough for pictures of what it computes."""
    tokenizer = Tokenizer.characters("abcde=@")
    model = random_model(vocab_size=tokenizer.vocab_size)
    return Scope(
        Checkpoint(Path("random"), model, tokenizer, {"task": "translation"}), torch.device("cpu")
    )


@pytest.fixture(scope="module")
def trace(random_scope: Scope) -> Trace:
    return random_scope.run("abcde", "edc")


def random_trace(n_source: int, n_target: int, **sizes: int) -> Trace:
    """Return a run of a random model over random tokens, for pictures of any size."""
    model = random_model(n_ctx=max(n_source, n_target), **sizes)
    source, target = (torch.randint(4, 31, (1, n)) for n in (n_source, n_target))
    with torch.inference_mode(), record() as recording:
        logits = model(source, target)[0]
    streams = {
        name: Encoding(
            "", tuple(ids[0].tolist()), tuple("x" * ids.shape[1]), (None,) * ids.shape[1]
        )
        for name, ids in (("source", source), ("target", target))
    }
    return trace_of(recording, streams, logits)


# --- payload


def test_a_payload_survives_a_round_trip() -> None:
    arrays = {
        "a": np.arange(7, dtype=np.uint8),
        "b": np.linspace(0, 1, 15, dtype=np.float32).reshape(3, 5),
    }
    header, back = unpack(pack({"tokens": ["·été", "漢", "</s>"]}, **arrays))
    assert header["tokens"] == ["·été", "漢", "</s>"]
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name], array)


def test_every_array_starts_at_a_multiple_of_eight() -> None:
    header, _ = unpack(
        pack({}, a=np.zeros(3, np.uint8), b=np.zeros(1, np.float32), c=np.zeros(2, np.uint8))
    )
    assert all(offset % 8 == 0 for _, _, offset in header["arrays"].values())


# --- one head


def test_the_heads_payload_holds_the_models_weights_exactly(trace: Trace) -> None:
    for site in trace.attention.values():
        for index in range(site.n_heads):
            header, arrays = unpack(head_payload(trace, site, index, TERMS))
            assert torch.equal(torch.from_numpy(arrays["weights"].copy()), site.weights(index))
            assert (len(header["queries"]), len(header["keys"])) == arrays["weights"].shape


def test_a_blocked_cell_names_its_masks_as_the_back_end_does(trace: Trace) -> None:
    site = trace.attention["decoder.layers.0.self_attn"]
    bits = blocked_bits(site)
    for q in range(site.n_query):
        for k in range(site.n_key):
            named = [layer.name for i, layer in enumerate(site.mask.layers) if bits[q, k] >> i & 1]
            assert named == site.blocked_by(q, k)
    assert bits[0, -1] != 0


def test_the_title_names_the_picture(trace: Trace) -> None:
    header, _ = unpack(
        head_payload(trace, trace.attention["decoder.layers.1.cross_attn"], 2, TERMS)
    )
    assert (
        header["title"]
        == "Decoder layer 2, head 3: what each French token attends to in the English sentence"
    )
    assert "query" in header["queryAxis"]
    assert "key" in header["keyAxis"]


# --- all heads


def test_the_overview_shows_every_head_of_every_site(trace: Trace) -> None:
    header, arrays = unpack(overview(trace, TERMS, "decoder.layers.1.cross_attn", 2))
    assert [block["kind"] for block in header["blocks"]] == [
        "encoder_self",
        "decoder_self",
        "cross",
    ]
    assert header["chosen"] == {"site": "decoder.layers.1.cross_attn", "head": 2}
    for block in header["blocks"]:
        size = block["rows"] * block["cols"]
        for i, name in enumerate(block["sites"]):
            site = trace.attention[name]
            for h in range(block["heads"]):
                start = block["offset"] + (i * block["heads"] + h) * size
                codes = arrays["codes"][start : start + size].reshape(block["rows"], block["cols"])
                expected = torch.where(site.allowed(), 1 + (site.weights(h) * 254).round(), 0)
                np.testing.assert_array_equal(codes, expected.numpy())


@pytest.mark.parametrize("k", [2, 3, 5])
def test_pooling_keeps_the_largest_weight_and_hatches_only_wholly_masked_blocks(k: int) -> None:
    site = random_trace(11, 17).attention["decoder.layers.0.self_attn"]
    codes = pooled_codes([site], k)[0][0]
    weights, allowed = site.weights(), site.allowed()
    for h in range(site.n_heads):
        for r in range(codes.shape[1]):
            for c in range(codes.shape[2]):
                cut = (slice(r * k, (r + 1) * k), slice(c * k, (c + 1) * k))
                expected = (
                    1 + round(float(weights[h][cut].max()) * 254) if allowed[cut].any() else 0
                )
                assert codes[h, r, c] == expected


def test_many_heads_of_a_long_text_stay_under_a_megabyte() -> None:
    long = random_trace(127, 127, n_heads=12, d_model=24, n_encoder_layers=12, n_decoder_layers=1)
    assert len(overview(long, TERMS)) < 1_000_000
    assert side_for(432) ** 2 * 432 <= MAX_OVERVIEW_BYTES
    assert block_side(127, 127, MAX_THUMBNAIL_SIDE) == 2


def test_the_largest_weight_of_a_head_is_sent_where_colours_are_relative_to_the_row() -> None:
    long = random_trace(131, 7)
    blocks = unpack(overview(long, TERMS))[0]["blocks"]
    assert [block["byRow"] for block in blocks] == [True, False, True]
    for block in blocks:
        for name, largest in zip(block["sites"], block["largest"], strict=True):
            weights = long.attention[name].weights()
            np.testing.assert_allclose(largest, weights.amax((-2, -1)), rtol=1e-5)


class TwoThenThreeHeads(nn.Module):
    """A model whose layers have different numbers of heads."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(7, 6), nn.Linear(6, 7)
        self.layers = nn.ModuleList(nn.MultiheadAttention(6, n, batch_first=True) for n in (2, 3))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = x + layer(x, x, x, need_weights=False)[0]
        return self.out(x)


@pytest.mark.parametrize("at_once", [1, 2**18])
def test_layers_with_different_numbers_of_heads_are_drawn_each_with_its_own(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("viz_app.drawing.overview.MAX_WEIGHTS_AT_ONCE", at_once)
    torch.manual_seed(0)
    run = watch(TwoThenThreeHeads().eval(), encode=lambda text: [int(c) for c in text]).run("01356")
    header, arrays = unpack(overview(run, TERMS))
    (block,) = header["blocks"]
    codes = arrays["codes"].reshape(2, 3, 5, 5)
    for site, largest, drawn in zip(run.attention.values(), block["largest"], codes, strict=True):
        np.testing.assert_allclose(largest, site.weights().amax((-2, -1)), rtol=1e-5)
        expected = 1 + (site.weights() * 254).round()
        np.testing.assert_array_equal(drawn[: site.n_heads], expected.numpy())
        assert (drawn[site.n_heads :] == 0).all()
    assert (block["heads"], [len(heads) for heads in block["largest"]]) == (3, [2, 3])


def test_a_mask_of_one_head_is_drawn_in_that_head_only() -> None:
    site = random_trace(5, 7).attention["decoder.layers.0.self_attn"]
    allowed = torch.ones(1, site.n_heads, 7, 7, dtype=torch.bool)
    allowed[0, 1, 3, 2] = False
    site = replace(site, mask=Mask([look_ahead(7, 7), MaskLayer("drawn by hand", allowed)]))
    codes = pooled_codes([site], 1)[0][0]
    assert codes[1, 3, 2] == 0
    assert codes[0, 3, 2] > 0
    assert blocked_bits(site, 1)[3, 2] == 2
    assert blocked_bits(site, 0)[3, 2] == 0


@pytest.mark.parametrize("at_once", [1, 2**18])
@pytest.mark.parametrize("k", [1, 2])
def test_weights_that_an_edit_sets_are_drawn_of_all_heads(
    monkeypatch: pytest.MonkeyPatch, at_once: int, k: int
) -> None:
    """One head is spread evenly over three source tokens; one row of another reads a single token."""
    monkeypatch.setattr("viz_app.drawing.overview.MAX_WEIGHTS_AT_ONCE", at_once)
    name = "decoder.layers.1.cross_attn"
    even = HeadOff(Where(site=name, heads=(2,)), baseline="uniform")
    one = SetWeights(Where(site=name, heads=(0,), queries=(0,)), cells=((1, 1.0),))
    trace = letters().run_batch([("ab", "cde")], edits=[even, one])[0]
    sites = [trace.attention[f"decoder.layers.{i}.cross_attn"] for i in range(2)]
    codes = pooled_codes(sites, k)[0][1]
    assert sites[1].n_key == 3
    assert (codes[2] == 1 + round(254 / 3)).all()
    assert codes[0, 0, 1 // k] == 255


def test_the_sharpest_head_is_the_one_with_the_most_decided_rows(trace: Trace) -> None:
    name, index = sharpest_head(trace)
    best = trace.attention[name].weights(index).amax(-1).mean()
    for site in trace.attention.values():
        if site.kind == "cross":
            assert best >= site.weights().amax(-1).mean(-1).max() - 1e-6


def test_every_site_comes_by_its_kind(trace: Trace) -> None:
    names = [site.name for _, sites in by_kind(trace) for site in sites]
    assert sorted(names) == sorted(trace.attention)


# --- tokens


@pytest.fixture(scope="module")
def pieces() -> Tokenizer:
    return Tokenizer.bpe(["reading the book", "a book is read"] * 7, 160)


def test_tokens_look_like_their_text(pieces: Tokenizer) -> None:
    shown = labels(pieces.encode("a book 漢", after="end"))
    assert "".join(label.text for label in shown) == "a·book␣漢[end]"
    assert shown[-1].special
    assert not shown[0].special
    assert "vocabulary" in shown[-2].note


def test_special_tokens_are_told_from_text_that_looks_like_them(pieces: Tokenizer) -> None:
    shown = labels(pieces.encode("<s>", before="start"))
    assert shown[0].text == "[start]"
    assert not any(label.special and label.text == "[start]" for label in shown[1:])


def test_spaces_and_control_characters_are_visible() -> None:
    assert visible("a b\t\u0007") == "a·b·U+0007"


# --- downloads


def test_the_csv_gives_back_every_weight(trace: Trace) -> None:
    site = trace.attention["decoder.layers.0.cross_attn"]
    rows = list(csv.reader(export.weights_csv(trace, site, 1)))
    weights = np.array([row[1:] for row in rows[1:]], dtype=np.float32)
    assert torch.equal(torch.from_numpy(weights), site.weights(1))
    assert rows[0][1:] == [
        f"{i} {label.text}" for i, label in enumerate(labels(trace.streams["source"]))
    ]


def test_a_token_cannot_become_a_formula_in_a_spreadsheet(random_scope: Scope) -> None:
    run = random_scope.run("=a", "@b")
    rows = csv.reader(export.weights_csv(run, run.attention["decoder.layers.0.cross_attn"], 0))
    assert not any(cell[:1] in "=@+-" for row in rows for cell in row if cell)


def test_the_npz_gives_back_all_heads(trace: Trace) -> None:
    with saved(export.heads_npz(trace)) as held:
        for name, site in trace.attention.items():
            q, k = site.q[0].double(), site.k[0].double()
            scores = q @ k.transpose(1, 2) / q.shape[2] ** 0.5
            n, m = scores.shape[1:]
            counted = name.replace("layers.0", "layer1").replace("layers.1", "layer2")
            may = (
                np.tril(np.ones((n, m), bool))
                if name.endswith("decoder.layers.0.self_attn")
                else held[f"{counted}.allowed"][0]
            )
            np.testing.assert_array_equal(held[f"{counted}.allowed"], np.stack([may] * 3))
            by_hand = scores.masked_fill(~torch.from_numpy(may), -torch.inf).softmax(-1).numpy()
            np.testing.assert_allclose(held[counted], by_hand, atol=1e-6)
        assert held["source_tokens"].tolist() == [*"abcde", "[end]"]
        assert held["target_tokens"].tolist() == ["[start]", *"edc"]


def test_the_svg_draws_every_cell_and_escapes_the_text(pieces: Tokenizer) -> None:
    run = random_trace(5, 7)
    site = run.attention["decoder.layers.0.self_attn"]
    svg = export.head_svg(run, site, 1, "a <title> & more")
    root = ElementTree.fromstring(svg)
    name = "{http://www.w3.org/2000/svg}"
    said = [
        rect.find(f"{name}title").text
        for rect in root.iter(f"{name}rect")
        if rect.find(f"{name}title") is not None
    ]
    expected = [
        str(w) if ok else "masked"
        for w, ok in zip(
            site.weights(1).numpy().ravel(), site.allowed().numpy().ravel(), strict=True
        )
    ]
    assert said == expected
    assert "a <title> & more" in [text.text for text in root.iter(f"{name}text")]


# --- colours and words


def test_the_colour_map_runs_from_paper_to_accent_evenly() -> None:
    assert ramp(0.0) == PAPER_COLOUR
    assert ramp(1.0) == ACCENT_COLOUR
    steps = [ramp(i / 10) for i in range(11)]
    red = [int(colour[1:3], 16) for colour in steps]
    assert red == sorted(red, reverse=True)
    assert len(set(steps)) == 11


@pytest.mark.parametrize(
    ("languages", "expected"), [(["en", "fr"], "English"), ([], "source"), (["en"], "source")]
)
def test_a_translation_is_described_by_its_languages_if_the_record_names_them(
    languages: list[str], expected: str
) -> None:
    assert expected in words.terms("translation", languages).source


def test_the_training_record_in_words() -> None:
    record = {
        "step": 4000,
        "data": {"generator": "x"},
        "scores": {"held-out exact match": 100.0, "cases": 2000},
    }
    origin = "Trained for 4,000 steps on generated examples."
    assert (
        words.training_summary(record) == f"{origin} Held-out exact match 100 % over 2,000 cases."
    )
    assert (
        words.training_summary(record | {"scores": {}}) == words.training_origin(record) == origin
    )
    data = {"file": "pairs.tsv", "pairs": {"train": 1234, "test": 7}}
    of_file = {"step": 1, "data": data, "scores": {"held-out BLEU": 45.272}}
    assert (
        words.training_summary(of_file) == "Trained for 1 step on 1,234 pairs. Held-out BLEU 45.27."
    )
    assert words.training_summary({}) == ""
