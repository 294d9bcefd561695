"""The component `stepper` by itself: every token, bar, weight, cost and sentence at every step."""

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from stage import (
    ACCENT,
    INK,
    LINE,
    PAPER,
    QUIET,
    RATIO,
    SAVED,
    Stage,
    alike,
    hex_of,
    signed_colour,
    weight_colour,
)

from viz_app.drawing.payload import pack

K, SOURCE = 5, [["x", "", False], ["y", "said of y", False], ["[end]", "special", True]]
DIFFERS = "#d55e00"
GIVEN, READ = ["a", "b", "c", "d", "[end]"], ["[start]", "a", "b", "c", "d"]
WRITTEN = ["a", "b", "z", "q", "r", "s", "[end]"]
DONE = weight_colour(39 / 254)


def label(text: str) -> list[Any]:
    return [text, "a sign" if text.startswith("q") else "", text.startswith("[")]


def lane(tokens: list[str], seed: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    n, rng = len(tokens), np.random.default_rng(seed)
    ids = np.array([[100 * i + j + 10 for j in range(K)] for i in range(n)], np.int32)
    ids[:, 3] = [0, 1, *range(900, 898 + n)][:n]  # two that cannot be forced
    place = [i % 3 for i in range(n)]
    taken = [int(ids[i, place[i]]) for i in range(n)]
    p = np.sort(rng.dirichlet(np.ones(K), n).astype(np.float32))[:, ::-1].copy()
    p[0, 0], p[0, 1], p[0, 4], p[1, 4] = 0.9996, 0.9994, 0.0004, 0
    names = [[label(f"{tokens[i]}{j}") for j in range(K)] for i in range(n)]
    arrays = {
        "ids": ids, "p": p, "rank": np.array([j + 1 for j in place], np.int32), "entropy": rng.uniform(0, 3, n).astype(np.float32),
        "cross": rng.dirichlet(np.ones(3), n).astype(np.float32), "self": np.tril(rng.uniform(0.1, 1, (n, n))).astype(np.float32),
    }  # fmt: skip
    return {"n": n, "taken": taken, "candidates": names, "ended": tokens[-1] == "[end]"}, arrays


def payload(
    written: list[str] = WRITTEN, sampling: bool = False, family: str = "attention", **changes: Any
) -> tuple[bytes, dict, dict]:
    parallel, first = lane(GIVEN, 1)
    serial, second = lane(written, 2)
    same = next((i for i, (a, b) in enumerate(zip(GIVEN, written, strict=False)) if a != b), -1)
    for i in range(min(len(GIVEN), len(written))):
        if GIVEN[i] == written[i]:
            serial["taken"][i] = parallel["taken"][i]
    best = [token if i != 1 else 777 for i, token in enumerate(parallel["taken"])]
    arrays = {f"parallel_{k}": v for k, v in first.items()} | {
        f"serial_{k}": v for k, v in second.items()
    }
    if sampling:
        arrays["drawn_p"] = (second["p"] ** 2).astype(np.float32)
    vectors = []
    if family == "recurrent":
        vectors = [
            {"name": "decoder.states", "title": "State s(i)", "scale": 2.0},
            {"name": "decoder.contexts", "title": "Context c(i)", "scale": 0.5},
        ]
        for lane_name, n in (("parallel", len(GIVEN)), ("serial", len(written))):
            for vector in vectors:
                size, scale = (11, 2.0) if vector["name"] == "decoder.states" else (7, 0.5)
                arrays[f"{lane_name}_{vector['name']}"] = (
                    np.random.default_rng(n + size)
                    .uniform(-scale, scale, (n, size))
                    .astype(np.float32)
                )
    cached = [1_000_000 + 50_000 * i for i in range(len(written))]
    header = {
        "file": "one.decoding", **SAVED, "step": 2, "steps": max(len(GIVEN), len(written)), "note": "", "source": SOURCE,
        "block": 1, "blocks": {},
        "parallel": {**parallel, "read": [label(t) for t in READ], "given": [label(t) for t in GIVEN],
         "predicted": [label(t if i != 1 else "w") for i, t in enumerate(GIVEN)], "best": best},
        "serial": {**serial, "read": [label(t) for t in ["[start]", *written[:-1]]], "written": [label(t) for t in written],
         "cached": list(range(len(written)))},
        "free": None, "diverges": same, "disagrees": -1, "seesAhead": False, "forced": [], "how": "greedy", "sampling": sampling,
        "reading": "decoder layer 2, head 1",
        "cross": "Cross-attention", "own": family == "attention", "family": family, "vectors": vectors,
        "sourceName": "the source", "targetName": "the target",
        "ownText": "", "prompt": [], "box": "Translation", "vocab": 8192, "mostEntropy": math.log2(8192), "unforceable": [0, 1],
        "most": max(c * (i + 1) for i, c in enumerate(cached)),
        "work": {"cached": cached, "uncached": [c * (i + 1) for i, c in enumerate(cached)], "parallel": 7_340_000,
         "layers": 2, "source": 3, "state": 11},
    } | changes  # fmt: skip
    return pack(header, **arrays), header, arrays


def unforced_run(
    tokens: Iterable[str], taken: list[int], written: list[str] = WRITTEN
) -> dict[str, Any]:
    """Return a run without forced tokens; the part that it shares with the forced one is made up."""
    tokens = list(tokens)
    return {
        "written": [label(t) for t in tokens],
        "taken": taken,
        "shared": [i != 2 for i in range(len(tokens))],
        "sharedByForced": [i % 3 != 1 for i in range(len(written))],
    }


def shown(stage: Stage, width: int = 1200, **how: Any) -> tuple[dict, dict]:
    data, header, arrays = payload(**how)
    stage.mount("stepper", width).show(data)
    return header, arrays


def go(stage: Stage, step: int) -> None:
    stage.js(
        "(root, step) => { const s = root.querySelector('.slider'); s.value = step + 1; s.oninput(); }",
        step,
    )
    assert stage.data(".stepper")["step"] == str(step + 1)


# --- the lanes


def cells(stage: Stage, row: str) -> list[dict[str, Any]]:
    return stage.js(
        """(root, row) => [...root.querySelectorAll(`g[data-row="${row}"]`)].map((g) => {
      const box = g.querySelector("rect"), text = g.querySelector("text"), dot = g.querySelector("circle");
      const all = (e) => Object.fromEntries([...e.attributes].map((a) => [a.name, a.value]));
      return { text: text.textContent, said: all(text), box: all(box), shown: g.dataset.shown,
        opacity: g.getAttribute("opacity"), position: g.dataset.position, dot: dot && all(dot) };
    })""",
        row,
    )


def test_every_row_holds_its_tokens_at_their_positions(stage: Stage) -> None:
    _header, _ = shown(stage, free=unforced_run("abzqx", [*range(5)]))
    rows = {
        "given": GIVEN, "reads": READ, "predicts": ["a", "w", *GIVEN[2:]], "serial-reads": ["[start]", *WRITTEN[:-1]],
        "writes": WRITTEN, "free": [*"abzqx"],
    }  # fmt: skip
    pitch = float(stage.attr("rect.pad", "width"))
    tops = []
    for name, tokens in rows.items():
        found = cells(stage, name)
        assert [one["text"] for one in found] == tokens
        assert [one["position"] for one in found] == [str(i) for i in range(len(tokens))]
        for i, one in enumerate(found):
            assert float(one["said"]["x"]) == pytest.approx((i + 0.5) * pitch)
            if name != "writes":
                assert hex_of(one["said"]["fill"]) == (QUIET if tokens[i].startswith("[") else INK)
        (top,) = {float(one["box"]["y"]) for one in found}
        tops.append(top)
    assert tops == sorted(tops)
    names = stage.elements(".lane-names .name", "class")
    assert [one[0] for one in names] == [
        "given text",
        "decoder reads",
        "model predicts",
        "decoder reads",
        "model writes",
        "unforced run",
    ]
    assert ["serial" in one[1] for one in names] == [False, False, False, True, True, False]
    heights = stage.js(
        "(root) => [...root.querySelectorAll('.lane-names .name')].map((e) => parseFloat(e.style.top))"
    )
    assert heights == pytest.approx(tops, abs=5)  # each beside its row
    assert stage.texts(".lane-names .head") == ["position"]
    numbers = stage.elements(".lanes svg > text", "x")
    assert [one[0] for one in numbers] == [str(i + 1) for i in range(7)]
    assert [float(one[1]) for one in numbers] == pytest.approx(
        [(i + 0.5) * pitch for i in range(7)]
    )


def test_the_consequence_of_a_forced_token_is_shown_in_full_at_every_step(stage: Stage) -> None:
    shown(stage, forced=[3], free=unforced_run("abzqx", [*range(5)]))
    for step in (0, 6):
        go(stage, step)
        lines = stage.js("""(root) => [...root.querySelectorAll(".fork p")].map((p) => [
          p.className, p.querySelector(".who").textContent, [...p.querySelectorAll(".token")].map((t) => [
            t.textContent, t.classList.contains("differs"), t.classList.contains("taken"), t.title])])""")
        assert [line[:2] for line in lines] == [
            ["free", "Original (greedy): "],
            ["forced", "With your token: "],
        ]
        assert lines[0][2] == [[t, i == 2, False, ""] for i, t in enumerate("abzqx")]
        assert lines[1][2] == [
            [t, i % 3 == 1, i == 3, "forced at position 4" * (i == 3)]
            for i, t in enumerate(WRITTEN)
        ]
    shown(stage, forced=[1, 3], free=unforced_run("abzqx", [*range(5)]))
    assert (
        stage.js("(root) => root.querySelector('.fork .forced .who').textContent")
        == "With your tokens: "
    )
    shown(stage)
    assert stage.js(
        "(root) => [root.querySelector('.fork').hidden, root.querySelector('.fork').children.length]"
    ) == [True, 0]


def test_tokens_that_differ_from_the_given_text_have_an_orange_edge(stage: Stage) -> None:
    header, _ = shown(stage, forced=[3], free=unforced_run(WRITTEN, [5] * 7))
    go(stage, 6)
    taken, written = header["parallel"]["taken"], header["serial"]["taken"]
    for i, one in enumerate(cells(stage, "writes")):
        differs = i >= len(taken) or written[i] != taken[i]
        assert hex_of(one["box"]["stroke"]) == (DIFFERS if differs else LINE)
        assert (one["dot"] is not None) == (i == 3)
        assert (one["said"].get("font-weight") == "700") == (i == 3)
    assert hex_of(cells(stage, "writes")[3]["dot"]["fill"]) == DIFFERS
    assert [hex_of(one["box"]["stroke"]) for one in cells(stage, "predicts")] == [
        DIFFERS if i == 1 else LINE for i in range(5)
    ]
    assert {
        hex_of(one["box"]["stroke"])
        for one in cells(stage, "given") + cells(stage, "reads") + cells(stage, "serial-reads")
    } == {LINE}
    assert [hex_of(one["box"]["stroke"]) for one in cells(stage, "free")] == [DIFFERS] * 7
    assert "unforced run" in stage.attrs(".legend .differs", "title")[0]
    shown(stage)
    assert not stage.attrs(".legend .differs", "title")[0]


def test_inference_shows_nothing_beyond_its_step_and_training_shows_everything(
    stage: Stage,
) -> None:
    shown(stage)
    for step in (0, 3, 6, 1):
        go(stage, step)
        for row in ("serial-reads", "writes"):
            for i, one in enumerate(cells(stage, row)):
                there = i <= step
                assert one["said"]["visibility"] == ("visible" if there else "hidden")
                assert one["shown"] == str(there).lower()
                assert one["box"].get("stroke-dasharray") == (None if there else "3 3")
                assert one["opacity"] == ("1" if there else "0.55")
                if row == "serial-reads":
                    assert (
                        one["box"]["fill"] == "transparent"
                        if not there
                        else hex_of(one["box"]["fill"]) == PAPER
                    )
                else:
                    fill = "transparent" if not there else ACCENT if i == step else DONE
                    assert (
                        one["box"]["fill"] == fill
                        if not there
                        else alike(hex_of(one["box"]["fill"]), fill)
                    )
                    assert hex_of(one["said"]["fill"]) == (PAPER if i == step else INK)
                if not there:
                    assert hex_of(one["box"]["stroke"]) == LINE
        assert all(alike(hex_of(one["box"]["fill"]), DONE) for one in cells(stage, "predicts"))
        arrows = stage.js(
            "(root) => [...root.querySelectorAll('.lanes svg > g:not([data-row])')].map((g) => "
            "[g.getAttribute('visibility'), g.querySelector('path').getAttribute('d')])"
        )
        assert len(arrows) == 4 + 5 + 7 + 6
        down, back = arrows[9:16], arrows[16:]
        assert [one[0] for one in down] == ["visible" if i <= step else "hidden" for i in range(7)]
        assert [one[0] for one in back] == ["visible" if i < step else "hidden" for i in range(6)]
        pitch = float(stage.attr("rect.pad", "width"))
        ends = [[float(v) for v in re.findall(r"[\d.]+", one[1])] for one in arrows]
        columns = [(int(x1 // pitch), int(x2 // pitch)) for x1, _, x2, _ in ends]
        assert columns[:4] == [(i, i + 1) for i in range(4)]  # the given text, shifted right by one
        assert columns[4:16] == [(i, i) for i in (*range(5), *range(7))]
        assert columns[16:] == [(i, i + 1) for i in range(6)]  # each generated token is read next
        y = {
            row: float(cells(stage, row)[0]["box"]["y"])
            for row in ("given", "reads", "predicts", "serial-reads", "writes")
        }
        for (_, y1, _, y2), (one, other) in zip(
            ends,
            [("given", "reads")] * 4
            + [("reads", "predicts")] * 5
            + [("serial-reads", "writes")] * 7
            + [("writes", "serial-reads")] * 6,
            strict=True,
        ):
            assert y[one] - 2 < y1 < y[one] + 25
            assert y[other] - 2 < y2 < y[other] + 25


def test_long_tokens_are_shortened_in_the_middle(stage: Stage) -> None:
    long = [letter * 29 for letter in "ilmtw"]
    _, header, _ = payload()
    shown(stage, parallel={**header["parallel"], "given": [label(text) for text in long]})
    for token, one in zip(long, cells(stage, "given"), strict=True):
        left, right = one["text"].split("…") if "…" in one["text"] else (token, "")
        assert token.startswith(left)
        assert token.endswith(right)
        assert "…" in one["text"] or token[0] in "ilt"


def test_a_step_and_its_neighbours_are_in_sight(stage: Stage) -> None:
    shown(stage, 400, written=[*"abzqrstuvwxy"])
    pitch = float(stage.attr("rect.pad", "width"))
    read = "(root) => { const s = root.querySelector('.lane-scroll'); return [s.scrollLeft, s.clientWidth]; }"
    seen = []
    for step in (0, 3, 4, 6, 5, 4, 9, 8, 2, 1, 0, 11):
        go(stage, step)
        left, room = stage.js(read)
        assert left <= max(0, step - 1) * pitch + 1
        assert min(12, step + 2) * pitch <= left + room + 7
        seen.append(left)
    assert 5 < len(set(seen)) < 12  # and if it is visible already, nothing moves


def test_the_cost_numbers_as_many_steps_as_have_18_pixels(stage: Stage) -> None:
    shown(stage, 760)
    width = stage.js("(root) => root.querySelector('.chart svg').clientWidth")
    most = int((width - 66) / 18)
    for n, every in ((most, 1), (most + 1, 2), (2 * most, 2), (2 * most + 2, 3)):
        shown(stage, 760, written=["a"] * n)
        said = [
            text
            for text, anchor in stage.elements(".chart svg > text", "text-anchor")
            if anchor == "middle"
        ]
        assert said == [str(i + 1) for i in range(0, n, every)]


def test_the_background_after_the_first_difference_is_tinted_once_it_has_happened(
    stage: Stage,
) -> None:
    ground, frame = ".lanes svg > rect.apart", ".lanes svg > rect.first"
    shown(stage)
    pitch = float(stage.attr("rect.pad", "width"))
    for _, x, width, fill in stage.elements(ground, "x", "width", "fill"):  # in both runs
        assert (float(x), float(width)) == pytest.approx((3 * pitch, 4 * pitch))
        assert hex_of(fill) == DIFFERS
    for _, x, width, stroke in stage.elements(frame, "x", "width", "stroke"):
        assert 2 * pitch <= float(x) <= float(x) + float(width) <= 3 * pitch
        assert hex_of(stroke) == DIFFERS
    for step, happened in ((0, False), (1, False), (2, True), (6, True)):
        go(stage, step)
        marks = stage.attrs(f"{ground}, {frame}", "visibility")
        assert marks == ["visible" if happened else "hidden"] * 4
        keys = stage.js(
            "(root) => [...root.querySelectorAll('.legend > span')].filter((e) => e.style.visibility !== 'hidden')"
            ".map((e) => e.textContent)"
        )
        known = ["computed", "not yet", "not the given token"]
        assert keys == [*known, *["first difference", "different texts read"] * happened]
    shown(stage, written=GIVEN)
    assert not stage.elements(f"{ground}, {frame}")
    assert len(stage.texts(".legend > span")) == 3
    shown(stage, written=[*GIVEN[:-1], "z"])  # at the last position nothing comes after
    assert not stage.elements(ground)
    assert len(stage.elements(frame)) == 2


def test_captions_are_not_within_the_highlighted_column(stage: Stage) -> None:
    shown(stage, free=unforced_run("f", [1]))
    for step in (0, 3, 6):
        go(stage, step)
        titles = stage.js(
            "(root) => [...root.querySelectorAll('.lane-names .title')].map((e) => e.getBoundingClientRect().toJSON())"
        )
        marks = stage.js(
            "(root) => [...root.querySelectorAll('.lanes svg > :is(.column, .first, .apart)')]"
            ".map((e) => e.getBoundingClientRect().toJSON())"
        )
        assert len(marks) == 6
        for title in titles:
            for mark in marks:
                assert mark["top"] >= title["bottom"] - 2 or mark["bottom"] <= title["top"] + 2
    numbers = stage.attrs(".lanes svg > text", "font-weight")
    assert [i for i, weight in enumerate(numbers) if weight == "700"] == [6]


def test_a_click_on_a_position_goes_there_and_hovering_names_it(stage: Stage) -> None:
    shown(stage, free=unforced_run("f", [1]))
    titles = [title.split("\n") for title in stage.texts("rect.pad title")]
    assert titles[0][0] == "position 1"
    assert [one.split(": ")[1] for one in titles[0][1:]] == [
        "a",
        "[start]",
        "a",
        "[start]",
        "a",
        "f",
    ]
    assert titles[6] == ["position 7", "decoder reads: s", "model writes: [end]"]
    stage.click("rect.pad", n=4)
    assert stage.sent == [["step", {"position": 4}]]
    assert stage.data(".stepper")["step"] == "5"
    assert stage.text(".where") == "step 5 of 7"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "own"),
    [(1200, "the model's own"), (1200, "the unchanged model's"), (1200, ""), (560, "")],
)
def test_the_lanes_have_their_names(stage: Stage, width: int, own: str) -> None:
    shown(stage, width, ownText=own, how="beam search, its best")
    go(stage, 3)
    training, inference = stage.texts(".lane-names .title")
    assert training.startswith("Trainingall 5 positions at once, in 1 pass")
    assert ("that was typed" in training) == (width > 700 and not own)
    if own:
        assert training.endswith(f"is {own}.")
    assert inference.startswith("Inferencesequential (beam search, its best), pass 4 of 7")
    assert "serial" in stage.attrs(".lane-names .title", "class")[1]
    go(stage, 6)
    assert "pass 7 of 7" in stage.texts(".lane-names .title")[1]
    shown(stage, written=GIVEN[:3])
    go(stage, 4)
    assert "pass 3 of 3" in stage.texts(".lane-names .title")[1]


# --- the panels


@pytest.mark.parametrize("sampling", [False, True])
def test_the_bars_are_the_probabilities_of_the_step(stage: Stage, sampling: bool) -> None:
    header, arrays = shown(stage, sampling=sampling, forced=[3])
    assert any(note for _, note, _ in header["serial"]["candidates"][3])
    for step in range(5):
        go(stage, step)
        for name in ("parallel", "serial"):
            run, here = header[name], f".panel.{name} .bar"
            p, ids = arrays[f"{name}_p"][step], arrays[f"{name}_ids"][step]
            bars = stage.elements(here, "data-id", "data-p", "data-mark", "title", "class", "type")
            assert [int(one[1]) for one in bars] == ids.tolist()
            assert [np.float32(one[2]) for one in bars] == p.tolist()
            assert stage.texts(f"{here} .token") == [one[0] for one in run["candidates"][step]]
            said = [
                "<.001" if 0 < v < 0.0005 else ">.999" if 0.9995 <= v < 1 else f"{v:.3f}" for v in p
            ]
            assert stage.texts(f"{here} .number") == said
            widths = stage.js(
                "(root, all) => [...root.querySelectorAll(all)].map((e) => parseFloat(e.style.width))",
                f"{here} i",
            )
            assert widths == pytest.approx((100 * p).tolist(), rel=1e-4)
            place = (
                ids.tolist().index(run["taken"][step]) if run["taken"][step] in ids.tolist() else -1
            )
            rank = arrays[f"{name}_rank"][step]
            mark = "given" if name == "parallel" else "forced" if step == 3 else "written"
            marks = [
                (mark + (f", rank {rank}" if rank > 1 else "")) if j == place else ""
                for j in range(K)
            ]
            assert stage.texts(f"{here} .mark") == marks
            assert ["taken" in one[5].split() for one in bars] == [j == place for j in range(K)]
            drawn = sampling and name == "serial"
            frames = stage.js(
                "(root, all) => [...root.querySelectorAll(all)].map((e) => [e.hidden, parseFloat(e.style.width)])",
                f"{here} u",
            )
            assert [one[0] for one in frames] == [not drawn] * K
            if drawn:
                assert [one[1] for one in frames] == pytest.approx(
                    (100 * arrays["drawn_p"][step]).tolist(), rel=1e-4, abs=1e-6
                )
            for j, one in enumerate(bars):
                text, note, _ = run["candidates"][step][j]
                expected = f"{text}: probability {one[2]}"
                if drawn:
                    with_p = re.search(r"drawn with ([\d.e-]*\d)", one[4]).group(1)
                    assert np.float32(with_p) == arrays["drawn_p"][step, j]
                    expected += f", drawn with {with_p}"
                expected += f", {note}" if note else ""
                if name == "serial":
                    forced = j == place and step == 3
                    assert ("choose here again" in one[4]) == forced
                assert one[4].startswith(expected)
            if name == "serial":
                disabled = stage.js(
                    "(root, all) => [...root.querySelectorAll(all)].map((e) => e.disabled)", here
                )
                assert disabled == [
                    int(ids[j]) in (0, 1) or (j == place and step != 3) for j in range(K)
                ]
    assert ("drawn from" in stage.texts(".panel h2 .what")[1]) == sampling


def test_the_entropy_is_given_and_drawn_relative_to_its_maximum(stage: Stage) -> None:
    _header, arrays = shown(stage)
    for step in (0, 4, 6):
        go(stage, step)
        for name, n in (("parallel", 5), ("serial", 7)):
            value = float(arrays[f"{name}_entropy"][min(step, n - 1)])
            spans = stage.texts(f".panel.{name} .entropy > span")
            assert spans[0] == f"Entropy {value:.3f} bits"
            assert spans[2] == "of at most 13.00"
            (width,) = stage.js(
                "(root, all) => [...root.querySelectorAll(all)].map((e) => parseFloat(e.style.width))",
                f".panel.{name} .entropy i",
            )
            assert width == pytest.approx(100 * value / math.log2(8192), rel=1e-4)
            data = stage.data(f".panel.{name}")
            assert np.float32(data["entropy"]) == np.float32(value)
            assert (data["position"], data["over"]) == (
                str(min(step, n - 1) + 1),
                str(step >= n).lower(),
            )


def test_the_chips_are_the_tokens_read_at_the_step(stage: Stage) -> None:
    header, arrays = shown(stage)
    for step in (0, 2, 4):
        go(stage, step)
        for name in ("parallel", "serial"):
            for side, labels in (("cross", SOURCE), ("self", header[name]["read"])):
                chips = stage.elements(
                    f".panel.{name} .chips[data-side={side}] .chip-token",
                    "data-state",
                    "data-weight",
                    "title",
                )
                weights = arrays[f"{name}_{side}"][step]
                later = "masked" if name == "parallel" else "unknown"
                for i, ((text, note, _), (_, state, weight, title)) in enumerate(
                    zip(labels, chips, strict=True)
                ):
                    there = side == "cross" or i <= step
                    assert state == ("open" if there else later)
                    b, small = stage.texts(
                        f".panel.{name} .chips[data-side={side}] .chip-token:nth-child({i + 1}) > :is(b, small)"
                    )
                    colour = stage.css(
                        f".panel.{name} .chips[data-side={side}] .chip-token", "backgroundColor"
                    )[i]
                    if there:
                        assert (b, small) == (text, f"{weights[i]:.2f}")
                        assert np.float32(weight) == weights[i]
                        assert title == f"{text}: weight {weight}" + (f" ({note})" if note else "")
                        assert alike(hex_of(colour), weight_colour(float(weights[i])))
                    else:
                        assert weight == ""
                        assert small.strip() == ""
                        assert b.strip() == "" if later == "unknown" else b == text
                        assert title == (
                            "not written yet"
                            if later == "unknown"
                            else f"{text}: masked (look-ahead): no attending to later positions"
                        )
            titles = stage.texts(f".panel.{name} .what")[1:]
            who = "the given text" if name == "parallel" else "its own text"
            for title, words in zip(
                titles,
                (("Cross-attention", "the source"), ("Self-attention", who)),
                strict=True,
            ):
                assert all(word in title for word in (*words, "(decoder layer 2, head 1)"))


def test_later_tokens_that_may_be_attended_to_are_not_drawn_as_masked(stage: Stage) -> None:
    _, arrays = shown(stage, seesAhead=True, work=None)
    go(stage, 0)
    chips = ".panel.parallel .chips[data-side=self] .chip-token"
    drawn = stage.elements(chips, "data-state", "data-weight")
    assert [state for _, state, _ in drawn] == ["open"] * len(GIVEN)
    assert [np.float32(weight) for *_, weight in drawn] == arrays["parallel_self"][0].tolist()
    assert "may be attended to" in stage.text(".panel.parallel .lead")
    later = stage.elements(".panel.serial .chips[data-side=self] .chip-token", "data-state")
    assert [state for _, state in later][1:] == ["unknown"] * (len(WRITTEN) - 1)


def test_for_a_long_text_the_chips_are_blocks(stage: Stage) -> None:
    data, header, arrays = payload()
    rows = {
        f"{name}_self": np.ascontiguousarray(arrays[f"{name}_self"][:, ::2])
        for name in ("parallel", "serial")
    }
    blocks = {
        name: [[f"{i}–{i + 1}", "", False] for i in range(0, len(header[name]["read"]), 2)]
        for name in ("parallel", "serial")
    }
    stage.mount("stepper", 1200).show(stage.change(data, rows, block=2, blocks=blocks))
    for step, n_open in ((1, 1), (2, 2)):
        go(stage, step)
        for name, later in (("parallel", "masked"), ("serial", "unknown")):
            chips = stage.elements(
                f".panel.{name} .chips[data-side=self] .chip-token",
                "data-state",
                "data-weight",
                "title",
            )
            assert [state for _, state, *_ in chips] == ["open"] * n_open + [later] * (
                len(blocks[name]) - n_open
            )
            assert np.float32(chips[0][2]) == rows[f"{name}_self"][step, 0]
            assert chips[0][3].startswith("0–1: weight ")
            said = stage.texts(f".panel.{name} .what")[2]
            assert "decoder layer 2, head 1; the largest weight of each 2 tokens" in said


def test_long_names_are_shortened_and_strong_chips_written_in_the_pages_colour(
    stage: Stage,
) -> None:
    data, _header, _arrays = payload(
        source=[["abcdefghijklmnopqrstuvwxyz", "", False], ["y", "", False], ["[end]", "", True]]
    )
    cross = np.tile(np.array([1, 0.3, 0], np.float32), (7, 1))
    stage.mount("stepper", 1200).show(stage.change(data, {"serial_cross": cross}))
    names = stage.texts(".panel.serial .chips[data-side=cross] b")
    assert names == ["abcdefg…uvwxyz", "y", "[end]"]
    inks = [
        hex_of(one)
        for one in stage.css(".panel.serial .chips[data-side=cross] .chip-token", "color")
    ]
    assert inks[:2] == [PAPER, INK]
    assert [
        "quiet" in (one or "")
        for one in stage.attrs(".panel.serial .chips[data-side=cross] b", "class")
    ] == [
        False,
        False,
        True,
    ]
    many = [[f"t{i}", "", False] for i in range(37)]
    stage.show(
        stage.change(
            data,
            {
                "serial_cross": np.full((7, 37), 1 / 37, np.float32),
                "parallel_cross": np.full((5, 37), 1 / 37, np.float32),
            },
            source=many,
        )
    )
    assert "many" in stage.attr(".panel.serial .chips[data-side=cross]", "class")
    assert len(stage.texts(".panel.serial .chips[data-side=cross] b")) == 37
    stage.show(data)
    assert len(stage.texts(".panel.serial .chips[data-side=cross] b")) == 3
    assert "many" not in stage.attr(".panel.serial .chips[data-side=cross]", "class")


def test_the_lead_says_where_each_run_is(stage: Stage) -> None:
    shown(stage)
    for step, training, inference in (
        (0, "Position 1 of 5 in one single pass. Given: [start] (", "Pass 1 of 7. So far it reads: [start] "),
        (2, "Position 3 of 5 in one single pass. Given: [start] a b (", "Pass 3 of 7. So far it reads: [start] a b "),
        (4, "Position 5 of 5 in one single pass. Given: [start] a b c d ", "Pass 5 of 7. So far it reads: [start] a b z q "),
        (5, "The given text ends before this position. Its last position, 5:", "Pass 6 of 7. So far it reads: [start] a b z q r "),
    ):  # fmt: skip
        go(stage, step)
        leads = stage.texts(".panel .lead")
        assert leads[0].startswith(training)
        assert leads[1] == inference
        assert ("masked" in leads[0]) == (step < 4)
        assert stage.js(
            "(root) => [...root.querySelectorAll('.panel')].map((p) => p.style.opacity)"
        ) == [
            "0.45" if step >= 5 else "1",
            "1",
        ]
    go(stage, 6)
    disabled = stage.js(
        "(root) => [...root.querySelectorAll('.panel.serial .bar')].map((e) => e.disabled)"
    )
    assert not all(disabled)
    for written, said in (
        ([*GIVEN[:2], "[end]"], "This run has already ended. Its last position, 3:"),
        (["a", "b", "c"], "This run was stopped at its limit of steps. Its last position, 3:"),
    ):
        shown(stage, written=written)
        go(stage, 4)
        assert stage.text(".panel.serial .lead") == said
        assert all(
            stage.js(
                "(root) => [...root.querySelectorAll('.panel.serial .bar')].map((e) => e.disabled)"
            )
        )
    shown(stage, own=False)
    lead = stage.text(".panel.parallel .lead")
    assert "Given: [start] a b (" in lead
    assert "each position reads only its own token" in lead
    long = [f"t{i}" for i in range(20)]
    shown(stage, written=long)
    go(stage, 11)
    assert "So far it reads: [start] t0 t1" in stage.text(".panel.serial .lead")
    go(stage, 12)
    assert (
        stage.text(".panel.serial .lead")
        == "Pass 13 of 20. So far it reads: … " + " ".join(long[:12]) + " "
    )


def test_headings_say_which_run_is_which(stage: Stage) -> None:
    shown(stage)
    assert [text.split()[0] for text in stage.texts(".panel h2")] == ["Training", "Inference"]
    assert "from the cache" in stage.text(".cost .title")
    shown(stage, family="recurrent", cross="")
    assert "from the step before" in stage.text(".cost .title")
    assert stage.data(".stepper")["family"] == "recurrent"


def test_a_recurrent_decoder_shows_its_states(stage: Stage) -> None:
    _header, arrays = shown(stage, family="recurrent")
    for step in (0, 3):
        go(stage, step)
        for name in ("parallel", "serial"):
            assert not stage.elements(f".panel.{name} .chips[data-side=self]")
            for n, (vector, title, scale) in enumerate(
                (
                    ("decoder.states", "State s(i), 11 numbers, ±2.00", 2.0),
                    ("decoder.contexts", "Context c(i), 7 numbers, ±0.50", 0.5),
                )
            ):
                values = arrays[f"{name}_{vector}"][step]
                here = f".panel.{name} canvas.vector"
                assert stage.texts(f".panel.{name} .what")[-2:][n] == title
                data = stage.js(
                    "(root, all, n) => ({ ...root.querySelectorAll(all)[n].dataset })", here, n
                )
                assert data["vector"] == vector
                assert np.float32(data["first"]) == values[0]
                assert np.float32(data["last"]) == values[-1]
                box, pixels = stage.box(here, n), stage.pixels(here, n)
                wide, size = pixels.wide / RATIO, len(values)
                for i, value in enumerate(values):
                    colour = pixels.at((i + 0.5) / size * wide, 8)
                    assert alike(colour, signed_colour(float(value), scale), 2)
                for cell in (2, 0, size - 1):
                    stage.move(here, ((cell + 0.5) / size) * box["width"], 8, n)
                    number, said = stage.attrs(here, "title")[n].split(": ")
                    assert number == f"number {cell + 1}"
                    assert np.float32(said.replace("−", "-")) == values[cell]
        for i, one in enumerate(
            cells(stage, "predicts")
        ):  # a recurrence has come as far in training
            assert one["said"]["visibility"] == ("visible" if i <= step else "hidden")
            assert one["shown"] == str(i <= step).lower()
            assert one["box"]["stroke-dasharray"] == ("none" if i <= step else "3 3")
            assert hex_of(one["box"]["stroke"]) == (DIFFERS if i == 1 <= step else LINE)
            assert one["opacity"] == ("1" if i <= step else "0.55")
            assert (
                one["box"]["fill"] == "transparent"
                if i > step
                else alike(hex_of(one["box"]["fill"]), DONE)
            )
    assert stage.texts(".lane-names .title")[0].startswith(
        "Trainingthe text is given, yet its 5 states are computed one after the other"
    )
    lead = stage.texts(".panel .lead")[0]
    assert lead.startswith("Step 4 of 5, each from the state before. Given: [start] a b c (")
    shown(stage, family="recurrent", cross="")
    assert not stage.elements(".chips")


def test_with_more_numbers_than_pixels_a_state_shows_those_furthest_from_0(stage: Stage) -> None:
    data, _, _ = payload(family="recurrent")
    states = np.zeros((len(GIVEN), 4999), np.float32)
    states[2, 1001], states[2, 1003], states[2, 3501] = -2, 0.4, 2
    stage.mount("stepper", 1200).show(stage.change(data, {"parallel_decoder.states": states}))
    pixels = stage.pixels(".panel.parallel canvas.vector")
    for cell, colour in ((1001, signed_colour(-1, 1)), (3501, ACCENT)):
        x = cell / 4999 * pixels.wide / RATIO
        assert any(alike(one, colour, 2) for one in pixels.within(x - 1, 8, 2.5, 2))
    assert pixels.at(2500 / 4999 * pixels.wide / RATIO, 8) == PAPER


def test_runs_that_diverge_at_once_are_still_said_to_diverge_after_the_shorter_has_ended(
    stage: Stage,
) -> None:
    shown(stage, written=["z", "b"])
    go(stage, 4)
    assert stage.text(".story").startswith(
        "They diverged at position 1: inference takes z where the given text has a."
    )
    go(stage, 1)
    assert stage.attrs(".panel.parallel .lead span", "class")[-1] == "quiet"  # masked keys


# --- stepping


def test_buttons_slider_and_play_walk(stage: Stage) -> None:
    shown(stage)
    assert stage.attr(".slider", "max") == "7"
    assert stage.text(".where") == "step 3 of 7"
    assert stage.text(".play") == "▶ Play"
    assert stage.js("(root) => root.querySelector('.slider').value") == "3"
    stage.click(".on")
    stage.click(".back")
    stage.click(".back")
    assert [one[1]["position"] for one in stage.sent] == [3, 2, 1]
    go(stage, 5)
    assert len(stage.sent) == 3  # while it is dragged nothing is sent
    stage.js("(root) => root.querySelector('.slider').onchange()")
    assert stage.sent[3:] == [["step", {"position": 5}]]
    stage.click(".on")
    stage.click(".on")
    assert stage.data(".stepper")["step"] == "7"
    assert stage.text(".play") == "↺ Replay"
    for _ in range(8):
        stage.click(".back")
    assert stage.data(".stepper")["step"] == "1"
    assert stage.text(".play") == "▶ Play"
    assert stage.sent[-1] == ["step", {"position": 0}]


def test_play_goes_step_by_step_to_the_end_and_can_be_paused(stage: Stage) -> None:
    shown(stage)
    stage.page.evaluate(
        "stage.beat = []; stage.own = window.setInterval; window.setInterval = (then, pace) => { stage.then = then; "
        "stage.beat.push(pace); return 77; }; stage.stopped = []; stage.clear = window.clearInterval; "
        "window.clearInterval = (n) => { stage.stopped.push(n); if (n === 77) stage.then = () => {}; }"
    )
    try:
        stage.click(".play")
        assert stage.text(".play") == "❚❚ Pause"
        assert stage.page.evaluate("stage.beat") == [900]
        stage.page.evaluate("stage.then()")
        assert stage.data(".stepper")["step"] == "4"
        assert stage.sent == []
        stage.show(payload(step=0)[0])  # an answer that arrives meanwhile does not set it back
        assert stage.data(".stepper")["step"] == "4"
        stage.click(".play")
        assert stage.text(".play") == "▶ Play"
        assert stage.sent == [["step", {"position": 3}]]
        stage.click(".play")
        for _ in range(4):
            stage.page.evaluate("stage.then()")
        assert stage.data(".stepper")["step"] == "7"
        assert stage.text(".play") == "↺ Replay"
        assert stage.sent[1:] == [["step", {"position": 6}]]
        assert 77 in stage.page.evaluate("stage.stopped")
        stage.click(".play")
        assert stage.data(".stepper")["step"] == "1"
        assert stage.text(".play") == "❚❚ Pause"
        go(stage, 2)  # taking the slider stops it
        assert stage.text(".play") == "▶ Play"
    finally:
        stage.page.evaluate("window.setInterval = stage.own; window.clearInterval = stage.clear")


def test_a_click_on_a_candidate_forces_it_and_undo_frees(stage: Stage) -> None:
    _header, arrays = shown(stage)
    assert stage.js("(root) => root.querySelector('.free').disabled") is True
    assert stage.keeps_the_keyboard(".panel.serial .bar", payload(step=2)[0])
    stage.click(".panel.serial .bar", n=4)
    assert stage.sent == [["force", {"position": 2, "id": int(arrays["serial_ids"][2, 4])}]]
    stage.show(payload(step=0)[0])
    assert stage.data(".stepper")["step"] == "3"  # older than the click
    stage.show(payload(step=2, forced=[2])[0])
    assert stage.js("(root) => root.querySelector('.free').disabled") is False
    stage.click(".free")
    assert stage.sent[1:] == [["free", True]]
    stage.show(payload(step=5)[0])
    assert stage.data(".stepper")["step"] == "6"
    stage.click(".panel.parallel .bar", n=1)
    assert len(stage.sent) == 2


def test_a_step_on_its_way_is_not_taken_back(stage: Stage) -> None:
    shown(stage)
    stage.click(".on")
    stage.show(payload(step=2)[0])
    assert stage.data(".stepper")["step"] == "4"
    stage.show(payload(step=3)[0])
    stage.show(payload(step=1)[0])
    assert stage.data(".stepper")["step"] == "2"
    stage.click("rect.pad", n=1)  # where it is already
    assert len(stage.sent) == 1


@pytest.mark.slow
def test_the_story_says_where_they_diverge(stage: Stage) -> None:
    shown(stage, note="A note.")
    for step, warning, facts in (
        (1, "", ["have read the same"]),
        (2, "Here is the first difference: ", ["inference takes z where the given text has c."]),
        (3, "They diverged at position 3: ", ["inference takes z where the given text has c"]),
    ):  # fmt: skip
        go(stage, step)
        assert stage.texts(".story .quiet") == ["A note. "]
        assert stage.texts(".story .warn") == [warning] * bool(warning)
        assert all(fact in stage.text(".story") for fact in facts)
    assert stage.texts(".story b") == ["z", "c"]
    shown(stage, written=GIVEN)
    assert stage.text(".story").startswith("Both read the same")
    shown(stage, written=GIVEN[:3])
    go(stage, 2)
    assert stage.text(".story").startswith("Both read the same")
    go(stage, 3)
    assert "stopped after 3 steps" in stage.text(".story")
    shown(stage, written=[*GIVEN[:4], "e", "f"], diverges=-1)
    go(stage, 4)
    assert stage.text(".story").startswith("Both read the same")
    go(stage, 5)
    assert stage.text(".story").startswith("The given text has ended.")
    shown(stage, written=GIVEN, seesAhead=True)
    assert stage.text(".story").endswith("so the probabilities may differ.")
    shown(stage, written=GIVEN, disagrees=2)
    for step, ending in ((1, "their probabilities agree."), (2, "as the checks below show.")):
        go(stage, step)
        assert stage.text(".story").startswith("So far both have read the same")
        assert stage.text(".story").endswith(ending)
    shown(stage, disagrees=1)
    for step, words in enumerate(("probabilities agree", "probabilities differ", "the first diff")):
        go(stage, step)
        assert words in stage.text(".story")
    shown(stage, written=GIVEN, family="recurrent")
    assert "their states and probabilities are the same" in stage.text(".story")


# --- what it costs


def millions(v: float) -> str:
    return (
        f"{v / 1e9:.2f} G"
        if v >= 1e9
        else f"{v / 1e6:.2f} M"
        if v >= 1e6
        else f"{v / 1e3:.0f} k"
        if v >= 1e3
        else str(round(v))
    )


def test_the_cost_of_each_step_with_and_without_the_cache(stage: Stage) -> None:
    header, _ = shown(stage)
    cached, uncached = header["work"]["cached"], header["work"]["uncached"]
    bars = stage.js(
        "(root) => [...root.querySelectorAll('.chart svg g')].map((g) => [g.querySelector('title').textContent, "
        "...[...g.querySelectorAll('rect')].flatMap((r) => [...['x', 'y', 'height'].map((n) => "
        "+r.getAttribute(n)), r.getAttribute('fill')])])"
    )
    steps = [
        (one[0], float(one[1]))
        for one in stage.elements(".chart svg > text", "x", "text-anchor")
        if one[2] == "middle"
    ]
    assert [text for text, _ in steps] == [str(i + 1) for i in range(7)]
    unit = bars[-1][3] / uncached[-1]  # px
    floor = bars[-1][2] + bars[-1][3]
    for i, (title, x, y, tall, fill, x2, y2, tall2, fill2) in enumerate(bars):
        assert title == f"step {i + 1}: {uncached[i]:,} without, {cached[i]:,} with the cache"
        assert x < x2 == pytest.approx(steps[i][1])  # side by side, above the step's number
        assert (tall, tall2) == pytest.approx((unit * uncached[i], unit * cached[i]))
        assert (y + tall, y2 + tall2) == pytest.approx((floor, floor))
        assert (hex_of(fill), hex_of(fill2)) == ("#e69f00", ACCENT)
    ticks = [
        (text, float(y))
        for text, y, anchor in stage.elements(".chart svg > text", "y", "text-anchor")
        if anchor == "end" and text != "step"
    ]
    most = max(uncached)
    assert [text for text, _ in ticks] == [millions(0), millions(most / 2), millions(most)]
    assert [y for _, y in ticks] == pytest.approx(
        [floor - unit * share * most for share in (0, 0.5, 1)], abs=6
    )
    key = {
        text: float(x) for text, x in stage.elements(".chart svg > text", "x") if "cache" in text
    }
    swatches = [
        (float(x), hex_of(fill)) for _, x, fill in stage.elements(".chart svg > rect", "x", "fill")
    ]
    assert [colour for _, colour in swatches] == ["#e69f00", ACCENT]
    assert swatches[0][0] < key["without cache"] < swatches[1][0] < key["with cache"]
    for step in (0, 3, 6):
        go(stage, step)
        spent, would = sum(cached[: step + 1]), sum(uncached[: step + 1])
        for fact in (
            f"{f'Steps 1 to {step + 1} together' if step else 'Step 1'}: {millions(spent)}",
            f"{millions(would)} without ({would / spent:.1f} ×)",
            "5 positions in one pass: 7.34 M",
        ):
            assert fact in stage.text(".sum")
        assert stage.data(".sum") == {
            "cached": str(spent),
            "uncached": str(would),
            "parallel": "7340000",
        }
        assert stage.js(
            "(root) => [...root.querySelectorAll('.chart svg g')].map((g) => g.getAttribute('opacity'))"
        ) == ["1" if i <= step else "0.35" for i in range(7)]
    name, svg = stage.saved_svg(".cost .svg")
    assert name == "one.decoding.work.svg"
    assert list(svg)[1].text == "Multiply-adds of each decoding step"


@pytest.mark.parametrize(
    "work", [[12, 340, 999], [1_000, 1_499, 999_499], [2_000_000_000, 1_000_000, 5_000_000_000]]
)
def test_numbers_of_any_size_are_short(stage: Stage, work: list[int]) -> None:
    _, header, _ = payload(written=GIVEN[:3])
    shown(
        stage,
        written=GIVEN[:3],
        work=header["work"] | {"cached": work, "uncached": work, "parallel": work[2]},
    )
    go(stage, 0)
    assert f": {millions(work[0])} multiply-adds" in stage.text(".sum")
    assert stage.text(".sum").endswith(f"{millions(work[2])}.")


def boxes(stage: Stage) -> list[str]:
    return stage.js(
        "(root) => [...root.querySelectorAll('.keys .boxes')].map((b) => [...b.children].map((i) => i.className[0]).join(''))"
    )


def test_cached_and_newly_computed_values_are_named(stage: Stage) -> None:
    shown(stage)
    for step, kept, none, source in (
        (
            0,
            "0 keys and values kept",
            "the same 1",
            "all 3 keys and values computed now, once for all steps",
        ),
        (1, "1 key and value kept", "all 2 computed, 1 of them again", "all 3 kept since step 1"),
        (6, "6 keys and values kept", "all 7 computed, 6 of them again", "all 3 kept since step 1"),
    ):
        go(stage, step)
        assert stage.texts(".keys p")[:3] == [
            f"With the cache: {kept}, 1 computed now (in each of the decoder's 2 layers).",
            f"Without it: {none}.",
            f"Of the source: {source}.",
        ]
        assert boxes(stage) == [
            "k" * step + "n" + "l" * (6 - step),
            "n" * (step + 1) + "l" * (6 - step),
            "k" * 3 if step else "nnn",
        ]
        data = stage.js(
            "(root) => [...root.querySelectorAll('.keys .boxes')].map((b) => [b.dataset.kept, b.dataset.now])"
        )
        assert data == [[str(step), "1"], ["0", str(step + 1)], ["3", "0"] if step else ["0", "3"]]
    header = payload()[1]
    shown(stage, work=header["work"] | {"layers": 0})
    assert (
        stage.texts(".keys p")[0]
        == "With the cache: 1 position computed now; its own text is not read, so none of it is kept."
    )


@pytest.mark.parametrize("cross", ["Alignment", ""])
def test_a_recurrence_names_the_state_it_keeps(stage: Stage, cross: str) -> None:
    shown(stage, family="recurrent", cross=cross)
    for step in (0, 4):
        go(stage, step)
        first, none, memory = stage.texts(".keys p")[:3]
        assert (
            first
            == f"The state s({step}), 11 numbers, is {'kept' if step else 'computed from h(m)'}; 1 step computed now. Its "
            f"earlier text is not read again."
        )
        assert none == (
            f"Without it: all {step + 1} steps computed from s(0) on, {step} of them again."
            if step
            else "Without it: the same 1 step."
        )
        if cross:
            assert memory == (
                "Of the source: U h of all 3 tokens kept since step 1."
                if step
                else "Of the source: U h of all 3 tokens computed now, once for all steps."
            )
            assert boxes(stage)[2] == ("kkk" if step else "nnn")
        else:
            assert memory == "Of the source: only h(m), from which s(0) is computed."
            assert boxes(stage)[2] == ""
        assert boxes(stage)[:2] == ["n" + "l" * 6, "n" * (step + 1) + "l" * (6 - step)]
    assert stage.text(".sum").endswith(
        " Training takes its 5 steps one after the other too: 7.34 M; the readout and the logits after the states are computed "
        "for all at once."
    )


def test_another_width_lays_the_lanes_out_again(stage: Stage) -> None:
    shown(stage)
    before = float(stage.attr("rect.pad", "width"))
    stage.page.evaluate("stage.host.style.width = '520px'")
    stage.frames()
    assert float(stage.attr("rect.pad", "width")) < before
    assert stage.data(".stepper")["step"] == "3"
    go(stage, 6)
    scroll = stage.js(
        "(root) => { const s = root.querySelector('.lane-scroll'); return [s.scrollLeft, s.clientWidth, "
        "s.querySelector('svg').clientWidth]; }"
    )
    pitch = float(stage.attr("rect.pad", "width"))
    assert scroll[0] <= 6 * pitch
    assert 7 * pitch <= scroll[0] + scroll[1] + 7
    go(stage, 0)
    assert stage.js("(root) => root.querySelector('.lane-scroll').scrollLeft") == 0
    stage.page.evaluate("stage.host.style.width = '330px'")
    stage.frames()
    pitch = float(stage.attr("rect.pad", "width"))
    go(stage, 6)
    go(stage, 2)  # back: the position before it is in sight too
    assert stage.js("(root) => root.querySelector('.lane-scroll').scrollLeft") == pytest.approx(
        pitch, abs=1
    )
    go(stage, 0)
    assert stage.js("(root) => root.querySelector('.lane-scroll').scrollLeft") == 0
