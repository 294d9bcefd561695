"""Saved pages opened from disk in a Chromium without a network: hover, click and pin; and two of them in one notebook."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn import letters
from playwright.sync_api import Browser, FrameLocator, Page, expect
from served_app import boxes, cell_of, frames, resize

import viz_app
from models.trace import Trace
from models.trace.edits import HeadOff, MaskChange, for_kinds
from viz_app import notebook
from viz_app.notebook import Picture, compare, head, heads, lines, mask

TEXT, TARGET = "abcdeab", "edcb"
WIDE, NARROW = {"width": 1280, "height": 720}, {"width": 400, "height": 720}
OVERVIEW, HEAD = ".st-key-overview", ".st-key-head"


@pytest.fixture(scope="module")
def run() -> Trace:
    return letters().run(TEXT, TARGET)


@pytest.fixture
def offline(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """A function that opens a picture or a whole page from a file with the network off; any network request or error fails the
    test."""
    wrong: list[str] = []
    contexts = []

    def opened(picture: Picture | str, scheme: str = "light", size: dict[str, int] = WIDE) -> Page:
        context = browser.new_context(viewport=size, color_scheme=scheme)
        context.set_offline(True)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda asked: (
                wrong.append(asked.url) if not asked.url.startswith(("file:", "blob:")) else None
            ),
        )
        path = tmp_path / f"{len(contexts)}.html"
        picture.save(path) if isinstance(picture, Picture) else path.write_text(picture, "utf-8")
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong


def point(page: Page | FrameLocator, query: int, key: int) -> np.float32:
    """Move onto a cell of the head and return its weight from the tip."""
    cells = page.locator(".head canvas.cells")
    cells.hover(position=cell_of(cells, query, key))
    return np.float32(
        page.locator(".head .tip .value")
        .inner_text()
        .removeprefix("largest ")
        .removeprefix("weight ")
    )


def test_the_page_of_a_head_shows_the_runs_numbers_and_pins_tokens(
    run: Trace, offline: Callable[..., Page]
) -> None:
    page, site = offline(head(run, 2, 3)), run.attention["decoder.layers.1.cross_attn"]
    weights = site.weights(2).numpy()
    expect(page.locator(".head")).to_have_attribute("data-site", site.name)
    for query, key in ((0, 7), (4, 0), (2, 3)):
        assert point(page, query, key) == weights[query, key]
    key = int(weights.max(0).argmax())
    page.locator(f'.head rect[data-side="key"][data-index="{key}"]').click()
    expect(page.locator(".head")).to_have_attribute("data-lock", f"k{key}")
    expect(page.locator(".head .reading")).to_contain_text(f"{weights[:, key].max():.2f}")
    page.mouse.move(2, 700)
    expect(page.locator(".head .reading")).to_contain_text("Pinned")
    expect(page.locator(".about")).to_contain_text(run.model.fingerprint[:12])
    assert page.title() == head(run, 2, 3).title


def test_a_click_on_a_head_opens_it_with_its_numbers(
    run: Trace, offline: Callable[..., Page]
) -> None:
    page = offline(heads(run))
    weights = run.attention["decoder.layers.1.self_attn"].weights(0).numpy()
    page.locator('button[data-site="decoder.layers.1.self_attn"][data-head="0"]').click()
    expect(page.locator(".head")).to_have_attribute("data-site", "decoder.layers.1.self_attn")
    assert point(page, 4, 1) == weights[4, 1]
    expect(page.locator(".call")).to_be_hidden()
    page.locator('button[aria-pressed="true"]').press("ArrowRight")
    expect(page.locator(".head")).to_have_attribute("data-head", "1")
    overview, one = boxes(page, OVERVIEW, HEAD)
    assert one["x"] >= overview["right"]
    resize(page, **NARROW)
    overview, one = boxes(page, OVERVIEW, HEAD)
    assert one["y"] >= overview["bottom"]
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


@pytest.mark.slow
def test_a_click_on_a_head_in_the_pages_that_the_readme_saves(
    offline: Callable[..., Page], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may round the last bit differently; this one does not, so the saved numbers are exactly this run's."""
    monkeypatch.chdir(tmp_path)
    readme = (Path(viz_app.__file__).parents[1] / "README.md").read_text("utf-8")
    opened, drawn = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[:2]
    made: dict[str, Any] = {}
    exec(opened + drawn, made)
    of_one = offline((tmp_path / "head.html").read_text("utf-8"))
    site = made["trace"].attention["decoder.layers.1.cross_attn"]
    expect(of_one.locator(".head")).to_have_attribute("data-site", site.name)
    weights = site.weights(2).numpy()
    assert point(of_one, 1, 2) == weights[1, 2]
    of_all = offline(heads(made["trace"]))
    of_all.locator(f'button[data-site="{site.name}"][data-head="2"]').click()
    expect(of_all.locator(".head")).to_have_attribute("data-site", site.name)
    for query, key in ((0, 0), (1, 2), (weights.shape[0] - 1, weights.shape[1] - 1)):
        assert point(of_all, query, key) == weights[query, key]
    of_all.locator('.head rect[data-side="query"][data-index="1"]').click()
    expect(of_all.locator(".head")).to_have_attribute("data-lock", "q1")


def test_a_head_that_is_not_carried_is_named_with_its_call(
    run: Trace, offline: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "MAX_EMBEDDED", 10)
    page = offline(heads(run))
    expect(page.locator(".call")).to_be_hidden()
    page.locator('button[data-site="decoder.layers.1.self_attn"][data-head="2"]').click()
    expect(page.locator(".call code")).to_have_text(
        'head(run, layer=2, head=3, kind="decoder_self")'
    )


@pytest.mark.slow
def test_blocks_of_a_long_text_hide_sinks_and_name_the_call_for_a_part(
    offline: Callable[..., Page],
) -> None:
    long = letters("gpt", n_ctx=700).run("abcde" * 120)
    page, weights = (
        offline(head(long, 1, 2)),
        next(iter(long.attention.values())).weights(1).numpy(),
    )
    expect(page.locator(".head")).to_have_attribute("data-block", "3")
    assert point(page, 40, 0) == weights[120:123, 0:3].max()
    page.locator(".head .sinks input").check()
    assert point(page, 40, 0) == weights[120:123, 1:3].max()
    page.locator(".head canvas.cells").click()
    said = page.locator(".call code").inner_text()
    assert said.startswith('head(run, layer=1, head=2, kind="self", around=(')


def test_lines_are_pinned_sorted_and_named(run: Trace, offline: Callable[..., Page]) -> None:
    page = offline(lines(run, [(1, 2), (2, 3)], kind="decoder_self"))
    view = page.locator(".several")
    expect(view).to_have_attribute("data-chosen", "1 5")
    page.locator('.several rect[data-side="query"][data-index="2"]').click()
    expect(view).to_have_attribute("data-query", "2")
    page.locator('.several rect[data-side="query"][data-index="2"]').click()
    expect(view).to_have_attribute("data-query", "-1")
    page.locator(".several thead button", has_text="Diagonal").click()
    expect(view).to_have_attribute("data-measure", "diagonal")
    page.locator(".several tbody tr", has_text="1.1").locator("input").click()
    expect(page.locator(".call code")).to_have_text(
        'lines(run, [(1, 1), (1, 2), (2, 3)], kind="decoder_self")'
    )


def test_masks_are_shown_and_cannot_be_painted(offline: Callable[..., Page]) -> None:
    scope, edits = letters(), for_kinds(cross=MaskChange(block=((2, 3),)))
    page = offline(mask(scope.run(TEXT, TARGET, edits=edits), scope.run(TEXT, TARGET)))
    view, cells = page.locator(".masks"), page.locator(".masks .paintable canvas.cells")
    expect(view).to_have_attribute("data-kind", "cross")
    for query, key, reads in ((2, 3, "may not attend to"), (2, 4, "may attend to")):
        cells.click(position=cell_of(view, query, key))
        expect(page.locator(".masks .said")).to_contain_text(reads)
        cells.press(" ")
        expect(page.locator(".masks .said")).to_contain_text("may")
    cells.hover(position=cell_of(view, 2, 4))
    expect(page.locator(".masks .said")).to_contain_text("may attend to")
    expect(page.locator(".masks .painting .legend")).not_to_contain_text("you")
    page.locator('.masks .group[data-kind="decoder_self"]').click()
    expect(view).to_have_attribute("data-kind", "decoder_self")


@pytest.mark.slow
@pytest.mark.parametrize(("letters_of", "theme"), [("#ddd", "dark"), ("#222", "light")])
def test_two_pictures_in_one_notebook_follow_its_theme(
    run: Trace, offline: Callable[..., Page], letters_of: str, theme: str
) -> None:
    one, other = head(run, 1, 1), head(run, 2, 3)
    page = offline(
        f'<body style="color: {letters_of}">{one._repr_html_()}<p>between</p>{other._repr_html_()}</body>'
    )
    for n, number in enumerate((0, 2)):
        frame = page.frame_locator("iframe").nth(n)
        expect(frame.locator("html")).to_have_attribute("data-theme", theme)
        assert (
            point(frame, 3, 2)
            == run.attention[f"decoder.layers.{n}.cross_attn"].weights(number).numpy()[3, 2]
        )
    page.frame_locator("iframe").nth(0).locator(
        '.head rect[data-side="query"][data-index="1"]'
    ).click()
    expect(page.frame_locator("iframe").nth(0).locator(".head")).to_have_attribute(
        "data-lock", "q1"
    )
    expect(page.frame_locator("iframe").nth(1).locator(".head")).to_have_attribute("data-lock", "")
    assert (
        page.locator("body").evaluate("(e) => getComputedStyle(e).backgroundColor")
        == "rgba(0, 0, 0, 0)"
    )


@pytest.mark.slow
def test_a_page_follows_the_system_and_a_frame_grows_with_its_content(
    run: Trace, offline: Callable[..., Page]
) -> None:
    page = offline(heads(run), "dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    painted = int(page.locator(".head").get_attribute("data-painted"))
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    expect(page.locator(".head")).to_have_attribute("data-painted", str(painted + 1))
    told = offline(heads(run, theme="light"), "dark")
    expect(told.locator("html")).to_have_attribute("data-theme", "light")
    book = offline(f"<body>{heads(run)._repr_html_()}</body>", size=NARROW)
    frame = book.frame_locator("iframe").locator("html")
    expect(frame).to_have_attribute("data-theme", "light")
    book.wait_for_function("parseFloat(document.querySelector('iframe').style.height) > 800")
    assert frame.evaluate("(e) => e.scrollHeight - innerHeight") == 0


@pytest.mark.slow
def test_a_picture_that_fits_its_frame_does_not_grow_with_it(
    run: Trace, offline: Callable[..., Page]
) -> None:
    """At the width of a cell of JupyterLab, the frame is as high as its content and the picture keeps its first height."""
    pictures = [heads(run), head(run, 2, 3), mask(run)]
    book = offline(
        f"<body>{''.join(picture._repr_html_() for picture in pictures)}</body>",
        size={"width": 848, "height": 720},
    )
    stages = (".head .stage", ".head .stage", ".masks .stage.paintable")
    for n, (stage, tall) in enumerate(zip(stages, (380, 380, 400), strict=True)):
        frame = book.frame_locator("iframe").nth(n)
        expect(frame.locator(stage).first).to_be_visible()
        expect(frame.locator(stage).first).to_have_css("height", f"{tall}px")
        frames(book, 20)  # a frame that grows without end would grow in each of them
        expect(frame.locator(stage).first).to_have_css("height", f"{tall}px")
        assert frame.locator("html").evaluate("(e) => e.scrollHeight - innerHeight") == 0
        tall, held = (
            book.locator("iframe")
            .nth(n)
            .evaluate(
                "(e) => [e, e.contentDocument.body].map((one) => one.getBoundingClientRect().height)"
            )
        )
        assert 0 <= tall - held <= 1


def test_a_click_on_a_distance_opens_both_maps_and_their_difference(
    run: Trace, offline: Callable[..., Page]
) -> None:
    other = letters().run(TEXT, TARGET, edits=[HeadOff("encoder.layers.0.self_attn", head=1)])
    page = offline(compare(run, other))
    site = "decoder.layers.1.cross_attn"
    chosen = page.locator(f'.distances button[data-site="{site}"][data-head="2"]')
    chosen.click()
    expect(chosen).to_have_attribute("aria-pressed", "true")
    shown = page.locator(".difference")
    expect(shown).to_have_attribute("data-site", site)
    expect(shown).to_have_attribute("data-head", "2")
    expect(shown).to_have_attribute("data-distance", chosen.get_attribute("data-value") or "")
    cells = page.locator(".difference .of-difference canvas.cells")
    (box,) = boxes(page, cells)
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.5)
    told = page.locator(".difference .tip tr td:last-child")
    expect(told).to_have_count(3)
    first, second, signed = (float(one.replace("−", "-")) for one in told.all_inner_texts())
    assert first - second == pytest.approx(signed, abs=1e-4)
    maps = [one.attention[site].weights(2) for one in (run, other)]
    assert float((maps[0] - first).abs().min()) < 1e-4


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_a_comparison_is_no_wider_than_its_frame(
    run: Trace, offline: Callable[..., Page], size: dict[str, int]
) -> None:
    page = offline(compare(run, run), "dark", size)
    expect(page.locator(".difference")).to_have_attribute("data-distance", "0")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= size["width"]
