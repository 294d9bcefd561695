"""The app, served once for all browser tests, and a real Chromium to visit it.

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
# ms; the first page imports torch, and the machine may be busy
PATIENCE = 120_000


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


@functools.cache
def app_address() -> str:
    """Return the address of the app, which is started on a free port at the first call and stopped when the tests end."""
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
    """Skip the test; fail it under CI, where a missing browser would hide that nothing was tested."""
    message = (
        "there is no Chromium on this machine (Debian: apt-get install chromium-headless-shell)"
    )
    pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A headless Chromium, shared by all tests of a folder."""
    if CHROMIUM is None:
        no_browser()
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser context that shares the app's fetched and compiled files; each of its pages has its own session."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 720},
        accept_downloads=True,
        bypass_csp=True,  # Playwright's wait_for_function needs eval; test_content_policy.py holds the policy
    )
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@contextmanager
def watched_page(context: BrowserContext) -> Iterator[Page]:
    """Give a page that fails its test on an error in its JavaScript."""
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    page.close()
    assert not errors, f"errors in the browser: {errors}"


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """The page of a fresh session."""
    with watched_page(context) as page:
        yield page


@pytest.fixture(scope="module")
def shared_page(context: BrowserContext) -> Iterator[Page]:
    """The page of one session for all tests of a module, which go from view to view in it."""
    with watched_page(context) as page:
        yield page


def visit(page: Page, path: str = "", ready: str = ".head[data-painted]", **params: str) -> None:
    """Open a page of the app with a view in its URL, and wait for the element `ready`, which appears with its picture."""
    page.goto(f"{app_address()}/{path}?{urlencode(params)}")
    page.wait_for_selector(ready)


def go(page: Page, path: str, ready: str, **params: str) -> None:
    """Like `visit`, but in the session that is open, as Back and Forward lead to a view: half the work of a fresh one. What was
    typed before is handed over first; returns once the view is there and at rest."""
    if not page.url.startswith(app_address()):
        visit(page, path, ready, **params)
    else:
        page.evaluate("document.activeElement?.blur()")
        wait_until_idle(page)
        navigate(page, f"{app_address()}/{path}?{urlencode(params)}")
        page.wait_for_function(
            "!document.querySelector('.st-key-opening')"
        )  # until then the model before it stays
        page.wait_for_selector(ready)
        page.wait_for_function(
            "(presented) => document.documentElement.hasAttribute('data-present') === presented",
            arg=params.get("present") == "1",
        )  # a component tells the document, when the browser gets to it
    wait_until_idle(page)


def back(page: Page) -> None:
    """Press Back, and wait until the page that it leads to is at rest."""
    navigate(page, "")
    wait_until_idle(page)


def forward(page: Page) -> None:
    """Press Forward, and wait until the page that it leads to is at rest."""
    navigate(page, "forward")
    wait_until_idle(page)


def navigate(page: Page, url: str) -> None:
    """Send the app to an address ("" for the previous one, "forward" for the next), and wait until the run for it has ended."""
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


def wait_until_idle(page: Page) -> None:
    """Wait until Python has nothing more to send and everything sent is drawn."""
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    page.wait_for_function("!document.querySelector('[data-testid=stSkeleton]')")
    page.evaluate("document.fonts.ready")  # another font may break a line elsewhere
    frames(page, 2)


def frames(page: Page, n: int) -> None:
    """Let the browser draw n frames."""
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
        wait_until_still(
            page
        )  # else a link in it may move away between pressing and releasing the button


def save_picture(page: Page, within: str, form: str) -> None:
    """Save a picture in one of the formats of its menu: PNG, SVG, PDF or CSV."""
    menu = page.locator(f"{within} .take")
    menu.locator(".open").click()
    menu.get_by_role("button", name=form, exact=True).click()


def wait_for_layout(page: Page) -> None:
    """Wait until the page is at rest and nothing on it moves."""
    wait_until_idle(page)
    wait_until_still(page)


def wait_until_still(page: Page) -> None:
    """Wait until each element of the page is in the same place as ten frames before."""
    page.evaluate(_STILL)


def resize(page: Page, width: int, height: int = 720) -> None:
    """Resize the window, and wait until nothing on the page moves."""
    if page.viewport_size == {"width": width, "height": height}:
        return
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_function("([w, h]) => innerWidth === w && innerHeight === h", arg=[width, height])
    wait_until_still(page)


def boxes(page: Page, *parts: str | Locator) -> list[dict[str, float]]:
    """Return where these parts are once nothing moves, all measured at once: x, y, width, height, right, bottom."""
    wait_until_still(page)
    found = [page.locator(part) if isinstance(part, str) else part for part in parts]
    return page.evaluate(
        "(all) => all.map((one) => one.getBoundingClientRect().toJSON())",
        [one.first.element_handle() for one in found],
    )


def cell_of(drawn: Locator, query: float, key: float) -> dict[str, float]:
    """Return the middle of a cell in the canvas of its heatmap, from the data of the element that has drawn it."""
    return drawn.evaluate(_CELL, [query, key])


_CELL = """({ dataset: { left, top, wide, tall } }, [query, key]) => ({
  x: Number(left) + (key + 0.5) * wide, y: Number(top) + (query + 0.5) * tall,
})"""


def rest_on(page: Page, part: Locator, x: float | None = None, y: float | None = None) -> None:
    """Let the pointer rest on a part, or at a position in it, after scrolling it into view: a page that still scrolls forgets the pointer."""
    part.scroll_into_view_if_needed()
    wait_until_idle(page)
    (box,) = boxes(page, part)
    page.mouse.move(
        box["x"] + (box["width"] / 2 if x is None else x),
        box["y"] + (box["height"] / 2 if y is None else y),
    )


# resolves when all elements are in the same places as five and ten frames before; asking in every frame would be costly
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
