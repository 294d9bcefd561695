"""The component `layer` by itself: every bar, number, strip and token, with hover, click and keyboard."""

import functools
from typing import Any

import drawn
import numpy as np
import pytest
from drawn import SVG
from stage import Stage, alike, weight_colour

from viz_app.drawing.payload import pack, unpack
from viz_app.session.current_run import CurrentRun
from viz_app.views.layer import payloads
from viz_app.views.layer.token_view import LayerChoices, token_view

ROWS = "(root) => [...root.querySelectorAll('.all g')]"


@functools.cache
def payload(
    family: str = "transformer", stream: str = "target", layer: int | None = 1, position: int = 2
) -> bytes:
    scope = drawn.letters(family)
    run = CurrentRun(scope, scope.run("abcde", "edc"))
    return payloads.layer_payload(token_view(run, LayerChoices(stream, layer, position)))


def shown(
    stage: Stage, width: int = 960, **how: Any
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    stage.mount("layer", width).show(payload(**how))
    return unpack(payload(**how))


def brief(value: float) -> str:
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}".replace("-", "−")


def tip(stage: Stage) -> dict[str, str]:
    return stage.data(".tip") | {"what": stage.text(".tip .what")}


def test_every_stop_shows_its_numbers(stage: Stage) -> None:
    header, _ = shown(stage, 1500)
    assert [stage.text(part) for part in ("h2", ".all h3", ".one h3")] == [
        header[n] for n in ("title", "allTitle", "oneTitle")
    ]
    rows = stage.js(f"{ROWS}.map((g) => [...g.querySelectorAll('text')].map((t) => t.textContent))")
    assert len(rows) == 7
    for i, (texts, stop) in enumerate(zip(rows, header["stops"], strict=True)):
        named = [stop["layer"]] * (i in (1, 4)) + [stop["name"]]
        numbers = [] if i == 0 else [brief(stop["added"]), brief(stop["direction"])]
        assert texts[: len(named) + len(numbers) + 1] == [*named, *numbers, brief(stop["length"])]
        (best, _, _), _ = stop["best"][0]
        assert best in texts
    wide = "(r) => Number(r.getAttribute('width'))"
    bars = stage.js(
        f"{ROWS}.map((g) => [...g.querySelectorAll('rect[fill-opacity=\"0.28\"]')].map({wide}))"
    )
    added = [row[0] for row in bars[1:]]
    wanted = np.array([stop["added"] for stop in header["stops"][1:]])
    np.testing.assert_allclose(np.array(added) / max(added), wanted / wanted.max(), atol=0.01)
    lengths = np.array([row[0 if i == 0 else 1] for i, row in enumerate(bars)])
    wanted = np.array([stop["length"] for stop in header["stops"]])
    np.testing.assert_allclose(lengths / lengths.max(), wanted / wanted.max(), atol=0.01)
    assert [g == "true" for g in stage.attrs(".all g[role=button]", "aria-pressed")] == [
        False
    ] * 3 + [True] * 3


def test_a_predicted_token_is_shaded_by_its_probability(stage: Stage) -> None:
    header, _ = shown(stage)
    fills = stage.js(f"{ROWS}.map((g) => g.querySelector('rect[rx]').getAttribute('fill'))")
    for fill, stop in zip(fills, header["stops"], strict=True):
        rgb = "#" + "".join(
            f"{int(part):02x}" for part in fill.removeprefix("rgb(").removesuffix(")").split()
        )
        assert alike(rgb, weight_colour(stop["best"][0][1]))


@pytest.mark.parametrize("rows", [
    {0.0: "0%", 0.00099: "0.1%", 0.0004: "0.04%", 0.0123: "1.2%", 0.0994: "9.9%", 0.0996: "10%", 0.376: "38%"},
    {0.0996: "10%", 0.1249: "12%", 0.6251: "63%", 0.9941: "99%", 0.9949: "99%", 0.9954: "99.5%", 1.0: "100%"},
    {0.9996: "99.96%", 0.9999999: ">99.99%", 1e-6: "<0.01%", 0.0305: "3.0%", 0.1051: "11%", 0.5: "50%", 0.003: "0.3%"},
])  # fmt: skip
def test_a_probability_is_rounded_sensibly(stage: Stage, rows: dict[float, str]) -> None:
    """Only exact 0 and 1 are shown as such; every stop has a probability of the first choice and of the answer."""
    header, arrays = unpack(payload())
    for stop, p, first in zip(header["stops"], rows, reversed(rows), strict=True):
        stop["answer"], stop["best"][0][1] = p, first
    stage.mount("layer", 1500).show(pack(header, **arrays))
    shown = stage.js(
        f"{ROWS}.map((g) => [...g.querySelectorAll('text')].map((t) => t.textContent))"
    )
    for texts, answer, first in zip(shown, rows.values(), reversed(rows.values()), strict=True):
        percents = [text for text in texts if text.endswith("%")]
        assert percents[:2] == [answer, first]


def test_hovering_shows_every_digit(stage: Stage) -> None:
    header, arrays = shown(stage)
    pads = ".all g:nth-of-type(3) rect[fill=transparent]:not(.hit)"
    for n, (column, say) in enumerate(
        [
            ("added", "length of what it adds"),
            ("direction", "cosine with the stream it read"),
            ("length", "length of the stream after it"),
        ]
    ):
        box = stage.box(pads, n)
        stage.move(pads, box["width"] / 2, 8, n)
        said = tip(stage)
        assert said["what"] == f"layer 1, cross-attention: {say}"
        assert (said["column"], said["line"]) == (column, "2")
        assert np.float32(said["value"]) == np.float32(header["stops"][2][column])
    row = next(i for i, row in enumerate(header["rows"]) if row["kind"] == "firing")
    values, pad = arrays[header["rows"][row]["array"]], ".one rect[fill=transparent]"
    width = stage.box(pad, 4 * row)["width"]
    for cell in (0, 17, len(values) - 1):
        stage.move(pad, width * (cell + 0.5) / len(values), 10, 4 * row)
        assert tip(stage)["what"] == f"ReLU(x·W₁ + b₁), number {cell + 1} of {len(values)}"
        assert np.float32(tip(stage)["value"]) == values[cell]
    stage.away()
    assert stage.hidden(".tip")


def test_the_layer_in_full_has_its_numbers(stage: Stage) -> None:
    header, _ = shown(stage, 1500)
    texts = stage.texts(".one text")
    for row in header["rows"]:
        at = texts.index(row["name"], 5)
        assert texts[at + 1 : at + 4] == [
            brief(row[name]).replace("−0.00", "0.00") for name in ("length", "mean", "spread")
        ]
        del texts[at]
    assert stage.text(".firing") == header["firing"]
    assert len(stage.attrs(".one image", "href")) == len(header["rows"])


def test_a_row_and_a_token_are_clicked_and_reached_by_the_keyboard(stage: Stage) -> None:
    shown(stage)
    stage.click(".all g[role=button] text", n=2)
    stage.click(".tokens button", n=3)
    stage.js("(root) => root.querySelectorAll('.all g[role=button]')[4].focus()")
    stage.press("Enter", " ")
    assert [news for _, news in stage.sent] == [
        {"site": "decoder.layers.0.self_attn"}, {"token": 3}, *[{"site": "decoder.layers.1.self_attn"}] * 2,
    ]  # fmt: skip
    stage.show(payload(position=3), (2, 1))
    assert (
        stage.js(
            "(root) => root.activeElement?.dataset?.line ?? root.getRootNode().activeElement?.dataset?.line"
        )
        == "5"
    )
    assert stage.attrs(".tokens button", "aria-pressed").index("true") == 3


def test_without_predictions_it_says_why_and_has_no_column_of_tokens(
    stage: Stage,
) -> None:
    header, _ = shown(stage, stream="source", layer=0)
    assert stage.text(".without") == header["without"]
    assert "top predictions here" not in stage.texts(".all text")
    assert stage.js("(root) => root.querySelectorAll('.all rect[rx]').length") == 0


@pytest.mark.parametrize("width", [375, 560, 960, 1600])
@pytest.mark.parametrize("family", ["transformer", "attention only"])
def test_it_fits_every_width_with_legible_letters(stage: Stage, width: int, family: str) -> None:
    shown(stage, width, family=family, layer=1)
    assert min(map(float, stage.attrs("svg text", "font-size"))) >= 12
    outside = stage.js("""(root) => [...root.querySelectorAll("svg text, svg rect, svg image")].filter((part) => {
        const box = part.getBoundingClientRect(), svg = part.closest("svg").getBoundingClientRect();
        return box.left < svg.left - 2 || box.right > svg.right + 2 || box.bottom > svg.bottom + 2;
    }).map((part) => part.outerHTML)""")
    assert outside == []


def test_nothing_moves_when_another_text_is_shown(stage: Stage) -> None:
    shown(stage)
    places = [stage.box(part) for part in (".tokens", ".all svg", ".one svg", ".firing", ".note")]
    scope = drawn.letters("transformer")
    for texts in (("a", "b"), ("abcdeab", "abcdedcbae"), ("abcde", "edc")):
        run = CurrentRun(scope, scope.run(*texts))
        stage.show(payloads.layer_payload(token_view(run, LayerChoices("target", 1, 2))))
        assert [
            stage.box(part) for part in (".tokens", ".all svg", ".one svg", ".firing", ".note")
        ] == places


@pytest.mark.slow
def test_each_panel_is_saved_as_a_drawing(stage: Stage) -> None:
    header, _ = shown(stage)
    for n, (section, part) in enumerate([(".all", "layers"), (".one", "layer")]):
        name, root = stage.saved_svg(f"{section} .svg", header)
        assert name == f"letters.decoder.token3.{part}.svg"
        texts = [text.text for text in root.iter(f"{SVG}text")]
        assert f"{header['title']}. {header[('allTitle', 'oneTitle')[n]]}" in texts
        assert "feed-forward" in texts or "+ feed-forward" in texts
        width, height = (float(root.get(side)) for side in ("width", "height"))
        name, pixels, _ = stage.saved_picture(f"{section} .png", header)
        assert name == f"letters.decoder.token3.{part}.png"
        assert (pixels.wide, pixels.tall) == (
            pytest.approx(3 * width, abs=3),
            pytest.approx(3 * height, abs=3),
        )
        assert (
            len(pixels.within(0, 0, pixels.wide / 2, pixels.tall / 2)) > 20
        )  # it is drawn, not blank
