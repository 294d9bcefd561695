"""The page Inside a head in a real browser: the slider is moved, tokens are clicked, and every number is the model's own."""

import csv
import math
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from served_app import (
    boxes,
    go,
    in_url,
    open_details,
    resize,
    save_picture,
    wait_for_layout,
    wait_until_idle,
)
from small import N_HEADS, random_model

import models
from models import Trace
from models.analysis import head_sum, head_walk, softmax
from models.analysis.head_walk import Walk
from models.checkpoint import save_checkpoint
from models.tokenizers.base import Tokenizer

SOURCE, TARGET = "abcdeab", "edcba"
SITE, HEAD, QUERY, KEY = "decoder.layers.1.cross_attn", 1, 3, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A checkpoint with random weights: arithmetic needs no training."""
    made = tmp_path_factory.mktemp("inside") / "letters"
    tokenizer = Tokenizer.characters("abcde")
    model = random_model(vocab_size=tokenizer.vocab_size, n_ctx=13)
    save_checkpoint(made, model, tokenizer, {"step": 0, "task": "letters"})
    return made


@pytest.fixture(scope="module")
def trace(folder) -> Trace:
    return models.load(folder, device="cpu").run(SOURCE, TARGET)


@pytest.fixture
def opened(shared_page: Page, folder: Path) -> Callable[..., Page]:
    """A function that goes to an address and waits for the named component, and for the walk at its stage, which Back does not change."""

    resize(shared_page, 1280, 1100)  # the whole table, so that the pointer reaches it

    def open_page(component: str = "walk", **params: str) -> Page:
        link = {
            "checkpoint": str(folder), "source": SOURCE, "target": TARGET, "site": SITE, "head": HEAD, "lock": f"q{QUERY}",
            "inside-key": KEY, **{name.replace("_", "-"): value for name, value in params.items()},
        }  # fmt: skip
        go(shared_page, "inside", f".{component}[data-painted]", **link)
        if component == "walk":
            shared_page.locator(".walk .names button").nth(
                int(params.get("inside_stage", 0))
            ).click()
        return shared_page

    return open_page


def walk_of(trace: Trace, query: int = QUERY) -> Walk:
    return head_walk.head_walk(trace.attention[SITE], query, HEAD)


def near(shown: str | float, computed: float) -> bool:
    """Compare numbers: the page shows the shortest decimals of float32, and another process may round the last bit differently."""
    return float(shown) == pytest.approx(float(computed), rel=1e-4, abs=1e-6)


def pointed(page: Page, column: str, line: int, cell: int = 0, size: int = 1) -> dict[str, str]:
    """Return the tip of one cell of the table: row `line`, and number `cell` of a strip of `size` numbers."""
    table = page.locator(".walk, .heads").first
    place = table.evaluate("(root, id) => root.view.table.columns.find((c) => c.id === id)", column)
    assert place, f"no column {column} at this stage"
    x, y = place["x"] + place["width"] * (cell + 0.5) / size, 40 + 22 * (line + 0.5)
    table.locator("canvas.cells").hover(position={"x": x, "y": y})
    return table.locator(".tip").evaluate("tip => ({...tip.dataset})")


def test_the_slider_leads_from_the_vectors_to_the_output(opened, trace):
    """Every stage is visited with the keyboard; its numbers are recomputed here with `models`."""
    page, w = opened(), walk_of(trace)
    n, d, d_model = len(w.weights), trace.attention[SITE].d_head, len(w.a)
    slider, root = page.locator(".walk input[type=range]"), page.locator(".walk")
    checked = {
        0: [("a", w.memory, d_model)], 1: [("k", w.k, d), ("v", w.v, d)],
        2: [("products", w.comparison.elementwise, d), ("raw", w.raw, 1)],
        3: [("scores", w.scores, 1)], 4: [("masked", w.masked, 1)], 5: [("weights", w.weights, 1)],
        6: [("parts", w.parts, d)], 7: [("parts", w.parts, d)],
    }  # fmt: skip
    slider.focus()
    for stage in range(9):
        if stage:
            slider.focus()
            page.keyboard.press("ArrowRight")
        assert root.get_attribute("data-stage") == str(stage)
        for column, values, size in checked.get(stage, []):
            for j in range(0, n, 2):
                cell = (3 * j) % size
                shown = pointed(page, column, 1 + j, cell, size)["value"]
                assert near(shown, values[j] if size == 1 else values[j][cell]), (stage, column, j)
        if stage == 7:
            for cell in range(d):
                assert near(pointed(page, "parts", 1 + n, cell, d)["value"], w.b[cell])
    every = head_sum.head_sum(trace, trace.attention[SITE], QUERY)
    assert near(pointed(page, "added", HEAD, 4, d_model)["value"], w.added[4])
    assert near(pointed(page, "norm", HEAD)["value"], every.norms[HEAD])
    assert near(pointed(page, "added", len(every.added) + 1, 4, d_model)["value"], every.total[4])
    in_url(page, "inside-stage", "8")


def test_the_products_on_the_page_add_up_to_the_score(opened, trace):
    page = opened(inside_stage="3")
    w, d = walk_of(trace), trace.attention[SITE].d_head
    expect(page.locator(".walk")).to_have_attribute("data-stage", "3")
    shown = [float(pointed(page, "terms", 1 + KEY, cell, d)["value"]) for cell in range(d)]
    score = float(page.locator(".walk .link[data-name=scores]").get_attribute("data-value"))
    assert math.fsum(shown) == pytest.approx(score, rel=1e-5)
    assert near(score, w.scores[KEY])


def test_the_chain_of_the_chosen_weight(opened, trace):
    page, w = opened(), walk_of(trace)
    links = page.locator(".walk .link").evaluate_all(
        "all => all.map(e => [e.dataset.name, e.dataset.value])"
    )
    assert [name for name, _ in links] == ["raw", "scores", "masked", "weights"]
    for name, value in links:
        assert near(value, getattr(w, name)[KEY]), name
    assert page.locator(".walk .link.reached").count() == 0
    page.locator(".walk .names button").nth(4).click()
    assert page.locator(".walk .link.reached").count() == 3


def test_stepping_needs_no_answer_from_the_server(opened):
    """The next stage is painted during the click itself, before any answer could have come."""
    page = opened()
    stages = page.locator(".walk").evaluate(
        "root => [...root.querySelectorAll('.names button')].map((b) => { b.click(); return root.dataset.stage; })"
    )
    assert stages == [str(i) for i in range(9)]


def test_clicking_tokens_chooses_the_weight(opened, trace):
    page = opened(inside_stage="5")
    page.locator(".choice .queries button").nth(1).click()
    in_url(page, "lock", "q1")
    in_url(page, "inside-key", "")
    strongest = int(walk_of(trace, 1).weights.argmax())
    expect(page.locator(".walk")).to_have_attribute("data-key", str(strongest))
    other = (strongest + 2) % len(SOURCE)
    page.locator(".choice .keys button").nth(other).click()
    expect(page.locator(".walk")).to_have_attribute("data-key", str(other))
    in_url(page, "inside-key", str(other))
    shown = page.locator(".walk .link[data-name=weights]").get_attribute("data-value")
    assert near(shown, walk_of(trace, 1).weights[other])
    expect(page.locator(".walk")).to_have_attribute("data-stage", "5")


def test_a_click_on_a_row_chooses_its_key(opened):
    page = opened()
    page.locator(".walk canvas.cells").click(position={"x": 60, "y": 40 + 22 * 5.5})
    expect(page.locator(".choice")).to_have_attribute("data-key", "4")
    in_url(page, "inside-key", "4")


def test_a_link_shows_the_same_in_another_browser(opened, shared_page):
    opened(inside_stage="6", inside_key="4")
    in_url(shared_page, "inside-stage", "6")
    url = shared_page.url
    asked = parse_qs(urlparse(url).query)
    assert (asked["inside-stage"], asked["inside-key"], asked["lock"]) == (
        ["6"],
        ["4"],
        [f"q{QUERY}"],
    )
    other = shared_page.context.new_page()
    other.goto(url)
    other.wait_for_selector(".walk[data-painted]")
    data = other.locator(".walk").evaluate("root => ({...root.dataset})")
    other.close()
    assert (data["stage"], data["key"], data["query"], data["head"], data["site"]) == (
        "6",
        "4",
        str(QUERY),
        str(HEAD),
        SITE,
    )


def test_the_head_and_the_step_survive_a_change_of_page(opened):
    page = opened(inside_stage="5")
    wait_until_idle(page)
    page.get_by_role("link", name="Positions").first.click()
    page.wait_for_url("**/positions*")
    wait_until_idle(page)
    page.get_by_role("link", name="Inside a head").first.click()
    expect(page.locator(".walk")).to_have_attribute("data-stage", "5")
    expect(page.locator(".walk")).to_have_attribute("data-query", str(QUERY))
    for name, value in {
        "site": SITE,
        "head": HEAD,
        "lock": f"q{QUERY}",
        "inside-key": KEY,
        "inside-stage": 5,
    }.items():
        in_url(page, name, str(value))


def test_the_slider_follows_back_and_forward_unless_it_is_moved(opened):
    page = opened(inside_stage="5")
    wait_until_idle(page)
    walk, stages = page.locator(".walk"), page.locator(".walk .names button")
    page.locator(".st-key-which-head").get_by_role("radio").nth(2).click()
    in_url(page, "head", "2")
    expect(walk).to_have_attribute("data-head", "2")
    expect(walk).to_have_attribute("data-stage", "5")
    wait_until_idle(page)
    stages.nth(7).click()
    in_url(page, "inside-stage", "7")
    wait_until_idle(page)
    page.go_back()
    in_url(page, "head", str(HEAD))
    expect(walk).to_have_attribute("data-head", str(HEAD))
    expect(walk).to_have_attribute("data-stage", "5")
    wait_until_idle(page)
    page.go_forward()
    expect(walk).to_have_attribute("data-head", "2")
    expect(walk).to_have_attribute("data-stage", "7")
    wait_until_idle(page)
    assert walk.locator("input").input_value() == "7"
    stages.nth(3).click()
    page.go_back()  # before the walk has reported its stage
    expect(walk).to_have_attribute("data-head", str(HEAD))
    expect(walk).to_have_attribute("data-stage", "5")
    wait_until_idle(page)
    in_url(page, "inside-stage", "5")


def test_a_blocked_key_is_hatched_and_says_why(opened, trace):
    page = opened(site="decoder.layers.0.self_attn", lock="q2", inside_key="4", inside_stage="5")
    expect(page.locator(".walk")).to_have_attribute("data-stage", "5")
    assert page.locator(".walk .link[data-name=masked]").inner_text() == "+ mask = −∞"
    assert page.locator(".walk .link[data-name=weights]").get_attribute("data-value") == "0"
    pointed(page, "weights", 1 + 4)
    expect(page.locator(".walk .tip .why")).to_have_text("blocked by: look-ahead")


def places(page: Page) -> list[str]:
    """Return the positions of the tokens, the picture, its parts and what is below."""
    drawn = ".walk .stage, .walk .foot, .matrices .equations, .matrices .foot, .several .strands, .several .scroll"
    parts = page.locator(f".choice .tokens, {drawn}, .st-key-details")
    return parts.evaluate_all(
        "(all) => all.map((part) => JSON.stringify(part.getBoundingClientRect()))"
    )


def test_nothing_moves_while_typing_and_the_walk_fits_one_screen(shared_page: Page) -> None:
    resize(shared_page, 1280)
    for view, component in (("walk", "walk"), ("matrices", "matrices"), ("several", "several")):
        go(
            shared_page,
            "inside",
            f".{component}[data-painted]",
            checkpoint="eng-fra",
            source="She is",
            **{"inside-view": view},
        )
        wait_for_layout(shared_page)
        before, painted = (
            places(shared_page),
            shared_page.locator(f".{component}").get_attribute("data-painted"),
        )
        assert len(before) > 2
        if view == "walk":
            (stage,) = boxes(shared_page, ".walk .stage")
            assert stage["y"] < 500
        shared_page.get_by_role("textbox", name="English sentence").focus()
        shared_page.keyboard.press("End")
        words = "reading a book about the sea that her mother gave her"
        for word in words.split():
            shared_page.keyboard.type(f" {word}")
            assert places(shared_page) == before
        in_url(shared_page, "source", f"She is {words}")
        wait_until_idle(shared_page)
        assert shared_page.locator(f".{component}").get_attribute("data-painted") != painted
        assert places(shared_page) == before


def test_head_layer_and_kind_can_be_changed_here(opened):
    page = opened()
    page.locator(".st-key-which-head").get_by_role("radio").nth(2).click()
    expect(page.locator(".walk")).to_have_attribute("data-head", "2")
    in_url(page, "head", "2")
    page.locator(".st-key-which-layer").get_by_role("radio").nth(0).click()
    expect(page.locator(".walk")).to_have_attribute("data-site", "decoder.layers.0.cross_attn")
    page.locator(".st-key-which-kind").get_by_role("radio").nth(0).click()
    expect(page.locator(".walk")).to_have_attribute("data-site", "encoder.layers.0.self_attn")


@pytest.mark.parametrize("convention", ["rows", "columns"])
def test_the_matrices_hold_the_models_numbers(opened, trace, convention):
    page = opened("matrices", inside_view="matrices", inside_convention=convention)
    site = trace.attention[SITE]
    root = page.locator(".matrices")
    expect(root).to_have_attribute("data-convention", convention)
    weights, raw = site.weights(HEAD), site.scores(HEAD)
    n_query, n_key = weights.shape
    for name, values in (("A", raw), ("Â", weights)):
        figure = root.locator("figure.pick").filter(has_text=f"{name} ").first
        (box,) = boxes(page, figure.locator("canvas"))
        for query, key in ((0, 1), (QUERY, KEY), (n_query - 1, n_key - 1)):
            down, across = (
                (query / n_query, key / n_key)
                if convention == "rows"
                else (key / n_key, query / n_query)
            )
            step_down, step_across = (n_query, n_key) if convention == "rows" else (n_key, n_query)
            position = {
                "x": box["width"] * (across + 0.5 / step_across),
                "y": box["height"] * (down + 0.5 / step_down),
            }
            figure.locator("canvas").hover(position=position)
            tip = root.locator(".tip").evaluate("tip => ({...tip.dataset})")
            assert (tip["first"], tip["second"]) == (str(query), str(key))
            assert near(tip["value"], values[query, key])
    assert root.locator("figcaption", has_text="A").first.inner_text()
    root.locator("figure.pick").last.locator("canvas").click(position={"x": 3, "y": 3})
    expect(page.locator(".choice")).to_have_attribute("data-query", "0")
    expect(page.locator(".choice")).to_have_attribute("data-key", "0")


def test_the_sum_of_the_heads(opened, folder):
    page = opened("heads", inside_view="heads")
    added, total, stream = _added_by_hand(folder)
    n_heads = len(added)
    for head, part in enumerate(added):
        assert near(
            pointed(page, "norm", head)["value"], math.sqrt(sum(v * v for v in part.tolist()))
        )
        assert near(pointed(page, "along_total", head)["value"], _cosine(part, total))
        assert near(pointed(page, "along_residual", head)["value"], _cosine(part, stream))
        for other in range(n_heads):
            assert near(
                pointed(page, "between", head, other, n_heads)["value"], _cosine(part, added[other])
            )
        assert near(pointed(page, "added", head, 4, len(total))["value"], part[4])
    assert near(pointed(page, "added", n_heads + 1, 4, len(total))["value"], total[4])
    assert near(pointed(page, "added", n_heads + 2, 4, len(total))["value"], stream[4])
    page.locator(".heads canvas.cells").click(position={"x": 60, "y": 40 + 22 * 2.5})
    in_url(page, "head", "2")
    expect(page.locator(".heads")).to_have_attribute("data-head", "2")


def _added_by_hand(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the input and the output of W_O at QUERY in the forward pass itself: each head's part (its columns of W_O times its
    part of Concat), their sum with the bias, and the stream it is added to."""
    scope = models.load(folder, device="cpu")
    attention = scope.model.get_submodule(SITE)
    seen = {}
    attention.register_forward_pre_hook(lambda module, given: seen.update(stream=given[0]))
    attention.W_O.register_forward_hook(
        lambda module, given, made: seen.update(concat=given[0], total=made)
    )
    scope.run(SOURCE, TARGET)
    concat, total, stream = (
        seen[name][0, QUERY].detach().double().numpy() for name in ("concat", "total", "stream")
    )
    weight = attention.W_O.weight.detach().double().numpy()
    d_head = len(concat) // N_HEADS
    parts = np.stack(
        [weight[:, h : h + d_head] @ concat[h : h + d_head] for h in range(0, len(concat), d_head)]
    )
    return parts, total, stream


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))


def test_the_effect_of_the_scaling(opened, trace):
    page = opened("choice", inside_view="scaling")
    open_details(page)
    w = walk_of(trace)
    first = page.locator("table tr").nth(1).locator("td")
    assert float(first.nth(1).inner_text()) == pytest.approx(float(w.weights.max()), rel=1e-3)
    assert float(first.nth(2).inner_text()) == pytest.approx(
        float(w.raw.softmax(-1).max()), rel=1e-3
    )
    entropy = page.locator("table tr").nth(2).locator("td").nth(1).inner_text()
    assert float(entropy) == pytest.approx(float(softmax.entropy_nats(w.weights)), rel=1e-3)
    expect(page.locator("[data-testid=stVegaLiteChart]")).to_have_count(3)


def test_the_downloads(opened, trace, tmp_path):
    page, w = opened(), walk_of(trace)
    with page.expect_download() as picture:
        save_picture(page, ".walk", "PNG")
    picture.value.save_as(tmp_path / "walk.png")
    assert (tmp_path / "walk.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    open_details(page)
    with page.expect_download() as table:
        page.get_by_role("link", name="This walk, CSV").click()
    table.value.save_as(tmp_path / "walk.csv")
    lines = (tmp_path / "walk.csv").read_text("utf-8").splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith(("# ", '"# '))))
    np.testing.assert_allclose(
        [float(row["weight"]) for row in rows], w.weights.numpy(), rtol=1e-4, atol=1e-7
    )


def test_another_similarity_runs_the_same_weights(opened, folder):
    page = opened(inside_stage="3")
    before = page.locator(".walk .link[data-name=weights]").get_attribute("data-value")
    page.get_by_role("combobox", name="Similarity").click()
    page.get_by_role("option", name="cosine: t·cos(q, k)").click()
    expect(page.get_by_text("not trained this way")).to_be_visible()
    in_url(page, "similarity", "cosine")
    wait_until_idle(page)
    swapped = models.load(folder, device="cpu").with_similarity("cosine").run(SOURCE, TARGET)
    shown = page.locator(".walk .link[data-name=weights]").get_attribute("data-value")
    assert near(shown, swapped.attention[SITE].weights(HEAD)[QUERY, KEY])
    assert not near(before, float(shown))
