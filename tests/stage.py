"""A stage for the browser components without the app: one page of a real Chromium on which they are shown one after the
other, each as its Python wrapper registers it. Every stroke on a canvas is logged as it is drawn.

Lengths are CSS pixels. The page has two device pixels per CSS pixel, so that a mix-up of the two shows."""

import base64
import csv
import functools
import io
import itertools
import json
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page
from served_app import PATIENCE

from viz_app.components import stamp_payload
from viz_app.components.catalogue import COMPONENTS
from viz_app.drawing.colours import ramp
from viz_app.drawing.payload import pack, unpack

PAPER, ACCENT, INK, ORANGE = "#ffffff", "#1b3fae", "#1d2330", "#b24608"
DARK = {
    "--st-background-color": "#10141d",
    "--st-primary-color": "#8fb1ff",
    "--st-text-color": "#e8ebf2",
}
COLOURS = {
    "--st-background-color": PAPER,
    "--st-primary-color": ACCENT,
    "--st-text-color": INK,
    "--st-font": "sans-serif",
}
HEADS = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#999933", "#882255", "#44aa99", "#aa4499",
    "#117733",
)  # fmt: skip
RATIO = 2
SHARP = 3  # pixels of a saved picture per CSS pixel
SAVED = {
    "caption": "model: m; source: a b",
    "about": "model: m\nsource: a é b\ncounting: from 1",
}  # beside "file" in a payload
SCRIPT = Path(__file__).with_name("stage.js").read_text("utf-8")
NOWHERE = (1275, 1595)


@functools.cache
def parts(name: str) -> dict[str, str]:
    """Return the html, css and js of a component."""
    return COMPONENTS[name].files


class Stage:
    """The page. `mount` puts an empty component on it, `show` gives it a payload; the other methods read the page or act on it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.route(
            "**/*",
            lambda route: route.fulfill(
                content_type="text/html", body="<!doctype html><body></body>"
            ),
        )
        page.goto("http://stage.test/")
        page.evaluate(SCRIPT)
        self.name = ""

    def mount(self, name: str, width: int = 760, **colours: str) -> "Stage":
        self.name = name
        self.page.mouse.move(*NOWHERE)
        self.page.evaluate(
            "([...all]) => stage.mount(...all)", [parts(name), COLOURS | colours, width]
        )
        return self

    def hold_timers(self) -> None:
        """Hold every timer that starts from now on until `end_timers`, however long the machine takes."""
        self.page.evaluate("stage.holdTimers()")

    def end_timers(self) -> None:
        """Let all held timers end, except those that were cleared."""
        self.page.evaluate("stage.endTimers()")

    def beside(self, name: str) -> None:
        """Add another component to the page, to which `show` applies from now on; the one before stays."""
        self.name = name
        self.page.evaluate("([...all]) => stage.beside(...all)", [parts(name), COLOURS, 400])

    def functions(self, name: str, *functions: str) -> None:
        """Mount a component whose own functions can be called as `own.NAME` in the page."""
        opened = parts(name) | {
            "js": parts(name)["js"] + f"\nwindow.own = {{ {', '.join(functions)} }};"
        }
        self.page.evaluate("([...all]) => stage.mount(...all)", [opened, COLOURS, 400])

    def show(self, data: bytes | dict, edition: tuple[int, int] = (1, 1), key: str = "") -> "Stage":
        sent = stamp_payload(data, key or self.name, edition)
        packed = base64.b64encode(sent).decode() if isinstance(sent, bytes) else sent
        self.page.evaluate("(data) => stage.show(data)", packed)
        return self

    def change(self, payload: bytes, _arrays: dict[str, Any] | None = None, **header: Any) -> bytes:
        """Return the payload with these header fields and arrays replaced."""
        fields, arrays = unpack(payload)
        fields.pop("arrays")
        return pack(fields | header, **(arrays | (_arrays or {})))

    @property
    def sent(self) -> list[list[Any]]:
        return self.page.evaluate("stage.sent")

    def js(self, script: str, *values: Any) -> Any:
        """Call a function of the component's root, and of more values, in the page and return its result."""
        found = self.page.evaluate(
            f"async (values) => JSON.stringify(await ({script})(stage.root, ...values))",
            list(values),
        )
        return None if found is None else json.loads(found)

    def texts(self, selector: str) -> list[str]:
        return self.js(
            "(root, all) => [...root.querySelectorAll(all)].map((e) => e.textContent)", selector
        )

    def text(self, selector: str) -> str:
        return self.js("(root, one) => root.querySelector(one).textContent", selector)

    def attrs(self, selector: str, *names: str) -> list[Any]:
        """Return the attribute of each element, or, for several names, a dict of them."""
        found = self._attrs(selector, names)
        return (
            [row[0] for row in found]
            if len(names) == 1
            else [dict(zip(names, row, strict=True)) for row in found]
        )

    def attr(self, selector: str, name: str) -> str | None:
        return self.attrs(selector, name)[0]

    def elements(self, selector: str, *names: str) -> list[list[Any]]:
        """Return the text and these attributes of each element."""
        return [
            [text, *row]
            for text, row in zip(self.texts(selector), self._attrs(selector, names), strict=True)
        ]

    def _attrs(self, selector: str, names: Iterable[str]) -> list[list[Any]]:
        script = "(root, all, names) => [...root.querySelectorAll(all)].map((e) => names.map((n) => e.getAttribute(n)))"
        return self.js(script, selector, names)

    def css(self, selector: str, name: str) -> list[str]:
        return self.js(
            "(root, all, name) => [...root.querySelectorAll(all)].map((e) => getComputedStyle(e)[name])",
            selector,
            name,
        )

    def data(self, selector: str) -> dict[str, str]:
        return self.js("(root, one) => ({ ...root.querySelector(one).dataset })", selector)

    def hidden(self, selector: str) -> bool:
        return self.js("(root, one) => root.querySelector(one).hidden", selector)

    def box(self, selector: str, n: int = 0) -> dict[str, float]:
        """Return where an element is in the window: left, top, width, height, right, bottom."""
        return self.js(
            "(root, all, n) => root.querySelectorAll(all)[n].getBoundingClientRect().toJSON()",
            selector,
            n,
        )

    def drawn(self, canvas: str, op: str = "", n: int = 0) -> list[dict[str, Any]]:
        """Return the operations on a canvas in drawing order: "text", "rect", "frame", "path", "image", or "copy" with
        the operations on the canvas that it is a copy `of`."""
        return self.js(
            "(root, all, n, op) => stage.log(root.querySelectorAll(all)[n]).filter((one) => !op || one.op === op)",
            canvas,
            n,
            op,
        )

    def written(self, canvas: str, n: int = 0) -> dict[str, dict[str, Any]]:
        """Return the texts on a canvas, each once, with their positions and styles."""
        return {one["text"]: one for one in self.drawn(canvas, "text", n)}

    def pixels(self, canvas: str, n: int = 0) -> "Pixels":
        wide, tall, raw = self.js(
            "(root, all, n) => stage.pixels(root.querySelectorAll(all)[n])", canvas, n
        )
        return Pixels(wide, tall, raw)

    def move(self, selector: str, x: float, y: float, n: int = 0) -> None:
        """Move the pointer to a point in an element."""
        box = self.box(selector, n)
        self.page.mouse.move(box["left"] + x, box["top"] + y)

    def away(self) -> None:
        self.page.mouse.move(*NOWHERE)

    def click(
        self, selector: str, x: float | None = None, y: float | None = None, n: int = 0
    ) -> None:
        box = self.box(selector, n)
        self.page.mouse.click(
            box["left"] + (box["width"] / 2 if x is None else x),
            box["top"] + (box["height"] / 2 if y is None else y),
        )

    def keeps_the_keyboard(self, selector: str, data: bytes) -> bool:
        """Return whether the last of these elements keeps the focus when other data is shown."""
        self.js(
            "(root, all) => { window.held = [...root.querySelectorAll(all)].at(-1); held.focus(); }",
            selector,
        )
        self.show(data)
        return self.js("(root) => root.activeElement === held")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def saved(self, selector: str = ".save") -> tuple[str, str, bytes]:
        """Return the file that a button saves: its name, its type and its content."""
        name, kind, raw = self.js("(root, one) => stage.saved(root.querySelector(one))", selector)
        return name, kind, base64.b64decode(raw)

    def saved_tables(self, selector: str = ".save.csv") -> tuple[str, str, list[list[list[str]]]]:
        """Return the CSV that a button saves: its name, its facts, and the rows of each of its tables."""
        name, kind, raw = self.saved(selector)
        assert kind == "text/csv"
        lines = raw.decode().splitlines(keepends=True)
        about = list(itertools.takewhile(lambda line: line.startswith("# "), lines))
        tables = "".join(lines[len(about) :]).strip().split("\r\n\r\n")
        known = "".join(line.removeprefix("# ").replace("\r", "") for line in about).strip()
        return name, known, [list(csv.reader(io.StringIO(table))) for table in tables]

    def saved_picture(
        self, selector: str = ".png", known: dict[str, Any] = SAVED
    ) -> tuple[str, "Pixels", list[dict[str, Any]]]:
        """Return the PNG that a button saves, after checking the facts inside it: its name, its pixels as read back from the
        file, and the operations that drew it."""
        name, kind, raw = self.saved(selector)
        assert kind == "image/png"
        assert described(raw) == known["about"]
        wide, tall, pixels = self.page.evaluate(
            "(raw) => stage.decoded(raw)", base64.b64encode(raw).decode()
        )
        drawn = self.js("() => stage.log(stage.saving())")
        if drawn[-1]["op"] == "text":  # a drawing is copied as a whole
            assert known["caption"].endswith(drawn[-1]["text"])
        return name, Pixels(wide, tall, pixels, SHARP), drawn

    def saved_svg(
        self, selector: str = ".svg", known: dict[str, Any] = SAVED
    ) -> tuple[str, ElementTree.Element]:
        """Return the SVG that a button saves, after checking its facts and its caption: its name and its root."""
        name, kind, raw = self.saved(selector)
        assert kind == "image/svg+xml"
        root = ElementTree.fromstring(raw)
        wide, tall = root.get("width"), root.get("height")
        assert root.get("viewBox") == f"0 -30 {wide} {tall}"
        paper, heading = root[0], root[1]
        assert [part.tag.rpartition("}")[2] for part in (root, paper, heading)] == [
            "svg",
            "rect",
            "text",
        ]
        assert [paper.get(name) for name in ("x", "y", "width", "height")] == [
            "0",
            "-30",
            wide,
            tall,
        ]
        assert [heading.get(name) for name in ("x", "y", "font-size", "font-weight")] == [
            "8",
            "-11",
            "13",
            "600",
        ]
        caption, inside = root[-2], root[-1]
        assert (inside.tag.rpartition("}")[2], inside.text) == ("metadata", known["about"])
        assert " ".join(line.text for line in caption).split() == known["caption"].split()
        foots = [float(line.get("y")) for line in caption]
        assert foots == sorted(foots)
        assert float(caption.get("font-size")) >= 12
        assert foots[-1] + 4 < float(tall) - 30
        return name, root

    def frames(self, n: int = 2) -> None:
        """Let the browser lay out and paint."""
        self.page.evaluate("(n) => stage.frames(n)", n)


class Pixels:
    """The pixels of a canvas, by position in CSS pixels."""

    def __init__(self, wide: int, tall: int, runs: str, ratio: int = RATIO) -> None:
        lengths, colours = np.frombuffer(base64.b64decode(runs), "<u4").reshape(-1, 2).T
        self.wide, self.tall, self.ratio = wide, tall, ratio
        self.all = np.repeat(colours, lengths).reshape(tall, wide)

    @staticmethod
    def _name(colour: int) -> str:
        return "#" + int(colour).to_bytes(4, "little")[:3].hex()

    def at(self, x: float, y: float) -> str:
        """Return the colour at a point, as #rrggbb."""
        return self._name(self.all[int(y * self.ratio), int(x * self.ratio)])

    def within(self, x: float, y: float, wide: float, tall: float) -> set[str]:
        """Return all colours in a rectangle."""
        part = self.all[
            int(y * self.ratio) : int((y + tall) * self.ratio),
            int(x * self.ratio) : int((x + wide) * self.ratio),
        ]
        return {self._name(colour) for colour in np.unique(part)}


def described(png: bytes) -> str:
    """Return the text that follows the header of a PNG, under the keyword Description."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    length = int.from_bytes(png[33:37], "big")
    kind, content, crc = png[37:41], png[41 : 41 + length], png[41 + length : 45 + length]
    assert (kind, zlib.crc32(kind + content)) == (b"iTXt", int.from_bytes(crc, "big"))
    keyword, compression, text = content[:12], content[12:16], content[16:]
    assert (keyword, compression) == (b"Description\0", b"\0\0\0\0")
    return text.decode()


def alike(one: str, other: str, by: int = 1) -> bool:
    """Return whether two colours are the same up to rounding."""
    return all(abs(int(one[i : i + 2], 16) - int(other[i : i + 2], 16)) <= by for i in (1, 3, 5))


def weight_colour(weight: float, paper: str = PAPER, accent: str = ACCENT) -> str:
    """Return the colour of a weight, of which a picture has 255 steps."""
    return ramp(round(weight * 254) / 254, paper, accent)


def signed_colour(
    value: float, scale: float, paper: str = PAPER, accent: str = ACCENT, below: str = ORANGE
) -> str:
    """Return the colour of a signed number on a scale, of which a picture has 127 steps either way."""
    share = max(-1.0, min(1.0, value / scale)) if scale else 0.0
    return ramp(round(abs(share) * 127) / 127, paper, below if share < 0 else accent)


def mixed(share: float, paper: str = PAPER, ink: str = INK) -> str:
    """Return a colour between the page's and its text's."""
    ends = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in (paper, ink)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(*ends, strict=True))


def near(values: Iterable[float | str], expected: float, by: float = 0.01) -> bool:
    """Return whether all these numbers are close to the expected ones."""
    return all(abs(float(value) - expected) <= by for value in values)


QUIET, LINE, HATCH = mixed(0.62), mixed(0.18), mixed(0.38)


def hex_of(colour: str) -> str:
    """Convert "rgb(1, 2, 3)" or "rgb(1 2 3)" to #010203."""
    if colour.startswith("#"):
        return colour.lower()
    return "#" + "".join(f"{int(v):02x}" for v in colour[4:-1].replace(",", " ").split())


@pytest.fixture(scope="module")
def stage_page(browser: Browser) -> Iterator[Stage]:
    context = browser.new_context(
        viewport={"width": 1280, "height": 1600}, device_scale_factor=RATIO
    )
    context.set_default_timeout(PATIENCE)
    yield Stage(context.new_page())
    context.close()


@pytest.fixture
def stage(stage_page: Stage) -> Iterator[Stage]:
    """The stage, shared by all tests of a file. An error in the page's JavaScript fails the test."""
    yield stage_page
    errors, stage_page.errors = stage_page.errors, []
    assert not errors, f"errors in the browser: {json.dumps(errors)}"
