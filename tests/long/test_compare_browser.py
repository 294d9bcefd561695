"""Compare in a real browser: one click gives a comparison, a click on a head shows its maps, and typing redraws both."""

import re

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect
from served_app import boxes, go, in_url, resize, wait_until_idle

import models
from models.analysis.comparison import compare
from models.runs.scope import Scope
from viz_app.drawing.labels import axes_labels

SOURCE, SITE = "She is reading a book.", "decoder.layers.1.cross_attn"
READY = ".difference[data-painted]"
BOTH = ".difference .answers > span + span"  # with the pinned run, once it is open
PARTS = [
    ".st-key-input-bar",
    ".distances .kinds",
    ".distances .legend",
    ".difference .panels",
    ".difference .legend",
]
COSINE = {"pin.checkpoint": "eng-fra", "pin.similarity": "cosine"}


@pytest.fixture(scope="module")
def scope() -> Scope:
    return models.load("eng-fra", device="cpu")


@pytest.fixture
def opened(shared_page: Page) -> Page:
    resize(shared_page, 1280, 720)
    go(shared_page, "compare", READY, checkpoint="eng-fra", source=SOURCE, **COSINE)
    return shared_page


def cell(page: Page, site: str = SITE, head: int = 2) -> Locator:
    return page.locator(f'.distances button[data-site="{site}"][data-head="{head}"]')


def distances(scope: Scope, source: str) -> np.ndarray:
    own = scope.run(source)
    other = scope.with_similarity("cosine").run(source, own.streams["target"])
    pair = next(pair for pair in compare(own, other).kinds if pair.kind == "cross")
    return pair.distances.numpy()


def wait_for_distance(page: Page, value: float) -> None:
    """Wait until the cell shows this distance."""
    page.wait_for_function(
        """([site, head, value]) => {
          const all = (root) => [...root.querySelectorAll("*")].flatMap((e) => [e, ...(e.shadowRoot ? all(e.shadowRoot) : [])]);
          const cell = all(document).find((e) => e.dataset?.site === site && e.dataset.head === head && e.dataset.value);
          return cell && Math.abs(Number(cell.dataset.value) - value) < 1e-4;
        }""",
        arg=[SITE, "2", value],
    )


def test_the_grid_holds_the_distances_of_both_runs(opened: Page, scope: Scope) -> None:
    wait_for_distance(opened, float(distances(scope, SOURCE)[1, 2]))
    expect(opened.locator(".difference .verdict")).to_contain_text("The answers diverge at word 2")


def test_a_click_shows_the_maps_of_a_head(opened: Page) -> None:
    cell(opened).click()
    expect(cell(opened)).to_have_attribute("aria-pressed", "true")
    expect(cell(opened)).to_have_attribute("aria-label", re.compile(r"layer 2, head 3: [\d.]+ "))
    expect(opened.locator(".difference")).to_have_attribute("data-site", SITE)
    expect(opened.locator(".difference")).to_have_attribute("data-head", "2")
    in_url(opened, "head", "2")
    cell(opened, head=4).focus()
    opened.keyboard.press("Enter")
    expect(opened.locator(".difference")).to_have_attribute("data-head", "4")


def test_both_are_redrawn_while_typing(opened: Page, scope: Scope) -> None:
    opened.get_by_label("English sentence").fill("He is reading a newspaper.")
    wait_for_distance(opened, float(distances(scope, "He is reading a newspaper.")[1, 2]))


def test_one_click_pins_and_compares(shared_page: Page) -> None:
    resize(shared_page, 1280, 720)
    go(shared_page, "compare", READY, checkpoint="dates")
    expect(shared_page.locator(".distances button.reference")).to_have_count(1)
    shared_page.get_by_role("button", name="Training step").click()
    expect(shared_page.locator(".difference .answers .whose")).to_have_count(2)
    in_url(shared_page, "pin.checkpoint", "dates")
    in_url(shared_page, "pin.growth", "true")
    wait_until_idle(shared_page)
    expect(shared_page.locator(".distances .kind")).to_have_count(3)


def test_comparing_a_run_with_itself_a_click_chooses_the_other_head(shared_page: Page) -> None:
    resize(shared_page, 1280, 720)
    go(shared_page, "compare", READY, checkpoint="eng-fra", source=SOURCE, site=SITE, head="0")
    cell(shared_page, head=3).click()
    expect(shared_page.locator(".difference")).to_have_attribute("data-head", "3")
    in_url(shared_page, "compare-head", f"{SITE}:3")


def test_hovering_a_cell_shows_all_three_numbers(opened: Page, scope: Scope) -> None:
    canvas = opened.locator(".difference .of-difference canvas.cells")
    box = canvas.bounding_box()
    opened.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.45)
    expect(opened.locator(".difference .tip tr")).to_have_count(3)
    numbers = [
        float(text.replace("−", "-"))
        for text in opened.locator(".difference .tip tr td:last-child").all_text_contents()
    ]
    assert numbers[0] - numbers[1] == pytest.approx(numbers[2], abs=1e-4)
    root, trace = opened.locator(".difference"), scope.run(SOURCE)
    site = trace.attention[root.get_attribute("data-site")]
    queries, keys = ([label.text for label in axis] for axis in axes_labels(trace, site))
    query, key = root.locator(".tip .where").inner_text().split(" attends to ")
    weights = site.weights(int(root.get_attribute("data-head")))
    expected = float(weights[queries.index(query), keys.index(key)])
    assert numbers[0] == pytest.approx(expected, abs=1e-4)


def test_runs_that_cannot_be_compared_keep_the_last_picture(shared_page: Page) -> None:
    resize(shared_page, 1280, 720)
    go(
        shared_page,
        "compare",
        READY,
        checkpoint="gpt",
        text="The cat sat.",
        **{"pin.checkpoint": "gpt", "pin.text": "The dog ran."},
    )
    shared_page.get_by_label("Text (type here)").fill("One.")
    expect(shared_page.locator(".distances .why")).to_contain_text(
        "tokens, so their cells do not match"
    )
    expect(shared_page.locator(".distances .kinds button").first).to_be_visible()
    expect(shared_page.locator(".difference .panels")).to_be_visible()


@pytest.mark.parametrize(
    ("shown", "screen"),
    [
        ({"checkpoint": "eng-fra", "source": SOURCE, **COSINE}, (1280, 720, "")),
        ({"checkpoint": "eng-fra", "source": SOURCE, **COSINE}, (1280, 720, "1")),
        ({"checkpoint": "eng-fra", "source": SOURCE}, (1280, 720, "")),
        ({"checkpoint": "dates"}, (1280, 720, "1")),
        ({"checkpoint": "xlnet"}, (1280, 720, "")),
        ({"checkpoint": "gpt", "pin.checkpoint": "bert"}, (1280, 720, "")),
        ({"checkpoint": "dates", "pin.checkpoint": "dates-bahdanau"}, (1920, 1080, "")),
        ({"checkpoint": "bert", "pin.checkpoint": "gpt"}, (1920, 1080, "1")),
    ],
)
def test_the_comparison_ends_within_the_viewport(
    shared_page: Page, shown: dict[str, str], screen: tuple[int, int, str]
) -> None:
    width, height, present = screen
    resize(shared_page, width, height)
    ready = BOTH if "pin.checkpoint" in shown else READY
    go(shared_page, "compare", ready, **shown, **({"present": present} if present else {}))
    wait_until_idle(shared_page)
    found = dict(zip(PARTS, boxes(shared_page, *PARTS), strict=True))
    ends = {part: (round(box["top"]), round(box["bottom"])) for part, box in found.items()}
    assert {part: at for part, at in ends.items() if at[0] < 0 or at[1] > height} == {}
    assert shared_page.evaluate("document.documentElement.scrollWidth") <= width


def test_nothing_is_wider_than_a_phone(shared_page: Page) -> None:
    resize(shared_page, 420, 900)
    go(shared_page, "compare", READY, checkpoint="eng-fra", source=SOURCE, **COSINE)
    assert shared_page.evaluate("document.documentElement.scrollWidth") <= 420
    (box,) = boxes(shared_page, ".distances td button")
    assert box["bottom"] - box["top"] >= 40
