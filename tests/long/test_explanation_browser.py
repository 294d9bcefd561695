"""The section "Is attention explanation?" in a real browser: weights are dragged, moved by keys, searched for and applied."""

import math

import pytest
from playwright.sync_api import Locator, Page, expect
from served_app import boxes, go, in_url, resize, wait_until_idle

import models
from models.runs.attention_row import AttentionRow
from models.runs.explanation import adversary
from models.runs.scope import Scope
from models.trace.edits import from_text

SECTION, SITE, DATE = "Is attention explanation?", "decoder.alignment", "12 March 1999"
READY = ".rowtests[data-painted]"
PARTS = [".st-key-input-bar", ".rowtests .answers", ".rowtests .decisions", ".rowtests .scroll", ".rowtests tfoot td"]  # fmt: skip


@pytest.fixture(scope="module")
def scope() -> Scope:
    return models.load("dates-bahdanau", device="cpu")


@pytest.fixture
def opened(shared_page: Page) -> Page:
    return open_on(shared_page, "dates-bahdanau", (1280, 720, ""), source=DATE)


def open_on(page: Page, checkpoint: str, screen: tuple[int, int, str], **more: str) -> Page:
    width, height, present = screen
    resize(page, width, height)
    shown = {"present": present} if present else {}
    go(page, "interventions", READY, checkpoint=checkpoint, **{"interventions-section": SECTION}, **shown, **more)  # fmt: skip
    return page


def bar(page: Page, key: int, column: int = 0) -> Locator:
    return page.locator(f'.rowtests .weight[data-column="{column}"][data-key="{key}"]')


def use(page: Page, test: str) -> Locator:
    return page.locator(f'.rowtests button[data-test="{test}"]')


def weights(page: Page, column: int) -> list[float]:
    bars = page.locator(f'.rowtests .weight[data-column="{column}"]')  # all read at once
    return [float(w) for w in bars.evaluate_all("(all) => all.map((bar) => bar.dataset.weight)")]


def test_uniform_weights_are_put_into_the_run_and_removed_again(opened: Page, scope: Scope) -> None:
    wanted = weights(opened, 1)
    assert wanted == pytest.approx([1 / 14] * 14)
    before = weights(opened, 0)
    use(opened, "uniform").click()
    expect(use(opened, "uniform")).to_have_text("In use")
    assert weights(opened, 0) == pytest.approx(wanted, abs=1e-5)
    wait_until_idle(opened)
    (edit,) = from_text(opened.evaluate("new URLSearchParams(location.search).get('edits')") or "")
    own = scope.run(DATE)
    after = scope.run(DATE, own.streams["target"], edits=[edit])
    made = after.attention[SITE].weights(0)[0].tolist()
    assert made == pytest.approx(wanted, abs=1e-5)
    expect(opened.locator(".rowtests .answers .differs").first).to_be_visible()
    use(opened, "own").click()
    expect(use(opened, "own")).to_be_hidden()
    assert weights(opened, 0) == pytest.approx(before, abs=1e-6)
    in_url(opened, "edits", "")


def test_the_adversary_found_is_that_of_the_back_end(opened: Page, scope: Scope) -> None:
    use(opened, "adversary").click()
    expect(use(opened, "adversary")).to_have_text("Use these weights", timeout=20_000)
    found = adversary(AttentionRow(scope, scope.run(DATE), SITE, 0, 0))
    if found.corners:  # all weight on one key, which needs no ascent and so no timing
        assert weights(opened, 3) == pytest.approx(found.trial.weights.tolist(), abs=1e-5)
    expect(opened.locator(".rowtests tfoot td").nth(3)).to_contain_text("Still “1”")
    use(opened, "adversary").click()
    expect(use(opened, "adversary")).to_have_text("In use")
    expect(opened.locator(".rowtests .verdict")).to_have_text("The same answer.")
    use(opened, "own").click()
    expect(use(opened, "own")).to_be_hidden()


def test_a_bar_is_dragged_and_moved_by_keys_and_the_row_sums_to_1(opened: Page) -> None:
    opened.mouse.move(*middle(bar(opened, 3).locator(".track"), 0.1))
    opened.mouse.down()
    opened.mouse.move(*middle(bar(opened, 3).locator(".track"), 0.6), steps=4)
    opened.mouse.up()
    expect(use(opened, "own")).to_be_visible()
    now = weights(opened, 0)
    assert now[3] == pytest.approx(0.6, abs=0.03)
    assert math.fsum(now) == pytest.approx(1, abs=1e-4)
    wait_until_idle(opened)
    bar(opened, 3).focus()
    opened.keyboard.press("ArrowLeft")
    opened.keyboard.press("ArrowLeft")
    expect(bar(opened, 3)).to_have_attribute("aria-valuenow", f"{now[3] - 0.1:.3f}")
    expect(bar(opened, 3)).to_be_focused()
    wait_until_idle(opened)
    assert math.fsum(weights(opened, 0)) == pytest.approx(1, abs=1e-4)
    opened.keyboard.press("Tab")
    expect(bar(opened, 4)).to_be_focused()


def middle(box: Locator, share: float) -> tuple[float, float]:
    at = box.bounding_box()
    return at["x"] + share * at["width"], at["y"] + at["height"] / 2


def test_another_decision_shows_another_row_and_typing_a_text_its_own(opened: Page) -> None:
    before = weights(opened, 0)
    opened.locator(".rowtests .decisions button").nth(6).click()
    in_url(opened, "if-position", "6")
    expect(opened.locator(".rowtests .title")).to_contain_text("query: 0 → 3")
    assert weights(opened, 0) != before
    opened.get_by_label("Date, in any format").fill("3 May 2001")
    expect(opened.locator(".rowtests .answers .text").first).to_have_text("2001-05-03")
    expect(opened.locator(".rowtests tbody tr")).to_have_count(len("3 May 2001") + 1)


@pytest.mark.parametrize(
    ("model", "screen"),
    [
        ("dates-bahdanau", (1280, 720, "")), ("eng-fra", (1280, 720, "")), ("gpt", (1920, 1080, "")), ("bert", (1280, 720, "1")),
        ("eng-fra-bahdanau", (1280, 720, "1")), ("dates-bahdanau", (1920, 1080, "1")),
    ],
)  # fmt: skip
def test_the_table_ends_within_the_viewport(shared_page: Page, model: str, screen: tuple[int, int, str]) -> None:  # fmt: skip
    width, height, _ = screen
    open_on(shared_page, model, screen)
    found = dict(zip(PARTS, boxes(shared_page, *PARTS), strict=True))
    ends = {part: (round(box["top"]), round(box["bottom"])) for part, box in found.items()}
    assert {part: at for part, at in ends.items() if at[0] < 0 or at[1] > height} == {}
    assert shared_page.evaluate("document.documentElement.scrollWidth") <= width
