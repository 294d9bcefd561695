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
    Pixels,
    Stage,
    alike,
    hex_of,
    signed_colour,
    weight_colour,
)

from models.trace.edits import HeadOff
from viz_app.drawing.colours import ramp
from viz_app.drawing.payload import unpack
from viz_app.drawing.weight_cell import chosen_cell, token_choice
from viz_app.views.inside.cell import head_sum_payload, walk_payload

HEAD, QUERY, KEY = 1, 3, 2
CELLS, MARKS = "canvas.cells", "canvas.marks"
TOP, ROW = 40, 22  # px: the column headings, one row


@functools.cache
def payload(
    component: str = "walk",
    site: str = CROSS,
    query: int = QUERY,
    key: int = KEY,
    source: str = letters.SOURCE,
) -> bytes:
    trace = letters.trace(source)
    draws = {"choice": token_choice, "walk": walk_payload, "heads": head_sum_payload}
    return draws[component](
        trace, chosen_cell(trace, trace.attention[site], HEAD, query, key), TERMS
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


def strip_colours(
    stage: Stage, column: dict[str, Any], line: int, size: int, pixels: Pixels | None = None
) -> list[str]:
    pixels, y = pixels or stage.pixels(CELLS), TOP + ROW * line + ROW / 2
    return [pixels.at(column["x"] + column["width"] * (i + 0.5) / size, y) for i in range(size)]


def assert_strip(
    stage: Stage,
    column: dict[str, Any],
    line: int,
    values: np.ndarray,
    scale: float,
    pixels: Pixels | None = None,
) -> None:
    seen = strip_colours(stage, column, line, len(values), pixels)
    for colour, value in zip(seen, values, strict=True):
        assert alike(colour, signed_colour(float(value), scale), 2), (column["id"], line)


# --- the walk


def test_every_stage_shows_its_vectors_and_numbers_row_by_row(stage: Stage) -> None:
    header, arrays = shown(stage, site=SELF, width=1250)
    n = len(header["indices"])
    kinds = set()
    for number, told in enumerate(header["stages"][:-1]):
        to_stage(stage, number)
        placed, texts, pixels = columns(stage), stage.drawn(CELLS, "text"), stage.pixels(CELLS)
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
            notes = [one for one in texts if one["y"] == 27 and one["x"] == at["x"]]
            assert [one["text"] for one in notes] == ([column["note"]] if column["note"] else [])
            if name in told["top"]:
                assert_strip(
                    stage, at, 0, arrays[told["top"][name]].ravel(), column["scale"], pixels
                )
            for i in range(n):
                y = TOP + ROW * (i + 1)
                values = arrays[column["array"]][i]
                if column["kind"] == "strip":
                    assert_strip(stage, at, i + 1, values, column["scale"], pixels)
                    continue
                (said,) = [
                    one
                    for one in texts
                    if abs(one["y"] - y - ROW / 2 - 0.5) < 0.1
                    and abs(one["x"] - at["x"] - at["width"] / 2) < 0.1
                ]
                if column["kind"] == "number":
                    assert said["text"] == brief(float(values))
                else:
                    assert said["text"] == (
                        "0"
                        if header["blocked"][i]
                        else f"{values:.{3 if 0 < values < 0.0995 else 2}f}"
                    )
                within = pixels.within(at["x"] + 3, y + 5, 8, ROW - 10)
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


def test_the_rows_are_the_query_its_keys_and_their_sum(stage: Stage) -> None:
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
        assert [one["y"] for one in names] == sorted(one["y"] for one in names)
        assert [one["colour"] for one in names] == [
            QUIET if label[2] else INK for label in expected
        ]
        asides = {
            one["text"]: one
            for one in stage.drawn(CELLS, "text")
            if one["text"] in ("query", "key")
        }
        assert asides["query"]["y"] == names[0]["y"] < asides["key"]["y"] == names[1]["y"]
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
    height = stage.box(CELLS)["height"]
    to_stage(stage, 0)
    assert stage.box(CELLS)["height"] == height  # the layout does not jump
    assert point(stage, "a", n)["line"] == str(n)  # the last key


def test_a_stage_is_explained_in_words_and_as_a_formula(stage: Stage) -> None:
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


def test_the_chain_highlights_each_number_at_its_stage(stage: Stage) -> None:
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


def test_a_weight_set_by_an_edit_is_not_called_softmax_on_hover(stage: Stage) -> None:
    even = HeadOff(CROSS, head=HEAD, baseline="uniform")
    trace = letters.scope().run(letters.SOURCE, letters.TARGET, edits=[even])
    data = walk_payload(trace, chosen_cell(trace, trace.attention[CROSS], HEAD, QUERY, KEY), TERMS)
    stage.mount("walk", 1250).show(data)
    header, arrays = unpack(data)
    to_stage(
        stage, next(i for i, one in enumerate(header["stages"]) if "weights" in one["columns"])
    )
    point(stage, "weights", 2)
    assert value_of(stage.text(".tip .value")) == arrays["weights"][1]
    assert stage.text(".tip .what") == f"{header['keyLabels'][1][0]}: set by an edit"
    assert stage.text(".tip .why") == "not softmax of the scores"


@pytest.mark.slow
def test_the_tip_names_a_number_and_its_source(stage: Stage) -> None:
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


def test_hovering_outlines_the_row_and_the_numbers_that_belong_together(
    stage: Stage,
) -> None:
    header, arrays = shown(stage, width=1250)
    (chosen,) = stage.drawn(MARKS)
    row = header["indices"].index(KEY)
    assert (chosen["op"], chosen["colour"]) == ("frame", ACCENT)
    assert chosen["y"] == pytest.approx(TOP + (row + 1) * ROW, abs=1)
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
            places, framed = set(), set()
            top = header["stages"][number]["top"]
            for one in together:
                for line in {3} | ({0} if column["family"] and one["id"] in top else set()):
                    places.add((one["id"], line, 2))
            for one in frames:
                x, line = one["x"] + one["w"] / 2, int((one["y"] + one["h"] / 2 - TOP) // ROW)
                (at,) = [c for c in together if c["x"] <= x < c["x"] + c["width"]]
                source = (
                    arrays[top[at["id"]]]
                    if line == 0
                    else arrays[header["columns"][at["id"]]["array"]][0]
                )
                framed.add((at["id"], line, int((x - at["x"]) / at["width"] * source.size)))
            assert framed == places
            assert {one["colour"] for one in frames} == {INK}
    stage.away()
    assert len(stage.drawn(MARKS)) == 1
    assert stage.hidden(".tip")


def test_a_click_on_a_row_chooses_its_key_and_the_keyboard_walks(stage: Stage) -> None:
    header, _arrays = shown(stage)
    stage.click(CELLS, 300, TOP + ROW * 5.5)
    assert stage.sent == [["news", {"query": QUERY, "key": 4}]]
    assert stage.text(".chain .token") == f"{header['queryLabel'][0]} → {header['keyLabels'][4][0]}"
    assert stage.drawn(MARKS)[0]["y"] == pytest.approx(TOP + 5 * ROW, abs=1)
    stage.click(CELLS, 300, TOP + ROW * 0.5)  # the row of the query is not a key
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


def test_stepping_is_reported_after_a_pause(stage: Stage) -> None:
    header, _ = shown(stage)
    last = len(header["stages"]) - 1
    stage.hold_timers()
    stage.click(".back")
    for number in (1, 2):
        stage.click(".on")
        assert stage.data(".walk")["stage"] == str(number)
    stage.click(".back")
    assert stage.data(".walk")["stage"] == "1"
    assert stage.sent == []
    stage.end_timers()
    assert stage.sent == [["news", {"stage": 1}]]
    stage.js(
        "(root, n) => { const range = root.querySelector('input'); range.value = n; range.oninput(); }",
        last,
    )
    assert stage.data(".walk")["stage"] == str(last)
    stage.click(".on")
    assert stage.data(".walk")["stage"] == str(last)
    stage.show(payload(key=1))  # another answer does not change the stage
    assert stage.data(".walk")["stage"] == str(last)
    assert stage.data(".walk")["key"] == "1"


def test_the_stage_from_python_is_shown_unless_the_answer_is_older_than_the_last_step(
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
    stage.hold_timers()  # the walk reports its stage after a pause
    to_stage(stage, 3)
    to_stage(stage, 4)
    assert [answered(number) for number in (2, 3, 4, 1)] == ["4", "4", "4", "1"]
    to_stage(stage, 6)
    stage.click(CELLS, 300, TOP + ROW * 5.5)
    assert stage.sent == [
        ["news", {"query": QUERY, "key": 4, "stage": 6}]
    ]  # a click meanwhile sends it, too


def test_back_cancels_an_unreported_step(stage: Stage) -> None:
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
    assert stage.drawn(MARKS)[0]["y"] == pytest.approx(TOP + HEAD * ROW, abs=1)


def assert_heads_table(
    stage: Stage, header: dict, arrays: dict, titles: dict[str, str], length: str
) -> None:
    """Assert one row per head, then the bias, the output and the stream, each with its vector and its length."""
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
    pixels = stage.pixels(CELLS)
    assert [pixels.at(5, TOP + ROW * (h + 0.5)) for h in range(n)] == list(HEADS[:n])
    added = [*arrays["added"], arrays["bias"], arrays["total"]]
    for h in range(n):
        strip = arrays["head_out"][h], scales["head_out"]
        assert_strip(stage, placed["head_out"], h, *strip, pixels)
    for line, values in enumerate(added):
        assert_strip(stage, placed["added"], line, values, scales["added"], pixels)
    if "residual" in arrays:
        strip = arrays["residual"], scales["residual"]
        assert_strip(stage, placed["added"], n + 2, *strip, pixels)
        scale = f"±{brief(scales['residual'])}"
        (aside,) = [
            one for one in texts if one["text"] == scale and one["x"] < placed["added"]["x"]
        ]
        assert aside["y"] == TOP + ROW * (n + 2.5)
    at, longest = placed["norm"], arrays["sizes"].max()
    for line, size in enumerate(arrays["sizes"]):
        y = TOP + ROW * line
        (bar,) = [
            one
            for one in stage.drawn(CELLS, "rect")
            if (one["x"], one["y"]) == (at["x"], y + 5) and one["colour"] == ACCENT
        ]
        assert bar["w"] == pytest.approx((at["width"] - 44) * float(size / longest), abs=0.01)
        (said,) = [
            one
            for one in texts
            if abs(one["y"] - y - ROW / 2 - 0.5) < 0.1
            and at["x"] <= one["x"] <= at["x"] + at["width"]
            and one["align"] == "left"
        ]
        assert said["text"] == brief(float(size))


@pytest.mark.slow
def test_columns_share_the_width_and_the_least_important_are_dropped_first(stage: Stage) -> None:
    header, _ = unpack(payload())
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
            for one, following in itertools.pairwise(placed):
                assert one["x"] + one["width"] < following["x"]
            assert placed[-1]["x"] + placed[-1]["width"] <= width + 0.5
    assert all(
        set(seen[480, n]) <= set(seen[620, n]) <= set(seen[900, n]) <= set(seen[1250, n])
        for n in range(len(header["stages"]))
    )
    assert seen[330, 3] != seen[1250, 3]


@pytest.mark.parametrize(
    ("room", "kept"), [(1000, "abcd"), (470, "abd"), (360, "bd"), (250, "b"), (100, "b")]
)
def test_columns_without_room_are_dropped_by_rank(stage: Stage, room: int, kept: str) -> None:
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


def test_with_more_numbers_than_pixels_those_furthest_from_0_are_shown(stage: Stage) -> None:
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
    assert "the one furthest from 0" in stage.text(".note")
    shown(stage)
    assert "the one furthest from 0" not in stage.text(".note")


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


def test_numbers_are_legible_on_their_colour(stage: Stage) -> None:
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
            assert contrast(fill, said["colour"]) >= 4.5, (name, value)
            if max(contrast(fill, PAPER), contrast(fill, INK)) >= 4.5:
                assert said["colour"] in (PAPER, INK), (name, value)


def test_on_a_phone_a_row_is_taller_than_the_least_target(stage: Stage) -> None:
    stage.page.set_viewport_size({"width": 420, "height": 900})
    try:
        header, _ = shown(stage, width=400)
        stage.click(CELLS, 60, TOP + 2.5 * 30)  # the second key; WCAG 2.2 asks for 24 px
        assert stage.sent[-1] == ["news", {"query": QUERY, "key": header["indices"][1]}]
        buttons = [stage.box(one) for one in (".steps .back", ".steps .on")]
        assert min(box[side] for box in buttons for side in ("width", "height")) >= 40
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
    assert title["text"] == f"{header['title']} ({header['stages'][2]['title']})"
    on_page, at = stage.pixels(CELLS), columns(stage)
    for one in at.values():
        for line in (0, 1, 4):
            x, y = one["x"] + 5, TOP + ROW * line + 9
            assert picture.at(x, y + 30) == on_page.at(x, y)


@pytest.mark.parametrize("component", ["walk", "heads"])
def test_a_new_table_has_no_tip_of_the_old_one(stage: Stage, component: str) -> None:
    shown(stage, component)
    point(stage, next(iter(columns(stage))), 2)
    stage.show(payload(component))
    assert stage.hidden(".tip")
    assert stage.data(f".{component}")["painted"] == "2"


def test_another_width_redraws_the_walk(stage: Stage) -> None:
    shown(stage)
    stage.page.evaluate("stage.host.style.width = '700px'")
    stage.frames()
    assert stage.box(CELLS)["width"] == 700
    assert max(c["x"] + c["width"] for c in columns(stage).values()) <= 700
    stage.page.evaluate("stage.end()")
    stage.page.evaluate("document.body.append(stage.host)")
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
        assert_strip(stage, placed["between"], h, arrays["between"][h], 1.0, pixels)
        seen = strip_colours(stage, placed["lengths"], h, arrays["lengths"].shape[1], pixels)
        for colour, value in zip(seen, arrays["lengths"][h], strict=True):
            assert alike(colour, weight_colour(float(value) / header["longest"]), 2)
    assert stage.text(".title") == header["title"]
    assert stage.text(".sentence") == header["sentence"]
    assert stage.attr(CELLS, "aria-label") == header["title"]
    for fact in ("Blue is above 0, orange below", "1 = same direction", "−1 = opposite"):
        assert fact in stage.text(".note")
    data = stage.data(".heads")
    assert (data["site"], data["head"], data["query"]) == (CROSS, str(HEAD), str(QUERY))
    (chosen,) = stage.drawn(MARKS)
    assert chosen["y"] == pytest.approx(TOP + HEAD * ROW, abs=1)


def test_hovering_the_heads_table_names_the_number(stage: Stage) -> None:
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
    stage.click(CELLS, 60, TOP + ROW * (n + 0.5))  # the bias belongs to no head
    assert stage.sent == [["pick", {"head": 2}]]


def test_without_a_stream_its_columns_are_omitted(stage: Stage) -> None:
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


def test_other_heads_of_the_same_width_are_redrawn(stage: Stage) -> None:
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
    assert stage.drawn(MARKS)[0]["y"] == pytest.approx(TOP + 2 * ROW, abs=1)
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
        "the lengths' scale, with its end above it",
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


def test_each_of_255_levels_of_a_weight_has_its_own_shade(stage: Stage) -> None:
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


def test_a_click_chooses_query_or_key(stage: Stage) -> None:
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


def test_the_chosen_tokens_are_in_sight_among_many(stage: Stage) -> None:
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
