"""The words that the stepper writes in the browser, from payloads of small models: what is kept, computed and hidden."""
# ruff: noqa: F401, F811 (fixtures are imported by name)

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page
from served_app import browser, context, page
from small import random_attention_only, random_model, random_seq2seq
from test_components import COLOURS, LOAD

from models.architectures import Model
from models.checkpoint import Checkpoint
from models.decoding import runs as decoding_runs
from models.decoding.runs import Method
from models.scope import Scope
from models.tokenizers.base import Tokenizer
from viz_app import words
from viz_app.components import assemble, stamped, stepper
from viz_app.views.decoding import steps as decoding_payloads
from viz_app.views.decoding.steps import Story, reading

PART = assemble("stepper", *stepper.SCRIPTS, styles=("parts.css",))
TOKENIZER = Tokenizer.characters("abcde")


def words_at(page: Page, model: Model, step: int) -> str:
    """What stands on the stepper of a model that was given and writes some letters."""
    scope = Scope(Checkpoint(Path("small"), model, TOKENIZER, {}), torch.device("cpu"))
    trace = scope.run("abcde", "edcba")
    method = Method(forced=((0, 4), (1, 5), (2, 6)))        # untrained, it might end at once
    run = decoding_runs.autoregressive(model, trace.streams["source"].ids, method).run
    story = Story(trace, decoding_runs.of_trace(trace), run, method)
    page.goto("about:blank")
    page.evaluate(LOAD, [PART, COLOURS, 1100])
    payload = decoding_payloads.stepper(story, scope, reading(trace), words.terms("letters"), step)
    page.evaluate("show", base64.b64encode(stamped(payload, "stepper", (1, 1))).decode())
    return page.locator(".stepper").inner_text()


def sized(make: Callable[..., Model], **changes: int | str) -> Model:
    return make(vocab_size=TOKENIZER.vocab_size, **changes)


@pytest.mark.parametrize(("model", "hidden"), [
    (sized(random_model), "(the rest is there too, but masked)"),
    (sized(random_attention_only, n_self_layers=0), "(the rest is there too, but each position reads its own token alone)"),
    (sized(random_seq2seq), "(the rest is known too, but its states come later)"),
])  # fmt: skip
def test_what_a_position_does_not_read_is_explained_by_what_the_decoder_is(page, model, hidden):
    text = words_at(page, model, 2)
    assert hidden in text
    assert text.count("(the rest is") == 1


@pytest.mark.parametrize(("layers", "where"), [(1, "(in the decoder's one layer)"), (2, "(in each of the decoder's 2 layers)")])
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
    assert "The state s(0), 7 numbers, is made of h(m); 1 step computed now." in first
    assert "Without it: the same 1 step." in first
    assert "The state s(2), 7 numbers, is kept; 1 step computed now." in later
    assert "Without it: all 3 steps computed from s(0) on, 2 of them again." in later
