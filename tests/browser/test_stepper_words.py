"""The sentences of the stepper in the browser, from payloads of small models: cached, computed and hidden values."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page
from small import random_attention_only, random_gpt, random_model, random_seq2seq

from models.architectures import Model
from models.checkpoint import Checkpoint
from models.decoding.runs import Method
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from viz_app.components import stamp_payload
from viz_app.components.catalogue import STEPPER
from viz_app.session.current_run import CurrentRun
from viz_app.views.decoding import steps as decoding_payloads
from viz_app.views.decoding.decoding_runs import decoder_attention
from viz_app.views.decoding.payloads import DecodingChoices, DecodingPosition
from viz_app.views.decoding.payloads import compare_decoding as told

from .test_components import COLOURS, LOAD

PART = STEPPER.files
TOKENIZER = Tokenizer.characters("abcde")


def words_at(page: Page, model: Model, step: int) -> str:
    """Return the text of the stepper for a model that was given some letters and generates some."""
    scope = Scope(Checkpoint(Path("small"), model, TOKENIZER, {}), torch.device("cpu"))
    run = CurrentRun(scope, scope.run("abcde", "edcba"))
    forced = ((0, 4), (1, 5), (2, 6))  # since it is untrained, it might end at once
    return mounted(page, run, Method(forced=forced), step)


def mounted(page: Page, run: CurrentRun, method: Method, step: int) -> str:
    choices = DecodingChoices(
        method, decoder_attention(run.trace), DecodingPosition(step=step), run.input_ids
    )
    _, story = told(run, choices)
    page.set_viewport_size({"width": 1280, "height": 1200})  # with room for all pictures
    page.goto("about:blank")
    page.evaluate(LOAD, [PART, COLOURS, 1100])
    payload = decoding_payloads.stepper(
        story, run.scope, decoder_attention(run.trace), run.terms, step
    )
    page.evaluate("show", base64.b64encode(stamp_payload(payload, "stepper", (1, 1))).decode())
    return page.locator(".stepper").inner_text()


def sized(make: Callable[..., Model], **changes: int | str) -> Model:
    return make(vocab_size=TOKENIZER.vocab_size, **changes)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "hidden"), [
    (sized(random_model), "(the rest is given too, but masked)"),
    (sized(random_attention_only, n_self_layers=0), "(the rest is given too, but each position reads only its own token)"),
    (sized(random_seq2seq), "(the rest is known too, but its states come later)"),
])  # fmt: skip
def test_hidden_positions_are_explained_by_the_kind_of_decoder(page, model, hidden):
    text = words_at(page, model, 2)
    assert hidden in text
    assert text.count("(the rest is") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "where"),
    [(1, "(in the decoder's one layer)"), (2, "(in each of the decoder's 2 layers)")],
)
def test_keys_and_values_are_counted(page, layers, where):
    model = sized(random_model, n_decoder_layers=layers)
    first = words_at(page, model, 0)
    assert f"With the cache: 0 keys and values kept, 1 computed now {where}." in first
    assert "Without it: the same 1." in first
    later = words_at(page, model, 2)
    assert f"With the cache: 2 keys and values kept, 1 computed now {where}." in later
    assert "Without it: all 3 computed, 2 of them again." in later
    assert "of the decoder's matrix products at each step" in later


def test_steps_of_a_recurrence_are_counted(page):
    first, later = (words_at(page, sized(random_seq2seq), step) for step in (0, 2))
    assert "The state s(0), 7 numbers, is computed from h(m); 1 step computed now." in first
    assert "Without it: the same 1 step." in first
    assert "The state s(2), 7 numbers, is kept; 1 step computed now." in later
    assert "Without it: all 3 steps computed from s(0) on, 2 of them again." in later


def language_model() -> Scope:
    return Scope(
        Checkpoint(Path("small"), sized(random_gpt), TOKENIZER, {"task": "language"}),
        torch.device("cpu"),
    )


def chips(page: Page, lane: str) -> list[list[str]]:
    """Return (state, token) of the tokens of its own text that the decoder may read."""
    found = page.locator(f".panel.{lane} .chips[data-side=self] .chip-token")
    return found.evaluate_all(
        'all => all.map((chip) => [chip.dataset.state, chip.querySelector("b").textContent.trim()])'
    )


@pytest.mark.slow
@pytest.mark.parametrize("continuation", ["ed", None])
def test_a_prompt_is_given_to_both_and_steps_count_from_its_end(page, continuation):
    scope = language_model()
    run, method = (
        CurrentRun(scope, scope.run("abc", continuation)),
        Method(forced=((0, 4), (1, 5), (2, 6)), max_new=3),
    )
    first, later = (mounted(page, run, method, step) for step in (0, 1))
    shown = {lane: chips(page, lane) for lane in ("parallel", "serial")}
    assert "Given to both: [start] a b c" in " ".join(first.split())
    assert (
        "With the cache: 0 keys and values kept, 4 computed now (in each of the decoder's 2 layers)."
        in first
    )
    assert "Without it: the same 4." in first
    assert "With the cache: 4 keys and values kept, 1 computed now" in later
    assert "Without it: all 5 computed, 4 of them again." in later
    assert "source" not in later
    own, typed = (
        "Nothing is typed under “What follows”: the given text is the model's own.",
        "The given text is the one that was typed.",
    )
    assert (own in later, typed in later) == (continuation is None, continuation is not None)
    n = len(continuation or "aaa")
    assert [state for state, _ in shown["parallel"]] == ["open"] * 5 + ["masked"] * (n - 2)
    assert [state for state, _ in shown["serial"]] == ["open"] * 5 + ["unknown"]
    assert [text for _, text in shown["serial"]] == [
        "[start]",
        *"abca",
        "",
    ]  # the fourth letter is the first forced one
    assert [text for _, text in shown["parallel"]][:4] == ["[start]", *"abc"]
    if continuation:
        assert [text for _, text in shown["parallel"]][4:] == ["e"]


def test_without_a_prompt_there_is_no_line_for_one(page):
    text = words_at(page, sized(random_model), 0)
    assert "Given to both" not in text
    assert "Of the source: all 6 keys and values computed now" in text
