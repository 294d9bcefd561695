"""Common features of all picture files: the caption in lines, the formats in one menu, the pixels and words of a PDF."""

import base64
import re
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest
from stage import SAVED, SHARP, Stage

from . import test_drawn_shuffle as shuffle
from . import test_drawn_states as states

SVG = "{http://www.w3.org/2000/svg}"


def test_a_caption_is_broken_between_words_and_within_one_that_is_longer_than_a_line(
    stage: Stage,
) -> None:
    stage.functions("head", "wrapped")

    def lines(text: str, room: int) -> list[str]:
        return stage.js(
            "(root, text, room) => own.wrapped(text, room, (part) => part.length)", text, room
        )

    assert lines("one two three", 7) == ["one two", "three"]
    assert lines("one two three", 6) == ["one", "two", "three"]
    assert lines("  one   two ", 20) == ["one two"]
    assert lines("a abcdefghij k", 4) == ["a", "abcd", "efgh", "ij k"]
    assert lines("", 9) == []


class Pdf:
    """A PDF read back through its table of objects: the size of its page, the pixels of its picture, its words and its metadata."""

    def __init__(self, raw: bytes) -> None:
        assert raw.startswith(b"%PDF-1.7")
        start = int(re.search(rb"startxref\n(\d+)\n%%EOF\n$", raw)[1])
        assert raw[start : start + 5] == b"xref\n"
        places = [int(one) for one in re.findall(rb"(\d{10}) 00000 n", raw[start:])]
        self.objects = {}
        for number, place in enumerate(places, 1):
            head = f"{number} 0 obj\n".encode()
            assert raw[place : place + len(head)] == head
            body = raw[place + len(head) :]
            length = re.match(rb"<< /Length (\d+)", body)
            if length:
                begin = body.index(b"stream\n") + 7
                content = body[begin : begin + int(length[1])]
                assert body[begin + int(length[1]) :].startswith(b"\nendstream")
                self.objects[number] = body[:begin], zlib.decompress(content)
            else:
                self.objects[number] = body[: body.index(b"\nendobj")], b""
        self.size = [
            float(one) for one in re.search(rb"MediaBox \[0 0 (\S+) (\S+)\]", raw).groups()
        ]

    def pixels(self) -> np.ndarray:
        head, data = self.objects[5]
        wide, tall = (
            int(re.search(rb"/%s (\d+)" % name, head)[1]) for name in (b"Width", b"Height")
        )
        rows = np.frombuffer(data, np.uint8).reshape(tall, 1 + 3 * wide)
        assert (rows[:, 0] == 2).all()  # as differences from the row above
        return rows[:, 1:].cumsum(0, dtype=np.uint8).reshape(tall, wide, 3)

    def words(self) -> list[tuple[str, float, float]]:
        """Each text with the point where it begins, in points from the lower left."""
        fonts = [
            (int(name), int(number))
            for name, number in re.findall(rb"/F(\d+) (\d+) 0 R", self.objects[3][0])
        ]
        signs = {}
        for name, number in fonts:
            meanings = int(re.search(rb"/ToUnicode (\d+) 0 R", self.objects[number][0])[1])
            for code, value in re.findall(rb"<(..)> <(\w+)>\n", self.objects[meanings][1] + b"\n"):
                signs[name, int(code, 16)] = bytes.fromhex(value.decode()).decode("utf-16-be")
        found = []
        for line in self.objects[4][1].decode().splitlines()[1:]:
            *_, x, y = re.search(r"Tz (.*) Tm", line)[1].split()
            parts = re.findall(r"/F(\d+) \S+ Tf <(..)> Tj", line)
            found.append(("".join(signs[int(f), int(c, 16)] for f, c in parts), float(x), float(y)))
        return found

    def said(self, name: str) -> str:
        raw = re.search(rf"/{name} <(\w+)>".encode(), self.objects[6][0])[1]
        return bytes.fromhex(raw.decode()).decode("utf-16")


def png_pixels(stage: Stage, selector: str) -> np.ndarray:
    _, kind, raw = stage.saved(selector)
    assert kind == "image/png"
    return rgb(*stage.page.evaluate("(raw) => stage.decoded(raw)", base64.b64encode(raw).decode()))


def rgb(wide: int, tall: int, runs: str) -> np.ndarray:
    lengths, colours = np.frombuffer(base64.b64decode(runs), "<u4").reshape(-1, 2).T
    packed = np.repeat(colours, lengths).reshape(tall, wide)
    return np.stack([packed >> shift & 255 for shift in (0, 8, 16)], -1).astype(np.uint8)


def states_shown(stage: Stage) -> None:
    stage.mount("states", 700).show(states.payload())


def draw(stage: Stage, kind: str) -> None:
    if kind == "svg":
        shuffle.shuffle_shown(stage)
    else:
        states_shown(stage)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["canvas", "svg"])
def test_a_pdf_is_a_file_with_the_pixels_of_the_png_and_its_words(stage: Stage, kind: str) -> None:
    draw(stage, kind)
    name, mime, raw = stage.saved(".pdf")
    assert (name.rpartition(".")[2], mime) == ("pdf", "application/pdf")
    pdf, pixels = Pdf(raw), png_pixels(stage, ".png")
    tall, wide, _ = pixels.shape
    assert pdf.size == pytest.approx([wide / SHARP * 0.75, tall / SHARP * 0.75], abs=0.01)
    assert (pdf.pixels() == pixels).all()
    assert pdf.said("Subject") == SAVED["about"]
    words = pdf.words()
    said = {text for text, *_ in words}
    assert pdf.said("Title") in said
    assert SAVED["caption"] in said
    assert len(said) > 8
    # at the position of a word, the picture has ink on paper of one colour
    for text, x, y in words:
        left, foot = round(x / 0.75 * SHARP), round(tall - y / 0.75 * SHARP)
        part = pixels[max(0, foot - 30) : foot + 4, max(0, left - 2) : left + 30]
        assert 0 <= x <= pdf.size[0], text
        assert 0 <= y <= pdf.size[1], text
        assert part.size == 0 or part.min() < part.max(), text


@pytest.mark.parametrize("kind", ["canvas", "svg"])
def test_each_picture_has_the_same_formats_in_one_menu(stage: Stage, kind: str) -> None:
    draw(stage, kind)
    assert stage.texts(".take .open") == ["Save"]
    assert stage.texts(".take .formats button") == ["PNG", "SVG", "PDF", "CSV"]
    stage.click(".take .open")
    stage.frames()
    for n in range(4):
        assert stage.box(".take .formats button", n)["width"] > 20
    stage.press("Escape")
    assert stage.box(".take .formats button")["width"] == 0
    assert stage.js("(root) => root.activeElement.className") == "open"
    _, about, (rows, *_) = stage.saved_tables()
    assert about == SAVED["about"]
    assert len(rows) > 2
    assert all(rows[0])  # the name of its first table, and its columns
    assert len(rows[1]) == len(rows[0])


def test_a_canvas_as_svg_has_its_words_as_words(stage: Stage) -> None:
    states_shown(stage)
    _, mime, raw = stage.saved(".svg")
    assert mime == "image/svg+xml"
    root = ElementTree.fromstring(raw)
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert SAVED["caption"] in texts
    assert root.find(f"{SVG}metadata").text == SAVED["about"]
    (image,) = root.iter(f"{SVG}image")
    held = base64.b64decode(image.get("href").partition(",")[2])
    decoded = stage.page.evaluate("(raw) => stage.decoded(raw)", base64.b64encode(held).decode())
    top = rgb(*decoded)[: 30 * SHARP]
    assert (top == top[0, 0]).all()  # the title is not part of the image


def test_a_link_stays_the_same_while_its_page_is_redrawn(stage: Stage) -> None:
    stage.mount("files").show(
        {"files": [{"label": "A, CSV", "url": "a"}, {"label": "B", "url": "b"}]}
    )
    again = {"files": [{"label": "A, CSV", "url": "c"}, {"label": "C", "url": "d"}]}
    stage.js("(root) => { [window.first] = root.querySelectorAll('a'); first.focus(); }")
    stage.show(again, (2, 1))
    assert stage.js("(root) => root.activeElement === first && root.querySelector('a') === first")
    assert stage.elements("a", "href") == [["A, CSV", "c"], ["C", "d"]]
    stage.show({"files": again["files"][1:]}, (3, 1))
    assert stage.elements("a", "href") == [["C", "d"]]
