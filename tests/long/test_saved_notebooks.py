"""The pictures of the notebooks in assets/, saved, open from disk in a Chromium without a network."""

from pathlib import Path

import pytest
from notebooks import PATHS, save_pictures
from playwright.sync_api import Browser, expect


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_picture_opens_offline(browser: Browser, tmp_path: Path, path: Path) -> None:
    saved = save_pictures(path, tmp_path)
    assert saved
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    context.set_offline(True)
    wrong: list[str] = []
    for page_path in saved:
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda asked: (
                wrong.append(asked.url) if not asked.url.startswith(("file:", "blob:")) else None
            ),
        )
        page.goto(page_path.as_uri())
        expect(page.locator("main canvas, main svg").first).to_be_visible()
        page.close()
    context.close()
    assert wrong == []
