"""The component `beam_tree` by itself: every hypothesis, its parent and its scores, and the attention of the chosen one."""

import re
from typing import Any

import numpy as np
import pytest
from stage import ACCENT, INK, LINE, PAPER, QUIET, SAVED, Stage, hex_of

from viz_app.drawing.colours import ramp
from viz_app.drawing.payload import pack, unpack

SOURCE = [["x", "", False], ["y", "said of y", False], ["[end]", "special", True]]


def label(text: str) -> list[Any]:
    return [text, "a sign" if text == "q" else "", text.startswith("[")]


def node(
    text: str,
    parent: int,
    score: float,
    best: bool = False,
    ended: bool = False,
    carried: bool = False,
    n: int = 1,
) -> dict[str, Any]:
    return {
        "label": label(text[-1] if text else "[end]"), "text": text, "logProb": score * 1.5, "total": score * 1.5, "score": score, "n": n,
        "parent": parent,
        "best": best, "ended": ended, "carried": carried,
    }  # fmt: skip


STEPS = [
    [node("a", -1, -0.1, True), node("b", -1, -0.9)],
    [
        node("ax", 0, -0.2, n=2),
        node("ay", 0, -0.3, True, n=2),
        node("bx", 1, -1.5, ended=True, n=2),
    ],
    [
        node("ayz", 1, -0.25, True, ended=True, n=3),
        node("axz", 0, -0.6, n=3),
        node("bx", 2, -1.5, ended=True, carried=True, n=2),
    ],
]


def beam_payload(
    at: tuple[int, int] = (1, 1), **changes: Any
) -> tuple[bytes, dict[str, np.ndarray]]:
    arrays = {
        "ids": np.array([31, 7, 12], np.int32), "p": np.array([0.6, 0.3, 0.05], np.float32),
        "cross": np.array([0.7, 0.2, 0.1], np.float32), "self": np.array([0.25, 0.75], np.float32),
    }  # fmt: skip
    header = {
        "steps": STEPS, "file": "one.beam", **SAVED, "node": list(at),
        "source": SOURCE, "read": [label("[start]"), label("a")], "token": label("y"),
        "candidates": [label("x"), label("y"), label("q")], "reading": "head 3", "cross": "Cross-attention",
        "sourceName": "the source", "taken": 7, "alpha": 0.6,
    } | changes  # fmt: skip
    return pack(header, **arrays), arrays


def test_the_beam_has_a_column_per_step_with_the_best_on_top(stage: Stage) -> None:
    stage.mount("beam_tree", 900).show(beam_payload()[0])
    nodes = stage.js("""(root) => [...root.querySelectorAll("g.node")].map((g) => ({ ...g.dataset,
        texts: [...g.querySelectorAll("text")].map((t) => [t.textContent, +t.getAttribute("x"), +t.getAttribute("y"),
        t.getAttribute("fill")]),
      title: g.querySelector("title").textContent,
        box: Object.fromEntries([...g.querySelector("rect").attributes].map((a) => [a.name, a.value])) }))""")
    flat = [(s, r, one) for s, kept in enumerate(STEPS) for r, one in enumerate(kept)]
    for (s, r, one), seen in zip(flat, nodes, strict=True):
        x, y = 8 + 104 * s, 24 + 44 * r
        assert (seen["step"], seen["rank"], float(seen["score"])) == (
            str(s + 1),
            str(r + 1),
            one["score"],
        )
        assert [float(seen["box"][k]) for k in ("x", "y", "width", "height")] == [x, y, 74, 34]
        chosen = (s, r) == (1, 1)
        assert hex_of(seen["box"]["fill"]) == (ACCENT if chosen else PAPER)
        assert hex_of(seen["box"]["stroke"]) == (ACCENT if one["best"] else LINE)
        assert seen["box"]["stroke-width"] == ("2" if one["best"] or chosen else "1.2")
        assert seen["box"].get("stroke-dasharray") == ("3 4" if one["carried"] else None)
        (name, x1, y1, ink), (score, x2, y2, ink2) = seen["texts"]
        assert name == ("ended" if one["carried"] else one["label"][0])
        assert score == f"{one['score']:.3f}".replace("-", "−")
        assert (x1, x2, y1, y2) == (x + 37, x + 37, y + 14, y + 28)
        assert {hex_of(ink), hex_of(ink2)} == {PAPER if chosen else INK}
        assert (
            seen["title"]
            == f"{one['text']}\nlog-probability {one['logProb']:.4f} nats, score {one['score']:.4f}"
            + ("\nended" if one["ended"] else "")
        )
    assert set(stage.attrs("svg text", "text-anchor")) == {"middle"}
    heads = stage.elements("svg > text", "x")
    assert heads == [[f"step {s + 1}", str(8 + 104 * s + 37)] for s in range(3)]
    edges = stage.elements(
        "svg > path", "d", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray"
    )
    for (s, r, one), (_, d, stroke, width, opacity, dash) in zip(
        [one for one in flat if one[0]], edges, strict=True
    ):
        numbers = [float(v) for v in re.findall(r"[\d.]+", d)]
        assert numbers[:2] == [8 + 104 * (s - 1) + 74, 24 + 44 * one["parent"] + 17]
        assert numbers[-2:] == [8 + 104 * s, 24 + 44 * r + 17]
        assert numbers[2:6] == [numbers[0] + 15, numbers[1], numbers[-2] - 15, numbers[-1]]
        assert (hex_of(stroke), width, opacity, dash) == (
            (ACCENT, "3", "1", None)
            if one["best"]
            else (QUIET, "1.2", "0.6", "3 4" if one["carried"] else None)
        )
    assert (stage.attr("svg", "width"), stage.attr("svg", "height")) == (
        str(16 + 2 * 104 + 74),
        str(24 + 3 * 44),
    )
    assert stage.text(".note") == (
        "The beam as a tree: each step keeps the best few texts and drops the rest. Best at the top, with its score; thick: the "
        "path of the best. Click a node, or use the arrow keys."
    )


def test_the_texts_of_the_beam_have_their_sizes_and_positions(stage: Stage) -> None:
    stage.mount("beam_tree", 900).show(beam_payload()[0])
    names = ("y", "font-size", "text-anchor", "opacity", "style")
    assert [one[1:] for one in stage.elements("svg > text", *names)] == [
        ["13", "12", "middle", None, None]
    ] * 3
    assert {hex_of(one) for one in stage.attrs("svg > text", "fill")} == {QUIET}
    words = [one[1:] for one in stage.elements("g.node text", *names)]
    flat = [(rank, one) for kept in STEPS for rank, one in enumerate(kept)]
    for (rank, one), name, score in zip(flat, words[::2], words[1::2], strict=True):
        y = 24 + 44 * rank
        assert name == [
            str(y + 14),
            "13",
            "middle",
            "0.6" if one["carried"] else "1",
            "unicode-bidi: plaintext",
        ]
        assert score == [str(y + 28), "12", "middle", "0.8", None]
    assert stage.attrs("g.node rect", "rx") == ["6"] * len(flat)
    assert {tuple(one.values()) for one in stage.attrs("g.node", "tabindex", "role")} == {
        ("0", "button"),
        ("-1", "button"),
    }
    assert (stage.css("svg", "width"), stage.css("svg", "height")) == (
        [f"{16 + 2 * 104 + 74}px"],
        [f"{24 + 3 * 44}px"],
    )
    assert stage.css(".detail .what", "display") == ["block"] * 3


@pytest.mark.parametrize("at", [(1, 2), (2, 1), (0, 1), (2, 0)])
def test_one_node_is_filled_and_it_is_the_chosen_one(stage: Stage, at: tuple[int, int]) -> None:
    stage.mount("beam_tree", 900).show(beam_payload(at)[0])
    filled = [hex_of(one) == ACCENT for one in stage.attrs("g.node rect", "fill")]
    assert filled == [(s, r) == at for s, kept in enumerate(STEPS) for r in range(len(kept))]


def test_a_long_token_is_shortened_to_its_node(stage: Stage) -> None:
    rng = np.random.default_rng(3)
    long = ["".join(rng.choice(list("ilmtw"), 29)) for _ in range(41)]
    steps = [[{**node("a", -1, -0.1), "label": [token, "", False]} for token in long]]
    stage.mount("beam_tree", 900).show(beam_payload((0, 0), steps=steps)[0])
    room = 74 - 8
    for token, shown in zip(long, stage.texts("g.node text")[::2], strict=True):
        shorter = [
            token[: limit // 2] + "…" + token[len(token) - (limit - 1) // 2 :]
            for limit in range(28, 2, -1)
        ]
        widths = stage.js(
            "(root, texts) => { const context = document.createElement('canvas').getContext('2d');"
            " context.font = '13px sans-serif'; return texts.map((text) => context.measureText(text).width); }", shorter,
        )  # fmt: skip
        assert shown == next(
            text for text, width in zip(shorter, widths, strict=True) if width <= room
        )


def test_the_tree_scrolls_to_a_node_out_of_sight_and_not_to_a_visible_one(stage: Stage) -> None:
    steps = [[node("a", 0, -0.1)] for _ in range(7)]
    stage.mount("beam_tree", 300)
    scroll = "(root) => { const s = root.querySelector('.tree-scroll'); return [s.scrollLeft, s.clientWidth]; }"
    for before, step, after in (
        (0, 5, 5 * 104 + 8 + 104 - 300), (332, 4, 332), (332, 2, 20), (20, 0, 0),  # to the right, in sight, to the left
        (70, 3, 124), (320, 3, 320), (321, 3, 124), (94, 3, 94), (93, 3, 124), (0, 0, 0),  # partly visible, and just visible
    ):  # fmt: skip
        stage.show(beam_payload((0, 0), steps=steps)[0])
        stage.js(
            "(root, left) => { root.querySelector('.tree-scroll').scrollLeft = left; }", before
        )
        stage.show(beam_payload((step, 0), steps=steps)[0])
        assert stage.js(scroll) == [after, 300], (before, step)


def test_the_chosen_node_shows_its_candidates_and_its_attention(stage: Stage) -> None:
    data, arrays = beam_payload()
    stage.mount("beam_tree", 900).show(data)
    score = "score −0.300 = log-probability / ((5 + 2) / 6)α = 0.6."
    assert (
        stage.text(".lead")
        == f"Step 2, rank 2: ay … Log-probability −0.450 nats over 2 tokens; {score}"
    )
    assert stage.text(".lead sup") == "α = 0.6"
    assert stage.texts(".bar .token") == ["x", "y", "q"]
    assert stage.texts(".bar .number") == ["0.600", "0.300", "0.050"]
    assert stage.texts(".bar .mark") == ["", "this node", ""]
    assert stage.elements(".bar", "data-id") == [
        ["x0.600", "31"],
        ["y0.300this node", "7"],
        ["q0.050", "12"],
    ]
    for side, labels in (("cross", ["x", "y", "[end]"]), ("self", ["[start]", "a"])):
        assert stage.texts(f".chips[data-side={side}] b") == labels
        assert [
            np.float32(w)
            for w in stage.attrs(f".chips[data-side={side}] .chip-token", "data-weight")
        ] == arrays[side].tolist()
    assert stage.texts(".what") == [
        "What the model predicted at this node, and the token of the node:",
        "Cross-attention: what it attended to in the source (head 3)", "Self-attention: what it attended to in its own text (head 3)",
    ]  # fmt: skip
    assert (stage.data(".beam")["step"], stage.data(".beam")["rank"]) == ("2", "2")
    assert stage.attrs(".lead span", "class") == [None, "token", None, None, None]
    for at, said in (
        ((0, 0), "Step 1, rank 1: a … Log-probability −0.150 nats over 1 token; score −0.100 = log-probability / "
        "((5 + 1) / 6)α = 0.6."),
        ((2, 2), "Step 3, rank 3: bx [end]. Log-probability −2.250 nats over 2 tokens; score −1.500 = log-probability / "
        "((5 + 2) / 6)α = 0.6. It had ended before this step and only waits in the beam."),
    ):  # fmt: skip
        stage.show(beam_payload(at)[0])
        assert stage.text(".lead") == said
    assert stage.attrs(".lead span", "class") == [None, "token", None, None, None, "quiet"]
    changed = [[{**STEPS[0][0], "total": -0.4}]]
    stage.show(beam_payload((0, 0), steps=changed)[0])
    assert stage.text(".lead").endswith(
        "score −0.100 = −0.400 / ((5 + 1) / 6)α = 0.6. The model's generation settings change the sum to −0.400."
    )
    nothing = [[{**STEPS[0][0], "text": ""}]]
    stage.show(beam_payload((0, 0), steps=nothing)[0])
    assert "(no text yet)" in stage.text(".lead")
    assert stage.text("g.node title").startswith("(nothing yet)\n")


def test_fewer_candidates_leave_no_bars_behind(stage: Stage) -> None:
    data, arrays = beam_payload()
    stage.mount("beam_tree", 900).show(data)
    stage.show(stage.change(data, {"ids": arrays["ids"][:2], "p": arrays["p"][:2]}))
    assert stage.texts(".bar .token") == ["x", "y"]
    stage.show(data)
    assert stage.texts(".bar .token") == ["x", "y", "q"]


def test_each_of_255_levels_of_a_weight_has_its_own_shade(stage: Stage) -> None:
    weights = (
        np.concatenate([np.arange(255), np.arange(254) + 0.51, np.arange(254) + 0.49]) / 254
    ).astype(np.float32)
    data, _ = beam_payload(source=[label("x")] * len(weights))
    stage.mount("beam_tree", 900).show(stage.change(data, {"cross": weights}))
    shades = [
        hex_of(one) for one in stage.css(".chips[data-side=cross] .chip-token", "backgroundColor")
    ]
    steps = [ramp(step / 254) for step in range(255)]
    assert shades == [steps[round(float(weight) * 254)] for weight in weights]


def test_without_attention_the_beam_hides_its_rows(stage: Stage) -> None:
    data, arrays = beam_payload()
    header = {
        "steps": STEPS,
        "node": [0, 0],
        "source": SOURCE,
        "read": [label("[start]"), label("a")],
        "candidates": [label("x")] * 3,
        "reading": "",
        "cross": "",
        "sourceName": "s",
        "taken": 7,
        "alpha": 1,
    }
    stage.mount("beam_tree", 900).show(pack(header, ids=arrays["ids"], p=arrays["p"]))
    assert stage.js("(root) => [...root.querySelectorAll('.chips')].map((e) => e.hidden)") == [
        True,
        True,
    ]
    assert stage.text(".lead sup") == "α = 1"
    for name, hidden in (("cross", [False, True]), ("self", [True, False])):  # one of the two
        stage.show(pack(header, ids=arrays["ids"], p=arrays["p"], **{name: arrays[name]}))
        assert (
            stage.js("(root) => [...root.querySelectorAll('.chips')].map((e) => e.hidden)")
            == hidden
        )
        weights = stage.attrs(f".chips[data-side={name}] .chip-token", "data-weight")
        assert [np.float32(one) for one in weights] == arrays[name].tolist()[
            : len(header["source" if name == "cross" else "read"])
        ]
    stage.show(data)
    assert stage.js("(root) => [...root.querySelectorAll('.chips')].map((e) => e.hidden)") == [
        False,
        False,
    ]


def test_a_node_is_chosen_by_click_and_by_key(stage: Stage) -> None:
    stage.mount("beam_tree", 200).show(beam_payload()[0])
    stage.js("(root) => { root.querySelector('.tree-scroll').scrollLeft = 0; }")
    stage.click("g.node rect", 20, 10, n=1)
    for key in ("Enter", " ", "x", "y"):
        stage.js("(root) => root.querySelectorAll('g.node')[4].focus()")
        stage.press(key)
    assert stage.sent == [["node", {"step": 0, "rank": 1}], *[["node", {"step": 1, "rank": 2}]] * 2]
    stage.show(beam_payload((2, 0))[0])
    scroll = stage.js(
        "(root) => { const s = root.querySelector('.tree-scroll'); return [s.scrollLeft, s.clientWidth]; }"
    )
    assert scroll[0] <= 216
    assert scroll[0] + scroll[1] >= 216 + 74


def test_the_arrows_walk_along_the_hypotheses_and_the_tree_is_one_stop_of_tab(stage: Stage) -> None:
    stage.mount("beam_tree", 900).show(beam_payload((1, 2))[0])
    steps = unpack(beam_payload()[0])[0]["steps"]
    assert [i for i, stop in enumerate(stage.attrs("g.node", "tabindex")) if stop == "0"] == [
        len(steps[0]) + 2
    ]
    stage.js("(root) => root.querySelectorAll('g.node')[4].focus()")
    for key, step, rank in (
        ("ArrowUp", 1, 1), ("ArrowDown", 1, 2), ("ArrowLeft", 0, steps[1][2]["parent"]), ("ArrowRight", 1, steps[1][2]["parent"])
    ):  # fmt: skip
        stage.press(key)
        assert stage.sent[-1] == ["node", {"step": step, "rank": rank}]
        stage.show(beam_payload((step, rank))[0])
        held = stage.js(
            "(root) => [root.activeElement.dataset.step, root.activeElement.dataset.rank]"
        )
        assert held == [str(step + 1), str(rank + 1)]


def test_the_beam_as_a_file(stage: Stage) -> None:
    stage.mount("beam_tree", 900).show(beam_payload()[0])
    name, svg = stage.saved_svg()
    assert name == "one.beam.svg"
    assert list(svg)[1].text == "Beam search: the hypotheses kept at each step, with their scores"
    assert (
        len(
            [one for one in svg.iter("{http://www.w3.org/2000/svg}g") if one.get("class") == "node"]
        )
        == 8
    )
