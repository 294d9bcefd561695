"""The Positions page in a real browser: a formula is picked, tokens are reordered, and the numbers are those of `models`."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlparse

import numpy as np
import pytest
from playwright.sync_api import Page, expect, sync_playwright
from small import Reversal, random_model

import models
import viz_app
from models.checkpoint import save_checkpoint
from models.position_measures import measure
from models.positions import FORMULAS, formula_table
from models.shuffle import new_order, shuffle_test, without_positions
from viz_app.figures import positions_words as say
from viz_app.figures.positions_shuffle import says

TEXT = "abcde"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PATIENCE = 120_000  # ms; the machine that runs this may be busy with other things
CELLS = """key => {   // the cells of a plotly heatmap, by the key of its Streamlit element
    const plot = document.querySelector(`.st-key-${key} .js-plotly-plot`);
    const z = plot && plot._fullLayout && plot.calcdata && plot.calcdata[0][0].z;
    return z && [...z].map(row => [...row]);
}"""

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium here")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with random weights and learned positions."""
    folder = tmp_path_factory.mktemp("browser") / "learned"
    model = random_model(vocab_size=9, n_encoder_layers=2, positions="learned")
    save_checkpoint(folder, model, Reversal().tokenizer, {"step": 0, "task": "reversal"})
    return folder


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The app, served for these tests alone."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    app = Path(viz_app.__file__).with_name("app.py")
    command = [sys.executable, "-m", "streamlit", "run", str(app), f"--server.port={port}", "--server.headless=true"]
    environment = {"PYTHONPATH": str(app.parents[1]), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    environment["ATTNSCOPE_DEVICE"] = "cpu"
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield f"http://localhost:{port}"
    server.terminate()
    server.wait()


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Page]:
    """One page; each test goes to the address it needs."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        for _ in range(120):
            try:
                page.goto(address)
                break
            except Exception:  # the server is not up yet
                page.wait_for_timeout(500)
        yield page
        browser.close()


def opened(page: Page, address: str, folder: Path, **params: str) -> None:
    """A fresh session at this link."""
    asked = {"checkpoint": str(folder), "source": TEXT, **{f"positions-{name}": value for name, value in params.items()}}
    page.goto(f"{address}/positions?{urlencode(asked)}")
    expect(page.locator(".checks")).to_be_visible()


def cells(page: Page, key: str, wanted: np.ndarray) -> np.ndarray:
    """The cells of the picture, as soon as it is of the wanted shape and near the wanted values."""
    near = f"({CELLS})"
    page.wait_for_function(
        """([source, key, wanted]) => {
            const found = eval(source)(key);
            return found && found.length === wanted.length && found[0].length === wanted[0].length
                && found.every((row, i) => row.every((v, j) => Math.abs(v - wanted[i][j]) < 1e-3));
        }""",
        arg=[near, key, wanted.tolist()],
    )
    return np.array(page.evaluate(CELLS, key))


def params(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlparse(page.url).query)


def test_picking_a_formula_draws_it(page, address, checkpoint):
    opened(page, address, checkpoint, section="Map", d_model="16", length="40")
    for formula in ("2^i", "sin-sin", "paper"):
        page.get_by_text(say.NAMES[formula], exact=True).click()
        table = formula_table(formula, 40, 16)
        drawn = cells(page, "positions-map", table.numpy())
        np.testing.assert_allclose(drawn, table.float().numpy(), atol=1e-7)
    page.get_by_text(say.NAMES[say.OWN], exact=True).click()
    own = models.load(checkpoint, device="cpu").model.positions.table.detach().numpy()
    np.testing.assert_array_equal(cells(page, "positions-map", own).astype("float32"), own)
    assert params(page)["positions-table"] == [say.NAMES[say.OWN]]
    assert "✗" not in page.locator(".checks").inner_text()


def test_the_misprints_are_measured_as_models_measures_them(page, address, checkpoint):
    opened(page, address, checkpoint, section="Two misprints", d_model="32", length="60", shift="7")
    rows = page.locator("table tr")
    expect(rows).to_have_count(9)
    found = [row.split("\t") for row in rows.all_inner_texts()]
    measures = [measure(formula, 60, 32, 7) for formula in FORMULAS]
    assert [row[1:] for row in found[1:]] == [values for _, values in say.measured_rows(measures)]
    assert found[0][1:] == [say.NAMES[formula] for formula in FORMULAS]


def test_reordering_the_tokens_is_the_shuffle_test(page, address, checkpoint):
    opened(page, address, checkpoint)
    scope = models.load(checkpoint, device="cpu")
    ids = scope.encode_source(TEXT).ids
    for how in ("reversed", "two swapped", "shuffled"):
        page.get_by_text(how, exact=True).click()
        order = new_order(len(ids), how, 0)
        positioned = shuffle_test(scope.model, ids, order)
        drawn = cells(page, "positions-with", positioned.change.T.numpy())
        np.testing.assert_allclose(drawn, positioned.change.T.numpy(), atol=1e-5)
    bare = shuffle_test(without_positions(scope.model), ids, order)
    assert cells(page, "positions-without", bare.change.T.numpy()).max() < 1e-4
    expect(page.locator(".st-key-explanation")).to_contain_text(f"{100 * float(positioned.mean[-1]):.0f} % of its length")
    expect(page.locator(".st-key-positions-with")).to_contain_text(says(float(positioned.change[1, 0])))


def test_typing_reorders_the_new_text(page, address, checkpoint):
    opened(page, address, checkpoint, order="reversed")
    page.locator(".st-key-source input").fill("edcbabc")
    scope = models.load(checkpoint, device="cpu")
    ids = scope.encode_source("edcbabc").ids
    change = shuffle_test(scope.model, ids, new_order(len(ids), "reversed")).change.T.numpy()
    np.testing.assert_allclose(cells(page, "positions-with", change), change, atol=1e-5)
    assert params(page)["source"] == ["edcbabc"]
    assert params(page)["positions-order"] == ["reversed"]


def test_a_link_shows_the_same_view(page, address, checkpoint):
    opened(page, address, checkpoint, section="Curves", dims="3", d_model="8", length="60", table=say.NAMES["sin-sin"])
    expect(page.locator(".st-key-positions-dims")).to_contain_text("3")
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(2)
    expect(page.locator(".st-key-explanation")).to_contain_text("Sine printed in both places")


def test_a_picture_and_a_table_can_be_taken_away(page, address, checkpoint):
    opened(page, address, checkpoint, section="Map", d_model="8", length="20")
    cells(page, "positions-map", formula_table("paper", 20, 8).numpy())
    with page.expect_download() as table:
        page.get_by_text("This table, CSV").click()
    assert len(table.value.path().read_text().splitlines()) == 21
    page.locator(".st-key-positions-map .js-plotly-plot").hover()
    with page.expect_download() as picture:
        page.locator(".st-key-positions-map [data-title^=Download]").click()
    assert picture.value.suggested_filename == "positions-map.svg"


@pytest.mark.parametrize("width", [420, 1280, 1600])
def test_nothing_is_wider_than_the_screen(page, address, checkpoint, width):
    page.set_viewport_size({"width": width, "height": 800})
    for section in ("Shuffle test", "Curves", "Map", "Two misprints", "Added or concatenated"):
        opened(page, address, checkpoint, section=section)
        page.wait_for_timeout(500)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1"), section
        assert not page.locator("[data-testid=stException]").count()
    page.set_viewport_size({"width": 1280, "height": 720})
