"""One head and all heads, drawn and downloaded: every header, number, colour and position is read back and recomputed."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn import SVG, Drawing, at, letters, mixed, rgb, saved

from models.layers.masks import Mask, MaskLayer
from models.tokenizers.base import Encoding
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing import export
from viz_app.drawing.colours import ramp
from viz_app.drawing.head import head_payload
from viz_app.drawing.labels import Label, labels, visible
from viz_app.drawing.look import DARK, LIGHT, look
from viz_app.drawing.overview import all_codes, overview, side_for
from viz_app.drawing.payload import unpack
from viz_app.drawing.pooling import block_side
from viz_app.drawing.scale import Scale
from viz_app.drawing.sites import blocked_bits, by_kind
from viz_app.drawing.stamp import facts, saving
from viz_app.views.interventions.attribution_text import TOWARDS
from viz_app.views.run_difference import DIFFERENCE_HELP

TERMS = words.terms("translation", ("en", "fr"))
OWN, CROSS = "decoder.layers.1.self_attn", "decoder.layers.0.cross_attn"
SOURCE, TARGET = ["a", "b", "c", "d", "e", "[end]"], ["[start]", "e", "d", "c"]
PAPER, ACCENT, TEXT, HATCH = "#ffffff", "#1b3fae", "#1d2330", "#8f96a3"  # as README shows them
PATHS = {"encoder.layers.0.self_attn": "encoder.layer1.self_attn", OWN: "decoder.layer2.self_attn",
         CROSS: "decoder.layer1.cross_attn"}  # fmt: skip
STEPS = [
    "[start] → e",
    "e → d",
    "d → c",
    "c → [end]",
]  # named by the token read and the token written
START_LABEL = ["[start]", "special token <s>", True]


@pytest.fixture(scope="module")
def trace() -> Trace:
    return letters().run("abcde", "edc")


# colours


@pytest.mark.parametrize(
    ("low", "high"), [("#ffffff", "#1b3fae"), ("#10141d", "#ffb07c"), ("#000000", "#00ff00")]
)
@pytest.mark.parametrize("share", [0.0, 0.003, 0.1, 0.37, 0.5, 0.81, 1.0])
def test_the_map_is_a_straight_line_in_oklab(share: float, low: str, high: str) -> None:
    assert np.abs(rgb(ramp(share, low, high)) - mixed(share, low, high)).max() <= 1


def test_values_outside_the_scale_have_the_colour_of_its_end() -> None:
    assert ramp(-0.3) == ramp(0.0) == PAPER
    assert ramp(1.7) == ramp(1.0) == ACCENT


@pytest.mark.parametrize(("theme", "paper", "accent", "opposite", "text", "quiet"), [
    ("light", "#ffffff", "#1b3fae", "#b3470b", "#1d2330", "#667089"),
    ("dark", "#10141d", "#9dbcff", "#ffb07c", "#e8ecf5", "#97a1b8"),
])  # fmt: skip
def test_the_maps_of_a_theme(
    theme: str, paper: str, accent: str, opposite: str, text: str, quiet: str
) -> None:
    """0 has the colour of the page; weights and positive values go to the accent, negative ones to its opposite."""
    here = look(theme)
    assert (here.paper, here.accent, here.opposite, here.text, here.quiet) == (
        paper,
        accent,
        opposite,
        text,
        quiet,
    )
    up, both = here.sequential(), here.diverging()
    assert (len(up), len(both)) == (17, 33)
    for i in range(17):
        assert np.abs(rgb(up[i]) - mixed(i / 16, paper, accent)).max() <= 1
        assert np.abs(rgb(both[16 + i]) - mixed(i / 16, paper, accent)).max() <= 1
        assert np.abs(rgb(both[16 - i]) - mixed(i / 16, paper, opposite)).max() <= 1


def test_sentences_name_the_colours_of_larger_and_smaller_values() -> None:
    for here in (LIGHT, DARK):
        (more_red, _, more_blue), (less_red, _, less_blue) = map(rgb, (here.accent, here.opposite))
        assert more_blue > more_red
        assert less_red > less_blue
    assert "Blue: larger in this run; orange: smaller" in DIFFERENCE_HELP
    assert "Blue pushes towards the chosen answer, orange away" in TOWARDS


def test_without_a_theme_colours_are_light() -> None:
    assert look(None) == look("light") == LIGHT != DARK


# tokens


def test_special_tokens_have_names_of_their_own() -> None:
    tokens = ("<pad>", "<s>", "</s>", "<unk>")
    shown = labels(Encoding("", (0, 1, 2, 3), tokens, (None,) * 4))
    assert [label.as_json() for label in shown] == [
        ["[padding]", "special token <pad>", True], START_LABEL, ["[end]", "special token </s>", True],
        ["[unknown]", "special token <unk>", True],
    ]  # fmt: skip


def test_an_unknown_piece_is_shown_as_it_was_typed() -> None:
    encoding = Encoding(
        "漢 x", (3, 4, 3, 3), ("<unk>", "▁x", "<unk>", "<unk>"), ((0, 1), (1, 3), (3, 3), (1, 2))
    )
    assert [label.as_json() for label in labels(encoding)] == [
        ["漢", "not in this model's vocabulary, read as <unk>", False], ["·x", "", False],
        ["[unknown]", "not in this model's vocabulary, read as <unk>", True],
        ["␣", "not in this model's vocabulary, read as <unk>", False],
    ]  # fmt: skip


def test_the_space_before_the_first_word_is_not_shown_but_a_space_alone_is() -> None:
    tokens = Encoding("a a", (4, 4, 5), ("▁a", "▁a", "▁"), ((0, 1), (1, 3), (0, 0)))
    assert [label.text for label in labels(tokens)] == ["a", "·a", "␣"]
    assert visible("\n") == "↵"
    assert visible("a\n") == "a·"
    assert visible("\x00\u200b") == "U+0000U+200B"


# one head


@pytest.mark.parametrize(("name", "queries", "keys", "axes"), [
    ("encoder.layers.0.self_attn", SOURCE, SOURCE, ("the English sentence", "the English sentence")),
    (OWN, STEPS, TARGET, ("the French so far, read → written", "the French so far")),
    (CROSS, STEPS, SOURCE, ("the French so far, read → written", "the English sentence")),
])  # fmt: skip
def test_the_head_component_gets_every_field_by_name(
    trace: Trace, name: str, queries: list, keys: list, axes: tuple
) -> None:
    site = trace.attention[name]
    header, arrays = unpack(head_payload(trace, site, 2, TERMS, "q3"))
    del header["arrays"]
    assert [label[0] for label in header.pop("queries")] == queries
    assert [label[0] for label in header.pop("keys")] == keys
    assert header == {
        "site": name, "head": 2, "lock": "q3", "title": words.head_title(site, 2, TERMS),
        "queryAxis": f"query (rows): {axes[0]}", "keyAxis": f"key (columns): {axes[1]}",
        "masks": [layer.name for layer in site.mask.layers], **saving(f"letters.{PATHS[name]}.head3", facts(trace)),
        "block": 1, "first": [0, 0], "size": [len(queries), len(keys)], "scale": "weight", "asked": "weight", "hides": False, "joins": "",
        "sinks": [0] if keys == TARGET else [5], "sinkNames": ["[start]"] if keys == TARGET else ["[end]"],
        "sinkShare": pytest.approx(float(_by_hand(site, 2)[:, 0 if keys == TARGET else 5].mean()), abs=1e-6),
    }  # fmt: skip
    assert set(arrays) == {"weights", "blocked"}
    np.testing.assert_array_equal(arrays["blocked"] == 0, site.allowed().numpy())
    assert arrays["blocked"].dtype == np.uint8
    assert unpack(head_payload(trace, site, 0, TERMS))[0]["lock"] == ""


def test_a_label_holds_its_hover_text_and_whether_it_is_special(trace: Trace) -> None:
    header, _ = unpack(head_payload(trace, trace.attention[CROSS], 0, TERMS))
    assert header["queries"][:2] == [
        ["[start] → e", "reading [start], writing e; [start]: special token <s>", False], ["e → d", "reading e, writing d", False],
    ]  # fmt: skip
    header, _ = unpack(head_payload(trace, trace.attention[OWN], 0, TERMS))
    assert header["keys"][:2] == [START_LABEL, ["e", "", False]]


# all heads


def test_the_overview_names_every_block(trace: Trace) -> None:
    header, arrays = unpack(overview(trace, TERMS))
    assert header["chosen"] == {"site": "", "head": 0}
    said = [("encoder_self", "Encoder self-attention", "the English sentence → itself",
             ["encoder.layers.0.self_attn"], [1], 6, 6),
            ("decoder_self", "Decoder masked self-attention", "the French so far → itself",
             ["decoder.layers.0.self_attn", OWN], [1, 2], 4, 4),
            ("cross", "Cross-attention", "the French so far → the English sentence",
             [CROSS, "decoder.layers.1.cross_attn"], [1, 2], 4, 6)]  # fmt: skip
    offset = 0
    for block, (kind, title, subtitle, sites, layers, rows, cols) in zip(
        header["blocks"], said, strict=True
    ):
        largest = [
            [float(trace.attention[site].weights(h).max()) for h in range(3)] for site in sites
        ]
        np.testing.assert_allclose(block.pop("largest"), largest, rtol=1e-5)
        assert block == {
            "kind": kind, "title": title, "subtitle": subtitle, "sites": sites, "layers": layers, "heads": 3, "rows": rows,
            "cols": cols, "pool": 1, "byRow": False, "offset": offset,
            "sides": "Rows: query, columns: key" if kind == "encoder_self" else
            "Rows: query (read → written), columns: key",
        }  # fmt: skip
        offset += len(sites) * 3 * rows * cols
    assert arrays["codes"].shape == (offset,)
    assert arrays["codes"].dtype == np.uint8


def test_many_sites_computed_a_few_at_a_time_give_the_same(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = all_codes(trace)
    monkeypatch.setattr("viz_app.drawing.overview.MAX_WEIGHTS_AT_ONCE", 3)
    for one, other in zip(whole, all_codes(trace), strict=True):
        assert one.k == other.k
        np.testing.assert_array_equal(one.codes, other.codes)
        np.testing.assert_allclose(one.largest, other.largest, rtol=1e-5)


@pytest.mark.parametrize(
    ("n_heads", "side"), [(0, 64), (24, 64), (219, 64), (220, 63), (432, 45), (900_000, 1)]
)
def test_how_large_a_head_may_be_drawn(n_heads: int, side: int) -> None:
    """Its side is the largest number of cells, at most 64, whose square times the number of heads is at most 900,000 bytes."""
    assert side_for(n_heads) == side
    assert n_heads * side**2 <= 900_000
    assert side == 64 or n_heads * (side + 1) ** 2 > 900_000


@pytest.mark.parametrize(
    ("longest", "side", "k"),
    [(5, 64, 1), (64, 64, 1), (65, 64, 2), (128, 64, 2), (129, 64, 3), (37, 5, 8)],
)
def test_how_many_cells_become_one(longest: int, side: int, k: int) -> None:
    assert block_side(longest, 3, side) == block_side(3, longest, side) == k


def test_kinds_come_in_the_order_of_the_pass_and_layers_ascend(trace: Trace) -> None:
    shuffled = replace(trace, attention=dict(reversed(trace.attention.items())))
    assert [(kind, [site.name for site in sites]) for kind, sites in by_kind(shuffled)] == [
        ("encoder_self", ["encoder.layers.0.self_attn"]), ("decoder_self", ["decoder.layers.0.self_attn", OWN]),
        ("cross", [CROSS, "decoder.layers.1.cross_attn"]),
    ]  # fmt: skip


def test_a_cell_that_only_a_ninth_mask_blocks_is_blocked(trace: Trace) -> None:
    site = trace.attention[CROSS]
    opened, shut = (torch.full((1, 1, 4, 6), open_, dtype=torch.bool) for open_ in (True, False))
    layers = [MaskLayer(str(i), shut if i in (2, 8) else opened) for i in range(9)]
    assert blocked_bits(replace(site, mask=Mask(layers))).unique().tolist() == [0b10000100]


# files


def test_the_csv_has_a_row_per_query_and_a_column_per_key(trace: Trace) -> None:
    site = trace.attention[CROSS]
    rows = list(csv.reader(export.weights_csv(trace, site, 1)))
    assert rows[0] == ["query \\ key", "0 a", "1 b", "2 c", "3 d", "4 e", "5 [end]"]
    assert [row[0] for row in rows[1:]] == [f"{i} {step}" for i, step in enumerate(STEPS)]
    for i, row in enumerate(rows[1:]):
        np.testing.assert_allclose(np.float32(row[1:]), _by_hand(site, 1)[i], atol=1e-6)


def test_the_npz_holds_the_tokens_of_both_texts_and_every_head(trace: Trace) -> None:
    with saved(export.heads_npz(trace)) as held:
        sites = [
            "encoder.layer1.self_attn",
            *(f"decoder.layer{n}.{part}_attn" for n in (1, 2) for part in ("self", "cross")),
        ]
        assert set(held) == {
            "source_tokens",
            "target_tokens",
            *sites,
            *(f"{name}.allowed" for name in sites),
        }
        assert held["source_tokens"].tolist() == [*"abcde", "[end]"]
        assert held["target_tokens"].tolist() == ["[start]", *"edc"]
        cross = PATHS[CROSS]
        assert held[cross].shape == held[f"{cross}.allowed"].shape == (3, 4, 6)
        assert (
            held[f"{PATHS[OWN]}.allowed"].tolist() == [np.tril(np.ones((4, 4), bool)).tolist()] * 3
        )
        np.testing.assert_allclose(held[cross][2], _by_hand(trace.attention[CROSS], 2), atol=1e-6)


def _by_hand(site: AttentionSite, index: int) -> np.ndarray:
    """Return weights from their definition, not from the site."""
    scores = site.q[0, index] @ site.k[0, index].T / 5**0.5
    return scores.masked_fill(~site.allowed(), -torch.inf).softmax(-1).numpy()


@pytest.mark.parametrize(
    ("name", "queries", "keys"), [(OWN, STEPS, TARGET), (CROSS, STEPS, SOURCE)]
)
def test_the_drawing_puts_every_weight_where_its_tokens_are(
    trace: Trace, name: str, queries: list, keys: list
) -> None:
    site = trace.attention[name]
    drawing = Drawing(export.head_svg(trace, site, 1, "What it is"))
    cells = {(i // len(keys), i % len(keys)): found for i, found in enumerate(drawing.titled())}
    assert len(cells) == len(queries) * len(keys)
    weights, (_, _, side, _) = _by_hand(site, 1), at(cells[0, 0][0])
    left, top = at(cells[0, 0][0])[:2]
    for (q, k), (box, said) in cells.items():
        assert at(box) == (left + k * side, top + q * side, side, side)
        if site.allowed()[q, k]:
            assert float(said) == pytest.approx(weights[q, k], abs=1e-6)
            assert np.float32(said) == site.weights(1)[q, k].numpy()
            assert (
                np.abs(rgb(box.get("fill")) - mixed(float(weights[q, k]), PAPER, ACCENT)).max() <= 1
            )
        else:
            assert (said, box.get("fill")) == ("masked", "url(#masked)")
        assert box.get("stroke") not in (None, PAPER)
    rows = [text for text in drawing.texts if text.get("text-anchor") == "end" and text.text != "0"]
    assert [text.text for text in rows] == queries
    for q, text in enumerate(rows):
        assert left - 10 <= float(text.get("x")) < left
        assert (
            top + (q + 0.5) * side < float(text.get("y")) < top + (q + 0.8) * side
        )  # text is placed by its baseline
    turned = [text for text in drawing.texts if text.get("transform")]
    assert [text.text for text in turned] == keys
    for k, text in enumerate(turned):
        move, turn = text.get("transform").split(") ")
        x, y = (float(part) for part in move.removeprefix("translate(").split())
        assert turn == "rotate(-45)"
        assert left + (k + 0.4) * side < x < left + (k + 0.8) * side
        assert top - 12 <= y < top
        assert [text.get(name) for name in ("x", "y", "text-anchor")] == [
            "0",
            "0",
            "start",
        ]
    right, bottom = left + len(keys) * side, top + len(queries) * side
    assert drawing.size[1] == bottom + 50
    assert drawing.size[0] >= right + 60


def test_the_drawing_has_a_title_a_scale_and_ink_on_paper(trace: Trace) -> None:
    drawing = Drawing(export.head_svg(trace, trace.attention[OWN], 0, "What it is"))
    assert drawing.root.get("fill") == TEXT
    assert [drawing.boxes[0].get(side) for side in ("width", "height")] == [
        drawing.root.get(side) for side in ("width", "height")
    ]
    assert drawing.boxes[0].get("fill") == PAPER
    assert drawing.said("What it is").get("font-weight") == "600"
    assert (drawing.said("What it is").get("x"), drawing.said("What it is").get("y")) == (
        "10",
        "20",
    )
    (pattern,) = drawing.root.iter(f"{SVG}pattern")
    assert pattern.get("id") == "masked"
    assert [part.get("fill") for part in pattern] == [PAPER, HATCH]
    assert pattern.get("patternTransform") == "rotate(45)"
    (scale,) = drawing.root.iter(f"{SVG}linearGradient")
    assert scale.get("id") == "scale"
    assert [float(stop.get("offset")) for stop in scale] == [i / 8 for i in range(9)]
    for i, stop in enumerate(scale):
        assert np.abs(rgb(stop.get("stop-color")) - mixed(i / 8, PAPER, ACCENT)).max() <= 1
    (bar,) = (box for box in drawing.boxes if box.get("fill") == "url(#scale)")
    x, y, wide, tall = at(bar)
    lowest = max(at(box)[1] + at(box)[3] for box, _ in drawing.titled())
    assert lowest < y < y + tall < drawing.size[1]
    assert bar.get("stroke") == ACCENT
    low, high = drawing.said("0"), drawing.texts[-1]
    assert high.text == "1  attention weight; rows: query, columns: key; hatched = masked"
    assert (low.get("text-anchor"), high.get("text-anchor")) == ("end", "start")
    assert x - 8 < float(low.get("x")) < x
    assert x + wide < float(high.get("x")) < x + wide + 10
    assert float(low.get("y")) == float(high.get("y")) == y + tall
    assert all(
        text.get("style") == "unicode-bidi:plaintext"
        for text in drawing.texts
        if text.text != "What it is"
    )


@pytest.mark.parametrize("title", ["What it is", "what each token reads " * 7, "読" * 90])
def test_neither_title_nor_legend_is_cut_off(trace: Trace, title: str) -> None:
    """A letter is on average narrower than 0.6 of the font size, a Chinese one as wide as the font size."""
    drawing = Drawing(
        export.head_svg(trace, trace.attention[CROSS], 0, title, Scale("root", hides_sinks=True))
    )
    for text in (drawing.said(title), drawing.texts[-1]):
        wide = 12 * sum(1.0 if letter == "読" else 0.6 for letter in text.text)
        assert float(text.get("x")) + wide <= drawing.size[0]
    assert "[end] left out" in drawing.texts[-1].text


def test_each_token_gets_a_new_label() -> None:
    assert Label("a") == Label("a", "", False)
