"""The components `walk`, `heads` and `choice` by themselves: every strip, number, name, sentence and gesture."""

import functools
import itertools
import math
import re
from typing import Any

import letters
import numpy as np
import pytest
from letters import CROSS, SELF, TERMS
from stage import (
    ACCENT,
    DARK,
    HATCH,
    HEADS,
    INK,
    LINE,
    ORANGE,
    PAPER,
    QUIET,
    RATIO,
    Stage,
    alike,
    hex_of,
    near,
    signed_colour,
    weight_colour,
)

from viz_app.drawing.colours import ramp
from viz_app.drawing.payload import unpack
from viz_app.drawing.weight_cell import token_choice
from viz_app.views.inside import cell as inside_cell

HEAD, QUERY, KEY = 1, 3, 2
CELLS, MARKS = "canvas.cells", "canvas.marks"
TOP, ROW = 40, 22  # px: the heads of the columns, one row


@functools.cache
def payload(
    component: str = "walk",
    site: str = CROSS,
    query: int = QUERY,
    key: int = KEY,
    source: str = letters.SOURCE,
) -> bytes:
    trace = letters.trace(source)
    draw = token_choice if component == "choice" else getattr(inside_cell, component)
    return draw(
        trace, inside_cell.chosen_cell(trace, trace.attention[site], HEAD, query, key), TERMS
    )


def shown(
    stage: Stage, component: str = "walk", width: int = 1000, **how: Any
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    data = payload(component, **how)
    stage.mount(component, width).show(data)
    return unpack(data)


def columns(stage: Stage) -> dict[str, dict[str, Any]]:
    return {
        one["id"]: one
        for one in stage.js("(root) => root.querySelector('.attnscope').view.table.columns")
    }


def to_stage(stage: Stage, n: int) -> None:
    stage.click(".names button", n=n)


def brief(value: float) -> str:
    if value == -math.inf:
        return "−∞"
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}".replace("-", "−")


def value_of(text: str) -> np.float32:
    return np.float32(text.replace("−", "-").replace("∞", "inf"))


def point(stage: Stage, column: str, line: int, cell: int = 0, size: int = 1) -> dict[str, str]:
    at = columns(stage)[column]
    stage.move(CELLS, at["x"] + at["width"] * (cell + 0.5) / size, TOP + ROW * (line + 0.5))
    assert not stage.hidden(".tip")
    return stage.data(".tip")


def strip_colours(stage: Stage, column: dict[str, Any], line: int, size: int) -> list[str]:
    pixels, y = stage.pixels(CELLS), TOP + ROW * line + ROW / 2
    return [pixels.at(column["x"] + column["width"] * (i + 0.5) / size, y) for i in range(size)]


def assert_strip(
    stage: Stage, column: dict[str, Any], line: int, values: np.ndarray, scale: float
) -> None:
    seen = strip_colours(stage, column, line, len(values))
    for colour, value in zip(seen, values, strict=True):
        assert alike(colour, signed_colour(float(value), scale), 2), (column["id"], line)


# --- the walk


def test_every_stage_shows_its_vectors_and_numbers_row_by_row(stage: Stage) -> None:
    header, arrays = shown(stage, site=SELF, width=1250)
    n = len(header["indices"])
    kinds = set()
    for number, told in enumerate(header["stages"][:-1]):
        to_stage(stage, number)
        placed, texts = columns(stage), stage.drawn(CELLS, "text")
        assert list(placed) == list(told["columns"])
        for name, at in placed.items():
            column = header["columns"][name]
            kinds.add(column["kind"])
            (title,) = [
                one
                for one in texts
                if one["y"] == 11 and one["x"] == at["x"] and one["align"] == "left"
            ]
            assert title["text"] == column["title"]
            assert title["font"].startswith("600 12.5px")
            assert title["colour"] == INK
            notes = [one for one in texts if one["y"] == 27 and one["x"] == at["x"]]
            assert [one["text"] for one in notes] == ([column["note"]] if column["note"] else [])
            assert all(one["colour"] == QUIET for one in notes)
            if name in told["top"]:
                assert_strip(stage, at, 0, arrays[told["top"][name]].ravel(), column["scale"])
            for i in range(n):
                y = TOP + ROW * (i + 1)
                values = arrays[column["array"]][i]
                if column["kind"] == "strip":
                    assert_strip(stage, at, i + 1, values, column["scale"])
                    continue
                (said,) = [
                    one
                    for one in texts
                    if abs(one["y"] - y - ROW / 2 - 0.5) < 0.1
                    and abs(one["x"] - at["x"] - at["width"] / 2) < 0.1
                ]
                assert said["align"] == "center"
                assert said["font"] == "12px sans-serif"
                if column["kind"] == "number":
                    assert said["text"] == brief(float(values))
                else:
                    assert said["text"] == (
                        "0"
                        if header["blocked"][i]
                        else f"{values:.{3 if 0 < values < 0.0995 else 2}f}"
                    )
                within = stage.pixels(CELLS).within(at["x"] + 3, y + 5, 8, ROW - 10)
                if values == -math.inf or (column["kind"] == "weight" and header["blocked"][i]):
                    assert within == {PAPER, HATCH}
                    assert said["colour"] == INK
                else:
                    fill = (
                        weight_colour(float(values))
                        if column["kind"] == "weight"
                        else signed_colour(float(values), column["scale"])
                    )
                    assert len(within) == 1
                    assert alike(*within, fill)
    assert kinds == {"strip", "number", "weight"}


def test_the_rows_are_the_query_then_its_keys_then_their_sum(stage: Stage) -> None:
    header, arrays = shown(stage, site=SELF)
    for number, told in enumerate(header["stages"][:-1]):
        to_stage(stage, number)
        names = [
            one for one in stage.drawn(CELLS, "text") if one["align"] == "right" and one["y"] > TOP
        ]
        expected = [
            header["queryLabel"],
            *header["keyLabels"],
            *([[told["foot"], "", False]] if told["foot"] else []),
        ]
        assert [one["text"] for one in names] == [label[0] for label in expected]
        assert [one["y"] for one in names] == [
            TOP + ROW * i + ROW / 2 for i in range(len(expected))
        ]
        assert [one["colour"] for one in names] == [
            QUIET if label[2] else INK for label in expected
        ]
        assert [one["font"].startswith("600") for one in names] == [
            i == 0 or i > len(header["indices"]) for i in range(len(expected))
        ]
        assert near((one["x"] for one in names), 118 - 10)
        asides = {
            one["text"]: one
            for one in stage.drawn(CELLS, "text")
            if one["text"] in ("reads", "is read")
        }
        assert {name: one["y"] for name, one in asides.items()} == {
            "reads": TOP + ROW / 2,
            "is read": TOP + 1.5 * ROW,
        }
        (head,) = [one for one in stage.drawn(CELLS, "text") if one["text"] == "token"]
        assert (head["y"], head["align"], head["colour"], head["font"]) == (
            TOP - 12,
            "right",
            QUIET,
            "12px sans-serif",
        )
        rules = [one["y"] for one in stage.drawn(CELLS, "rect") if one["h"] == 1 and one["w"] > 900]
        assert rules == [TOP + ROW - 1] + (
            [TOP + ROW * (len(expected) - 1)] if told["foot"] else []
        )
        if told["foot"]:
            assert_strip(
                stage,
                columns(stage)["parts"],
                len(expected) - 1,
                arrays["b"],
                header["columns"]["parts"]["scale"],
            )
    assert any(told["foot"] for told in header["stages"])


def test_keys_left_out_are_counted_and_summed_up(stage: Stage) -> None:
    header, arrays = shown(stage, source="abcdeabcdeabcdeabcde")
    n = len(header["indices"])
    assert n == 12 < header["n_keys"]
    number = next(i for i, told in enumerate(header["stages"]) if told["rest"] and told["foot"])
    to_stage(stage, number)
    names = [
        one for one in stage.drawn(CELLS, "text") if one["align"] == "right" and one["y"] > TOP
    ]
    assert [one["text"] for one in names[1 + n :]] == [
        f"{header['n_keys'] - n} others",
        header["stages"][number]["foot"],
    ]
    assert names[1 + n]["colour"] == QUIET
    assert [one["text"] for one in names[1 : 1 + n]] == [label[0] for label in header["keyLabels"]]
    at, scale = columns(stage)["parts"], header["columns"]["parts"]["scale"]
    assert_strip(stage, at, n + 1, arrays["rest"], scale)
    assert_strip(stage, at, n + 2, arrays["b"], scale)
    assert stage.text(".note").startswith(header["shown"] + " Blue is above 0, orange below")
    assert stage.box(CELLS)["height"] == TOP + ROW * (n + 3) + 6
    to_stage(stage, 0)
    assert stage.box(CELLS)["height"] == TOP + ROW * (n + 3) + 6  # the page does not jump
    assert point(stage, "a", n)["line"] == str(n)  # the last key


def test_a_stage_says_what_happens_in_words_and_as_a_formula(stage: Stage) -> None:
    header, _ = shown(stage)
    assert stage.text(".title") == header["title"]
    assert hex_of(stage.css(".chip", "backgroundColor")[0]) == HEADS[HEAD]
    assert stage.texts(".names button") == [told["name"] for told in header["stages"]]
    assert stage.attrs(".names button", "title") == [told["title"] for told in header["stages"]]
    assert stage.attr("input", "max") == str(len(header["stages"]) - 1)
    assert stage.js(
        "(root) => root.querySelector('input').style.getPropertyValue('--stops')"
    ) == str(len(header["stages"]))
    for number, told in enumerate(header["stages"]):
        to_stage(stage, number)
        ends = " " if told["title"][-1] in "?!" else ". "
        assert stage.text(".sentence") == told["title"] + ends + told["sentence"]
        assert stage.texts(".sentence b") == [told["title"] + ends]
        assert stage.text(".formula") == re.sub(r"[_^]\{([^}]*)\}", r"\1", told["formula"])
        for mark, tag in (("_", "sub"), ("^", "sup")):
            assert stage.texts(f".formula {tag}") == re.findall(
                rf"\{mark}{{([^}}]*)}}", told["formula"]
            )
        assert stage.attrs(".names button", "aria-current") == [
            "" if i == number else None for i in range(len(header["stages"]))
        ]
        data = stage.data(".walk")
        assert (data["stage"], data["name"]) == (str(number), told["name"])
        disabled = [
            stage.js("(root, one) => root.querySelector(one).disabled", one)
            for one in (".back", ".on")
        ]
        assert disabled == [number == 0, number == len(header["stages"]) - 1]
        assert stage.js("(root) => root.querySelector('input').value") == str(number)
        assert stage.attr(CELLS, "aria-label") == f"{header['title']}. {told['title']}"
    assert (data["site"], data["head"], data["query"], data["key"]) == (
        CROSS,
        str(HEAD),
        str(QUERY),
        str(KEY),
    )


def test_a_question_keeps_its_mark(stage: Stage) -> None:
    header, _ = unpack(payload())
    told = [
        {**header["stages"][0], "title": "Who?"},
        {**header["stages"][1], "title": "So!"},
        {**header["stages"][2], "formula": "a^b_c_{d}"},
    ]
    stage.mount("walk", 900).show(stage.change(payload(), stages=told, links=[]))
    assert stage.text(".sentence b") == "Who? "
    to_stage(stage, 1)
    assert stage.text(".sentence b") == "So! "
    to_stage(stage, 2)
    assert stage.text(".formula") == "a^b_cd"


def test_the_chain_lights_each_number_at_its_stage(stage: Stage) -> None:
    for site in (CROSS, SELF):
        header, arrays = shown(stage, site=site, key=0 if site == SELF else KEY)
        row = header["indices"].index(header["key"])
        for number in range(len(header["stages"])):
            to_stage(stage, number)
            assert (
                stage.text(".chain .token")
                == f"{header['queryLabel'][0]} → {header['keyLabels'][row][0]}"
            )
            links = stage.texts(".chain .link")
            assert len(links) == len(header["links"]) == 4
            for (name, title, since), link, how in zip(
                header["links"],
                links,
                stage.attrs(".chain .link", "class", "data-name", "data-value", "title"),
                strict=True,
            ):
                value = arrays[name][row]
                assert link == f"{title} = " + f"{value:.4f}".replace("-", "−")
                assert (
                    how["data-name"],
                    np.float32(how["data-value"]),
                    value_of(how["title"]),
                ) == (name, value, value)
                assert ("reached" in how["class"].split(), "now" in how["class"].split()) == (
                    number >= since,
                    number == since,
                )


def test_a_blocked_key_is_minus_infinity_in_the_chain(stage: Stage) -> None:
    header, _ = shown(stage, site=SELF, query=1, key=4)
    assert header["blocked"][header["indices"].index(4)]
    assert stage.texts(".chain .link")[2:] == ["+ mask = −∞", "softmax = 0.0000"]
    assert stage.attrs(".chain .link", "title")[2] == "−∞"


def test_the_tip_says_what_a_number_is_and_what_it_comes_from(stage: Stage) -> None:
    header, arrays = shown(stage, site=SELF, query=2, key=1, width=1250)
    n, said = len(header["indices"]), {}
    for number, told in enumerate(header["stages"][:-1]):
        to_stage(stage, number)
        for name, _at in columns(stage).items():
            column = header["columns"][name]
            values = arrays[column["array"]]
            for i in (1, n - 1):
                cell = min(2, values.shape[1] - 1) if values.ndim == 2 else 0
                size = values.shape[1] if values.ndim == 2 else 1
                tip = point(stage, name, i + 1, cell, size)
                value = values[i, cell] if values.ndim == 2 else values[i]
                assert value_of(stage.text(".tip .value")) == value
                assert np.float32(tip["value"].replace("Infinity", "inf")) == value
                assert (tip["column"], tip["line"], tip["head"]) == (name, str(i + 1), str(HEAD))
                assert tip["cell"] == (str(cell) if values.ndim == 2 else "")
                called = column["names"][1] if any(column["names"]) else column["title"]
                number_of = f", number {cell + 1}" if values.ndim == 2 else ""
                assert (
                    stage.text(".tip .what") == f"{header['keyLabels'][i][0]}: {called}{number_of}"
                )
                why = stage.text(".tip .why")
                said[name, i] = why
                if header["blocked"][i] and name in ("masked", "weights"):
                    assert why == f"blocked by: {', '.join(header['blocked'][i])}"
                elif name == "masked":
                    assert why == "open: the score stays"
                elif name == "weights":
                    assert why == f"exp({brief(float(arrays['masked'][i]))}) / Σ"
                else:
                    pieces = []
                    for part in column["why"]:
                        if isinstance(part, str):
                            pieces.append(re.escape(part))
                        else:
                            ((where, array),) = part.items()
                            number_there = (
                                arrays[array][cell]
                                if where == "top"
                                else arrays[array][i, cell]
                                if where == "row"
                                else arrays[array][i]
                            )
                            pieces.append(rf"(?P<n{len(pieces)}>\S+?)")
                            said[name, i, len(pieces) - 1] = number_there
                    found = re.fullmatch("".join(pieces), why)
                    assert found, (why, pieces)
                    for key, text in found.groupdict().items():
                        assert value_of(text) == np.float32(said[name, i, int(key[1:])])
            if name in told["top"]:
                top = arrays[told["top"][name]].ravel()
                point(stage, name, 0, 1, len(top))
                called = column["names"][0] if any(column["names"]) else column["title"]
                assert stage.text(".tip .what") == f"{header['queryLabel'][0]}: {called}, number 2"
                assert value_of(stage.text(".tip .value")) == top[1]
                assert stage.text(".tip .why") == ""
        if told["foot"]:
            point(stage, "parts", n + 1, 4, len(arrays["b"]))
            assert stage.text(".tip .what") == f"{told['foot']}: {told['foot']}, number 5"
            assert value_of(stage.text(".tip .value")) == arrays["b"][4]
            assert stage.text(".tip .why") == ""
    assert any(text.startswith("= ") for text in said.values() if isinstance(text, str))
    assert any(header["blocked"])


def test_pointing_outlines_the_chosen_row_and_the_numbers_that_belong_together(
    stage: Stage,
) -> None:
    header, arrays = shown(stage, width=1250)
    (chosen,) = stage.drawn(MARKS)
    row = header["indices"].index(KEY)
    width = stage.box(CELLS)["width"]
    assert (chosen["op"], chosen["colour"], chosen["line"]) == ("frame", ACCENT, 1.5)
    assert [chosen[n] for n in "xywh"] == [1, TOP + (row + 1) * ROW + 0.5, width - 2, ROW - 1]
    for number in range(len(header["stages"]) - 1):
        to_stage(stage, number)
        for name, _at in columns(stage).items():
            column = header["columns"][name]
            if column["kind"] != "strip":
                continue
            size = arrays[column["array"]].shape[1]
            point(stage, name, 3, 2, size)
            frames = stage.drawn(MARKS)[1:]
            together = [
                c
                for c in columns(stage).values()
                if c["id"] == name or (column["family"] and c["family"] == column["family"])
            ]
            places = set()
            top = header["stages"][number]["top"]
            for one in together:
                for line in {3} | ({0} if column["family"] and one["id"] in top else set()):
                    long = (
                        arrays[top[one["id"]]].size
                        if line == 0
                        else arrays[header["columns"][one["id"]]["array"]].shape[1]
                    )
                    step = one["width"] / long
                    places.add(
                        (
                            round(one["x"] + 2 * step - 1, 2),
                            TOP + line * ROW + 2,
                            round(max(step, 2) + 2, 2),
                        )
                    )
            assert {(round(one["x"], 2), one["y"], round(one["w"], 2)) for one in frames} == places
            assert {(one["colour"], one["h"]) for one in frames} == {(INK, ROW - 4)}
    stage.away()
    assert len(stage.drawn(MARKS)) == 1
    assert stage.hidden(".tip")


def test_a_click_on_a_row_chooses_its_key_and_the_keyboard_walks(stage: Stage) -> None:
    header, _arrays = shown(stage)
    stage.click(CELLS, 300, TOP + ROW * 5.5)
    assert stage.sent == [["news", {"query": QUERY, "key": 4}]]
    assert stage.text(".chain .token") == f"{header['queryLabel'][0]} → {header['keyLabels'][4][0]}"
    assert stage.drawn(MARKS)[0]["y"] == TOP + 5 * ROW + 0.5
    stage.click(CELLS, 300, TOP + ROW * 0.5)  # the query itself is not a key
    stage.click(CELLS, 300, 20)
    assert len(stage.sent) == 1
    stage.js("(root) => root.querySelector('canvas.cells').focus()")
    stage.press("ArrowDown", "ArrowUp", "ArrowUp")
    stage.press("ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp", "x")  # there is none above the first
    assert [value["key"] for _, value in stage.sent] == [4, 5, 4, 3, 2, 1, 0]
    stage.press("ArrowLeft")  # there is no stage before the first
    assert stage.data(".walk")["stage"] == "0"
    stage.press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert stage.data(".walk")["stage"] == "1"
    to_stage(stage, len(header["stages"]) - 1)
    before = len(stage.sent)
    stage.js("(root) => root.querySelector('canvas.cells').focus()")
    stage.press("ArrowRight")
    assert stage.data(".walk")["stage"] == str(len(header["stages"]) - 1)
    stage.press("ArrowDown")
    stage.click(CELLS, 60, TOP + ROW * 1.5)  # at the sum of the heads nothing is chosen
    assert len([one for one in stage.sent[before:] if "key" in one[1]]) == 0


def test_stepping_is_told_once_it_rests(stage: Stage) -> None:
    header, _ = shown(stage)
    last = len(header["stages"]) - 1
    stage.click(".back")
    for number in (1, 2):
        stage.click(".on")
        assert stage.data(".walk")["stage"] == str(number)
    stage.click(".back")
    assert stage.data(".walk")["stage"] == "1"
    stage.page.wait_for_function("stage.sent.length")
    assert stage.sent == [["news", {"stage": 1}]]
    stage.js(
        "(root, n) => { const range = root.querySelector('input'); range.value = n; range.oninput(); }",
        last,
    )
    assert stage.data(".walk")["stage"] == str(last)
    stage.click(".on")
    assert stage.data(".walk")["stage"] == str(last)
    stage.show(payload(key=1))  # another answer leaves the stage
    assert stage.data(".walk")["stage"] == str(last)
    assert stage.data(".walk")["key"] == "1"


def test_the_stage_that_python_says_is_shown_but_not_an_answer_older_than_the_hand(
    stage: Stage,
) -> None:
    shown(stage)

    def answered(number: int) -> str:
        stage.show(stage.change(payload(), stage=number))
        return stage.data(".walk")["stage"]

    assert [answered(number) for number in (5, 2, 99)] == [
        "5",
        "2",
        str(len(unpack(payload())[0]["stages"]) - 1),
    ]
    stage.hold_timers()  # the walk tells its stage when the hand rests
    to_stage(stage, 3)
    to_stage(stage, 4)
    assert [answered(number) for number in (2, 3, 4, 1)] == ["4", "4", "4", "1"]
    to_stage(stage, 6)
    stage.click(CELLS, 300, TOP + ROW * 5.5)
    assert stage.sent == [
        ["news", {"query": QUERY, "key": 4, "stage": 6}]
    ]  # what is clicked meanwhile takes it along


def test_back_ends_what_the_hand_has_begun(stage: Stage) -> None:
    shown(stage)
    stage.hold_timers()
    to_stage(stage, 3)
    stage.js("() => dispatchEvent(new PopStateEvent('popstate'))")
    stage.show(stage.change(payload(), stage=0))
    assert stage.data(".walk")["stage"] == "0"
    stage.end_timers()
    assert stage.sent == []


def test_the_last_stage_adds_up_the_heads(stage: Stage) -> None:
    header, arrays = shown(stage)
    to_stage(stage, len(header["stages"]) - 1)
    assert_heads_table(
        stage,
        header,
        arrays,
        {"head_out": "b of each head", "added": "b · W_O", "norm": "length"},
        "of the vector",
    )
    point(stage, "added", 2, 3, header["d_model"])
    assert stage.text(".tip .what") == "head 3, b · W_O, number 4"
    assert value_of(stage.text(".tip .value")) == arrays["added"][2, 3]
    point(stage, "norm", 1)
    assert stage.text(".tip .what") == "head 2, length"
    assert value_of(stage.text(".tip .value")) == arrays["sizes"][1]
    assert stage.drawn(MARKS)[0]["y"] == TOP + HEAD * ROW + 0.5


def assert_heads_table(
    stage: Stage, header: dict, arrays: dict, titles: dict[str, str], length: str
) -> None:
    """One row a head, then the bias, the output and the stream, each with its vector and its length."""
    n, scales, placed = header["n_heads"], header["headScales"], columns(stage)
    texts = stage.drawn(CELLS, "text")
    assert {name: placed[name]["title"] for name in titles} == titles
    each = " each" if length == "of the vector" else ""
    assert (
        placed["head_out"]["note"]
        == f"{header['d_head']} numbers{each}, ±{brief(scales['head_out'])}"
    )
    assert placed["added"]["note"] == f"{header['d_model']} numbers, ±{brief(scales['added'])}"
    assert placed["norm"]["note"] == length
    for name in titles:
        assert [
            one["text"] for one in texts if one["x"] == placed[name]["x"] and one["y"] in (11, 27)
        ] == [
            titles[name],
            placed[name]["note"],
        ]
    names = [one for one in texts if one["align"] == "right" and one["y"] > TOP]
    labels = [
        *(f"head {h + 1}" for h in range(n)),
        "+ bias",
        "= output",
        *(["added to"] if "residual" in arrays else []),
    ]
    assert [one["text"] for one in names] == labels
    assert [one["text"] for one in texts if one["align"] == "right" and one["y"] == TOP - 12] == [
        "head"
    ]
    marks = [one for one in stage.drawn(CELLS, "rect") if (one["x"], one["w"]) == (2, 8)]
    assert [(one["colour"], one["y"]) for one in marks] == [
        (HEADS[h], TOP + ROW * h + 6) for h in range(n)
    ]
    for h in range(n):
        assert_strip(stage, placed["head_out"], h, arrays["head_out"][h], scales["head_out"])
        assert_strip(stage, placed["added"], h, arrays["added"][h], scales["added"])
    assert_strip(stage, placed["added"], n, arrays["bias"], scales["added"])
    assert_strip(stage, placed["added"], n + 1, arrays["total"], scales["added"])
    if "residual" in arrays:
        assert_strip(stage, placed["added"], n + 2, arrays["residual"], scales["residual"])
        (aside,) = [
            one for one in texts if one["text"] == f"±{brief(scales['residual'])}" and one["x"] == 4
        ]
        assert aside["y"] == TOP + ROW * (n + 2.5)
        assert aside["colour"] == QUIET
    at, longest = placed["norm"], arrays["sizes"].max()
    for line, size in enumerate(arrays["sizes"]):
        y = TOP + ROW * line
        (bar,) = [
            one
            for one in stage.drawn(CELLS, "rect")
            if (one["x"], one["y"]) == (at["x"], y + 5) and one["colour"] == ACCENT
        ]
        assert bar["w"] == pytest.approx((at["width"] - 44) * float(size / longest), abs=0.01)
        assert bar["h"] == ROW - 10
        (said,) = [
            one
            for one in texts
            if abs(one["y"] - y - ROW / 2 - 0.5) < 0.1
            and at["x"] <= one["x"] <= at["x"] + at["width"]
            and one["align"] == "left"
        ]
        assert said["text"] == brief(float(size))
        assert said["x"] == pytest.approx(at["x"] + bar["w"] + 5, abs=0.01)


def test_columns_share_the_width_and_the_least_important_go_first(stage: Stage) -> None:
    header, _ = unpack(payload())
    order = {
        "a": 3,
        "k": 2,
        "sides": 2,
        "raw": 2,
        "v": 2,
        "products": 1,
        "terms": 1,
        "scores": 1,
        "masked": 1,
    }
    order |= {"weights": 0, "parts": 0}
    seen = {}
    for width in (1250, 900, 620, 480, 330):
        shown(stage, width=width)
        for number, told in enumerate(header["stages"]):
            to_stage(stage, number)
            placed = list(columns(stage).values())
            ids = [one["id"] for one in placed]
            seen[width, number] = ids
            assert [name for name in told["columns"] if name in ids] == ids or not told["columns"]
            assert set(told["main"]) <= set(ids)
            for one in placed if told["columns"] else ():
                assert one.get("drop") == (
                    0 if one["id"] in told["main"] else order.get(one["id"])
                ), one["id"]
            start = min(118, width * 0.3)
            assert placed[0]["x"] == pytest.approx(start)
            for one, following in itertools.pairwise(placed):
                gap = following["x"] - one["x"] - one["width"]
                assert 0 < gap <= 12.001
            assert placed[-1]["x"] + placed[-1]["width"] <= width + 0.5
            for one in placed:
                assert one["width"] <= one.get("max", 1e9) + 0.01
                if sum(c["min"] + 12 for c in placed) <= width - start - 2:
                    assert one["width"] >= one["min"] - 0.01
            roomy = sum(c["min"] + 12 for c in placed) <= width - start - 2
            if (
                roomy
                and any(c.get("grow") for c in placed)
                and all(c["width"] < c.get("max", 1e9) for c in placed)
            ):
                assert sum(c["width"] + 12 for c in placed) == pytest.approx(
                    width - start - 2, abs=0.6
                )
    assert all(
        set(seen[480, n]) <= set(seen[620, n]) <= set(seen[900, n]) <= set(seen[1250, n])
        for n in range(len(header["stages"]))
    )
    assert seen[330, 3] != seen[1250, 3]


Room = tuple[
    str, float, float, float, int
]  # a column's name, least width, share of what is over, greatest width, rank to go


def laid(width: float, wanted: list[Room]) -> dict[str, tuple[float, float]]:
    """Where the columns that find room begin, and how wide they are."""
    start, kept = min(118, 0.3 * width), list(wanted)
    room = width - start - 2
    while (
        sum(least + 12 for _, least, *_ in kept) > room
        and len(kept) > 1
        and any(rank for *_, rank in kept)
    ):
        kept.remove(max(kept, key=lambda one: one[4]))
    needed = sum(least + 12 for _, least, *_ in kept)
    squeeze, shares, x, places = min(1, room / needed), sum(one[2] for one in kept), start, {}
    for name, least, share, most, _ in kept:
        over = max(0, room - needed) * share / shares if shares else 0
        places[name] = (
            pytest.approx(x, abs=0.01),
            pytest.approx(min(most, least * squeeze + over), abs=0.01),
        )
        x += min(most, least * squeeze + over) + 12 * squeeze
    return places


def places(stage: Stage) -> dict[str, tuple[float, float]]:
    return {name: (one["x"], one["width"]) for name, one in columns(stage).items()}


WIDTHS = (1250, 1000, 760, 620, 480, 330, 200)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_walks_columns_have_the_room_they_need(stage: Stage, width: int) -> None:
    header, _ = shown(stage, width=width)
    order = {
        "a": 3,
        "k": 2,
        "sides": 2,
        "raw": 2,
        "v": 2,
        "products": 1,
        "terms": 1,
        "scores": 1,
        "masked": 1,
    }
    order |= {"weights": 0, "parts": 0}
    kinds = {"strip": (100, 1, 620), "number": (66, 0, math.inf), "weight": (70, 0, math.inf)}
    for number, told in enumerate(header["stages"]):
        to_stage(stage, number)
        wanted = []
        for i, name in enumerate(told["columns"]):
            least, share, most = kinds[header["columns"][name]["kind"]]
            if i == 0 and name == "a" and len(told["columns"]) > 1:
                least, share = 110, 3
            wanted.append(
                (name, least, share, most, 0 if name in told["main"] else order.get(name, 0))
            )
        heads = [
            ("head_out", 80, 1, 300, 1),
            ("added", 110, 3, math.inf, 0),
            ("norm", 96, 0, math.inf, 0),
        ]
        assert places(stage) == laid(width, wanted or heads), number


@pytest.mark.parametrize(
    "n", [1, 6, 7]
)  # the columns of as many numbers as there are heads or tokens grow up to a limit
@pytest.mark.parametrize("width", [1900, *WIDTHS])
def test_the_heads_columns_have_the_room_they_need(stage: Stage, width: int, n: int) -> None:
    _, arrays = unpack(payload("heads"))
    tokens, rng = 3 * n, np.random.default_rng(n)
    made = {
        name: rng.standard_normal((n, *arrays[name].shape[1:]))
        for name in ("head_out", "added", "along_total", "along_residual")
    }
    made |= {
        "between": rng.standard_normal((n, n)),
        "lengths": rng.random((n, tokens)),
        "sizes": rng.random(n + 3),
    }
    queries = [[f"q{i}", "", False] for i in range(tokens)]
    more = {name: values.astype(np.float32) for name, values in made.items()}
    stage.mount("heads", width).show(
        stage.change(payload("heads"), more, n_heads=n, queries=queries, head=0)
    )
    assert places(stage) == laid(width, [
        ("head_out", 80, 1, 240, 3), ("added", 100, 2, 520, 1), ("norm", 96, 0, math.inf, 0), ("along_total", 74, 0, math.inf, 0),
        ("along_residual", 74, 0, math.inf, 0), ("between", min(120, 20 * n), 0, math.inf, 4),
        ("lengths", min(160, 8 * tokens), 1, 300, 2),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("room", "kept"), [(1000, "abcd"), (470, "abd"), (360, "bd"), (250, "b"), (100, "b")]
)
def test_columns_that_find_no_room_go_by_their_rank(stage: Stage, room: int, kept: str) -> None:
    shown(stage)
    kept_ids = stage.js(
        """(root, room) => {
      const table = root.querySelector('.attnscope').view.table, strip = (id, more) => ({ id, kind: "strip", min: 100, ...more });
      table.table = { ...table.table, columns: [
        strip("a", { drop: 2 }), strip("b", {}), strip("c", { drop: 3 }), strip("d", { drop: 1 })] };
      table.width = room;
      table.place();
      return table.columns.map((c) => c.id).join("");
    }""",
        room,
    )
    assert kept_ids == kept


def test_more_numbers_than_pixels_show_the_one_furthest_from_0(stage: Stage) -> None:
    header, _arrays = unpack(payload())
    wide = np.zeros((len(header["indices"]), 2999), np.float32)
    wide[2, 1500], wide[2, 1501], wide[3, 700] = -1, 0.4, 1
    column = {**header["columns"]["v"], "scale": 1.0}
    told = [{**header["stages"][0], "columns": ["v"], "main": ["v"], "top": {}}]
    stage.mount("walk", 900).show(
        stage.change(
            payload(), {column["array"]: wide}, stages=told, columns={"v": column}, links=[]
        )
    )
    at, pixels = columns(stage)["v"], stage.pixels(CELLS)
    for line, cell, colour in ((3, 1500, ORANGE), (4, 700, ACCENT)):
        x = at["x"] + at["width"] * cell / 2999
        assert any(
            alike(one, colour, 2) for one in pixels.within(x - 1, TOP + ROW * line + 8, 2.5, 4)
        )
    assert stage.text(".note").endswith(
        " Where a strip has more numbers than pixels, a pixel shows the one furthest from 0."
    )
    shown(stage)
    assert stage.text(".note").endswith("click a row to choose it.")
    assert not stage.text(".note").startswith(" ")
    assert (
        "± the strongest colour. Point at a strip for exact numbers; click a row to choose it."
        in stage.text(".note")
    )


def test_signed_colours_of_a_dark_page(stage: Stage) -> None:
    header, arrays = unpack(payload())
    stage.mount("walk", 1000, **DARK).show(payload())
    paper, accent, _ink = DARK.values()
    to_stage(stage, 1)
    at, column = columns(stage)["k"], header["columns"]["k"]
    seen = strip_colours(stage, at, 1, 5)
    for colour, value in zip(seen, arrays["k"][0], strict=True):
        assert alike(
            colour, signed_colour(float(value), column["scale"], paper, accent, "#ff9654"), 2
        )


def test_numbers_are_in_ink_that_can_be_read_on_their_colour(stage: Stage) -> None:
    header, _arrays = unpack(payload())
    n = len(header["indices"])
    scores = np.linspace(-1, 1, n).astype(np.float32)
    weights = np.linspace(0, 1, n).astype(np.float32)
    made = {name: {**header["columns"][name], "scale": 1.0} for name in ("scores", "weights")}
    told = [
        {**header["stages"][0], "columns": ["scores", "weights"], "main": ["scores"], "top": {}}
    ]
    stage.mount("walk", 900).show(
        stage.change(
            payload(), {"scores": scores, "weights": weights}, stages=told, columns=made, links=[]
        )
    )
    texts = stage.drawn(CELLS, "text")

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        parts = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    def contrast(a: str, b: str) -> float:
        x, y = sorted((luminance(a), luminance(b)))
        return (y + 0.05) / (x + 0.05)

    for name, values in (("scores", scores), ("weights", weights)):
        at = columns(stage)[name]
        for i, value in enumerate(values):
            (said,) = [
                one
                for one in texts
                if abs(one["y"] - TOP - ROW * (i + 1.5) - 0.5) < 0.1
                and abs(one["x"] - at["x"] - at["width"] / 2) < 0.1
            ]
            fill = (
                weight_colour(float(value))
                if name == "weights"
                else signed_colour(float(value), 1.0)
            )
            best = (
                PAPER
                if contrast(fill, PAPER) > (contrast(fill, INK) if name == "weights" else 3.2)
                else INK
            )
            assert said["colour"] == best, (name, value)
    frames = [one for one in stage.drawn(CELLS, "frame") if one["h"] == ROW - 5]
    assert len(frames) == 2 * n
    assert {one["colour"] for one in frames} == {LINE}


def test_on_a_phone_a_row_is_as_tall_as_a_finger(stage: Stage) -> None:
    stage.page.set_viewport_size({"width": 420, "height": 900})
    try:
        header, _ = shown(stage, width=400)
        assert stage.box(CELLS)["height"] == 40 + 40 * header["lines"] + 6
        stage.click(CELLS, 60, 40 + 2.5 * 40)  # the second key
        assert stage.sent[-1] == ["news", {"query": QUERY, "key": header["indices"][1]}]
        assert (
            min(
                stage.box(one)[side]
                for one in (".steps .back", ".steps .on")
                for side in ("width", "height")
            )
            >= 40
        )
    finally:
        stage.page.set_viewport_size({"width": 1280, "height": 1600})


def test_the_walk_as_a_file(stage: Stage) -> None:
    header, _ = shown(stage)
    to_stage(stage, 2)
    name, picture, drawn = stage.saved_picture(known=header)
    assert name == f"{header['file']}.stage2.png"
    title, *keys = [one for one in drawn if one["op"] == "text"]
    assert [one["text"] for one in keys[:2]] == [
        "−",
        "+ every column on its own scale: ± the number at its head",
    ]
    lines = 1 + len(header["indices"])  # and no room for keys that there are not
    assert keys[0]["y"] == pytest.approx(30 + 40 + 22 * lines + 6 + 11)
    assert stage.box(CELLS)["height"] == 40 + 22 * header["lines"] + 6  # on the page it is kept
    assert title["text"] == f"{header['title']} ({header['stages'][2]['title']})"
    on_page, at = stage.pixels(CELLS), columns(stage)
    for one in at.values():
        for line in (0, 1, 4):
            x, y = one["x"] + 5, TOP + ROW * line + 9
            assert picture.at(x, y + 30) == on_page.at(x, y)


@pytest.mark.parametrize("component", ["walk", "heads"])
def test_a_new_table_has_no_tip_of_the_old_one(stage: Stage, component: str) -> None:
    shown(stage, component)
    pixels = stage.pixels(CELLS)
    wide, tall = pixels.wide / RATIO - 0.5, pixels.tall / RATIO - 0.5
    assert {pixels.at(0, 0), pixels.at(wide, 0), pixels.at(0, tall), pixels.at(wide, tall)} == {
        PAPER
    }
    point(stage, next(iter(columns(stage))), 2)
    stage.show(payload(component))
    assert stage.hidden(".tip")
    assert stage.data(f".{component}")["painted"] == "2"


@pytest.mark.parametrize("component", ["walk", "heads"])
@pytest.mark.parametrize("width", [900, 150])
def test_a_table_has_its_place_its_frames_over_it_and_its_words_in_the_middle_of_rows(
    stage: Stage, component: str, width: int
) -> None:
    header, _ = shown(stage, component, width)
    lines = (
        12 + 3 if component == "walk" else header["n_heads"] + 3
    )  # as many as there may be keys: typing moves nothing
    assert stage.box(CELLS) == stage.box(MARKS) == stage.box(".stage")
    assert (stage.box(CELLS)["width"], stage.box(CELLS)["height"]) == (width, TOP + ROW * lines + 6)
    cells, marks = stage.pixels(CELLS), stage.pixels(MARKS)
    assert (
        (cells.wide, cells.tall)
        == (marks.wide, marks.tall)
        == (width * RATIO, (TOP + ROW * lines + 6) * RATIO)
    )
    assert {one["baseline"] for one in stage.drawn(CELLS, "text")} == {"middle"}
    assert cells.within(0, cells.tall / RATIO - 4, width, 4) == {PAPER}
    assert stage.attr(CELLS, "tabindex") == "0"
    assert stage.attr(CELLS, "role") == "img"


def test_another_width_draws_the_walk_anew(stage: Stage) -> None:
    shown(stage)
    stage.page.evaluate("stage.host.style.width = '700px'")
    stage.frames()
    assert stage.box(CELLS)["width"] == 700
    assert max(c["x"] + c["width"] for c in columns(stage).values()) <= 700
    stage.page.evaluate("stage.end()")
    stage.page.evaluate("stage.host.style.width = '900px'")
    stage.frames()
    assert stage.box(CELLS)["width"] == 700


# --- the heads


def test_the_heads_table_holds_every_number(stage: Stage) -> None:
    header, arrays = shown(stage, "heads", 1200)
    titles = {"head_out": "Concat: b", "added": "b · W_O", "norm": "length"}
    assert_heads_table(stage, header, arrays, titles, "what it adds")
    placed, texts, n = columns(stage), stage.drawn(CELLS, "text"), header["n_heads"]
    told = {
        "along_total": ("with output", "cosine"), "along_residual": ("with stream", "cosine"), "between": ("other heads", "cosine"),
        "lengths": ("at each token", f"length, 0 to {brief(header['longest'])}"),
    }  # fmt: skip
    assert list(placed) == ["head_out", "added", "norm", *told]
    for name, (title, note) in told.items():
        assert [
            one["text"] for one in texts if one["x"] == placed[name]["x"] and one["y"] == 27
        ] == [note]
        (said,) = [one["text"] for one in texts if one["x"] == placed[name]["x"] and one["y"] == 11]
        assert placed[name]["title"] == title
        assert re.fullmatch(re.escape(said).replace("…", ".*"), title)
    pixels = stage.pixels(CELLS)
    for h in range(n):
        for name in ("along_total", "along_residual"):
            at, y = placed[name], TOP + ROW * h
            (said,) = [
                one
                for one in texts
                if abs(one["y"] - y - ROW / 2 - 0.5) < 0.1
                and abs(one["x"] - at["x"] - at["width"] / 2) < 0.1
            ]
            assert said["text"] == brief(float(arrays[name][h]))
            assert alike(pixels.at(at["x"] + 3, y + 6), signed_colour(float(arrays[name][h]), 1.0))
        assert_strip(stage, placed["between"], h, arrays["between"][h], 1.0)
        seen = strip_colours(stage, placed["lengths"], h, arrays["lengths"].shape[1])
        for colour, value in zip(seen, arrays["lengths"][h], strict=True):
            assert alike(colour, weight_colour(float(value) / header["longest"]), 2)
    assert stage.text(".title") == header["title"]
    assert stage.text(".sentence") == header["sentence"]
    assert stage.attr(CELLS, "aria-label") == header["title"]
    assert stage.text(".note") == (
        "Blue is above 0, orange below, ± the strongest colour. “Length” is the vector's; cosine 1 = same direction, "
        "0 = at right angles, −1 = opposite. “Added to” is the residual stream. "
        "Point at anything for exact numbers; click a row to choose that head."
    )
    data = stage.data(".heads")
    assert (data["site"], data["head"], data["query"]) == (CROSS, str(HEAD), str(QUERY))
    (chosen,) = stage.drawn(MARKS)
    assert chosen["y"] == TOP + HEAD * ROW + 0.5


def test_pointing_into_the_heads_table_says_what_stands_there(stage: Stage) -> None:
    header, arrays = shown(stage, "heads", 1200)
    n, queries = header["n_heads"], header["queries"]
    for column, line, cell, size, what, value in (
        ("head_out", 2, 3, header["d_head"], "head 3, Concat: b, number 4", arrays["head_out"][2, 3]),
        ("added", 1, 7, header["d_model"], "head 2, b · W_O, number 8", arrays["added"][1, 7]),
        ("added", n, 2, header["d_model"], "+ bias, b · W_O, number 3", arrays["bias"][2]),
        ("added", n + 1, 2, header["d_model"], "= output, b · W_O, number 3", arrays["total"][2]),
        ("added", n + 2, 2, header["d_model"], "added to, b · W_O, number 3", arrays["residual"][2]),
        ("norm", 1, 0, 1, "head 2: length", arrays["sizes"][1]), ("norm", n + 1, 0, 1, "= output: length", arrays["sizes"][n + 1]),
        ("along_total", 2, 0, 1, "head 3 with the sublayer's output, cosine", arrays["along_total"][2]),
        ("along_residual", 2, 0, 1, "head 3 with the residual stream, cosine", arrays["along_residual"][2]),
        ("between", 0, 2, n, "head 1 with head 3, cosine", arrays["between"][0, 2]),
        ("lengths", 1, 4, len(queries), f"head 2 at {queries[4][0]}: length of what it adds", arrays["lengths"][1, 4]),
    ):  # fmt: skip
        tip = point(stage, column, line, cell, size)
        assert stage.text(".tip .what") == what
        assert value_of(stage.text(".tip .value")) == value
        assert (tip["column"], tip["line"], tip["cell"]) == (
            column,
            str(line),
            str(cell) if size > 1 else "",
        )
        assert np.float32(tip["value"]) == value
    stage.away()
    assert stage.hidden(".tip")
    stage.click(CELLS, 60, TOP + ROW * 2.5)
    stage.click(CELLS, 60, TOP + ROW * (n + 0.5))  # the bias is nobody's
    assert stage.sent == [["pick", {"head": 2}]]


def test_without_a_stream_its_columns_are_left_out(stage: Stage) -> None:
    header, arrays = unpack(payload("heads"))
    fields = {name: value for name, value in header.items() if name != "arrays"}
    from viz_app.drawing.payload import pack

    data = pack(
        fields,
        **{name: v for name, v in arrays.items() if name not in ("residual", "along_residual")}
        | {"sizes": arrays["sizes"][:-1]},
    )
    stage.mount("heads", 1200).show(data)
    assert "along_residual" not in columns(stage)
    names = [
        one["text"]
        for one in stage.drawn(CELLS, "text")
        if one["align"] == "right" and one["y"] > TOP
    ]
    assert names[-2:] == ["+ bias", "= output"]
    assert "Added to" not in stage.text(".note")


def test_other_heads_of_the_same_width_are_drawn_anew(stage: Stage) -> None:
    header, arrays = shown(stage, "heads", 1200)
    data = stage.change(
        payload("heads"), {"bias": -arrays["bias"]}, title="Another", sentence="Of another.", head=2
    )
    stage.show(data)
    assert (stage.text(".title"), stage.text(".sentence")) == ("Another", "Of another.")
    assert_strip(
        stage,
        columns(stage)["added"],
        header["n_heads"],
        -arrays["bias"],
        header["headScales"]["added"],
    )
    assert stage.drawn(MARKS)[0]["y"] == TOP + 2 * ROW + 0.5
    assert stage.attr(CELLS, "aria-label") == "Another"


def test_the_heads_as_a_file(stage: Stage) -> None:
    header, _ = shown(stage, "heads", 1200)
    name, picture, drawn = stage.saved_picture(known=header)
    assert name == f"{header['file']}.png"
    said = [one["text"] for one in drawn if one["op"] == "text"]
    assert said[:3] == [
        header["title"],
        "−",
        "+ every column on its own scale: ± the number at its head",
    ]
    assert [text.strip() for text in said[3:5]] == [
        "0",
        "the lengths' scale, whose end stands at its head",
    ]
    assert picture.at(6, TOP + ROW + 10 + 30) == HEADS[1]


def test_the_heads_table_follows_its_width(stage: Stage) -> None:
    shown(stage, "heads", 1200)
    kept = []
    for width in (1000, 760, 620, 500):
        stage.page.evaluate(f"stage.host.style.width = '{width}px'")
        stage.frames()
        assert stage.box(CELLS)["width"] == width
        kept.append(list(columns(stage)))
    assert all({"norm", "along_total", "along_residual"} <= set(one) for one in kept)
    gone = [name for name in ("between", "head_out", "lengths", "added") if name not in kept[-1]]
    assert gone
    assert all(set(b) <= set(a) for a, b in itertools.pairwise(kept))


# --- the choice


def test_the_choice_shades_keys_by_the_weights_of_the_query(stage: Stage) -> None:
    header, arrays = shown(stage, "choice", site=SELF, query=2, key=1)
    assert stage.texts(".axis") == [header["queryAxis"], header["keyAxis"]]
    for side, chosen in (("queries", 2), ("keys", 1)):
        assert stage.texts(f".{side} button") == [label[0] for label in header[side]]
        assert stage.attrs(f".{side} button", "aria-pressed") == [
            str(i == chosen).lower() for i in range(len(header[side]))
        ]
        assert stage.attrs(f".{side} button", "class") == [
            "special" if label[2] else "" for label in header[side]
        ]
    assert stage.attrs(".queries button", "title") == [label[1] for label in header["queries"]]
    for j, (weight, title) in enumerate(
        zip(arrays["weights"], stage.attrs(".keys button", "title"), strict=True)
    ):
        note = f"; {header['keys'][j][1]}" if header["keys"][j][1] else ""
        if header["blocked"][j]:
            assert title == f"blocked by: {', '.join(header['blocked'][j])}{note}"
            shade = stage.css(".keys button", "backgroundImage")[j]
            assert shade.startswith("repeating-linear-gradient(135deg")
            assert hex_of("rgb(" + shade.split("rgb(")[1].split(")")[0] + ")") == LINE
        else:
            said = title.removesuffix(note).removeprefix("weight ")
            assert np.float32(said) == weight
            assert alike(
                hex_of(stage.css(".keys button", "backgroundColor")[j]),
                weight_colour(float(weight)),
            )
            assert stage.css(".keys button", "backgroundImage")[j] == "none"
    assert any(header["blocked"])
    assert not all(header["blocked"])
    data = stage.data(".choice")
    assert (data["query"], data["key"]) == ("2", "1")


def test_strong_keys_are_written_in_the_pages_colour(stage: Stage) -> None:
    weights = np.zeros(len(unpack(payload("choice"))[0]["keys"]), np.float32)
    weights[1], weights[2] = 1, 0.2
    stage.mount("choice", 700).show(stage.change(payload("choice"), {"weights": weights}))
    inks = [hex_of(one) for one in stage.css(".keys button", "color")]
    assert inks[:3] == [INK, PAPER, INK]


def test_each_of_255_steps_of_a_weight_has_its_own_shade(stage: Stage) -> None:
    weights = (
        np.concatenate([np.arange(255), np.arange(254) + 0.51, np.arange(254) + 0.49]) / 254
    ).astype(np.float32)
    keys = [["k", "", False]] * len(weights)
    data = stage.change(
        payload("choice"), {"weights": weights}, keys=keys, blocked=[[]] * len(weights), key=0
    )
    stage.mount("choice", 700).show(data)
    shades = [hex_of(one) for one in stage.css(".keys button", "backgroundColor")]
    steps = [ramp(step / 254) for step in range(255)]
    assert shades == [steps[round(float(weight) * 254)] for weight in weights]
    assert set(stage.attrs(".choice button", "type")) == {"button"}


def test_a_click_chooses_who_reads_or_what_is_read(stage: Stage) -> None:
    shown(stage, "choice")
    stage.click(".queries button", n=4)
    stage.click(".keys button", n=5)
    assert stage.sent == [["pick", {"query": 4, "key": -1}], ["pick", {"query": QUERY, "key": 5}]]
    stage.show(payload("choice", source="abc"))
    assert stage.texts(".keys button") == ["a", "b", "c", "[end]"]
    assert int(stage.data(".choice")["painted"]) == 2
    stage.show(payload("choice", source="abcdeabcde"))
    assert stage.texts(".keys button") == [*"abcdeabcde", "[end]"]
    stage.click(".keys button", n=9)
    assert stage.sent[-1] == ["pick", {"query": QUERY, "key": 9}]


def test_what_is_chosen_is_in_sight_among_many_tokens(stage: Stage) -> None:
    many = [[f"token{i}", "", False] for i in range(60)]
    arrays = {"weights": np.full(60, 1 / 60, np.float32)}
    stage.mount("choice", 500)
    for query, key in ((40, 20), (10, 55), (0, 0)):
        told = {"queries": many, "keys": many, "blocked": [[]] * 60, "query": query, "key": key}
        stage.show(stage.change(payload("choice"), arrays, **told))
        for side, chosen in (("queries", query), ("keys", key)):
            box, button = stage.box(f".{side}.tokens"), stage.box(f".{side} button", chosen)
            assert box["height"] < 70
            assert box["top"] <= button["top"]
            assert button["bottom"] <= box["bottom"]
            middle = (button["top"] + button["bottom"] - box["top"] - box["bottom"]) / 2
            assert not chosen or abs(middle) < button["height"]
