"""The component `overview` by itself: every small picture, number, name and step of the arrow keys."""

import base64
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from stage import (
    ACCENT,
    DARK,
    HATCH,
    HEADS,
    INK,
    PAPER,
    RATIO,
    SAVED,
    Stage,
    alike,
    hex_of,
    mixed,
)

from viz_app.components import stamp_payload
from viz_app.drawing.colours import ramp
from viz_app.drawing.payload import pack, unpack

LAYERS, N_HEADS, ROWS, COLS = 3, 5, 2, 7
KINDS = (("encoder", 2), ("decoder", 3), ("cross", 1))  # kind, layers


def codes_of(
    layers: int, seed: int, heads: int = N_HEADS, rows: int = ROWS, cols: int = COLS
) -> np.ndarray:
    return (
        np.random.default_rng(seed).integers(1, 256, (layers, heads, rows, cols)).astype(np.uint8)
    )


def largest_of(codes: np.ndarray) -> list[list[float]]:
    """Return a number for each head of each layer that does not follow from its codes."""
    return (codes.max((-2, -1)) / np.float32(2550)).tolist()


def payload(
    kinds: tuple = KINDS, pools: tuple = (1, 1, 1), heads: tuple = (5, 5, 3), **chosen: Any
) -> tuple[bytes, list[np.ndarray]]:
    blocks, parts, offset = [], [], 0
    for n, ((kind, layers), pool, n_heads) in enumerate(zip(kinds, pools, heads, strict=False)):
        codes = codes_of(layers, n, n_heads)
        if n == 1:
            codes[:, :, 0, 3] = 0
        blocks.append({
            "kind": kind, "title": f"Title of {kind}", "subtitle": f"who reads in {kind}", "sides": f"sides of {kind}",
            "sites": [f"{kind}.layers.{i}" for i in range(layers)], "layers": [2 * i + 1 for i in range(layers)],
            "heads": n_heads, "largest": largest_of(codes), "rows": ROWS, "cols": COLS, "pool": pool, "offset": offset,
        })  # fmt: skip
        parts.append(codes)
        offset += codes.size
    return pack(
        {
            "blocks": blocks,
            "chosen": {"site": "encoder.layers.0", "head": 0} | chosen,
            "file": "one.all-heads",
            **SAVED,
        },
        codes=np.concatenate([p.ravel() for p in parts]),
    ), parts


def shown(stage: Stage, width: int = 300, **how: Any) -> list[np.ndarray]:
    data, codes = payload(**how)
    stage.mount("overview", width).show(data)
    return codes


def button(kind: str, layer: int, head: int) -> str:
    return f'button[data-site="{kind}.layers.{layer}"][data-head="{head}"]'


def place(stage: Stage, selector: str) -> dict[str, float]:
    """Return the position of a button on its canvas, and its size."""
    style = "(root, one) => { const { left, top, width, height } = root.querySelector(one).style; return [left, top, width, height]; }"
    return dict(
        zip("xywh", (float(v.removesuffix("px")) for v in stage.js(style, selector)), strict=True)
    )


def code_colour(code: int) -> str:
    return ramp((code - 1) / 254)


def test_each_head_of_each_layer_has_its_own_picture_under_its_button(stage: Stage) -> None:
    codes = shown(stage)
    for n, (kind, layers) in enumerate(KINDS):
        pixels = stage.pixels(".grid canvas", n)
        for layer in range(layers):
            for head in range(codes[n].shape[1]):
                at = place(stage, button(kind, layer, head))
                assert at["w"] == at["h"] == place(stage, button("encoder", 0, 0))["w"]
                for r in range(ROWS):
                    for c in range(COLS):
                        if not codes[n][layer, head, r, c]:
                            continue
                        seen = pixels.at(
                            at["x"] + (c + 0.5) / COLS * at["w"],
                            at["y"] + (r + 0.5) / ROWS * at["h"],
                        )
                        assert alike(seen, code_colour(codes[n][layer, head, r, c])), (
                            kind,
                            layer,
                            head,
                            r,
                            c,
                        )


def test_masked_cells_of_a_small_picture_are_striped(stage: Stage) -> None:
    shown(stage)
    at, pixels = place(stage, button("decoder", 1, 2)), stage.pixels(".grid canvas", 1)
    x, y, wide = at["x"] + 3.2 * at["w"] / COLS, at["y"] + 1, 0.6 * at["w"] / COLS
    assert pixels.within(x, y, wide, at["h"] / 2 - 2) == {PAPER, HATCH}


def test_layers_run_down_and_heads_along(stage: Stage) -> None:
    shown(stage)
    for kind, layers in KINDS:
        grid = [
            [place(stage, button(kind, layer, head)) for head in range(3)]
            for layer in range(layers)
        ]
        for row in grid:
            assert len({at["y"] for at in row}) == 1
            assert all(a["x"] + a["w"] < b["x"] for a, b in pairwise(row))
        assert all(a[0]["y"] + a[0]["h"] < b[0]["y"] for a, b in pairwise(grid))


def test_heads_are_numbered_from_1_in_their_colours_and_layers_by_their_number(
    stage: Stage,
) -> None:
    shown(stage)
    for n, (kind, layers) in enumerate(KINDS):
        heads = 3 if kind == "cross" else 5
        texts = stage.drawn(".grid canvas", "text", n)
        assert [one["text"] for one in texts] == [str(h + 1) for h in range(heads)] + [
            str(2 * i + 1) for i in range(layers)
        ]
        at = place(stage, button(kind, 0, 0))
        assert [one["x"] for one in texts[:heads]] == pytest.approx(
            [at["x"] + at["w"] / 2 + h * (at["w"] + 3) for h in range(heads)]
        )
        assert [one["y"] for one in texts[heads:]] == pytest.approx(
            [at["y"] + at["h"] / 2 + i * (at["h"] + 3) for i in range(layers)]
        )
        bars = [one for one in stage.drawn(".grid canvas", "rect", n) if one["h"] == 2]
        assert [one["colour"] for one in bars] == list(HEADS[:heads])
        places = [(at["x"] + h * (at["w"] + 3), at["w"]) for h in range(heads)]
        assert [(one["x"], one["w"]) for one in bars] == places
        assert stage.texts("h2")[n] == f"Title of {kind}"
        assert stage.texts(".subtitle")[n] == f"who reads in {kind}"


def test_buttons_are_named_and_the_chosen_one_is_pressed(stage: Stage) -> None:
    shown(stage, site="decoder.layers.2", head=3)
    assert stage.attr(button("decoder", 1, 4), "aria-label") == "Title of decoder, layer 3, head 5"
    assert stage.attr(button("encoder", 0, 0), "aria-label") == "Title of encoder, layer 1, head 1"
    pressed = stage.attrs("button[aria-pressed=true]", "data-site", "data-head", "tabindex")
    assert pressed == [{"data-site": "decoder.layers.2", "data-head": "3", "tabindex": "0"}]
    assert set(stage.attrs(".grid button[aria-pressed=false]", "tabindex")) == {"-1"}
    assert len(stage.attrs(".grid button", "type")) == 2 * 5 + 3 * 5 + 3
    assert set(stage.attrs(".grid button", "type")) == {"button"}
    colours = stage.js(
        "(root) => [...root.querySelectorAll('.grid button')].map((b) => b.style.getPropertyValue('--head'))"
    )
    assert [c.lower() for c in colours[:5]] == list(HEADS[:5])
    data = stage.data(".overview")
    assert (data["site"], data["head"]) == ("decoder.layers.2", "3")
    stage.show(payload(site="decoder.layers.2", head=1)[0])
    assert stage.attrs("button[aria-pressed=true]", "data-head") == ["1"]
    assert int(stage.data(".overview")["painted"]) == int(data["painted"]) + 1


def test_the_key_runs_from_0_to_1_and_shows_masked(stage: Stage) -> None:
    shown(stage)
    assert stage.texts(".scale span") == ["0", "1 weight", "masked"]
    bar, hatch = (
        stage.js("(root, one) => getComputedStyle(root.querySelector(one)).backgroundImage", one)
        for one in (".bar", ".hatch")
    )
    stops = [hex_of(f"rgb({one.split(')')[0]})") for one in bar.split("rgb(")[1:]]
    assert bar.startswith("linear-gradient(to right")
    assert len(stops) == 9
    for i, stop in enumerate(stops):
        assert alike(stop, code_colour(1 + 32 * i if i < 8 else 255))
    assert hatch.startswith("repeating-linear-gradient(135deg")
    assert [hex_of(f"rgb({one.split(')')[0]})") for one in hatch.split("rgb(")[1:]] == [
        HATCH
    ] * 2 + [PAPER] * 2


def test_the_hint_explains_rows_columns_and_pixels(stage: Stage) -> None:
    shown(stage)
    box = "(root, one) => JSON.stringify(root.querySelector(one).getBoundingClientRect())"
    seen = "(root, one) => root.querySelector(one).checkVisibility({ visibilityProperty: true })"
    assert stage.text(".hint").startswith("Rows: layers. Columns: heads.")
    assert not stage.js(seen, ".pooled")
    before = stage.js(box, ".foot")
    shown(stage, pools=(1, 4, 2))
    assert stage.text(".pooled") == "Each pixel = largest weight of 4 × 4."
    assert stage.js(seen, ".pooled")
    assert stage.js(box, ".foot") == before


def test_two_cells_per_pixel_are_mentioned_too(stage: Stage) -> None:
    shown(stage, pools=(2, 2, 2))
    assert stage.text(".pooled") == "Each pixel = largest weight of 2 × 2."
    stage.move(button("encoder", 0, 1), 10, 10)
    assert stage.text(".zoom .note").endswith(" Each pixel = largest of 2 × 2.")


def test_pointing_enlarges_a_head_and_names_it(stage: Stage) -> None:
    codes = shown(stage, pools=(1, 4, 1))
    stage.move(button("decoder", 2, 3), 10, 10)
    assert not stage.hidden(".zoom")
    assert stage.text(".zoom .name") == "Title of decoder: layer 5, head 4"
    assert (
        stage.text(".zoom .note")
        == "sides of decoder; hatched = masked. Each pixel = largest of 4 × 4."
    )
    pixels = stage.pixels(".zoom canvas")
    side = pixels.wide / RATIO
    for r in range(ROWS):
        for c in range(COLS):
            x, y = (c + 0.1) / COLS * side, (r + 0.1) / ROWS * side
            if codes[1][2, 3, r, c]:
                assert alike(pixels.at(x, y), code_colour(codes[1][2, 3, r, c]))
            else:
                assert pixels.within(x, y, 20, 20) == {PAPER, HATCH}
    stage.move(button("encoder", 0, 1), 10, 10)
    assert stage.text(".zoom .name") == "Title of encoder: layer 1, head 2"
    assert stage.text(".zoom .note") == "sides of encoder; hatched = masked."
    stage.away()
    assert stage.hidden(".zoom")


@pytest.mark.parametrize(
    ("window", "top", "below", "width"),
    [(1280, 0, True, 300), (1280, 1300, False, 300), (690, 0, False, 300), (1280, 0, True, 150)],
)
def test_the_zoom_is_never_where_the_chosen_head_is_shown(
    stage: Stage, window: int, top: int, below: bool, width: int
) -> None:
    """The chosen head is beside all heads, or below them in a narrow window. The zoom is below a head, or above it if that does not
    fit, and no wider than the heads."""
    stage.page.set_viewport_size({"width": window, "height": 1600})
    shown(stage, width, kinds=(("encoder", 2),))
    stage.page.evaluate("(px) => { stage.host.style.marginTop = `${px}px`; }", top)
    for head in (0, 4):
        stage.move(button("encoder", 1, head), 5, 5)
        at, zoom, all_ = (
            stage.box(button("encoder", 1, head)),
            stage.box(".zoom"),
            stage.box(".overview"),
        )
        assert zoom["right"] <= all_["right"] + 0.5
        assert (zoom["top"] > at["bottom"]) == below
        assert window > 700 or zoom["bottom"] <= all_["bottom"] + 0.5
    stage.page.set_viewport_size({"width": 1280, "height": 1600})


@pytest.mark.parametrize(("width", "rows"), [(200, 3), (520, 2), (1200, 1)])
def test_blocks_are_side_by_side_if_there_is_room(stage: Stage, width: int, rows: int) -> None:
    shown(stage, width, heads=(8, 8, 8))
    boxes = [stage.box("section.block", n) for n in range(3)]
    assert len({round(box["top"]) for box in boxes}) == rows
    assert max(box["right"] for box in boxes) <= stage.box(".overview")["right"] + 0.5


@pytest.mark.parametrize(
    ("heads", "layers", "width"), [(12, 12, 230), (32, 32, 375), (32, 32, 230), (16, 2, 260)]
)
def test_many_heads_are_seen_without_scrolling(
    stage: Stage, heads: int, layers: int, width: int
) -> None:
    stage.page.set_viewport_size({"width": 1280, "height": 720})
    shown(stage, width, kinds=(("encoder", layers),), heads=(heads,))
    last = place(stage, button("encoder", layers - 1, heads - 1))
    stage.page.set_viewport_size({"width": 1280, "height": 1600})
    assert last["x"] + last["w"] <= width
    assert last["y"] + last["h"] <= 720 - 246 - 64  # the text above the pictures
    numbers = stage.drawn(".grid canvas", "text")
    along, down = (
        sorted({one[axis] for one in numbers})[1:] for axis in ("x", "y")
    )  # the first is the other axis's line
    assert min(b - a for a, b in pairwise(along)) >= 19
    assert min(b - a for a, b in pairwise(down)) >= 12


def test_the_arrow_keys_reach_everything(stage: Stage) -> None:
    shown(stage, site="encoder.layers.0", head=3)
    stage.js("(root, one) => root.querySelector(one).focus()", button("encoder", 0, 3))
    for key, site, head in (
        ("ArrowRight", "encoder.layers.0", 4), ("ArrowRight", None, 0), ("ArrowDown", "encoder.layers.1", 4),
        ("ArrowDown", "decoder.layers.0", 4), ("ArrowUp", "encoder.layers.1", 4), ("ArrowDown", "decoder.layers.0", 4),
        ("ArrowDown", "decoder.layers.1", 4), ("ArrowDown", "decoder.layers.2", 4), ("ArrowUp", "decoder.layers.1", 4),
        ("ArrowDown", "decoder.layers.2", 4), ("ArrowLeft", "decoder.layers.2", 3),
        ("ArrowDown", "cross.layers.0", 2), ("ArrowDown", None, 0), ("ArrowUp", "decoder.layers.2", 2),
        ("ArrowLeft", "decoder.layers.2", 1), ("ArrowLeft", "decoder.layers.2", 0), ("ArrowLeft", None, 0), ("a", None, 0),
    ):  # fmt: skip
        before = len(stage.sent)
        stage.press(key)
        assert stage.sent[before:] == ([["pick", {"site": site, "head": head}]] if site else [])
        if site:
            assert stage.attrs("button[aria-pressed=true]", "data-site", "data-head") == [
                {"data-site": site, "data-head": str(head)}
            ]
            assert stage.js("(root) => ({ ...root.activeElement.dataset })") == {
                "site": site,
                "head": str(head),
            }
            assert stage.hidden(".zoom")  # the chosen head is shown large already
    stage.move(button("encoder", 0, 0), 5, 5)
    assert not stage.hidden(".zoom")
    stage.press("ArrowRight")
    assert stage.hidden(".zoom")
    stage.js("(root, one) => root.querySelector(one).focus()", button("encoder", 0, 0))
    stage.press("ArrowUp")
    assert stage.sent[-1] == [
        "pick",
        {"site": "decoder.layers.2", "head": 1},
    ]  # there is nothing above


def test_arrow_keys_do_not_scroll_the_page(stage: Stage) -> None:
    shown(stage)
    taken = stage.js(
        "(root, one) => ['ArrowDown', 'ArrowRight', 'x'].map((key) => {"
        " const event = new KeyboardEvent('keydown', { key, cancelable: true });"
        " root.querySelector(one).dispatchEvent(event); return event.defaultPrevented; })", button("encoder", 0, 0),
    )  # fmt: skip
    assert taken == [True, True, False]


def test_a_click_is_sent_and_outlives_older_answers(stage: Stage) -> None:
    shown(stage)
    stage.click(button("decoder", 1, 2))
    assert stage.sent == [["pick", {"site": "decoder.layers.1", "head": 2}]]
    assert stage.hidden(".zoom") is False
    for site, head, stands in (
        ("encoder.layers.0", 0, ("decoder.layers.1", "2")), ("decoder.layers.1", 1, ("decoder.layers.1", "2")),
        ("encoder.layers.0", 2, ("decoder.layers.1", "2")), ("decoder.layers.1", 2, ("decoder.layers.1", "2")),
        ("encoder.layers.1", 2, ("encoder.layers.1", "2")),
    ):  # fmt: skip
        stage.show(payload(site=site, head=head)[0])
        data = stage.data(".overview")
        assert (data["site"], data["head"]) == stands


def test_a_new_picture_leaves_the_keyboard_where_it_is(stage: Stage) -> None:
    shown(stage)
    assert stage.keeps_the_keyboard(".grid button", payload()[0])


def test_fewer_and_more_kinds_layers_and_heads_leave_no_remains(stage: Stage) -> None:
    shown(stage)
    stage.show(payload(kinds=KINDS[2:], heads=(3,))[0])
    assert stage.texts("h2") == ["Title of cross"]
    assert len(stage.attrs(".grid button", "type")) == 3
    stage.show(payload(kinds=KINDS[1:2], heads=(2,))[0])
    assert len(stage.attrs(".grid button", "type")) == 6
    assert stage.attrs(".grid button", "aria-label")[-1] == "Title of decoder, layer 5, head 2"
    data, _ = payload()
    stage.show(data)
    assert len(stage.attrs(".grid button", "type")) == 28
    stage.click(button("decoder", 2, 4))
    assert stage.sent[-1] == ["pick", {"site": "decoder.layers.2", "head": 4}]


def retyped(stage: Stage, data: bytes) -> None:
    """Show the data of a key typed: the page and its colours do not change."""
    stage.page.evaluate(
        "(data) => { const picture = attnscopePictures.get('overview');"
        " picture.data = Uint8Array.from(atob(data), (c) => c.charCodeAt(0)); picture.show(); }",
        base64.b64encode(stamp_payload(data, "overview", (2, 1))).decode(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", "Another"),
        ("subtitle", "others read"),
        ("sites", ["a", "b"]),
        ("layers", [5, 7]),
        ("heads", 4),
        ("", None),
    ],
)
def test_the_words_along_the_pictures_follow_them_while_typing(
    stage: Stage, field: str, value: Any
) -> None:
    shown(stage)
    before = stage.drawn(".grid canvas", "text")
    data, (codes, *_) = payload()
    block = unpack(data)[0]["blocks"][0] | ({field: value} if field else {})
    codes = np.flip(codes, axis=(0, 1, 2, 3))[:, : block["heads"]]
    block |= {"largest": largest_of(codes)}
    retyped(stage, stage.change(data, {"codes": codes.ravel()}, blocks=[block]))
    assert stage.texts("h2") == [block["title"]]
    assert stage.texts(".subtitle") == [block["subtitle"]]
    heads = range(block["heads"])
    assert stage.attrs(".grid button", "data-site", "data-head", "aria-label") == [
        {"data-site": site, "data-head": str(head), "aria-label": f"{block['title']}, layer {layer}, head {head + 1}"}
        for site, layer in zip(block["sites"], block["layers"], strict=True) for head in heads
    ]  # fmt: skip
    texts = stage.drawn(".grid canvas", "text")
    assert [one["text"] for one in texts] == [str(h + 1) for h in heads] + [
        str(layer) for layer in block["layers"]
    ]
    assert len(stage.drawn(".grid canvas", "image")) == 2 * len(heads) * (
        1 if field else 2
    )  # the empty canvas stays
    assert field or texts == before
    at, pixels = (
        place(stage, f'button[data-site="{block["sites"][1]}"][data-head="2"]'),
        stage.pixels(".grid canvas"),
    )
    for r in range(ROWS):
        seen = pixels.at(at["x"] + 0.5 / COLS * at["w"], at["y"] + (r + 0.5) / ROWS * at["h"])
        assert alike(seen, code_colour(codes[1, 2, r, 0]))


def test_another_theme_redraws_the_numbers_and_the_key(stage: Stage) -> None:
    shown(stage)
    for name, value in DARK.items():
        stage.page.evaluate(
            "([name, value]) => stage.host.style.setProperty(name, value)", [name, value]
        )
    data, (codes, *_) = payload()
    stage.show(data)
    paper, accent, ink = DARK.values()
    assert {one["colour"] for one in stage.drawn(".grid canvas", "text")} == {
        mixed(0.62, paper, ink)
    }
    at, pixels = place(stage, button("encoder", 1, 1)), stage.pixels(".grid canvas")
    assert pixels.at(1, 1) == paper
    seen = pixels.at(at["x"] + 0.5 / COLS * at["w"], at["y"] + 1)
    assert alike(seen, ramp((codes[1, 1, 0, 0] - 1) / 254, paper, accent))
    bar = stage.js("(root) => getComputedStyle(root.querySelector('.bar')).backgroundImage")
    assert hex_of(f"rgb({bar.split('rgb(')[1].split(')')[0]})") == paper


def test_all_heads_as_a_file(stage: Stage) -> None:
    shown(stage)
    name, picture, drawn = stage.saved_picture()
    assert name == "one.all-heads.png"
    title, zero, most, caption = [one for one in drawn if one["op"] == "text"]
    assert title["text"] == "All heads: rows are layers, columns are heads"
    assert (zero["text"], most["text"], caption["text"]) == (
        "0",
        "1 weight; hatched = masked",
        SAVED["caption"],
    )
    y = 30.0
    for canvas in [stage.pixels(".grid canvas", n) for n in range(3)]:
        assert INK in picture.within(4, y, 90, 24)  # its title
        for dx, dy in ((25, 30), (60, 20), (18, 5), (100, 40)):
            assert picture.at(dx, y + 24 + dy) == canvas.at(dx, dy)
        y += 24 + canvas.tall / RATIO
    low, high = (picture.at(zero["x"] + zero["wide"] + x, zero["y"]) for x in (10, 122))
    assert alike(low, PAPER, 12)
    assert alike(high, ACCENT, 12)


def test_the_numbers_are_the_weights_and_not_the_colours(stage: Stage) -> None:
    """For a long text, colours are relative to the row's largest weight."""
    data, _ = payload()
    blocks = unpack(data)[0]["blocks"]
    stage.mount("overview", 300).show(data)
    name, about, tables = stage.saved_tables()
    assert (name, about) == ("one.all-heads.picture.csv", SAVED["about"])
    for block, (head, *rows) in zip(blocks, tables, strict=True):
        assert head[1:] == [f"head {h + 1}" for h in range(block["heads"])]
        np.testing.assert_array_equal(
            np.array([row[1:] for row in rows], np.float32), np.float32(block["largest"])
        )


def test_a_layer_with_fewer_heads_has_gaps_in_their_place(stage: Stage) -> None:
    data, (codes,) = payload(kinds=KINDS[1:2], heads=(4,))
    (block,) = unpack(data)[0]["blocks"]
    largest = [row[: 2 if layer == 1 else 4] for layer, row in enumerate(largest_of(codes))]
    stage.mount("overview", 300).show(data)
    stage.show(stage.change(data, {}, blocks=[block | {"largest": largest}]))
    shown_buttons = stage.attrs(".grid button:not([hidden])", "data-site", "data-head")
    assert len(shown_buttons) == 4 + 2 + 4
    at, pixels = place(stage, button("decoder", 1, 2)), stage.pixels(".grid canvas")
    assert pixels.within(at["x"], at["y"], at["w"], at["h"]) == {PAPER}
    stage.click(button("decoder", 1, 1))
    for key, site, head in (
        ("ArrowRight", 1, 1),
        ("ArrowUp", 0, 1),
        ("ArrowRight", 0, 2),
        ("ArrowDown", 1, 1),
    ):
        stage.press(key)
        assert stage.js("(root) => { const { site, head } = root.activeElement.dataset; return [site, head]; }") == [
            f"decoder.layers.{site}", str(head)
        ], key  # fmt: skip
    _, _, ((_, *rows),) = stage.saved_tables()
    assert rows[1][3:] == ["", ""]


@pytest.mark.parametrize(
    ("kinds", "heads"), [((("encoder", 2), ("cross", 1)), (16, 3)), (KINDS, (2, 3, 1))]
)
def test_in_the_file_each_block_is_under_its_title(
    stage: Stage, kinds: tuple, heads: tuple
) -> None:
    shown(stage, 1250, kinds=kinds, heads=heads)
    _, _, drawn = stage.saved_picture()
    (whole,) = [one for one in drawn if one["op"] == "copy"]
    texts = [one for one in whole["of"] if one["op"] == "text"]
    copies = [one for one in whole["of"] if one["op"] == "copy"]
    assert [one["text"] for one in texts] == [f"Title of {kind}" for kind, _ in kinds]
    tops = [one["y"] for pair in zip(texts, copies, strict=True) for one in pair]
    assert tops == sorted(tops)
    canvases = [stage.box(".grid canvas", n) for n in range(len(kinds))]
    sizes = [(canvas["width"], canvas["height"]) for canvas in canvases]
    assert [(one["w"], one["h"]) for one in copies] == sizes
    assert max(one["w"] for one in copies) <= whole["w"]
