"""The browser components by themselves, in a real Chromium without the app: their pixels, texts and events."""

import base64
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from served_app import boxes, cell_of, save_picture

from viz_app.components import stamp_payload
from viz_app.components.catalogue import HEAD, OVERVIEW
from viz_app.drawing.colours import ramp
from viz_app.drawing.payload import pack

PARTS = {
    "head": HEAD.files,
    "overview": OVERVIEW.files,
}
COLOURS = {
    "--st-background-color": "#ffffff",
    "--st-primary-color": "#1b3fae",
    "--st-text-color": "#1d2330",
}
LOAD = """async ([parts, colours, width]) => {
  document.body.innerHTML = "";
  const host = document.createElement("div");
  host.style.width = width + "px";
  for (const [name, value] of Object.entries(colours)) host.style.setProperty(name, value);
  document.body.append(host);
  const root = host.attachShadow({ mode: "open" });
  root.innerHTML = `<style>${parts.css}</style>${parts.html}`;
  const module = await import(URL.createObjectURL(new Blob([parts.js], { type: "text/javascript" })));
  window.sent = [];
  window.colour = (name, value) => host.style.setProperty(name, value);
  window.show = (data) => module.default({
    key: "not ours", data: Uint8Array.from(atob(data), (c) => c.charCodeAt(0)), parentElement: root,
    setTriggerValue: (name, value) => window.sent.push([name, value]),
  });
}"""

Show = Callable[[bytes], None]


@pytest.fixture
def mount(page: Page) -> Callable[..., Show]:
    """A function that loads a component into an empty page and returns one that shows a payload."""

    def load(name: str, width: int = 760) -> Show:
        page.goto("about:blank")
        page.evaluate(LOAD, [PARTS[name], COLOURS, width])
        return lambda payload, edition=(1, 1): page.evaluate(
            "show", base64.b64encode(stamp_payload(payload, name, edition)).decode()
        )

    return load


def sent(page: Page) -> list[list[Any]]:
    return page.evaluate("sent")


def pixel(page: Page, canvas: str, x: float, y: float) -> str:
    """Return the colour of one pixel of a canvas, as #rrggbb."""
    rgb = page.locator(canvas).evaluate(
        "(c, [x, y]) => [...c.getContext('2d').getImageData(x, y, 1, 1).data]", [x, y]
    )
    return "#" + "".join(f"{v:02x}" for v in rgb[:3])


# --- one head


def head_payload(weights: np.ndarray, blocked: np.ndarray | None = None, **changes: Any) -> bytes:
    rows, cols = weights.shape
    header = {
        "site": "decoder.layers.0.self_attn", "head": 1, "lock": "", "title": "A title", "queryAxis": "query", "keyAxis": "key",
        "queries": [[f"q{i}", "", False] for i in range(rows)], "keys": [[f"k{i}", "", False] for i in range(cols)],
        "masks": ["padding", "look-ahead"], "file": "a-head", "caption": "", "about": "", "block": 1,
        "first": [0, 0], "size": [rows, cols],
        "scale": "weight", "hides": False, "sinks": [], "sinkNames": [], "sinkShare": 0,
    }  # fmt: skip
    blocked = np.zeros(weights.shape, np.uint8) if blocked is None else blocked
    return pack(
        header | changes, weights=weights.astype(np.float32), blocked=blocked.astype(np.uint8)
    )


def some_weights(rows: int = 5, cols: int = 7) -> np.ndarray:
    weights = np.random.default_rng(3).dirichlet(np.full(cols, 0.3), rows).astype(np.float32)
    weights[0] = [1e-9] + [0] * (cols - 2) + [1]
    return weights


def point(page: Page, query: int, key: int) -> None:
    """Move the pointer onto a cell."""
    cells = page.locator("canvas.cells")
    cells.hover(position=cell_of(cells, query, key))


def test_hover_names_every_float32_exactly(page: Page, mount: Callable[..., Show]) -> None:
    weights = some_weights()
    mount("head")(head_payload(weights))
    for query, row in enumerate(weights):
        for key, weight in enumerate(row):
            point(page, query, key)
            tip = page.locator(".tip")
            assert (tip.get_attribute("data-query"), tip.get_attribute("data-key")) == (
                str(query),
                str(key),
            )
            assert np.float32(tip.get_attribute("data-weight")) == weight
            assert np.float32(tip.locator(".value").inner_text().removeprefix("weight ")) == weight


def test_an_older_picture_never_replaces_a_newer_one(
    page: Page, mount: Callable[..., Show]
) -> None:
    show = mount("head")
    for edit, rerun, title, stands in (
        (2, 1, "typed", "typed"), (1, 2, "a late rerun", "typed"), (2, 2, "another head", "another head"),
        (2, 1, "a late answer", "another head"), (3, 2, "new", "new"),
    ):  # fmt: skip
        show(head_payload(some_weights(), title=title), (edit, rerun))
        assert page.locator(".title").inner_text() == stands


def test_a_cell_has_the_colour_of_its_weight(page: Page, mount: Callable[..., Show]) -> None:
    weights = np.array([[0.0, 0.25, 0.75], [1.0, 0.5, 0.5]], np.float32)
    mount("head")(head_payload(weights))
    cells = page.locator("canvas.cells")
    at = {
        name: float(cells.get_attribute(f"data-{name}")) for name in ("left", "top", "wide", "tall")
    }
    for query, row in enumerate(weights):
        for key, weight in enumerate(row):
            seen = pixel(
                page,
                "canvas.cells",
                at["left"] + key * at["wide"] + 5,
                at["top"] + query * at["tall"] + 5,
            )
            expected = ramp(round(float(weight) * 254) / 254)
            assert all(
                abs(int(seen[i : i + 2], 16) - int(expected[i : i + 2], 16)) <= 1 for i in (1, 3, 5)
            ), (seen, expected)


def test_a_masked_cell_is_hatched_and_names_its_mask(
    page: Page, mount: Callable[..., Show]
) -> None:
    blocked = np.zeros((2, 3), np.uint8)
    blocked[0, 1], blocked[0, 2] = 2, 3
    mount("head")(head_payload(np.array([[1, 0, 0], [0.5, 0.5, 0]]), blocked))
    cells = page.locator("canvas.cells")
    at = {
        name: float(cells.get_attribute(f"data-{name}")) for name in ("left", "top", "wide", "tall")
    }

    def colours(key: int, query: int) -> set[str]:
        x, y = at["left"] + key * at["wide"] + 4, at["top"] + query * at["tall"] + 4
        return {pixel(page, "canvas.cells", x + i, y + 3) for i in range(12)}

    assert len(colours(1, 0)) > 1  # masked: stripes
    assert colours(2, 1) == {"#ffffff"}  # a weight of 0: the page's background
    point(page, 0, 1)
    expect(page.locator(".tip .why")).to_have_text("masked (look-ahead)")
    point(page, 0, 2)
    expect(page.locator(".tip .why")).to_have_text("masked (padding, look-ahead)")


def test_pointing_at_a_cell_leaves_only_its_line(page: Page, mount: Callable[..., Show]) -> None:
    weights = some_weights()
    mount("head")(head_payload(weights))
    key = int(weights[2].argmax())
    point(page, 2, key)
    idle, near = page.locator("svg > g").all()
    assert float(idle.get_attribute("opacity")) < 0.1
    assert near.locator("path").count() == 1
    expect(near.locator("text")).to_have_text(f"{weights[2, key]:.2f}")
    expect(page.locator('svg text.token.on[data-side="key"]')).to_have_text(f"k{key}")


def test_a_line_is_as_strong_as_its_weight(page: Page, mount: Callable[..., Show]) -> None:
    """In the drawing, the two ends of each line identify its weight, and its opacity shows how strongly it is drawn."""
    weights = some_weights()
    mount("head")(head_payload(weights))
    rows = {side: [float(t.get_attribute("y")) for t in page.locator(f'svg text.token[data-side="{side}"]').all()]
            for side in ("query", "key")}  # fmt: skip
    drawn = {}
    for path in page.locator("svg > g").first.locator("path").all():
        for line in path.get_attribute("d").split("M")[1:]:
            start, end = (float(point.split()[-1]) for point in (line.split("C")[0], line))
            at = (
                int(np.abs(np.subtract(rows["query"], start)).argmin()),
                int(np.abs(np.subtract(rows["key"], end)).argmin()),
            )
            drawn[at] = float(path.get_attribute("stroke-opacity"))
    assert set(drawn) == {
        (int(q), int(k)) for q, k in zip(*np.nonzero(weights >= 0.01), strict=True)
    }
    assert max(abs(strength - weights[at]) for at, strength in drawn.items()) <= 0.005 + 1e-6
    note = page.locator(".lines .note")
    expect(note).to_have_text("Lines under 0.01 are not drawn.")


def test_a_click_on_a_token_pins_it_and_a_second_releases_it(
    page: Page, mount: Callable[..., Show]
) -> None:
    weights = some_weights()
    mount("head")(head_payload(weights))
    token = page.locator('svg rect[data-side="query"][data-index="3"]')
    token.click()
    page.mouse.move(0, 0)
    expect(page.locator(".head")).to_have_attribute("data-lock", "q3")
    assert page.locator("svg > g").nth(1).locator("path").count() == int((weights[3] >= 0.01).sum())
    assert "q3" in page.locator(".reading").inner_text()
    token.click()
    expect(page.locator(".head")).to_have_attribute("data-lock", "")
    assert sent(page) == [["lock", {"token": "q3"}], ["lock", {"token": ""}]]


def test_escape_releases_a_pinned_token(page: Page, mount: Callable[..., Show]) -> None:
    mount("head")(head_payload(some_weights(), lock="k4"))
    expect(page.locator(".head")).to_have_attribute("data-lock", "k4")
    page.locator("canvas.cells").focus()
    page.keyboard.press("Escape")
    assert sent(page) == [["lock", {"token": ""}]]


def test_an_older_answer_does_not_undo_a_newer_lock(page: Page, mount: Callable[..., Show]) -> None:
    show = mount("head")
    show(head_payload(some_weights(), lock=""))
    page.locator('svg rect[data-side="key"][data-index="2"]').click()
    page.mouse.move(0, 0)
    show(head_payload(some_weights(), lock="", title="an answer to an earlier edit"))
    expect(page.locator(".head")).to_have_attribute("data-lock", "k2")
    show(head_payload(some_weights(), lock="k2"))
    show(head_payload(some_weights(), lock="q1"))  # now Python's value counts again
    expect(page.locator(".head")).to_have_attribute("data-lock", "q1")


def test_tokens_are_text_and_run_the_right_way(page: Page, mount: Callable[..., Show]) -> None:
    tokens = ["<img src=x onerror=alert(1)>", "</style>", "مرحبا", "漢字", "a" * 80]
    labels = [[token, "<b>note</b>", False] for token in tokens]
    mount("head")(head_payload(some_weights(5, 5), queries=labels, keys=labels))
    point(page, 0, 4)
    assert page.locator(".tip .query").inner_text() == tokens[0]
    assert page.locator(".tip .key").inner_text() == tokens[4]  # in full on hover
    assert page.locator(".head img, .head b").count() == 0
    written = page.locator('svg text.token[data-side="query"]').all_text_contents()
    assert written[2] == "مرحبا"
    assert "…" in written[4]
    assert (
        page.locator("svg text.token").nth(2).evaluate("e => getComputedStyle(e).unicodeBidi")
        == "plaintext"
    )


@pytest.mark.slow
def test_a_long_text_is_painted_whole_and_pooling_says_so(
    page: Page, mount: Callable[..., Show]
) -> None:
    weights = np.zeros((700, 700), np.float32)
    weights[351, 77] = 1
    mount("head")(head_payload(weights))
    expect(page.locator(".map .note")).to_contain_text("Each pixel = largest of")
    point(page, 351, 77)
    assert page.locator(".tip").get_attribute("data-query") in {"350", "351", "352"}
    mount("head")(head_payload(some_weights()))
    expect(page.locator(".map .note")).not_to_contain_text("Each pixel")


def test_the_pictures_of_a_head_can_be_saved(page: Page, mount: Callable[..., Show]) -> None:
    mount("head")(head_payload(some_weights(), queries=[["<a&b>", "", False]] * 5))
    with page.expect_download() as saved:
        save_picture(page, ".map", "PNG")
    assert saved.value.suggested_filename == "a-head.png"
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as saved:
        save_picture(page, ".lines", "SVG")
    texts = [
        t.text
        for t in ElementTree.parse(saved.value.path()).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert texts[0] == "A title"
    assert any(t.startswith("<a") for t in texts)


def test_the_picture_follows_the_theme(page: Page, mount: Callable[..., Show]) -> None:
    show = mount("head")
    show(head_payload(some_weights()))
    assert pixel(page, "canvas.cells", 2, 30) == "#ffffff"
    page.evaluate("colour('--st-background-color', '#10141d')")
    show(head_payload(some_weights()))
    assert pixel(page, "canvas.cells", 2, 30) == "#10141d"


# --- all heads


def overview_payload(n_heads: int = 5, n_layers: int = 3, side: int = 2, **chosen: Any) -> bytes:
    """Return two kinds; head h of layer l has one bright cell at (l, h) modulo the side; the second kind is masked above the diagonal."""
    blocks, parts = [], []
    for offset, kind in ((0, "encoder"), (n_layers * n_heads * side * side, "decoder")):
        blocks.append({
            "kind": kind, "title": f"{kind} title", "subtitle": "who reads whom", "sites": [f"{kind}.{i}" for i in range(n_layers)],
            "largest": [[1.0] * n_heads] * n_layers,
            "layers": list(range(1, n_layers + 1)), "heads": n_heads, "rows": side, "cols": side, "pool": 1, "offset": offset,
        })  # fmt: skip
        codes = np.ones((n_layers, n_heads, side, side), np.uint8)
        for layer in range(n_layers):
            for index in range(n_heads):
                codes[layer, index, layer % side, index % side] = 255
        parts.append(
            codes if kind == "encoder" else np.where(np.triu(np.ones((side, side)), 1), 0, codes)
        )
    codes = np.concatenate([part.ravel() for part in parts]).astype(np.uint8)
    saved = {"file": "one.all-heads", "caption": "", "about": ""}
    return pack(
        {"blocks": blocks, "chosen": {"site": "encoder.0", "head": 0} | chosen, **saved},
        codes=codes,
    )


def cell(page: Page, site: str, index: int) -> Any:
    return page.locator(f'.overview button[data-site="{site}"][data-head="{index}"]')


def test_every_head_has_its_picture_and_its_name(page: Page, mount: Callable[..., Show]) -> None:
    mount("overview", 300)(overview_payload())
    assert page.locator(".overview .grid button").count() == 30
    expect(cell(page, "decoder.1", 4)).to_have_attribute(
        "aria-label", "decoder title, layer 2, head 5"
    )
    box, canvas = boxes(page, cell(page, "encoder.1", 2), ".grid canvas")
    x, y, side = box["x"] - canvas["x"], box["y"] - canvas["y"], box["width"]
    quarters = [(0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75)]
    seen = [page.locator(".grid canvas").first.evaluate(
        "(c, [x, y]) => c.getContext('2d').getImageData(x, y, 1, 1).data.slice(0, 3).join()", [x + side * a, y + side * b],
    ) for a, b in quarters]  # fmt: skip
    assert seen == ["255,255,255", "255,255,255", "27,63,174", "255,255,255"]


def test_hover_names_a_head_and_enlarges_it(page: Page, mount: Callable[..., Show]) -> None:
    mount("overview", 300)(overview_payload())
    cell(page, "decoder.2", 3).hover()
    expect(page.locator(".zoom")).to_be_visible()
    expect(page.locator(".zoom .name")).to_have_text("decoder title: layer 3, head 4")
    assert pixel(page, ".zoom canvas", 50, 150) == "#ffffff"
    page.mouse.move(0, 0)
    expect(page.locator(".zoom")).to_be_hidden()


def test_a_click_chooses_a_head(page: Page, mount: Callable[..., Show]) -> None:
    mount("overview", 300)(overview_payload())
    cell(page, "decoder.2", 3).click()
    expect(cell(page, "decoder.2", 3)).to_have_attribute("aria-pressed", "true")
    assert page.locator('.overview button[aria-pressed="true"]').count() == 1
    assert sent(page) == [["pick", {"site": "decoder.2", "head": 3}]]


def test_the_arrow_keys_walk_over_heads_layers_and_blocks(
    page: Page, mount: Callable[..., Show]
) -> None:
    mount("overview", 300)(overview_payload(site="encoder.1", head=4))
    cell(page, "encoder.1", 4).focus()
    for key in ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowUp"):
        page.keyboard.press(key)
    picks = [(value["site"], value["head"]) for _, value in sent(page)]
    assert picks == [
        ("encoder.1", 3),
        ("encoder.2", 3),
        ("decoder.0", 3),
        ("encoder.2", 3),
        ("encoder.1", 3),
    ]


def test_an_older_answer_does_not_undo_a_newer_choice(
    page: Page, mount: Callable[..., Show]
) -> None:
    show = mount("overview", 300)
    show(overview_payload())
    cell(page, "decoder.2", 3).click()
    show(overview_payload(site="encoder.0", head=1))
    expect(cell(page, "decoder.2", 3)).to_have_attribute("aria-pressed", "true")
    show(overview_payload(site="decoder.2", head=3))
    show(overview_payload(site="encoder.0", head=1))
    expect(cell(page, "encoder.0", 1)).to_have_attribute("aria-pressed", "true")


def test_the_overview_can_be_saved(page: Page, mount: Callable[..., Show]) -> None:
    mount("overview", 300)(overview_payload())
    with page.expect_download() as saved:
        save_picture(page, ".overview", "PNG")
    assert saved.value.suggested_filename == "one.all-heads.png"


def test_twelve_by_twelve_heads_fit_the_width(page: Page, mount: Callable[..., Show]) -> None:
    mount("overview", 290)(overview_payload(12, 12, 64))
    assert page.locator(".overview .grid button").count() == 288
    (last,) = boxes(page, cell(page, "encoder.0", 11))
    assert last["right"] <= 300
