"""The components `guesses`, `pair`, `span` and `cards` by themselves: every chip, bar, block and cell, and clicks on them."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from drawn import on_screen
from small import random_bert, words_of
from stage import Stage, alike, weight_colour

from models.checkpoint import Checkpoint
from models.runs.scope import Scope
from viz_app.drawing.payload import pack, unpack
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.views.task.presentations import task_payloads
from viz_app.views.task.reading import TaskChoices

FIRST, SECOND, QUESTION = "Mary went to the garden.", "John took milk.", "Where is Mary?"
SITE = "encoder.layers.1.self_attn"


@functools.cache
def payload(key: str, head: str, *asked: Any) -> bytes:
    tokenizer = words_of(FIRST, SECOND, QUESTION)
    model = random_bert(vocab_size=tokenizer.vocab_size, head=head)
    scope = Scope(Checkpoint(Path("words"), model, tokenizer, {"task": "mlm"}), torch.device("cpu"))
    return on_screen(
        task_payloads(CurrentRun(scope, scope.run(*asked)), TaskChoices(None, Focus(SITE, 1)))
    )[key]


# a click on a token hides it

ASKED = ("pretraining", "Mary [MASK] to the garden.", SECOND, (4,))


def test_chips_say_what_a_click_on_them_does(stage: Stage) -> None:
    stage.mount("guesses", 900).show(payload("guesses", *ASKED))
    assert stage.texts(".row .place b") == [
        "[CLS]",
        "mary",
        "[MASK]",
        "to",
        "[MASK]",
        "garden",
        ".",
        "[SEP]",
        "john",
        "took",
        "milk",
        ".",
        "[SEP]",
    ]
    assert stage.texts(".row .place small")[4] == "the"
    fixed = [
        i
        for i, disabled in enumerate(stage.attrs(".row .place", "disabled"))
        if disabled is not None
    ]
    assert fixed == [0, 2, 7, 12]
    assert stage.attrs(".row .place", "aria-pressed")[3:6] == ["false", "true", "false"]
    titles = stage.attrs(".row .place", "title")
    assert (titles[1], titles[4]) == (
        "mary: click to mask it",
        "the: hidden; click to show it again",
    )
    assert (
        titles[2]
        == "[MASK]: typed; take it out of the text to see a word there: special token [MASK]"
    )
    before, after = stage.box(".row .place", 7), stage.box(".row .place", 8)
    assert after["top"] >= before["bottom"]  # the second text begins a new row


def test_a_click_hides_a_token_and_a_second_one_shows_it(stage: Stage) -> None:
    stage.mount("guesses", 900).show(payload("guesses", *ASKED))
    for position in (5, 1, 4, 1):
        stage.click(".row .place", n=position)
    stage.click(".row .place", n=2)
    stage.click(".row .place", n=0)
    assert [value["hidden"] for _, value in stage.sent] == [[4, 5], [1, 4, 5], [1, 5], [5]]
    assert stage.texts(".row .place b")[4:6] == ["the", "[MASK]"]
    stage.show(payload("guesses", *ASKED))  # an answer that was on its way before the clicks
    assert stage.attrs(".row .place", "aria-pressed")[4:6] == ["false", "true"]
    stage.show(payload("guesses", "pretraining", "Mary [MASK] to the garden.", SECOND, (5,)))
    stage.show(payload("guesses", *ASKED))  # chosen elsewhere afterwards
    assert stage.attrs(".row .place", "aria-pressed")[4:6] == ["true", "false"]


def test_the_arrow_keys_go_from_one_token_that_can_be_hidden_to_the_next(stage: Stage) -> None:
    stage.mount("guesses", 900).show(payload("guesses", *ASKED))
    stage.js("(root) => root.querySelectorAll('.row .place')[1].focus()")
    stage.press("ArrowLeft", "ArrowRight", "ArrowRight", "Enter")
    assert [value["hidden"] for _, value in stage.sent] == [[]]  # 3, then 4, which was hidden


def test_each_mask_has_its_bars_and_its_row(stage: Stage) -> None:
    header, arrays = unpack(payload("guesses", *ASKED))
    stage.mount("guesses", 900).show(payload("guesses", *ASKED))
    assert stage.texts(".mask .answer h3") == [mask["title"] for mask in header["masks"]]
    assert stage.texts(".mask .fact") == [mask["fact"] for mask in header["masks"]]
    assert stage.texts(".mask .rest") == [mask["rest"] for mask in header["masks"]]
    assert [np.float32(p) for p in stage.attrs(".mask .bar", "data-p")] == arrays["p"].tolist()
    assert stage.texts(".mask .bar .token") == [
        label[0] for mask in header["masks"] for _, label, _ in mask["rows"]
    ]
    weights = [*arrays["0 weights"], *arrays["1 weights"]]
    assert [np.float32(w) for w in stage.attrs(".mask .read", "data-weight")] == weights
    assert stage.texts(".mask .note") == ["", header["masks"][1]["reading"]["note"]]
    assert stage.data(".guesses")["hidden"] == "4"


# two texts


def test_two_texts_are_blocks_shaded_by_what_cls_reads(stage: Stage) -> None:
    data = payload("pair", "pretraining", FIRST, SECOND)
    header, arrays = unpack(data)
    stage.mount("pair", 900).show(data)
    assert [np.float32(p) for p in stage.attrs(".bar", "data-p")] == arrays["p"].tolist()
    assert stage.texts(".bar .token") == ["next", "not next"]
    row = arrays["weights"]
    assert [float(share) for share in stage.attrs(".block", "data-share")] == pytest.approx(
        [row[:8].sum(), row[8:].sum()]
    )
    assert stage.texts(".block .share") == [share for _, share in header["blocks"]]
    widths = stage.js(
        "(root) => [...root.querySelectorAll('.block .track i')].map((e) => parseFloat(e.style.width))"
    )
    assert widths == pytest.approx([100 * row[:8].sum(), 100 * row[8:].sum()], rel=1e-3)
    assert [np.float32(w) for w in stage.attrs(".block .read", "data-weight")] == row.tolist()
    assert stage.js(
        "(root) => [...root.querySelectorAll('.block')].map((e) => e.querySelectorAll('.read').length)"
    ) == [8, 5]
    assert stage.text(".fact") == header["fact"]


def test_without_a_second_text_it_waits(stage: Stage) -> None:
    stage.mount("pair", 900).show(payload("pair", "pretraining", FIRST, SECOND))
    stage.show(payload("pair", "pretraining", FIRST))
    assert stage.hidden(".panels")
    assert stage.text(".waiting").startswith("One text alone.")
    stage.show(payload("pair", "pretraining", FIRST, SECOND))
    assert not stage.hidden(".panels")
    assert stage.text(".waiting") == ""


# the map of spans


def test_the_map_shades_every_span_and_hatches_those_that_end_before_they_begin(
    stage: Stage,
) -> None:
    data = payload("span", "span", QUESTION, f"{FIRST} {SECOND}")
    header, arrays = unpack(data)
    n = len(header["tokens"])
    stage.mount("span", 900).show(data)
    place = stage.data("figure")
    side, left, top = (float(place[name]) for name in ("side", "left", "top"))
    pixels = stage.pixels("canvas")
    for r, c in [(0, 0), (0, n - 1), (2, 5), (n - 1, n - 1), (3, 4)]:
        value = float(arrays["start"][r] + arrays["end"][c])
        if [r, c] != header["answer"]:
            assert alike(
                pixels.at(left + (c + 0.5) * side, top + (r + 0.5) * side),
                weight_colour(max(0.0, 1 + value / 12)),
            )
    ruled = pixels.within(left + 2, top + (n - 1) * side + 2, side - 4, side - 4)
    assert len(ruled) == 2  # the paper and the hatching
    stage.move("canvas", left + 5.5 * side, top + 2.5 * side)
    tip = stage.data(".tip")
    assert (tip["row"], tip["col"], np.float32(tip["value"])) == (
        "2",
        "5",
        np.float32(arrays["start"][2] + arrays["end"][5]),
    )
    words = [label[0] for label in header["tokens"]]
    assert (
        stage.text(".tip .where")
        == f"where the answer begins: {6 + 2} {words[2]}; where it ends: {6 + 5} {words[5]}"
    )
    stage.move("canvas", left + 2.5 * side, top + 5.5 * side)
    assert stage.text(".tip .value") == "Hatched: the end would come before the start"
    named = stage.written("canvas")
    assert {"where the answer begins ↓", "where it ends →", *words} == set(named)
    assert [stage.text(f"figcaption .{name}") for name in ("least", "most", "unit", "ruled")] == [
        *header["scale"],
        header["ruled"],
    ]


def test_every_token_of_a_low_map_is_named_and_the_pointer_finds_its_cell(stage: Stage) -> None:
    data = payload("span", "span", QUESTION, " ".join([FIRST, SECOND] * 3))
    header, arrays = unpack(data)
    words, n = [label[0] for label in header["tokens"]], len(header["tokens"])
    stage.mount("span", 1100).show(data)
    place = stage.data("figure")
    side, wide, left, top = (float(place[name]) for name in ("side", "wide", "left", "top"))
    assert side < 11.5 <= wide
    named = [one["text"] for one in stage.drawn("canvas", "text")]
    axes = ["where the answer begins ↓", "where it ends →"]
    assert sorted(named) == sorted([*words, *words, *axes])
    stage.move("canvas", left + (n - 0.5) * wide, top + 3.5 * side)
    tip = stage.data(".tip")
    assert (int(tip["row"]), int(tip["col"])) == (3, n - 1)
    value = np.float32(arrays["start"][3] + arrays["end"][n - 1])
    assert np.float32(tip["value"]) == value


def test_on_a_phone_every_token_is_named_and_the_answer_is_in_sight(stage: Stage) -> None:
    data = payload("span", "span", QUESTION, " ".join([FIRST, SECOND] * 3))
    header, _ = unpack(data)
    words, n = [label[0] for label in header["tokens"]], len(header["tokens"])
    stage.page.set_viewport_size({"width": 420, "height": 900})
    try:
        stage.mount("span", 360).show(data)
        named = [one["text"] for one in stage.drawn("canvas", "text")]
        assert sorted(named[:-2]) == sorted([*words, *words])
        place = stage.data("figure")
        side, wide, left = (float(place[name]) for name in ("side", "wide", "left"))
        assert min(side, wide) >= 11.5
        scrolled, shown = stage.js(
            "(root) => { const e = root.querySelector('.sideways'); return [e.scrollLeft, e.clientWidth]; }"
        )
        answer = left + header["answer"][1] * wide
        assert scrolled <= answer < answer + wide <= scrolled + shown + 1
        assert left + n * wide > shown  # it had to be scrolled to
    finally:
        stage.page.set_viewport_size({"width": 1280, "height": 1600})


def test_the_answer_is_marked_in_its_text_and_the_best_spans_are_listed(stage: Stage) -> None:
    data = payload("span", "span", QUESTION, f"{FIRST} {SECOND}")
    header, arrays = unpack(data)
    stage.mount("span", 900).show(data)
    assert stage.text(".context") == f"{FIRST} {SECOND}"
    assert stage.text(".context mark") == header["context"][1]
    assert [np.float32(p) for p in stage.attrs(".bar", "data-p")] == arrays["p"].tolist()
    assert stage.texts(".readings h3") == [reading["title"] for reading in header["readings"]]
    row = arrays["0 weights"].tolist()
    assert [np.float32(w) for w in stage.attrs(".readings .read", "data-weight")][: len(row)] == row
    stage.show(stage.change(data, title="<b>t</b>", context=["<i>x</i>", "<b>y</b>", ""]))
    assert stage.text(".context") == "<i>x</i><b>y</b>"
    assert stage.js("(root) => root.querySelectorAll('.context i, .context b, h2 b').length") == 0


# cards


def test_a_card_is_a_link_with_its_masks(stage: Stage) -> None:
    card = {
        "name": "a<b>",
        "family": "GPT",
        "purpose": "Writes.",
        "scores": "None.",
        "made": "",
        "licence": "PD",
        "sizes": "7 parameters",
        "href": "task?checkpoint=a",
        "masks": [["decoder self", "The text reads itself", 2, 3]],
    }
    other = card | {"name": "rnn", "masks": [], "family": "RNN"}
    cells = np.array([1, 0, 0, 1, 1, 0], np.uint8)
    header = {
        "groups": [{"title": "RNN", "cards": [other, card]}],
        "none": "No attention",
        "more": "More",
        "python": {"label": "<b>Python</b>", "href": "reference/index.html"},
    }
    stage.mount("cards", 700).show(pack(header, cells=cells))
    assert stage.texts(".name") == ["rnn", "a<b>"]
    assert stage.attrs("a.card", "href") == ["task?checkpoint=a"] * 2
    assert stage.attrs("a.card", "target") == ["_self"] * 2
    assert stage.texts(".python a") == ["<b>Python</b>"]
    assert stage.attrs(".python a", "href") == ["reference/index.html"]
    assert stage.texts(".family") == ["GPT"]  # the other one belongs to the group
    assert stage.texts("details:not([open]) > .sizes") == ["7 parameters"] * 2
    assert stage.texts(".masks .none") == ["No attention"]
    assert stage.attrs("canvas", "data-cells", "title") == [
        {"data-cells": "100110", "title": "The text reads itself"}
    ]
    pixels = stage.pixels("canvas")
    filled = [
        len(pixels.within(9 * c + 3, 9 * r + 3, 3, 3)) == 1 for r in range(2) for c in range(3)
    ]
    assert filled == [True, False, False, True, True, False]
    stage.js("() => document.documentElement.setAttribute('data-present', '')")
    stage.show(
        pack(
            {
                "groups": [{"title": "RNN", "cards": [other]}],
                "none": "No attention",
                "more": "More",
            },
            cells=cells[:0],
        )
    )
    assert stage.attrs("a.card", "href") == ["task?checkpoint=a&present=1"]
    stage.js("() => document.documentElement.removeAttribute('data-present')")
    groups = [{"title": "GPT", "cards": [other | {"href": ""}]}]  # a model without a page
    stage.show(pack({"groups": groups, "none": "No attention", "more": "More"}, cells=cells[:0]))
    assert stage.texts(".open, a.card") == []
    assert stage.texts("details:not([open]) > .sizes") == ["7 parameters"]
    opened = {name: value for name, value in other.items() if name != "href"}
    groups = [{"title": "Open now", "cards": [opened]}]
    stage.show(pack({"groups": groups, "none": "No attention", "more": "More"}, cells=cells[:0]))
    assert stage.texts(".open .name") == ["rnn"]
    assert stage.texts(".open a, .open details") == []
    assert stage.texts(".open .sizes") == ["7 parameters"]
