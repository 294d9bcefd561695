"""What the browser tests share: the app served once for all of them, and a real Chromium.

A machine without Chromium skips these tests and says so; under CI a missing browser is a failure.
"""

import atexit
import functools
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

import viz_app

CHROMIUM = next(
    filter(
        None,
        map(
            shutil.which,
            ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"),
        ),
    ),
    None,
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]
# ms; the first page imports torch, and the machine may be busy with other things
PATIENCE = 120_000


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


@functools.cache
def app_address() -> str:
    """The address of the app, started on a free port the first time anyone asks and stopped when the tests end."""
    port = free_port()
    app = Path(viz_app.__file__).with_name("server.py")
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        str(app),
        f"--server.port={port}",
        "--server.headless=true",
    ]
    paths = os.pathsep.join([str(app.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "ATTNSCOPE_DEVICE": "cpu"}
    server = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    atexit.register(_stop, server)
    address = f"http://localhost:{port}"
    while server.poll() is None:  # as slow as the machine may be
        try:
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return address
    raise RuntimeError(f"the app did not start: {' '.join(command)}")


def _stop(server: subprocess.Popen) -> None:
    server.terminate()
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()


def no_browser() -> NoReturn:
    """Skip here; fail under CI, where a missing browser would hide that nothing was tested."""
    message = (
        "there is no Chromium on this machine (Debian: apt-get install chromium-headless-shell)"
    )
    pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A headless Chromium, the same for all tests of a folder."""
    if CHROMIUM is None:
        no_browser()
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Share what the browser has fetched and compiled of the app's own files. Each page has its own session."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 720},
        accept_downloads=True,
        bypass_csp=True,  # Playwright's wait_for_function needs eval; test_content_policy.py holds the policy
    )
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@contextmanager
def watched(context: BrowserContext) -> Iterator[Page]:
    """A page that fails its test on an error in its JavaScript."""
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    page.close()
    assert not errors, f"errors in the browser: {errors}"


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A fresh session's page."""
    with watched(context) as page:
        yield page


@pytest.fixture(scope="module")
def shared_page(context: BrowserContext) -> Iterator[Page]:
    """One session for all tests of a module, which go from view to view in it."""
    with watched(context) as page:
        yield page


def visit(page: Page, path: str = "", ready: str = ".head[data-painted]", **params: str) -> None:
    """Open a page of the app with a view in its URL, and wait until what is `ready` with its picture stands."""
    page.goto(f"{app_address()}/{path}?{urlencode(params)}")
    page.wait_for_selector(ready)


def go(page: Page, path: str, ready: str, **params: str) -> None:
    """As `visit`, in the session that stands, as Back and Forward lead to a view: half the work of a fresh one. What was typed
    before is handed over first, and the view stands still when it is there."""
    if not page.url.startswith(app_address()):
        visit(page, path, ready, **params)
    else:
        page.evaluate("document.activeElement?.blur()")
        rested(page)
        lead(page, f"{app_address()}/{path}?{urlencode(params)}")
        page.wait_for_function(
            "!document.querySelector('.st-key-opening')"
        )  # until then the model before it stays
        page.wait_for_selector(ready)
        page.wait_for_function(
            "(presented) => document.documentElement.hasAttribute('data-present') === presented",
            arg=params.get("present") == "1",
        )  # a component tells the document, when the browser gets to it
    rested(page)


def back(page: Page) -> None:
    """Press Back, and wait until what it leads to stands."""
    lead(page, "")
    rested(page)


def forward(page: Page) -> None:
    """Press Forward, and wait until what it leads to stands."""
    lead(page, "forward")
    rested(page)


def lead(page: Page, url: str) -> None:
    """Lead the app to an address, "" for the one before, "forward" for the next, and wait until the run that it asks for has ended."""
    page.evaluate(_LED, url)


_LED = """(url) => new Promise((done) => {
  const state = () => document.querySelector("[data-testid=stApp]")?.dataset.testScriptState;
  let ran = false;
  // The run that has ended may have been asked for before; the one for this address clears `led` (components/live).
  const settle = () => (window.attnscopeHistory?.led === undefined && state() === "notRunning" ? done() : setTimeout(settle, 20));
  window.leading = new MutationObserver((changes, observer) => {
    ran ||= state() === "running" || changes.some((change) => change.oldValue === "running");
    if (!ran || state() !== "notRunning") return;
    observer.disconnect();
    setTimeout(settle);  // in a task of its own: a promise that is kept may be collected before it is seen to be, by work in this one
  });  // kept by the window: an observer of an element goes with it
  leading.observe(document, { subtree: true, attributeFilter: ["data-test-script-state"], attributeOldValue: true });
  if (!url || url === "forward") return void (url ? history.forward() : history.back());
  history.pushState({}, "", url);
  dispatchEvent(new PopStateEvent("popstate"));
})"""


def in_url(page: Page, name: str, value: str) -> None:
    """Wait until the address has this parameter, "" for none."""
    page.wait_for_function(
        "([n, v]) => (new URLSearchParams(location.search).get(n) ?? '') === v", arg=[name, value]
    )


def rested(page: Page) -> None:
    """Wait until Python has nothing more to send and what it has sent is drawn."""
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    page.wait_for_function("!document.querySelector('[data-testid=stSkeleton]')")
    page.evaluate("document.fonts.ready")  # another font may break a line elsewhere
    frames(page, 2)


def frames(page: Page, n: int) -> None:
    """Let the browser draw so many frames."""
    page.evaluate(
        """(n) => new Promise((done) => {
          const next = () => (n-- ? requestAnimationFrame(next) : done());
          next();
        })""",
        n,
    )


def open_details(page: Page) -> None:
    """Open the drawer with the explanation, the files and the checks."""
    closed = page.locator("[class*=st-key-details] details:not([open]) > summary")
    if closed.count():  # a page keeps its drawer open while it is edited
        closed.first.click()
        still(page)  # else a link in it may move away between pressing and releasing the button


def take(page: Page, within: str, form: str) -> None:
    """Take a picture away in a form of its menu: PNG, SVG, PDF or CSV."""
    menu = page.locator(f"{within} .take")
    menu.locator(".open").click()
    menu.get_by_role("button", name=form, exact=True).click()


def laid_out(page: Page) -> None:
    """Wait until the page is at rest and nothing on it moves."""
    rested(page)
    still(page)


def still(page: Page) -> None:
    """Wait until each element of the page is in the same place as ten frames before."""
    page.evaluate(_STILL)


def resized(page: Page, width: int, height: int = 720) -> None:
    """Give the window this size, and wait until nothing on the page moves."""
    if page.viewport_size == {"width": width, "height": height}:
        return
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_function("([w, h]) => innerWidth === w && innerHeight === h", arg=[width, height])
    still(page)


def boxes(page: Page, *parts: str | Locator) -> list[dict[str, float]]:
    """Where these parts are once nothing moves, all measured in the same moment: x, y, width, height, right, bottom."""
    still(page)
    found = [page.locator(part) if isinstance(part, str) else part for part in parts]
    return page.evaluate(
        "(all) => all.map((one) => one.getBoundingClientRect().toJSON())",
        [one.first.element_handle() for one in found],
    )


def cell_of(drawn: Locator, query: float, key: float) -> dict[str, float]:
    """Where the middle of a cell is in the canvas of its heatmap, as the element that has drawn it says."""
    return drawn.evaluate(_CELL, [query, key])


_CELL = """({ dataset: { left, top, wide, tall } }, [query, key]) => ({
  x: Number(left) + (key + 0.5) * wide, y: Number(top) + (query + 0.5) * tall,
})"""


def rest_on(page: Page, part: Locator, x: float | None = None, y: float | None = None) -> None:
    """Let the pointer rest on a part, or at a place in it. A page that is still scrolling it into view would forget the pointer."""
    part.scroll_into_view_if_needed()
    rested(page)
    (box,) = boxes(page, part)
    page.mouse.move(
        box["x"] + (box["width"] / 2 if x is None else x),
        box["y"] + (box["height"] / 2 if y is None else y),
    )


# resolves when all elements are in the same places as five and ten frames before; to ask for them is work
_STILL = """() => new Promise((done) => {
  const places = (root) => [...root.querySelectorAll("*")].flatMap((e) => {
    const { x, y, width, height } = e.getBoundingClientRect();
    return [x, y, width, height, ...(e.shadowRoot ? places(e.shadowRoot) : [])];
  });
  let before = "", same = 0, frame = 0;
  const next = () => {
    if (frame++ % 5 === 0) {
      const now = places(document).join(" ");
      same = now === before ? same + 1 : 0;
      before = now;
    }
    same === 2 ? done() : requestAnimationFrame(next);
  };
  next();
})"""
