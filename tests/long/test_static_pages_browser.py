"""The static edition opened from disk without a network: pages, hover, click and pin, light and dark, and its policy."""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

import models
from models.trace.edits import HeadOff, Where
from viz_app.controls.lesson_panel import offered_lessons
from viz_app.static_pages import crawl, export
from viz_app.static_pages.contents import ModelTexts
from viz_app.static_pages.folder import write_site

AXE = Axe()
EVIL = "<img src=x onerror=alert(1)>"
TABS = (
    *("attention", "task", "inside", "positions", "interventions", "decoding", "compare"),
    "models",
)
HELD = "encoder.layers.1.self_attn", 2, 3, 5  # a head, and a cell of it


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crawl, "MAX_STILLS", 24)
        write_site(folder, export.site_files(["bert"], TABS, []))
    return folder


@pytest.fixture(params=["light"])
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page that fails its test if it loads anything but files, or if anything is logged to its console."""
    context = browser.new_context(
        offline=True, color_scheme=request.param, viewport={"width": 1280, "height": 720}
    )
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on(
        "request",
        lambda one: one.url.startswith(("file:", "data:", "blob:")) or said.append(one.url),
    )
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    yield page
    context.close()
    assert said == []


def head(page: Page) -> Locator:
    return page.locator(".st-key-head .head")


def attention(page: Page, site: Path) -> None:
    """Go from the index to the page Attention."""
    page.goto((site / "index.html").as_uri())
    page.locator("table").get_by_role("link", name="Attention").click()
    expect(head(page)).to_have_attribute("data-painted", re.compile(r"\d+"))


def pick(page: Page, name: str, number: int) -> None:
    """Click a head in the overview."""
    layer = int(name.split(".")[2])
    page.get_by_role(
        "button", name=re.compile(rf"layer {layer + 1}, head {number + 1}\b")
    ).first.click()
    expect(head(page)).to_have_attribute("data-site", name)
    expect(head(page)).to_have_attribute("data-head", str(number))


def place(page: Page, query: float, key: float) -> tuple[float, float]:
    """Return where a cell of the map is in the window; −1 is the name of its token."""
    canvas = page.locator(".st-key-head .map canvas").first
    box, data = canvas.bounding_box(), canvas.evaluate("(one) => ({ ...one.dataset })")
    assert box
    left, top, wide, tall = (float(data[name]) for name in ("left", "top", "wide", "tall"))
    return box["x"] + left + (key + 0.5) * wide, box["y"] + top + (query + 0.5) * tall


def test_a_click_shows_a_head_and_a_hover_its_weight(page: Page, site: Path) -> None:
    attention(page, site)
    name, number, query, key = HELD
    pick(page, name, number)
    page.mouse.move(*place(page, query, key))
    shown = page.locator(".st-key-head .tip .value").inner_text()
    expected = models.load("bert").run(ModelTexts("bert").texts[0]).attention[name]
    q, k = expected.q[0, number, query], expected.k[0, number]
    row = (k @ q / len(q) ** 0.5).softmax(-1)
    assert float(shown.split()[-1]) == pytest.approx(float(row[key]), rel=1e-4)
    page.go_back()
    expect(head(page)).not_to_have_attribute("data-head", str(number))


def test_a_pinned_token_stays_when_another_head_is_chosen(page: Page, site: Path) -> None:
    attention(page, site)
    page.mouse.click(*place(page, 3, 2))
    expect(head(page)).to_have_attribute("data-lock", "q3")
    pick(page, *HELD[:2])
    expect(head(page)).to_have_attribute("data-lock", "q3")
    expect(page.locator(".st-key-head .reading")).to_contain_text("Pinned")
    expect(page.locator(".notice")).to_be_hidden()


def test_the_question_leads_to_its_weight(page: Page, site: Path) -> None:
    attention(page, site)
    pick(page, *HELD[:2])
    question = page.locator(".st-key-next button")
    share = re.search(r"(\d+) %", question.inner_text())
    question.click()
    walk = page.locator(".st-key-walk .walk")
    expect(walk).to_have_attribute("data-head", str(HELD[1]))
    assert share
    expect(walk.locator(".title")).to_contain_text(share[0])
    data = walk.evaluate("(one) => ({ ...one.dataset })")
    expected = models.load("bert").run(ModelTexts("bert").texts[0]).attention[HELD[0]]
    weight = expected.weights(HELD[1])[int(data["query"]), int(data["key"])]
    assert f"{100 * float(weight):.0f} %" == share[0]


def encoding(position: int, dimension: int, width: int = 64) -> float:
    """The paper's position encoding, which the page opens on."""
    angle = position / 10000 ** (dimension // 2 * 2 / width)
    return math.cos(angle) if dimension % 2 else math.sin(angle)


def test_a_charts_points_are_those_of_the_table_and_have_words(page: Page, site: Path) -> None:
    page.goto((site / "bert" / "positions-curves.html").as_uri())
    curves = page.locator(".library-chart").first
    point = curves.locator('[aria-roledescription="point"]').nth(7)
    words = point.get_attribute("aria-label")
    assert words
    named = dict(part.split(": ", 1) for part in words.split("; "))
    expected = encoding(int(named["position"]), int(named["dimension"].split()[1].strip(":")))
    assert float(named["value"].replace("−", "-")) == pytest.approx(expected, abs=1e-5)
    point.hover(force=True)  # another point may cover it
    expect(page.locator("#vg-tooltip-element")).to_contain_text("7")


def test_a_plotly_map_has_the_tables_values_and_the_colours_of_the_theme(
    page: Page, site: Path
) -> None:
    page.goto((site / "bert" / "positions-map.html").as_uri())
    drawn = page.locator(".library-chart.js-plotly-plot").first
    values = drawn.evaluate("(one) => Array.from(one.calcdata[0][0].z, (row) => Array.from(row))")
    for position, row in enumerate(values):
        expected = [encoding(position, dimension) for dimension in range(64)]
        assert row == pytest.approx(expected, abs=1e-4)
    colour = 'getComputedStyle(document.querySelector(".library-chart .xtitle")).fill'
    light = page.evaluate(colour)
    page.get_by_role("button", name="Dark").click()
    page.wait_for_function(f"{colour} !== {light!r}")


def test_controls_that_need_the_model_say_so_and_change_nothing(page: Page, site: Path) -> None:
    page.goto((site / "bert" / "task.html").as_uri())
    token = page.get_by_role("group", name="Tokens to hide").get_by_role("button").nth
    guesses = page.locator(".st-key-guesses").get_by_role("heading", name="Prediction for")
    expect(guesses).to_have_count(1)
    token(1).click()
    expect(guesses).to_have_count(2)
    token(2).click()
    expect(guesses).to_have_count(3)
    address = page.url
    token(4).click()
    expect(page.locator(".notice")).to_contain_text("Only the app")
    expect(guesses).to_have_count(3)
    expect(token(4)).to_have_attribute("aria-pressed", "false")
    assert page.url == address
    page.locator(".notice button").click()
    expect(page.locator(".notice")).to_be_hidden()


def test_a_question_that_only_the_app_answers_is_no_link(page: Page, site: Path) -> None:
    page.goto(
        (site / "bert" / "inside.html").as_uri()
    )  # leads to the page A layer, not in this site
    question = page.locator(".st-key-next button")
    expect(question).to_be_disabled()
    expect(question).to_have_attribute("title", re.compile("Only the app"))
    page.goto((site / "bert" / "attention.html").as_uri())
    expect(question).to_be_enabled()


def board(page: Page, site: str, number: int) -> Locator:
    return page.locator(f'.st-key-board button[data-site="{site}"][data-head="{number}"]')


def test_a_head_that_is_switched_off_changes_the_answer_as_in_the_model(
    page: Page, site: Path
) -> None:
    page.goto((site / "bert" / "interventions-heads.html").as_uri())
    name, number = HELD[:2]
    effect = float(board(page, name, number).get_attribute("data-effect") or "nan")
    board(page, name, number).click()
    expect(board(page, name, number)).to_have_text("off")
    followed = page.locator(".st-key-outcome tr.chosen td")
    before, after = (float(followed.nth(i).get_attribute("data-p") or "nan") for i in (1, 2))
    scope, texts = models.load("bert"), ModelTexts("bert").texts
    off = HeadOff(Where(site=name, heads=(number,)))
    rows = [
        scope.run(texts[0], edits=edits).outputs["masked token"].logits.log_softmax(-1)[0]
        for edits in ((), (off,))
    ]
    token = int(rows[0].argmax())
    expected = [float(row[token].exp()) for row in rows]
    assert [before, after] == pytest.approx(expected, rel=1e-3)
    assert effect == pytest.approx(float(rows[1][token] - rows[0][token]), abs=1e-3)
    expect(page.locator(".pictures .labelled").first).to_contain_text("bert, ")
    other = board(page, name, number - 1)
    other.click()
    expect(page.locator(".notice")).to_contain_text("Only the app")
    expect(board(page, name, number)).to_have_text("off")
    board(page, name, number).click()
    expect(board(page, name, number)).not_to_have_text("off")


def test_a_baseline_and_a_measure_are_chosen_together(page: Page, site: Path) -> None:
    page.goto((site / "bert" / "interventions-heads.html").as_uri())
    title = page.locator(".st-key-board .title")
    first = title.inner_text()
    uniform, divergence = (
        page.get_by_role("button", name=name) for name in ("equal weights", "KL divergence")
    )
    divergence.click()
    expect(title).not_to_have_text(first)
    uniform.click()
    expect(uniform).to_have_attribute("aria-pressed", "true")
    expect(divergence).to_have_attribute("aria-pressed", "true")
    expect(title).not_to_have_text(first)


def test_a_comparison_has_the_distance_of_both_runs(page: Page, site: Path) -> None:
    page.goto((site / "bert" / "compare-no-position-vectors.html").as_uri())
    name, number = HELD[:2]
    expect(page.locator(".pictures .labelled").last).to_contain_text("No position vectors")
    head = page.locator(f'.st-key-distances button[data-site="{name}"][data-head="{number}"]')
    head.click()
    expect(page.locator(".st-key-difference .difference")).to_have_attribute(
        "data-head", str(number)
    )
    scope, texts = models.load("bert"), ModelTexts("bert").texts
    ours, theirs = (
        one.run(texts[0]).attention[name].weights(number).double()
        for one in (scope, scope.without_positions())
    )
    mean = (ours + theirs) / 2
    halves = [(one * (one / mean).log2()).nansum(-1) / 2 for one in (ours, theirs)]
    shown = float(head.get_attribute("data-value") or "nan")
    assert shown == pytest.approx(float(sum(halves).mean()), abs=1e-4)


def test_models_lead_to_their_pages_and_have_their_scores(page: Page, site: Path) -> None:
    page.goto((site / "bert" / "models.html").as_uri())
    cards = page.locator(".card")
    assert cards.count() == len(models.shipped())
    assert page.locator("a.card").count() == 0  # the site has no other model
    score = models.load("dates-rnn").training["scores"]["held-out exact match"]
    expect(page.locator('[data-name="dates-rnn"] .scores')).to_contain_text(f"{score:.4g} %")


def test_a_lesson_hides_what_happened_until_it_is_requested(page: Page, tmp_path: Path) -> None:
    lesson = offered_lessons().named("2-alignment")
    assert lesson
    write_site(tmp_path, export.site_files(["eng-fra-bahdanau"], ["attention"], [lesson]))
    page.goto((tmp_path / "index.html").as_uri())
    page.get_by_role("link", name=lesson.title).click()
    told = page.locator(".told")
    expect(told.first).to_be_hidden()
    for fold in page.get_by_text("Show what happened").all():
        fold.click()
    run = models.load("eng-fra-bahdanau").run("The black cat is here.")
    weight = float(run.attention["decoder.alignment"].weights(0)[2].max())
    expect(told.first).to_contain_text(f"{100 * weight:.0f} %")
    head = page.locator(".st-key-head-0 .head")
    expect(head).to_have_attribute("data-site", "decoder.alignment")
    page.locator('[class^="st-key-stepper"]').first.locator("button.on").click()
    expect(page.locator(".notice")).to_be_hidden()
    page.locator('[class^="st-key-stepper"] .serial button.bar').nth(2).click()
    expect(page.locator(".notice")).to_contain_text("Only the app")


def test_the_link_past_the_navigation_changes_nothing(page: Page, site: Path) -> None:
    attention(page, site)
    pick(page, *HELD[:2])
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.locator(".notice")).to_be_hidden()
    expect(head(page)).to_have_attribute("data-site", HELD[0])


def test_the_pages_are_accessible(browser: Browser, site: Path, tmp_path: Path) -> None:
    lesson = offered_lessons().named("4-masks")
    assert lesson
    write_site(tmp_path, export.site_files(["eng-fra-bahdanau"], ["attention"], [lesson]))
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme, bypass_csp=True)
        page = context.new_page()
        for path in (*sorted(site.rglob("*.html")), tmp_path / "lessons" / "4-masks.html"):
            page.goto(path.as_uri())
            for _ in range(9):  # scrolling elements become focusable once a picture is at rest
                page.wait_for_timeout(700)
                if not (found := AXE.run(page).response["violations"]):
                    break
            assert [(path.name, one["id"]) for one in found] == []
        context.close()


def test_an_address_without_a_page_says_so(page: Page, site: Path) -> None:
    attention(page, site)
    opened = head(page).get_attribute("data-head")
    page.goto(f"{(site / 'bert' / 'attention.html').as_uri()}#site=nowhere")
    expect(page.locator(".notice")).to_contain_text("not in the static edition")
    expect(head(page)).to_have_attribute("data-head", opened)


@pytest.mark.parametrize("page", ["dark"], indirect=True)
def test_dark_and_light_are_those_of_the_system_until_one_is_chosen(page: Page, site: Path) -> None:
    attention(page, site)
    body = page.locator("body")
    picture = page.locator(".st-key-head .map canvas").first
    expect(body).to_have_css("background-color", "rgb(16, 20, 29)")
    dark = picture.screenshot()
    page.get_by_role("button", name="Light").click()
    expect(body).to_have_css("background-color", "rgb(255, 255, 255)")
    assert picture.screenshot() != dark
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Task").click()
    expect(body).to_have_css("background-color", "rgb(255, 255, 255)")


def test_a_page_runs_no_script_that_is_not_its_own(browser: Browser, site: Path) -> None:
    page = browser.new_page()
    page.goto((site / "bert" / "task.html").as_uri())
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.ran = true";
        document.head.append(script);
        document.body.insertAdjacentHTML("beforeend", "<img src='https://example.org/x.png' onerror='window.ran = true'>");
    }""")
    page.wait_for_timeout(200)
    assert page.evaluate("window.ran") is None
    assert len([text for text in refused if "Content Security Policy" in text]) >= 2
    page.close()


def test_a_text_is_shown_as_text(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hostile(ModelTexts):
        texts = (f"</script></template>{EVIL}", "")

    monkeypatch.setattr(export, "ModelTexts", Hostile)
    monkeypatch.setattr(crawl, "MAX_STILLS", 2)
    write_site(tmp_path, export.site_files(["gpt"], ["attention", "positions"], []))
    page.goto((tmp_path / "index.html").as_uri())
    expect(page.locator("table")).to_contain_text("onerror")
    page.goto((tmp_path / "gpt" / "attention.html").as_uri())
    expect(page.locator(".inputs")).to_contain_text(EVIL)
    expect(head(page)).to_have_attribute("data-painted", re.compile(r"\d+"))
    assert page.locator("img").count() == 0
    page.goto((tmp_path / "gpt" / "positions-added-or-concatenated.html").as_uri())
    expect(page.locator(".library-chart .xtitle").first).to_be_visible()
    assert page.locator("img").count() == 0
