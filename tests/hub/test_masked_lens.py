"""The guesses of a masked-language model for a mask if it stopped after each part of its layers."""

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from drawn import on_screen
from hub_models import BY_NAME, TEXT, library_tokenizer

import models
from models.analysis.layer_parts import check_parts
from models.architectures.base import MASKED_OUTPUT
from models.hub import readers
from models.runs.scope import Scope
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.views.layer import files, text
from viz_app.views.layer.payloads import layer_payloads
from viz_app.views.layer.token_view import LayerChoices, TokenView, clicked_token, token_view

HUB = ["BertForMaskedLM", "RobertaForMaskedLM", "DistilBertForMaskedLM", "ElectraForMaskedLM"]
N_TOKENS = 101
TWO_MASKS = "A [MASK] just bit [MASK]."
STOP = "stopping after the last layer is the model's answer"
Open = Callable[[str], tuple[Scope, Any]]


@pytest.fixture(scope="module")
def bert() -> Scope:
    return models.load("bert", device="cpu")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Open:
    """A function that returns a library model, opened here, and the library's own module."""

    @cache
    def scope_of(name: str) -> tuple[Scope, Any]:
        folder = tmp_path_factory.mktemp("masked") / name
        library = save(name, folder)
        return models.load(folder, device="cpu"), library

    return scope_of


def save(name: str, folder: Path) -> Any:
    case = BY_NAME[name]
    library = replace(case, sizes=case.sizes | {"vocab_size": N_TOKENS}).save(folder)
    library_tokenizer(folder, N_TOKENS)
    return library


def viewed(scope: Scope, asked: str, position: int | None = None) -> TokenView:
    return token_view(CurrentRun(scope, scope.run(asked)), LayerChoices("text", 0, position))


def layer_header(found: TokenView) -> dict[str, Any]:
    return unpack(on_screen(layer_payloads(found.run, found.choices))["layer"])[0]


def masks(found: TokenView) -> tuple[int, ...]:
    return found.run.trace.outputs[MASKED_OUTPUT].positions


@torch.no_grad()
def test_each_stop_is_the_head_for_masked_tokens_on_the_stream_there(bert: Scope) -> None:
    head, table = bert.model.heads["masked"], bert.model.embedding.weight
    for position in masks(viewed(bert, TWO_MASKS)):
        found = viewed(bert, TWO_MASKS, position)
        assert found.output == MASKED_OUTPUT
        states = torch.stack([found.parts[0].before, *(part.after for part in found.parts)])
        h = F.gelu(states @ head.transform.weight.T + head.transform.bias)
        norm = head.layer_norm
        h = (h - h.mean(-1, keepdim=True)) / (
            h.var(-1, correction=0, keepdim=True) + norm.eps
        ).sqrt()
        logits = (h * norm.weight + norm.bias) @ table.T + head.bias
        torch.testing.assert_close(found.log_probs, logits.log_softmax(-1), atol=1e-4, rtol=1e-4)
        assert not torch.allclose(found.log_probs[0], found.log_probs[-1], atol=1e-2)


@torch.no_grad()
def test_the_last_stop_is_the_models_own_answer_at_that_mask(bert: Scope) -> None:
    run = viewed(bert, TWO_MASKS).run
    ids = torch.tensor([run.trace.streams["text"].ids])
    own = bert.model(ids)[MASKED_OUTPUT][0].log_softmax(-1)
    positions = run.trace.outputs[MASKED_OUTPUT].positions
    assert len(positions) == 2
    for i, position in enumerate(positions):
        found = viewed(bert, TWO_MASKS, position)
        torch.testing.assert_close(found.log_probs[-1], own[position], atol=1e-4, rtol=1e-4)
        best = run.trace.outputs[MASKED_OUTPUT].predicted[i]
        assert best == bert.tokenizer.token(int(found.log_probs[-1].argmax()))
        checks = check_parts(bert.model, run.trace, found.parts, position)
        assert all(check.passed for check in checks)
        assert checks[-1].name == STOP


def test_the_page_and_the_table_show_the_guesses(bert: Scope) -> None:
    found = viewed(bert, TWO_MASKS)
    assert found.position == masks(found)[0]  # if none is chosen
    assert clicked_token(found.run, found.choices, found.position) is None
    header = layer_header(found)
    best = found.label(int(found.log_probs[-1].argmax())).text
    assert header["answer"][0] == best
    assert header["stops"][-1]["best"][0][0][0] == best
    assert len(header["stops"]) == len(found.parts) + 1
    assert header["without"] == ""
    assert header["title"].endswith(f"[MASK] to the guess for it, “{best}”")
    assert header["allTitle"] == "Logit lens: the guess for [MASK] after each part"
    said = text.explain_stream([part.sublayer for part in found.parts], found.output, writes=False)
    assert "own output path to the token hidden by a mask, with no later layer" in said
    heading, *rows = csv.reader(io.StringIO(files.layers_csv(found)))
    told = dict(zip(heading, rows[-1], strict=True))
    assert told["token 1"] == best
    assert float(told["probability 1"]) == pytest.approx(
        float(found.log_probs[-1].exp().max()), rel=1e-4
    )


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (TWO_MASKS, "A prediction is read only at a mask, here at [MASK]."),
        ("A dog just bit me.", "A prediction is read only at a mask. This text has none."),
    ],
)  # fmt: skip
def test_at_other_tokens_nothing_is_guessed_and_the_page_says_why(
    bert: Scope, asked: str, why: str
) -> None:
    found = viewed(bert, asked, 1)
    assert (found.output, found.log_probs) == ("", None)
    header = layer_header(found)
    assert (header["without"], header["answer"]) == (why, None)
    assert all("best" not in stop for stop in header["stops"])
    assert STOP not in [c.name for c in check_parts(bert.model, found.run.trace, found.parts, 1)]
    with pytest.raises(ValueError, match="^'next token' is not read from the stream 'text'$"):
        bert.model.readout(found.parts[0].before)


@pytest.mark.parametrize("name", HUB)
def test_a_model_of_the_library_is_read_by_its_own_head(opened: Open, name: str) -> None:
    """The library's own model is stopped early by making its last layer return the stream before it."""
    scope, library = opened(name)
    found = viewed(scope, TEXT.replace("hungry", "[MASK]"))
    (position,) = masks(found)
    assert (found.position, found.output) == (position, MASKED_OUTPUT)
    ids = torch.tensor([found.run.trace.streams["text"].ids])
    last = library.base_model.get_submodule(
        "transformer.layer.1" if name.startswith("Distil") else "encoder.layer.1"
    )
    with torch.no_grad():
        own = library(ids).logits[0, position].log_softmax(-1)
        handle = last.register_forward_hook(
            lambda _, given, made: (given[0], *made[1:]) if isinstance(made, tuple) else given[0]
        )
        stopped = library(ids).logits[0, position].log_softmax(-1)
        handle.remove()
    torch.testing.assert_close(found.log_probs[-1], own, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.log_probs[2], stopped, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(own, stopped, atol=1e-3)
    assert check_parts(scope.model, found.run.trace, found.parts, position)[-1].name == STOP


def test_a_head_that_a_run_does_not_confirm_guesses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save("BertForMaskedLM", tmp_path)
    monkeypatch.setattr(readers, "masked_heads", lambda module: [lambda x: 2 * module.cls(x)])
    scope = models.load(tmp_path, device="cpu")
    found = viewed(scope, TEXT.replace("hungry", "[MASK]"))
    assert (scope.model.head, found.output, found.guesses_masks) == (None, "", False)
    assert "masked token" not in scope.model.read_outputs
