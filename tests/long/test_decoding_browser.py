"""The page Decoding in a real browser: a token is forced, the slider is moved, and every number is the model's own."""

import pytest
import torch
from playwright.sync_api import Page, expect
from served_app import go, in_url

import models
from models.decoding import runs as decoding_runs
from models.decoding.runs import Method, Run
from models.runs.scope import Scope

SOURCE = "March 5, 2021"
SITE, HEAD = "decoder.layers.1.cross_attn", 2


@pytest.fixture(scope="module")
def dates() -> Scope:
    return models.load("dates", device="cpu")


def open_page(page: Page, **params: str) -> None:
    """Open the page at this link."""
    link = {"checkpoint": "dates", "source": SOURCE, "site": SITE, "head": str(HEAD), **params}
    picture = ".beam" if params.get("decoding-how") == "beam" else ".stepper"
    go(page, "decoding", f"{picture}[data-painted]", **link)


def runs(scope: Scope, method: Method, target: str | None = None) -> tuple[Run, Run]:
    trace = scope.run(SOURCE, target)
    return decoding_runs.of_trace(trace), decoding_runs.autoregressive(
        scope.model, trace.streams["source"].ids, method
    ).run


def same(shown: list[float], computed: torch.Tensor) -> None:
    """Compare numbers: the page shows the shortest decimals of float32, and another process may round the last bit differently."""
    assert shown == pytest.approx(computed.tolist(), rel=1e-4, abs=1e-6)


def bars_of(page: Page, lane: str) -> dict[int, float]:
    found = page.locator(f".panel.{lane} .bar").evaluate_all(
        "all => all.map(e => [e.dataset.id, e.dataset.p])"
    )
    return {int(token): float(p) for token, p in found}


def weights_of(page: Page, lane: str, side: str) -> list[float]:
    chips = page.locator(f".panel.{lane} .chips[data-side={side}] .chip-token[data-state=open]")
    return [float(w) for w in chips.evaluate_all("all => all.map(e => e.dataset.weight)")]


def compare(page: Page, lane: str, run: Run, i: int) -> None:
    """Compare every number of a panel at position i with the run computed here."""
    bars = bars_of(page, lane)
    assert run.taken[i] in bars
    same(list(bars.values()), run.log_probs[i].exp()[list(bars)])
    panel = page.locator(f".panel.{lane}")
    same([float(panel.get_attribute("data-entropy"))], run.entropy_bits[i : i + 1])
    same(weights_of(page, lane, "cross"), run.weights(SITE, HEAD)[i])
    same(
        weights_of(page, lane, "self"), run.weights("decoder.layers.1.self_attn", HEAD)[i, : i + 1]
    )


def rows(page: Page, key: str) -> list[str]:
    """Return the visible tokens of a row of the lanes."""
    cells = page.locator(f"g[data-row={key}]:not([data-shown=false]) text")
    return cells.evaluate_all("all => all.map(e => e.textContent)")


def at(page: Page, step: int) -> None:
    expect(page.locator(f".stepper[data-step='{step}']")).to_be_visible()


def test_every_step_of_the_slider_shows_the_numbers_of_models(
    shared_page: Page, dates: Scope
) -> None:
    open_page(shared_page, target="2020-03-05")
    parallel, serial = runs(dates, Method(), "2020-03-05")
    shared_page.locator(".stepper .slider").focus()
    for i in range(len(serial)):
        at(shared_page, i + 1)
        compare(shared_page, "parallel", parallel, i)
        compare(shared_page, "serial", serial, i)
        assert rows(shared_page, "reads") == ["[start]", *"2020-03-05"]
        assert rows(shared_page, "writes") == [*"2021-03-05", "[end]"][: i + 1]
        assert rows(shared_page, "serial-reads") == ["[start]", *"2021-03-05"][: i + 1]
        shared_page.keyboard.press("ArrowRight")
    in_url(shared_page, "step", "11")


def test_a_forced_token_is_written_and_decoding_continues_from_it(
    shared_page: Page, dates: Scope
) -> None:
    open_page(shared_page, step="4")
    at(shared_page, 4)
    parallel, serial = runs(dates, Method())
    compare(shared_page, "serial", serial, 3)
    (other,) = dates.tokenizer.encode("0").ids
    shared_page.locator(f".panel.serial .bar[data-id='{other}']").click()
    in_url(shared_page, "force", f"4:{other}")
    expect(
        shared_page.locator(f".panel.serial .bar[data-id='{other}'][data-mark=forced]")
    ).to_be_visible()
    _, forced = runs(dates, Method(forced=((3, other),)))
    compare(shared_page, "serial", forced, 3)
    for i in range(4, len(forced)):
        shared_page.locator(".stepper .on").click()
        at(shared_page, i + 1)
        compare(shared_page, "serial", forced, i)
        compare(shared_page, "parallel", parallel, min(i, len(parallel) - 1))
    assert rows(shared_page, "writes") == [*dates.tokenizer.tokens(forced.taken[:-1]), "[end]"]
    assert rows(shared_page, "free") == [*"2021-03-05", "[end]"]
    expect(shared_page.locator(".story")).to_contain_text("They diverged at position 4")
    shared_page.locator(".stepper button.free").click()
    expect(shared_page.locator("g[data-row=free]")).to_have_count(0)


def test_a_pasted_link_shows_the_same(page: Page, dates: Scope) -> None:
    (other,) = dates.tokenizer.encode("0").ids
    open_page(
        page,
        step="6",
        force=f"4:{other}",
        **{"decoding-how": "sampling", "decoding-temperature": "2.0"},
    )
    at(page, 6)
    _, run = runs(dates, Method("sample", temperature=2.0, forced=((3, other),)))
    compare(page, "serial", run, 5)


def test_play_runs_to_the_end_and_shows_its_position(shared_page: Page) -> None:
    open_page(shared_page, step="9")
    at(shared_page, 9)
    shared_page.locator(".stepper .play").click()
    expect(shared_page.locator(".stepper .play")).to_contain_text("Pause")
    at(shared_page, 11)
    in_url(shared_page, "step", "11")
    expect(shared_page.locator(".stepper .play")).to_contain_text("Replay")


def test_the_cache_is_counted_step_by_step(shared_page: Page) -> None:
    open_page(shared_page, step="5")
    at(shared_page, 5)
    boxes = {
        name: shared_page.locator(f".keys .{name} .boxes") for name in ("with", "without", "cross")
    }
    assert [boxes["with"].get_attribute(f"data-{a}") for a in ("kept", "now")] == ["4", "1"]
    assert [boxes["without"].get_attribute(f"data-{a}") for a in ("kept", "now")] == ["0", "5"]
    assert boxes["cross"].get_attribute("data-now") == "0"


def test_a_click_on_a_position_goes_there(shared_page: Page) -> None:
    open_page(shared_page)
    at(shared_page, 1)
    shared_page.locator(".lanes .pad").nth(6).click()
    at(shared_page, 7)
    in_url(shared_page, "step", "7")


def test_a_node_of_the_beam_shows_its_attention(shared_page: Page, dates: Scope) -> None:
    open_page(shared_page, **{"decoding-how": "beam", "decoding-width": "3"})
    source = dates.encode(source=SOURCE)["source"].ids
    steps = decoding_runs.autoregressive(dates.model, source, Method("beam", width=3)).beam
    shared_page.wait_for_selector(".beam[data-painted]")
    shown = shared_page.locator(".beam .node").evaluate_all(
        "all => all.map(e => Number(e.dataset.score))"
    )
    assert shown == pytest.approx([h.score for s in steps for h in s.hypotheses], abs=1e-4)
    shared_page.locator(".beam .node[data-step='4'][data-rank='2']").click()
    expect(shared_page.locator(".beam[data-step='4'][data-rank='2']")).to_be_visible()
    run = decoding_runs.uncached_run(dates.model, source, steps[3].hypotheses[1].tokens)
    chips = shared_page.locator(".beam .chips[data-side=cross] .chip-token")
    same(
        [float(w) for w in chips.evaluate_all("all => all.map(e => e.dataset.weight)")],
        run.weights(SITE, HEAD)[-1],
    )
    in_url(shared_page, "node", "4:2")
