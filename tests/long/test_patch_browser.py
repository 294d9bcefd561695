"""The section Patch in a real browser: a click, a key and a drag patch a part, and the numbers are those of `models`."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect
from served_app import boxes, go, in_url, resize, wait_until_idle

import models
from models.runs.scope import Scope
from models.trace.edits import Patch, Where, to_text

SOURCE, SECOND, NAME = "The cat is black.", "The dog is black.", "encoder.layers.0.resid_post"
SECTION = {"interventions-section": "Patch"}
READY = ".patch[data-painted]"
PARTS = [".st-key-input-bar", ".patch .panels", ".patch .legend", ".outcome .answers", ".outcome .fact"]  # fmt: skip


@pytest.fixture(scope="module")
def scope() -> Scope:
    return models.load("eng-fra", device="cpu")


@pytest.fixture
def opened(shared_page: Page) -> Page:
    resize(shared_page, 1280, 720)
    texts = {"source": SOURCE, "patch-text": SECOND}
    go(shared_page, "interventions", READY, checkpoint="eng-fra", **SECTION, **texts)
    return shared_page


def cell(page: Page, side: str, number: int = 1, name: str = NAME) -> Locator:
    return page.locator(
        f'.patch .panel[data-side="{side}"] button[data-name="{name}"][data-number="{number}"]'
    )


def patch(fields: str, number: int = 1) -> Patch:
    return Patch(Where(activation=NAME, queries=(number,)), fields=(fields, None))


def test_a_click_patches_a_cell_and_another_restores_it(opened: Page, scope: Scope) -> None:
    edit = patch(SECOND)
    cell(opened, "needed").click()
    in_url(opened, "edits", to_text([edit]))
    expect(cell(opened, "needed")).to_have_attribute("aria-pressed", "true")
    written = scope.write(SOURCE, edits=[edit]).text
    expect(opened.locator(".outcome .answers .text").last).to_have_text(written)
    expect(opened.locator(".patch .hint")).to_contain_text("the patch reaches")
    later = "encoder.layers.1.resid_post"
    said = cell(opened, "needed", 1, later).get_attribute("title")
    plain = scope.run(SOURCE)
    (changed,) = scope.run_batch([tuple(plain.streams.values())], edits=[edit])
    before, after = (trace.activations[later].value[0, 1] for trace in (plain, changed))
    moved = 100 * float((after - before).norm() / before.norm())
    assert float(re.search(r"moves it by ([\d.]+) %", said)[1]) == pytest.approx(moved, rel=0.01)
    cell(opened, "needed").click()
    expect(cell(opened, "needed")).to_have_attribute("aria-pressed", "false")


def test_keys_move_over_the_grid_and_patch_a_cell(opened: Page) -> None:
    cell(opened, "needed", 0, "encoder.layers.0.resid_pre").focus()
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("ArrowDown")
    expect(cell(opened, "needed")).to_be_focused()
    opened.keyboard.press("Enter")
    in_url(opened, "edits", to_text([patch(SECOND)]))
    expect(cell(opened, "needed")).to_be_focused()


def test_a_drag_onto_the_other_run_patches_the_cell_there(opened: Page, scope: Scope) -> None:
    start, end = (cell(opened, side).bounding_box() for side in ("needed", "enough"))
    opened.mouse.move(start["x"] + 5, start["y"] + 5)
    opened.mouse.down()
    opened.mouse.move(start["x"] + 60, start["y"] + 12)
    opened.mouse.move(end["x"] + 5, end["y"] + 5)
    opened.mouse.up()
    in_url(opened, "patch-other", to_text([patch(SOURCE)]))
    expect(cell(opened, "enough")).to_have_attribute("aria-pressed", "true")
    expect(cell(opened, "needed")).to_have_attribute("aria-pressed", "false")
    written = scope.write(SECOND, edits=[patch(SOURCE)]).text
    expect(opened.locator(".outcome .answers .text").last).to_have_text(written)


def test_a_head_is_patched_and_a_button_undoes_it(opened: Page) -> None:
    site = "decoder.layers.2.cross_attn"
    cell(opened, "needed", 5, site).click()
    in_url(opened, "edits", to_text([Patch(Where(site=site, heads=(5,)), fields=(SECOND, None))]))
    wait_until_idle(opened)
    opened.locator(".st-key-undo-patch-0 button").first.click()
    expect(cell(opened, "needed", 5, site)).to_have_attribute("aria-pressed", "false")


def test_a_head_of_the_scatter_plot_is_patched_by_a_click_and_by_keys(shared_page: Page) -> None:
    resize(shared_page, 1280, 720)
    texts = {"source": SOURCE, "patch-text": SECOND, "patch-part": "gradient"}
    go(
        shared_page, "interventions", ".scatter[data-painted]", checkpoint="eng-fra",
        **SECTION, **texts,
    )  # fmt: skip
    heads = shared_page.locator('.scatter .panel[data-side="needed"] .head')
    effects = [float(heads.nth(i).get_attribute("data-exact")) for i in range(heads.count())]
    assert effects == sorted(effects)
    shared_page.locator('.scatter .panel[data-side="needed"] .head[tabindex="0"]').focus()
    shared_page.keyboard.press("ArrowRight")
    focused = heads.nth(1)
    expect(focused).to_be_focused()
    expect(shared_page.locator(".scatter .told").first).to_contain_text("exact")
    site, head = focused.get_attribute("data-name"), int(focused.get_attribute("data-number"))
    edit = Patch(Where(site=site, heads=(head,)), fields=(SECOND, None))
    shared_page.keyboard.press("Enter")
    in_url(shared_page, "edits", to_text([edit]))
    expect(focused).to_have_attribute("aria-pressed", "true")
    expect(focused).to_be_focused()
    focused.click()
    expect(focused).to_have_attribute("aria-pressed", "false")


def test_the_grids_follow_the_typed_text(opened: Page, scope: Scope) -> None:
    opened.get_by_label("English sentence").fill("The horse is black.")
    expect(opened.locator(".outcome .answers .text").first).to_have_text(
        scope.run("The horse is black.").output
    )
    expect(opened.locator(".patch .cells thead th").nth(2)).to_contain_text("horse")


def test_an_empty_second_text_is_named_and_the_picture_stays(opened: Page) -> None:
    box = opened.locator(".st-key-patch-text textarea")
    box.fill("")
    expect(opened.locator(".st-key-patch-note")).to_contain_text("Type a second text")
    expect(opened.locator(".patch .measured")).to_contain_text("logit(")


def test_the_pinned_text_is_used(shared_page: Page) -> None:
    pinned = {"pin.checkpoint": "eng-fra", "pin.source": "The horse is black."}
    go(
        shared_page,
        "interventions",
        READY,
        checkpoint="eng-fra",
        source=SOURCE,
        **SECTION,
        **pinned,
    )
    shared_page.get_by_role("button", name="Take the pinned text").click()
    box = shared_page.locator(".st-key-patch-text textarea")
    expect(box).to_have_value("The horse is black.")
    expect(shared_page.locator(".patch .cells thead th").nth(9)).to_contain_text("horse")


def test_an_example_brings_its_texts_and_a_head(opened: Page) -> None:
    opened.get_by_role("button", name="him → her").click()
    expect(opened.get_by_label("English sentence")).to_have_value("We saw him.")
    expect(opened.locator(".st-key-patch-text textarea")).to_have_value("We saw her.")
    wait_until_idle(opened)
    opened.get_by_role("button", name="Switch off the previous-token head").click()
    expect(opened.locator(".board button.off")).to_have_count(1)


@pytest.mark.parametrize(
    ("model", "screen"),
    [
        ("eng-fra", (1280, 720, "")), ("gpt", (1280, 720, "")), ("dates", (1280, 720, "")), ("eng-fra", (1280, 720, "1")),
        ("eng-fra", (1920, 1080, "1")),
        ("xlnet", (1920, 1080, "")), ("eng-fra-bahdanau", (1280, 720, "")),
    ],
)  # fmt: skip
def test_both_grids_and_the_answer_end_within_the_viewport(
    shared_page: Page, model: str, screen: tuple[int, int, str]
) -> None:
    width, height, present = screen
    resize(shared_page, width, height)
    shown = {"present": present} if present else {}
    go(shared_page, "interventions", READY, checkpoint=model, **SECTION, **shown)
    found = dict(zip(PARTS, boxes(shared_page, *PARTS), strict=True))
    ends = {part: (round(box["top"]), round(box["bottom"])) for part, box in found.items()}
    assert {part: at for part, at in ends.items() if at[0] < 0 or at[1] > height} == {}
    assert shared_page.evaluate("document.documentElement.scrollWidth") <= width
