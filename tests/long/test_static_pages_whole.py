"""The whole static edition: its size, every page of it in a browser, and every link in it."""

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from viz_app.static_pages import export
from viz_app.static_pages.contents import STATIC_MODELS
from viz_app.static_pages.folder import write_site
from viz_app.static_pages.page import POLICY

pytestmark = pytest.mark.timeout(1200)  # s; the export alone takes some four minutes

EMPTY = """() => [...document.querySelectorAll("main [class^=st-key]")].filter((place) =>
    place.getBoundingClientRect().height && !place.shadowRoot.querySelector("canvas, svg, p, button, table")).length"""

SMALL = """
import hashlib
from viz_app.controls.lesson_panel import offered_lessons
from viz_app.static_pages import export
made = export.site_files(["eng-fra-bahdanau"], ["attention", "masks", "positions"], offered_lessons().lessons[:1])
print("sum", hashlib.sha256(repr(sorted(made.items())).encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write_site(folder, export.site_files())
    return folder


def test_the_site_is_small_and_has_every_model(site: Path) -> None:
    assert sum(path.stat().st_size for path in site.rglob("*")) <= 20_000_000
    for model in STATIC_MODELS:
        pages = {path.stem for path in (site / model).glob("*.html")}
        assert {"attention", "task", "inside", "masks", "interventions-heads", "models"} <= pages
    assert {
        *("positions-curves", "positions-two-misprints", "from-rnn-stages-on-dates"),
        *("interventions-patch", "interventions-attribution", "compare-its-own-heads"),
        *("compare-no-position-vectors", "compare-eng-fra-bahdanau"),
    } <= {path.stem for path in (site / STATIC_MODELS[0]).glob("*.html")}
    compared = {path.stem for path in (site / "eng-fra-bahdanau").glob("compare*.html")}
    assert compared == {"compare-eng-fra"}  # it has one head, and a text of its own is typed


def test_every_link_leads_to_a_page_of_the_site(site: Path) -> None:
    for path in site.rglob("*.html"):
        page = path.read_text("utf-8")
        assert POLICY in unescape(page)
        for target in re.findall(r'(?:href|src)="([^"#][^"]*)"', page):
            assert target == "data:," or (path.parent / target).resolve().is_file(), target


def test_every_page_opens_from_disk_without_console_messages(browser: Browser, site: Path) -> None:
    for scheme, width in (("light", 1280), ("dark", 420)):
        context = browser.new_context(
            offline=True, color_scheme=scheme, viewport={"width": width, "height": 800}
        )
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.on(
            "request",
            lambda one, said=said: (
                one.url.startswith(("file:", "data:", "blob:")) or said.append(one.url)
            ),
        )
        for path in sorted(site.rglob("*.html")):
            page.goto(path.as_uri())
            if path.name != "index.html":
                page.locator("main [class^=st-key]").first.wait_for(state="attached")
                page.wait_for_timeout(100)
                assert page.evaluate(EMPTY) == 0, path
                for chart in page.locator("main .library-chart").all():
                    chart.locator("svg").first.wait_for()
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, (path, width)
        assert said == []
        context.close()


def test_two_processes_write_the_same_bytes() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SMALL],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert re.search(r"^sum [0-9a-f]{64}$", outputs.pop(), re.MULTILINE)
