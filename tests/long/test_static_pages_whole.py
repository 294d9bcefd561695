"""The whole static edition: its size, every page of it in a browser, and every link in it."""

import re
from html import unescape
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from viz_app.static_pages import export
from viz_app.static_pages.contents import MODELS
from viz_app.static_pages.folder import write_site
from viz_app.static_pages.page import POLICY

EMPTY = """() => [...document.querySelectorAll("main [class^=st-key]")].filter((place) =>
    place.getBoundingClientRect().height && !place.shadowRoot.querySelector("canvas, svg, p, button, table")).length"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write_site(folder, export.site_files())
    return folder


def test_the_site_is_small_and_has_every_model(site: Path) -> None:
    assert sum(path.stat().st_size for path in site.rglob("*")) <= 20_000_000
    for model in MODELS:
        pages = {path.stem for path in (site / model).glob("*.html")}
        assert {"attention", "task", "inside", "masks"} <= pages


def test_every_link_leads_to_a_page_of_the_site(site: Path) -> None:
    for path in site.rglob("*.html"):
        page = path.read_text("utf-8")
        assert POLICY in unescape(page)
        for target in re.findall(r'(?:href|src)="([^"#][^"]*)"', page):
            assert target == "data:," or (path.parent / target).resolve().is_file(), target


def test_every_page_opens_from_disk_without_a_word(browser: Browser, site: Path) -> None:
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
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, (path, width)
        assert said == []
        context.close()
