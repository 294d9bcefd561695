"""The page Masks in a real browser: cells are painted, and every number on the page is what `models` computes."""

import pytest
import torch
from playwright.sync_api import Page, expect
from served_app import cell_of, go, in_url, resize, wait_until_idle

import models
from models.layers.masks import LOOK_AHEAD
from models.runs.masked_comparison import MaskedRun, run_masked
from models.runs.scope import Scope
from models.trace.edits import Edits, MaskChange, for_kinds

CELLS = ".paintable canvas.cells"
LONG, SHORT = "March 5, 2021", "24/07/69"
PLACES = """() => {      // where the mask to paint on stands, frame by frame
  window.places = new Set();
  const look = () => {
    places.add(document.querySelector(".st-key-mask_painter").getBoundingClientRect().y);
    requestAnimationFrame(look);
  };
  look();
}"""


@pytest.fixture(scope="module")
def dates() -> Scope:
    return models.load("dates", device="cpu")


@pytest.fixture
def opened(shared_page: Page) -> Page:
    """Open the page with both texts."""
    resize(shared_page, 1280, 1300)  # all of it, so that the pointer reaches it
    go(
        shared_page,
        "masks",
        ".masks[data-painted]",
        **{"checkpoint": "dates", "source": LONG, "masks-second": SHORT},
    )
    return shared_page


def click(page: Page, query: float, key: int) -> None:
    """Click on a cell of the mask to paint on."""
    page.locator(CELLS).click(position=cell_of(page.locator(".masks"), query, key))


def point(page: Page, query: int, key: int) -> None:
    """Move the pointer onto a cell of the mask to paint on."""
    page.locator(CELLS).hover(position=cell_of(page.locator(".masks"), query, key))


def wait_for_story(page: Page, story: str) -> None:
    """Wait until Python has answered with this in its account of the change."""
    expect(page.locator(".masks .story")).to_contain_text(story)


def computed(scope: Scope, changes: Edits, row: int = 0) -> tuple[MaskedRun, MaskedRun]:
    own = run_masked(scope, [(LONG, None), (SHORT, None)])
    return own[row], run_masked(scope, [tuple(run.trace.streams.values()) for run in own], changes)[
        row
    ]


def compare(page: Page, before: MaskedRun, after: MaskedRun) -> None:
    """Compare every number on the page with the runs computed here."""
    root = page.locator(".masks")
    site, head = root.get_attribute("data-site"), int(root.get_attribute("data-head"))
    values = root.evaluate(
        "e => Object.fromEntries(Object.entries(e.values).map(([name, array]) => [name, Array.from(array)]))"
    )
    for name, run in (("before", before), ("after", after)):
        weights = run.trace.attention[site].weights(head).flatten()
        torch.testing.assert_close(torch.tensor(values[name]), weights, atol=1e-5, rtol=1e-4)
        assert float(root.get_attribute(f"data-{name}")) == pytest.approx(
            run.log_prob, rel=1e-4, abs=1e-5
        )
        column = page.locator(f".masks .tokens td.{name}").all_inner_texts()
        for text, value in zip(column, [run.log_prob, *run.log_probs], strict=True):
            assert float(text.replace("−", "-")) == pytest.approx(value, abs=0.0051)
    blocked = (~after.trace.attention[site].allowed()).flatten().tolist()
    assert [bool(x) for x in values["blockedAfter"]] == blocked
    assert all(weight == 0 for weight, off in zip(values["after"], blocked, strict=True) if off)
    assert root.get_attribute("data-wrote") == after.output
    expect(page.locator(".checks .passed")).to_have_count(5)


def test_painting_cells_runs_the_model_with_that_mask(opened: Page, dates: Scope) -> None:
    compare(opened, *computed(dates, ()))
    opened.evaluate(PLACES)
    click(opened, 3, 3)
    wait_for_story(opened, "1 cell forbidden")
    compare(opened, *computed(dates, for_kinds(decoder_self=MaskChange(block=((3, 3),)))))
    point(opened, 5, 0)
    opened.mouse.down()
    point(opened, 5, 4)
    opened.mouse.up()
    click(opened, 0, 2)
    wait_for_story(opened, "6 cells forbidden, 1 cell allowed")
    forbidden = ((3, 3), *((5, key) for key in range(5)))
    compare(
        opened,
        *computed(dates, for_kinds(decoder_self=MaskChange(block=forbidden, allow=((0, 2),)))),
    )
    in_url(opened, "decoder-mask", "f3.3_f5.0-4_a0.2")
    wait_until_idle(opened)
    assert opened.evaluate("places.size") == 1
    click(opened, 3, 3)  # again: back to before
    wait_for_story(opened, "5 cells forbidden, 1 cell allowed")
    in_url(
        opened, "decoder-mask", "f5.0-4_a0.2"
    )  # the account is painted before the change is in the address
    opened.reload()
    opened.wait_for_selector(".masks[data-painted]")
    wait_for_story(opened, "5 cells forbidden, 1 cell allowed")
    opened.get_by_role("button", name="Undo all changes").click()
    wait_for_story(opened, "No mask is changed yet")


def test_a_cell_names_the_layers_that_block_it(opened: Page) -> None:
    point(opened, 3, 6)
    tip = opened.locator(".masks .tip")
    expect(tip).to_contain_text("2 → 1 may not attend to 0")
    expect(tip).to_contain_text("look-ahead: the key comes after the query")
    expect(tip).to_contain_text("False, adds −∞")
    rows = opened.locator(".masks .forms tr")
    expect(rows.nth(0)).to_have_text("boolean" + "True" * 4 + "False" * 7)
    expect(rows.nth(1)).to_have_text("additive" + "0" * 4 + "−∞" * 7)
    point(opened, 6, 2)
    expect(tip).to_contain_text("no layer blocks it")


def test_removing_look_ahead_reports_the_measured_effect(opened: Page, dates: Scope) -> None:
    opened.get_by_role("combobox", name="Preset mask, decoder self").click()
    opened.get_by_role("option", name="none: attends to everything").click()
    wait_for_story(opened, "The decoder may look ahead.")
    before, after = computed(
        dates, for_kinds(decoder_self=MaskChange(removed_layers=(LOOK_AHEAD,)))
    )
    compare(opened, before, after)
    wait_for_story(
        opened, f"{-before.log_prob / 11:.3f} → {-after.log_prob / 11:.3f} nats per token"
    )


def test_another_mask_is_chosen_and_a_word_blocked_by_its_column(
    opened: Page, dates: Scope
) -> None:
    opened.locator(".masks .group[data-kind=cross]").click()
    expect(opened.locator(".masks[data-kind=cross]")).to_be_visible()
    click(opened, -0.8, 0)
    wait_for_story(opened, "11 cells forbidden")
    column = tuple((query, 0) for query in range(11))
    compare(opened, *computed(dates, for_kinds(cross=MaskChange(block=column))))


def test_cells_are_painted_by_keyboard(opened: Page, dates: Scope) -> None:
    opened.locator(CELLS).focus()
    for key in (
        "ArrowRight",
        "ArrowDown",
        "ArrowDown",
        "ArrowRight",
        " ",
    ):  # the first one only shows the current cell
        opened.keyboard.press(key)
    wait_for_story(opened, "1 cell forbidden")
    compare(opened, *computed(dates, for_kinds(decoder_self=MaskChange(block=((2, 1),)))))
