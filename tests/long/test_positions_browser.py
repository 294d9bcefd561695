"""The page Positions in a real browser: a formula is picked, tokens are reordered, and the numbers are those of `models`."""

import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hub_models import BY_NAME
from playwright.sync_api import Page, expect
from served_app import (
    PATIENCE,
    boxes,
    go,
    in_url,
    open_details,
    resize,
    save_picture,
    visit,
    wait_until_idle,
)
from small import Reversal, random_model

import models
from models.analysis.position_measures import measure_formula
from models.analysis.shuffle import new_order, shuffle_test, without_positions
from models.checkpoint import save_checkpoint
from models.layers.positions import FORMULAS, formula_table
from viz_app.views.positions import text as say
from viz_app.views.positions.misprints import measured_rows
from viz_app.views.positions.text import change_text

TEXT = "abcde"
CELLS = """key => {   // the cells of a plotly heatmap, by the key of its Streamlit element
    const plot = document.querySelector(`.st-key-${key} .js-plotly-plot`);
    const z = plot && plot._fullLayout && plot.calcdata && plot.calcdata[0][0].z;
    return z && [...z].map(row => [...row]);
}"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with random weights and learned positions."""
    folder = tmp_path_factory.mktemp("browser") / "learned"
    model = random_model(vocab_size=9, n_encoder_layers=2, positions="learned")
    save_checkpoint(folder, model, Reversal().tokenizer, {"step": 0, "task": "reversal"})
    return folder


def url_parameters(folder: Path, **params: str) -> dict[str, str]:
    """Return the URL parameters of this page."""
    return {
        "checkpoint": str(folder),
        "source": TEXT,
        **{f"positions-{name}": value for name, value in params.items()},
    }


def open_page(page: Page, folder: Path, **params: str) -> None:
    """Open the page at this link."""
    go(page, "positions", ".st-key-checked", **url_parameters(folder, **params))


def cells(page: Page, key: str, wanted: np.ndarray) -> np.ndarray:
    """Return the cells of the picture, once it has the wanted shape and is near the wanted values."""
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


def map_cells(page: Page, name: str, wanted: np.ndarray) -> np.ndarray:
    """Return the cells of a map of the shuffle test, once they are near the wanted ones."""
    rects = page.locator(f".shuffle rect[data-map={name}]")
    end = time.monotonic() + PATIENCE / 1000
    while True:
        found = np.array(rects.evaluate_all("all => all.map((e) => Number(e.dataset.value))"))
        if found.size == wanted.size and np.allclose(
            found.reshape(wanted.shape), wanted, atol=1e-3
        ):
            return found.reshape(wanted.shape)
        assert time.monotonic() < end, (found, wanted)
        page.wait_for_timeout(50)


def test_picking_a_formula_draws_it(shared_page, checkpoint):
    open_page(shared_page, checkpoint, section="Map", d_model="16", length="40")
    for formula in ("2^i", "sin-sin", "paper"):
        shared_page.get_by_text(say.TABLE_NAMES[formula], exact=True).click()
        table = formula_table(formula, 40, 16)
        drawn = cells(shared_page, "positions-map", table.numpy())
        np.testing.assert_allclose(drawn, table.float().numpy(), atol=1e-7)
    shared_page.get_by_text(say.TABLE_NAMES[say.OWN_TABLE], exact=True).click()
    own = models.load(checkpoint, device="cpu").model.positions.table.detach().numpy()
    np.testing.assert_array_equal(cells(shared_page, "positions-map", own).astype("float32"), own)
    in_url(shared_page, "positions-table", say.TABLE_NAMES[say.OWN_TABLE])
    assert "✗" not in shared_page.locator(".checks").text_content()


def test_the_misprints_are_measured_as_models_measures_them(shared_page, checkpoint):
    open_page(
        shared_page, checkpoint, section="Two misprints", d_model="32", length="60", shift="7"
    )
    open_details(shared_page)
    rows = shared_page.locator("table tr")
    expect(rows).to_have_count(9)
    found = [row.split("\t") for row in rows.all_inner_texts()]
    measures = [measure_formula(formula, 60, 32, 7) for formula in FORMULAS]
    assert [row[1:] for row in found[1:]] == [values for _, values in measured_rows(measures)]
    assert found[0][1:] == [say.TABLE_NAMES[formula] for formula in FORMULAS]


def test_reordering_the_tokens_is_the_shuffle_test(shared_page, checkpoint):
    open_page(shared_page, checkpoint)
    scope = models.load(checkpoint, device="cpu")
    ids = scope.encode(source=TEXT)["source"].ids
    for how in ("reversed", "two swapped", "shuffled"):
        shared_page.get_by_text(how, exact=True).click()
        order = new_order(len(ids), how, 0)
        positioned = shuffle_test(scope.model, ids, order)
        drawn = map_cells(shared_page, "map0", positioned.change.T.numpy())
        np.testing.assert_allclose(drawn, positioned.change.T.numpy(), atol=1e-5)
    bare = shuffle_test(without_positions(scope.model), ids, order)
    assert map_cells(shared_page, "map1", bare.change.T.numpy()).max() < 1e-4
    expect(shared_page.locator(".explained")).to_contain_text(
        f"{100 * float(positioned.mean[-1]):.0f} % of its length"
    )
    expect(shared_page.locator(".st-key-positions-shuffle")).to_contain_text(
        change_text(float(positioned.change[1, 0]))
    )
    lines = shared_page.locator(".shuffle line[data-moves]").evaluate_all(
        "all => all.map((e) => e.dataset.moves.split(' ').map(Number))"
    )
    assert lines == [[from_, to] for to, from_ in enumerate(order)]
    bars = shared_page.locator(".shuffle rect[data-bar]").evaluate_all(
        "all => all.map((e) => Number(e.dataset.value))"
    )
    np.testing.assert_allclose(bars, np.stack([positioned.mean, bare.mean]).T.ravel(), atol=1e-5)
    cell = shared_page.locator(".shuffle rect[data-map=map0][data-row='2'][data-stage='1']")
    wait_until_idle(shared_page)  # there is no hover on data that Python sends again
    cell.hover(force=True)
    expect(shared_page.locator(".st-key-positions-shuffle .tip")).to_contain_text(
        cell.get_attribute("data-value")
    )
    with shared_page.expect_download() as picture:
        save_picture(shared_page, ".st-key-positions-shuffle", "SVG")
    drawing = ElementTree.parse(picture.value.path())
    assert len(drawing.findall(".//{*}rect[@data-map]")) == 2 * positioned.change.numel()


def test_typing_reorders_the_new_text(shared_page, checkpoint):
    open_page(shared_page, checkpoint, order="reversed")
    shared_page.locator(".st-key-source textarea").fill("edcbabc")
    scope = models.load(checkpoint, device="cpu")
    ids = scope.encode(source="edcbabc")["source"].ids
    change = shuffle_test(scope.model, ids, new_order(len(ids), "reversed")).change.T.numpy()
    np.testing.assert_allclose(map_cells(shared_page, "map0", change), change, atol=1e-5)
    in_url(shared_page, "source", "edcbabc")
    in_url(shared_page, "positions-order", "reversed")


def test_a_link_shows_the_same_view(page, checkpoint):
    open_page(
        page,
        checkpoint,
        section="Curves",
        dims="3",
        d_model="8",
        length="60",
        table=say.TABLE_NAMES["sin-sin"],
    )
    expect(page.locator(".st-key-positions-dims")).to_contain_text("3")
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(2)
    expect(page.locator(".st-key-explanation")).to_contain_text("Sine is printed twice")


def test_a_picture_and_a_table_can_be_downloaded(shared_page, checkpoint):
    open_page(shared_page, checkpoint, section="Map", d_model="8", length="20")
    cells(shared_page, "positions-map", formula_table("paper", 20, 8).numpy())
    open_details(shared_page)
    with shared_page.expect_download() as table:
        shared_page.get_by_text("This table, CSV").click()
    lines = table.value.path().read_text().splitlines()
    about = [line for line in lines if line.startswith("# ")]
    assert any("# table: " in line for line in about)
    assert len(lines) == len(about) + 21
    shared_page.locator(".st-key-positions-map .js-plotly-plot").hover()
    with shared_page.expect_download() as picture:
        shared_page.locator(".st-key-positions-map [data-title^=Download]").click()
    assert picture.value.suggested_filename == "paper.20x8.positions.map.svg"


def test_the_rotation_of_a_hugging_face_model_is_on_one_screen(
    shared_page: Page, tmp_path: Path
) -> None:
    """In sight are the slider of the length, the angles and their model, the waves, and the beginning of the text and the checks."""
    BY_NAME["LlamaForCausalLM"].save(tmp_path / "llama")
    resize(shared_page, 1280)
    params = {
        "checkpoint": str(tmp_path / "llama"),
        "text": "7 11 5 23 41",
        "positions-section": "Rotation",
    }
    visit(shared_page, "positions", ".st-key-positions-rotation .annotation", **params)
    waves = "[data-testid=stVegaLiteChart]"
    shared_page.wait_for_selector(waves)
    wait_until_idle(shared_page)
    whole = [
        ".st-key-positions-length",
        ".st-key-positions-rotation",
        ".st-key-positions-rotation .annotation",
        waves,
    ]
    found = boxes(shared_page, *whole, ".st-key-details")
    seen, begin = found[: len(whole)], found[len(whole) :]
    assert all(box["y"] >= 0 and box["bottom"] <= 720 for box in seen), seen
    assert all(0 <= box["y"] <= 720 - 40 for box in begin), begin


def test_the_shuffle_test_and_the_name_of_its_scale_are_on_one_screen(shared_page: Page) -> None:
    resize(shared_page, 1280)
    visit(
        shared_page,
        "positions",
        ".shuffle[data-painted]",
        checkpoint="eng-fra",
        source="She is reading a book.",
    )
    wait_until_idle(shared_page)
    named = shared_page.locator(".shuffle svg text", has_text="moved by")
    expect(named).to_have_count(2)
    assert all(box["bottom"] <= 720 for box in boxes(shared_page, named.first, named.last))
