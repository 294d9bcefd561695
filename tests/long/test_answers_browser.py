"""Models that do not generate, in a real browser: a click hides a token, a question is typed, a card opens its model; the
numbers are recomputed from the models."""

import math

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from served_app import back, go, in_url, resize, wait_until_idle
from small import random_bert, words_of

import models
from models.checkpoint import save_checkpoint
from models.runs.scope import Scope

FIRST, SECOND = "Mary went to the garden.", "John took milk."
QUESTION, CONTEXT = "Where is Mary?", "Mary went to the garden. John took milk."
SITE, HEAD = "encoder.layers.1.self_attn", 2


@pytest.fixture(scope="module")
def scopes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scope]:
    found, tokenizer = {}, words_of(FIRST, SECOND, QUESTION)
    for head, task in (("pretraining", "mlm"), ("span", "span")):
        folder = tmp_path_factory.mktemp("models") / head
        save_checkpoint(
            folder,
            random_bert(vocab_size=tokenizer.vocab_size, head=head),
            tokenizer,
            {"step": 0, "task": task},
        )
        found[head] = models.load(folder, device="cpu")
    return found


def open_page(page: Page, scope: Scope, ready: str, **asked: str) -> None:
    go(
        page,
        "task",
        f"{ready}[data-painted]",
        checkpoint=str(scope.path),
        site=SITE,
        head=str(HEAD),
        **asked,
    )


def shown_numbers(page: Page, selector: str, name: str) -> list[float]:
    return [
        float(value)
        for value in page.locator(selector).evaluate_all(
            "(all, name) => all.map((e) => e.dataset[name])", name
        )
    ]


def hidden_masks(page: Page) -> list[str]:
    return page.evaluate("new URLSearchParams(location.search).getAll('masked')")


def test_a_click_hides_a_token_and_types_nothing(
    shared_page: Page, scopes: dict[str, Scope]
) -> None:
    scope = scopes["pretraining"]
    open_page(shared_page, scope, ".guesses", text=FIRST, second_text=SECOND)
    chips, box = (
        shared_page.locator(".guesses .row .place"),
        shared_page.get_by_role("textbox", name="Text (type [MASK] to hide a word)"),
    )
    chips.nth(2).click()
    shared_page.wait_for_selector(".guesses[data-hidden='2'][data-masks='1']")
    chips.nth(5).click()
    shared_page.wait_for_selector(".guesses[data-hidden='2 5'][data-masks='2']")
    wait_until_idle(shared_page)
    assert hidden_masks(shared_page) == ["2", "5"]
    expect(box).to_have_value(FIRST)
    expect(shared_page.locator(".written .source")).to_have_text(
        "Mary [MASK] to the [MASK]. John took milk."
    )
    trace = scope.run(FIRST, SECOND, masked=(2, 5))
    p = trace.outputs["masked token"].logits.double().softmax(-1)
    own = scope.encode(FIRST, SECOND)["text"].ids
    wanted = []
    for i, position in enumerate((2, 5)):
        best = p[i].topk(5).indices.tolist()
        wanted += [
            float(p[i, token]) for token in best + [own[position]] * (own[position] not in best)
        ]
    assert shown_numbers(shared_page, ".guesses .bar", "p") == pytest.approx(wanted, rel=1e-4)
    rows = trace.attention[SITE].weights(HEAD)[[2, 5]].flatten().tolist()
    assert shown_numbers(shared_page, ".guesses .read", "weight") == pytest.approx(rows, abs=1e-6)
    follows = trace.outputs["next sentence"].logits.double().softmax(-1).tolist()
    assert shown_numbers(shared_page, ".pair .bar", "p") == pytest.approx(follows, rel=1e-4)
    back(shared_page)  # one press per token
    shared_page.wait_for_selector(".guesses[data-hidden='2']")
    chips.nth(2).click()
    shared_page.wait_for_selector(".guesses[data-hidden=''][data-masks='0']")
    in_url(shared_page, "masked", "")  # painted before it is in the address
    assert hidden_masks(shared_page) == []
    expect(box).to_have_value(FIRST)


def test_a_question_is_answered_while_it_is_typed(
    shared_page: Page, scopes: dict[str, Scope]
) -> None:
    scope = scopes["span"]
    open_page(shared_page, scope, ".span", question="Where is", context=CONTEXT)
    box = shared_page.get_by_role("textbox", name="Question (type here)")
    box.press("End")
    box.press_sequentially(" Mary?")
    expect(shared_page.locator(".span h2")).to_contain_text(f"“{QUESTION}”")
    wait_until_idle(shared_page)
    trace = scope.run(question=QUESTION, context=CONTEXT)
    output, row = trace.outputs["span"], trace.streams["text"]
    start, end = (
        np.log(logits.double().softmax(-1).numpy() + 1e-300)
        for logits in (output.start_logits, output.end_logits)
    )
    inside = [
        i
        for i, (segment, offset) in enumerate(zip(row.segments, row.offsets, strict=True))
        if segment and offset
    ]
    spans = sorted((start[a] + end[b] for a in inside for b in inside if a <= b), reverse=True)
    assert shown_numbers(shared_page, ".span .bar", "p") == pytest.approx(
        [math.exp(log_p) for log_p in spans[:5]], rel=1e-4
    )
    expect(shared_page.locator(".span .context mark")).to_have_text(trace.output)
    rows = trace.attention[SITE].weights(HEAD)[output.start].tolist()
    assert shown_numbers(
        shared_page, ".span .readings section:first-child .read", "weight"
    ) == pytest.approx(rows, abs=1e-6)
    figure = shared_page.locator(".span figure")
    side, left, top = (
        float(figure.get_attribute(f"data-{name}")) for name in ("side", "left", "top")
    )
    shared_page.locator(".span canvas").hover(
        position={"x": left + 4.5 * side, "y": top + 1.5 * side}
    )
    tip = shared_page.locator(".span .tip")
    assert float(tip.get_attribute("data-value")) == pytest.approx(
        start[inside[1]] + end[inside[4]], rel=1e-4
    )
    shared_page.get_by_role("textbox", name="Text that holds the answer (type here)").fill("")
    expect(shared_page.locator(".st-key-note-context")).to_contain_text(
        "The context is empty; type some text."
    )
    expect(shared_page.locator(".span .context mark")).to_have_text(
        trace.output
    )  # the last good picture


def test_a_card_opens_its_model(shared_page: Page) -> None:
    go(shared_page, "models", ".cards[data-painted]")
    shared_page.locator(".cards a[data-name='gpt-char']").click()
    shared_page.wait_for_selector(".answers[data-painted]")
    in_url(shared_page, "checkpoint", "gpt-char")
    assert "/task?" in shared_page.url
    wait_until_idle(shared_page)  # the rest of its address is written last
    shared_page.go_back()  # to another document
    shared_page.wait_for_selector(".cards[data-painted]")
    wait_until_idle(shared_page)
    resize(shared_page, 420)
    assert shared_page.evaluate("document.documentElement.scrollWidth") <= 420
    resize(shared_page, 1280)
