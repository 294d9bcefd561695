"""From a key pressed to the new picture painted, in a real browser: each page of the app beside a trivial page.

Both run with the app's settings, in one Chromium, and take turns key by key, without a pause, as in typing; each page of the
app has its own name in the sentence, so that it finds no run of another page. The time is the browser's own: from the input
event to the end of the frame in which every picture of the page has been redrawn and the strip above shows the new text; for
the trivial page, in which the text is echoed. After each key the tokens in the picture are compared with the text.
In the same run, the model's own passes for the page are timed without the app: a page cannot be faster than these.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from playwright.sync_api import Browser, Page, sync_playwright

import models
from models import Scope
from models.decoding.runs import Method, autoregressive
from models.runs.masked_comparison import run_masked
from tests.benchmarks.serving import APP, SCRIPTS, served
from tests.benchmarks.side_by_side import Result, over, print_table
from tests.served_app import CHROMIUM, FLAGS

TYPED = "{} told us that he reads a book"  # no text twice: every key is a new run; a space is typed with the next letter
SECOND, SECOND_TARGET = "Where did you buy this hat?", "Où as-tu acheté ce chapeau ?"
WARMING = 3  # keys

WATCH = """
() => {
  const everywhere = (selector, root = document) => [...root.querySelectorAll("*")].flatMap((e) =>
    [...(e.matches(selector) ? [e] : []), ...(e.shadowRoot ? everywhere(selector, e.shadowRoot) : [])]);
  const kept = {};
  window.found = (selector) => kept[selector]?.isConnected ? kept[selector] : (kept[selector] = everywhere(selector)[0]);
  window.drawn = (parts) => parts.map((part) => found(part)?.dataset.painted);
  const still = () => document.querySelector("[data-testid=stApp]").dataset.testScriptState === "notRunning";
  const after = (ready, then) => requestAnimationFrame(function look() {
    if (!ready()) return requestAnimationFrame(look);
    const end = new MessageChannel();       // its message comes when the frame has been laid out and painted
    end.port1.onmessage = then;
    end.port2.postMessage(0);
  });
  window.watch = ([text, parts]) => {
    const before = drawn(parts);
    window.edit = new Promise((resolve) => document.addEventListener("input", (event) => {
      const start = performance.now(), typed = event.target.value;
      const done = () => found(text)?.textContent === typed && drawn(parts).every((now, i) => now !== before[i]);
      after(done, () => resolve(performance.now() - start));
    }, { capture: true, once: true }));
  };
  window.rest = () => new Promise((resolve) => after(still, resolve));
}
"""


def _run(scope: Scope, text: str) -> None:
    scope.run(text)


def _run_masked(scope: Scope, text: str) -> None:
    """Make one run, then the batch of the text and a second one."""
    ids = scope.run(text).streams["target"].ids[1:]
    run_masked(scope, [(text, None), (SECOND, SECOND_TARGET)], generated_tokens=(ids, ()))


def _run_decoding(scope: Scope, text: str) -> None:
    """Make one run, then decode the same text step by step with every step recorded."""
    trace = scope.run(text)
    autoregressive(scope.model, trace.streams["source"].ids, Method())


@dataclass(frozen=True)
class View:
    """A page to measure: its address, its pictures, the element with the text that was run, and the place of its tokens."""

    name: str
    address: str
    pictures: tuple[str, ...]
    text: str = ".written .source"
    tokens: str = ""  # JavaScript: the texts of the source's tokens in the picture
    box: str = "source"  # the field that is typed into
    goal: str = "≤ 2"
    needs: str = ""  # a shipped checkpoint; without it the page is left out
    passes: Callable[[Scope, str], None] = _run  # the model's computation for the page


TRIVIAL = View("a trivial page", "", (), "[data-testid=stText]")
VIEWS = (
    View(
        "Attention",
        "?site=decoder.layers.1.cross_attn",
        (".overview", ".head"),
        tokens="found('.head').view.picture.keys.map((label) => label[0])",
    ),
    View(
        "Inside a head",
        "inside?site=decoder.layers.1.cross_attn",
        (".choice", ".walk"),
        tokens="[...found('.choice').querySelectorAll('.keys button')].map((e) => e.textContent)",
    ),
    View(
        "Positions",
        "positions",
        (".shuffle",),
        tokens="found('.shuffle').view.picture.tokens.map((label) => label[0])",
    ),
    View(
        "Masks",
        "masks?mask=cross",
        (".masks",),
        tokens="found('.masks').view.picture.keys.map((label) => label[0])",
        passes=_run_masked,
    ),
    View(
        "Decoding",
        "decoding",
        (".stepper",),
        tokens="found('.stepper').view.picture.source.map((label) => label[0])",
        passes=_run_decoding,
    ),
    View(
        "Task, BERT",
        "task?checkpoint=bert&second_text=",
        (".guesses", ".pair"),
        box="text",
        goal="≤ 3",
        needs="bert",
    ),
)


def new_page(browser: Browser) -> Page:
    """Return an empty page of a projector's size."""
    return browser.new_page(viewport={"width": 1280, "height": 720})


def opened(page: Page, address: str, view: View) -> Page:
    """Return the page at rest, with all its pictures and its first text box selected."""
    page.set_default_timeout(120_000)
    page.goto(f"http://{address}/{view.address}")
    page.wait_for_selector(
        view.text, state="attached"
    )  # the line of the answer may hide the text that was run
    page.evaluate(WATCH)
    page.wait_for_function("(pictures) => drawn(pictures).every(Boolean)", arg=view.pictures)
    page.evaluate("() => rest()")
    if view.address:  # the app is behind an outline until then, and takes no key
        page.wait_for_selector("html[data-shown]", state="attached")
    page.locator(f".st-key-{view.box} :is(input, textarea)").first.press("Control+a")
    return page


def edit(page: Page, view: View, key: str) -> float:
    """Return the milliseconds from the key to the end of the frame that shows its change. Raises AssertionError if that is
    not the new text."""
    page.bring_to_front()
    page.evaluate("() => rest()")
    page.evaluate("(what) => watch(what)", [view.text, view.pictures])
    page.keyboard.insert_text(key)
    took = page.evaluate(
        "() => Promise.race([edit, new Promise((_, no) => setTimeout(() => no('no answer'), 15000))])"
    )
    if view.tokens:
        shown = [
            token for token in page.evaluate(f"() => {view.tokens}") if not token.startswith("[")
        ]
        typed = page.locator(".st-key-source :is(input, textarea)").first.input_value()
        assert "".join(shown).replace("·", " ").replace("␣", " ").strip() == typed.strip(), (
            f"{view.name} shows {shown}, not {typed!r}"
        )
    return took


def _passes(view: View, scope: Scope, text: str) -> float:
    """Return the milliseconds of the model's passes for this page and text."""
    start = time.perf_counter()
    view.passes(scope, text)
    return 1e3 * (time.perf_counter() - start)


def _compared(view: View, times: list[tuple[float, float, float]]) -> list[Result]:
    """Return the page's time over the trivial one's, and over the sum of that and the model's passes."""
    ours, trivial, passes = zip(*times, strict=True)
    floor = [page + model for page, model in zip(trivial, passes, strict=True)]
    note = f"{median(ours):.0f} against {median(trivial):.0f} ms"
    return [
        Result(f"key to repainted: {view.name} over a trivial page", over(ours, trivial), "", note),
        Result(
            f"key to repainted: {view.name} over a trivial page and the model's passes",
            over(ours, floor),
            view.goal,
            f"{note} + {median(passes):.0f} ms",
        ),
    ]


def measure(short: bool = False) -> list[Result]:
    """Measure with two servers and one browser, one page of the app after another; the first keys warm up."""
    results, warming = [], 1 if short else WARMING
    with (
        served(APP) as app,
        served(SCRIPTS / "trivial.py") as trivial,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for view, name in zip(VIEWS, ("Ann", "Bob", "Joe", "Meg", "Sam", "Tom"), strict=True):
            if view.needs and view.needs not in models.shipped():
                continue
            pages = [
                opened(new_page(browser), app, view),
                opened(new_page(browser), trivial, TRIVIAL),
            ]
            keys = re.findall(r" ?\S", TYPED.format(name))[: 2 if short else None]
            scope, typed, times = models.load(view.needs or "eng-fra"), "", []
            for key in keys:
                typed += key
                shown = [
                    edit(page, what, key) for page, what in zip(pages, (view, TRIVIAL), strict=True)
                ]
                times.append((*shown, _passes(view, scope, typed)))
            for page in pages:
                page.close()
            results += _compared(view, times[warming:])
        browser.close()
    return results


if __name__ == "__main__":
    print_table(measure())
