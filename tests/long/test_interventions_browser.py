"""Interventions in a real browser: a click, a drag and keys change the run, and its numbers are those of `models`."""

import pytest
from playwright.sync_api import Locator, Page, expect
from served_app import boxes, go, in_url, resize, wait_until_idle

import models
from models.runs.scope import Scope
from models.runs.sweep import Sweep
from models.trace.edits import HeadOff, HeadScale, to_text
from models.training.edited_score import edited_score
from viz_app.controls.scoring import score_sentence

SOURCE, SITE, HEAD = "She is reading a book.", "decoder.layers.2.cross_attn", 5
READY = ".outcome[data-painted]"
PARTS = [".st-key-input-bar", ".board .kinds", ".board .legend", ".outcome .answers", ".outcome .fact"]  # fmt: skip


@pytest.fixture(scope="module")
def scope() -> Scope:
    return models.load("eng-fra", device="cpu")


@pytest.fixture
def opened(shared_page: Page) -> Page:
    resize(shared_page, 1280, 720)
    go(shared_page, "interventions", READY, checkpoint="eng-fra", source=SOURCE)
    return shared_page


def cell(page: Page, head: int = HEAD) -> Locator:
    return page.locator(f'.board button[data-site="{SITE}"][data-head="{head}"]')


def probability(scope: Scope, *edits: object) -> float:
    """Return the probability of ·lit, the second word, under these edits of the model's own translation."""
    own = scope.run(SOURCE)
    trace = scope.run(SOURCE, own.streams["target"], edits=edits)
    output = own.next_token
    return float(trace.next_token.log_probs[1, output.labels[1]].exp())


def wait_for_probability(page: Page, p: float) -> None:
    """Wait until the probability of the followed token after the change is this one."""
    page.wait_for_function(
        """(p) => {
          const all = (root) => [...root.querySelectorAll("*")].flatMap((e) => [e, ...(e.shadowRoot ? all(e.shadowRoot) : [])]);
          const after = all(document).filter((e) => e.matches(".outcome tr.chosen td.share"))[1];
          return after && Math.abs(Number(after.dataset.p) - p) < 1e-4;
        }""",
        arg=p,
    )


def test_a_click_switches_a_head_off_and_another_on_again(opened: Page, scope: Scope) -> None:
    off = HeadOff(SITE, head=HEAD)
    cell(opened).click()
    in_url(opened, "edits", to_text([off]))
    expect(cell(opened)).to_have_attribute("aria-pressed", "true")
    wait_for_probability(opened, probability(scope, off))
    cell(opened).click()
    expect(cell(opened)).to_have_attribute("aria-pressed", "false")
    wait_for_probability(opened, probability(scope))


def test_keys_switch_and_scale_a_head(opened: Page, scope: Scope) -> None:
    cell(opened).focus()
    opened.keyboard.press("ArrowLeft")
    expect(cell(opened)).to_have_text("×0.75")
    wait_for_probability(opened, probability(scope, HeadScale(SITE, head=HEAD, factor=0.75)))
    expect(cell(opened)).to_be_focused()
    opened.keyboard.press("Enter")
    expect(cell(opened)).to_have_attribute("data-factor", "1")
    opened.keyboard.press("Enter")
    expect(cell(opened)).to_have_text("off")


def test_a_drag_scales_a_head_and_switches_nothing(opened: Page) -> None:
    box = cell(opened).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    opened.mouse.move(x, y)
    opened.mouse.down()
    opened.mouse.move(x - 15, y)
    opened.mouse.move(x - 30, y)
    expect(cell(opened)).to_have_text("×0.50")
    opened.mouse.up()
    in_url(opened, "edits", to_text([HeadScale(SITE, head=HEAD, factor=0.5)]))
    expect(cell(opened)).to_have_text("×0.5")


def test_a_button_undoes_each_edit(opened: Page) -> None:
    cell(opened).click()
    expect(cell(opened)).to_have_text("off")
    cell(opened, 0).click()
    expect(cell(opened, 0)).to_have_text("off")
    wait_until_idle(opened)
    opened.locator(".st-key-undo-edit-0 button", has_text="layer 3, head 6").first.click()
    expect(cell(opened)).to_have_attribute("data-factor", "1")
    expect(cell(opened, 0)).to_have_text("off")


def test_the_board_follows_the_typed_text_with_the_edit(opened: Page, scope: Scope) -> None:
    cell(opened).click()
    expect(cell(opened)).to_have_text("off")
    wait_until_idle(opened)
    opened.get_by_label("English sentence").fill("He is reading a newspaper.")
    own = scope.run("He is reading a newspaper.")
    expect(opened.locator(".outcome .answers .text").first).to_have_text(own.output)
    expect(cell(opened)).to_have_text("off")


def test_another_token_is_followed_after_a_click_on_it(opened: Page) -> None:
    opened.locator(".outcome .decisions button").nth(3).click()
    expect(opened.locator(".board .title")).to_contain_text("·livre")
    in_url(opened, "if-position", "3")


@pytest.mark.parametrize(
    ("model", "screen"),
    [
        ("eng-fra", (1280, 720, "")), ("gpt", (1920, 1080, "")), ("bert", (1280, 720, "1")), ("eng-fra", (1920, 1080, "1")),
        ("xlnet", (1280, 720, "")), ("eng-fra-bahdanau", (1280, 720, "")),
    ],
)  # fmt: skip
def test_the_board_and_the_answer_end_within_the_viewport(
    shared_page: Page, model: str, screen: tuple[int, int, str]
) -> None:
    width, height, present = screen
    resize(shared_page, width, height)
    shown = {"present": present} if present else {}
    go(shared_page, "interventions", READY, checkpoint=model, **shown)
    found = dict(zip(PARTS, boxes(shared_page, *PARTS), strict=True))
    ends = {part: (round(box["top"]), round(box["bottom"])) for part, box in found.items()}
    assert {part: at for part, at in ends.items() if at[0] < 0 or at[1] > height} == {}
    assert shared_page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_sweep_runs_in_the_page_is_stopped_and_continued(shared_page: Page) -> None:
    """The result is that of the same sweep in Python."""
    resize(shared_page, 1280, 720)
    choices = {"interventions-section": "Many texts", "if-baseline": "uniform"}
    go(
        shared_page,
        "interventions",
        ".st-key-if-sweep-start",
        checkpoint="dates-bahdanau",
        **choices,
    )
    start, stop = (
        shared_page.locator(f".st-key-if-sweep-{name} button") for name in ("start", "stop")
    )
    start.click()
    expect(stop).to_be_enabled()
    stop.click()
    expect(shared_page.get_by_text("passes: stopped")).to_be_visible()
    expect(stop).to_be_disabled()
    start.click()
    head = shared_page.locator(".board td button")
    expect(head).to_have_count(1, timeout=240_000)
    scope = models.load("dates-bahdanau", device="cpu")
    texts = [scope.encode(*text) for text in scope.held_out]
    sweep = Sweep(scope, texts, baseline="uniform", batch=8)
    sweep.run(lambda done, of: None)
    effect = float(head.get_attribute("data-effect"))
    assert effect == pytest.approx(sweep.results()[0].effect.mean, rel=1e-3)
    head.click()  # the head is off for the typed text
    in_url(shared_page, "interventions-section", "Heads")
    expect(shared_page.locator(READY)).to_be_visible()


def test_the_score_over_held_out_texts_is_stopped_continued_and_that_of_models(
    shared_page: Page,
) -> None:
    resize(shared_page, 1280, 720)
    model = models.load("dates-bahdanau", device="cpu")
    site = next(iter(model.run(*model.held_out[0]).attention))
    off = HeadOff(site, head=0, baseline="uniform")
    go(
        shared_page,
        "interventions",
        READY,
        checkpoint="dates-bahdanau",
        edits=to_text((off,)),
    )
    start = shared_page.get_by_role("button", name="Score over 64 held-out texts")
    start.first.click()
    shared_page.locator(".st-key-if-score-stop button").first.click()
    expect(shared_page.get_by_text("texts: stopped")).to_be_visible()
    start.first.click()
    said = shared_page.get_by_text("Exact match in %: ")
    expect(said).to_be_visible(timeout=240_000)
    found = edited_score(model, [off])
    expect(said).to_have_text(score_sentence(found).replace("**", ""))
    expect(start.first).to_be_disabled()
