"""Runs of models on texts, cached under the fingerprint of the weights."""

import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import models
from models import Scope, Trace
from models.architectures.base import ORDER_FIELD, POSITIONS_FIELD, TEXT_FIELD
from models.checkpoint import CheckpointError
from models.decoding import runs as decoding_runs
from models.runs.inputs import FieldInput
from models.runs.masked_comparison import MaskedRun, run_masked, run_unmasked
from models.runs.spec import RunSpec, read_values
from models.tokenizers.base import Encoding
from models.tokenizers.encoding import order_of, positions_to_hide
from models.trace.edits import Edits
from viz_app.session.cache.opened import changed_model, scope
from viz_app.session.cache.store import cached
from viz_app.session.current_run import CurrentRun
from viz_app.session.lanes import are_long

# values of the model's fields that are not typed, in order; empty if there are none
ChosenTokens = tuple[Any, ...]
MAX_BATCHED_TOKENS = 64  # tokens of the longest text that may share a batch
# Smallest batch of texts for models that generate an output. Two texts finish sooner one after the
# other at the same cost, because a single run starts from draft tokens. Measured with eng-fra,
# ms of CPU per edit: single 23; in batches of 2, 3, 4, 8: 22, 19, 17, 13.
MIN_GENERATED_BATCH = 3

# Concurrent short runs only wait for the interpreter lock, at every torch operation; long ones
# compete for memory.
_one_run, _one_long_run = threading.Lock(), threading.Lock()


def trace(
    scope: Scope,
    texts: tuple[str, ...],
    draft_tokens: tuple[tuple[int, ...], ...] = (),
    choice: ChosenTokens = (),
) -> Trace:
    """Return the run of a model on the texts of its boxes and the `choice` values of other fields.

    `draft_tokens` as in models.Scope.run.

    Raises:
        InputError: the model cannot read them.
    """
    values = _field_values(scope, texts, choice)

    def run() -> Trace:
        with _one_long_run if are_long(values) else _one_run:
            return scope.run(*values, draft_tokens=draft_tokens)

    return cached(scope, "trace", values, make=run)


def _field_values(
    scope: Scope, texts: tuple[str, ...], choice: ChosenTokens
) -> tuple[FieldInput | None, ...]:
    """Return the values of all fields of the model.

    A blank optional text is None, as is an order that is left to right; positions beyond the texts,
    or of tokens that cannot be hidden, are dropped.

    Raises:
        InputError: the model cannot read the texts.
    """
    fields, untyped = (
        scope.model.text_fields,
        [field for field in scope.model.fields if field.kind != TEXT_FIELD],
    )
    typed = tuple(
        None if field.optional and not text.strip() else text
        for field, text in zip(fields, texts, strict=True)
    )
    if not any(choice):
        return typed
    rows = scope.encode(**{f.name: text for f, text in zip(fields, typed, strict=True)})
    selected = []
    for field, value in zip(untyped, choice, strict=True):
        if value and field.kind == POSITIONS_FIELD:
            allowed = positions_to_hide(rows[field.stream], scope.tokenizer.mask_id)
            value = tuple(position for position in value if position in allowed) or None
        if value and field.kind == ORDER_FIELD:
            n = len(rows[field.stream].ids)
            value = order_of(n, value)
            value = None if value == tuple(range(n)) else value
        selected.append(value)
    if not any(selected):
        return typed
    values = dict(zip([f.name for f in (*fields, *untyped)], (*typed, *selected), strict=True))
    return tuple(values[field.name] for field in scope.model.fields)


def run_together(requests: Collection[tuple[str, tuple[str, ...], ChosenTokens]]) -> None:
    """Run (checkpoint, texts, chosen) requests in one batch per checkpoint, for `trace` to find.

    Left to `trace` are texts that cannot be read, texts so long that the others would wait, and
    batches too small to save time.
    """
    for name in {name for name, *_ in requests}:
        try:
            opened = scope(name)
        except CheckpointError:
            continue
        texts = _readable(opened, [(texts, chosen) for n, texts, chosen in requests if n == name])
        if not opened.model.pads or len(texts) < (
            MIN_GENERATED_BATCH if opened.model.translates else 2
        ):
            continue
        with _one_run:
            traces = opened.run_each(texts)
        for values, result in zip(texts, traces, strict=True):
            cached(opened, "trace", values, make=lambda result=result: result)


def _readable(
    scope: Scope, requests: list[tuple[tuple[str, ...], ChosenTokens]]
) -> list[tuple[FieldInput | None, ...]]:
    readable = []
    for texts, chosen in requests:
        with suppress(
            models.InputError, ValueError
        ):  # ValueError: texts typed for a model with other fields
            values = _field_values(scope, texts, chosen)
            if max(len(row.ids) for row in scope.encode(*values).values()) <= MAX_BATCHED_TOKENS:
                readable.append(values)
    return readable


def with_changes_of(spec: RunSpec, original: CurrentRun) -> CurrentRun:
    """Return the run with the changes of this spec on the inputs of another run of its model.

    Tokens are forced only on the input that they were forced on, the first field of the spec.

    Raises:
        CheckpointError: the changes cannot be made.
    """
    fields = original.spec.fields
    forced = spec.forced if fields[:1] == spec.fields[:1] else ()
    return changed_run(original, RunSpec(spec.model, fields, spec.edits, forced))


def changed_run(original: CurrentRun, spec: RunSpec) -> CurrentRun:
    """Return the run of this spec, a change to the unchanged run `original`.

    `original` itself is returned if the forward pass is the same.

    Raises:
        CheckpointError: the change cannot be made.
    """
    if spec.is_unchanged:
        return replace(original, spec=spec)
    scope = changed_model(original.scope, spec.model)
    values = read_values(scope, original.trace)
    try:
        trace = cached(
            scope, "run", values, spec.edits, make=lambda: spec.reread(scope, original.trace)
        )
    except models.InputError:
        raise
    except ValueError as error:  # the model cannot carry out an edit
        raise CheckpointError(str(error)) from error
    return replace(original, scope=scope, trace=trace, spec=spec, original=original)


def edited_trace(scope: Scope, trace: Trace, edits: Edits) -> Trace:
    """Return a run under edits, on the tokens that it read without them.

    Raises:
        CheckpointError: the model cannot carry out an edit.
    """
    values = read_values(scope, trace)
    try:
        return cached(
            scope, "run", values, edits, make=lambda: scope.run_batch([values], edits=edits)[0]
        )
    except models.InputError:
        raise
    except ValueError as error:
        raise CheckpointError(str(error)) from error


def given_trace(scope: Scope, *values: FieldInput | None, edits: Edits = ()) -> Trace:
    """Return a model's run on these field values: texts or encoded rows of tokens.

    Raises:
        InputError: the model cannot read them.
    """
    return cached(scope, "run", values, edits, make=lambda: scope.run(*values, edits=edits))


def autoregression(
    run: CurrentRun, inputs: tuple[int, ...], method: decoding_runs.Method
) -> decoding_runs.Autoregression:
    """Return the tokens generated from `inputs` under the run's edits, with their attention."""
    scope, edits = run.scope, run.spec.edits
    return cached(
        scope,
        "decoded",
        inputs,
        method,
        edits,
        make=lambda: decoding_runs.autoregressive(
            scope.model, inputs, method, scope.with_material(edits, run.trace.streams)
        ),
    )


def cached_single_pass(
    run: CurrentRun, inputs: tuple[int, ...], tokens: tuple[int, ...]
) -> decoding_runs.Run:
    """Return a single uncached pass under the run's edits over given tokens."""
    scope, edits = run.scope, run.spec.edits
    return cached(
        scope,
        "single pass",
        inputs,
        tokens,
        edits,
        make=lambda: decoding_runs.uncached_run(
            scope.model, inputs, tokens, scope.with_material(edits, run.trace.streams)
        ),
    )


def written_ids(scope: Scope, source: str) -> tuple[int, ...]:
    """Return the ids that a model generates for a text.

    Raises:
        InputError: the model cannot read it.
    """
    return cached(scope, "written", source, make=lambda: scope.write(source).ids)


def reread(run: CurrentRun, texts: tuple[str, ...]) -> Trace:
    """Return the run of the same model, with the same edits, on other texts for its fields.

    Raises:
        InputError: the model cannot read them.
    """
    scope, edits = run.scope, run.spec.edits
    make = partial(scope.run_batch, [texts], edits=edits)
    return cached(scope, "run", texts, edits, make=lambda: make()[0])


def unmasked_run(scope: Scope, trace: Trace, max_new: int | None) -> MaskedRun:
    """Return a run under the model's own masks, for comparison; `max_new` as in run_masked."""
    what = tuple(trace.fields.values()), tuple(trace.streams.values()), trace.edits, max_new
    return cached(scope, "unmasked", *what, make=lambda: run_unmasked(scope, trace, max_new))


def masked_runs(
    scope: Scope,
    requests: tuple[tuple[str | Encoding | None, ...], ...],
    edits: Edits,
    generated_tokens: tuple[tuple[int, ...], ...] = (),
    max_new: int | None = None,
) -> list[MaskedRun]:
    """Return the runs of a batch under these edits; arguments as in run_masked.

    Raises:
        InputError: the model cannot read an input.
    """
    return cached(
        scope,
        "masked",
        requests,
        edits,
        max_new,
        make=lambda: run_masked(scope, requests, edits, generated_tokens, max_new),
    )
