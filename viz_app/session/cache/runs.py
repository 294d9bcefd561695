"""What a model has computed of texts, kept under the fingerprint of its weights, wherever and whenever they were opened."""

import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any

import models
from models import Scope, Trace
from models.architectures.base import ORDER, POSITIONS, TEXT
from models.checkpoint import CheckpointError
from models.decoding import runs as decoding_runs
from models.runs.inputs import Value
from models.runs.masked_comparison import MaskedRun, run_masked, unmasked
from models.runs.spec import RunSpec, reading
from models.tokenizers.base import Encoding
from models.tokenizers.encoding import hidable, order_of
from models.trace.edits import Edits
from viz_app.session.cache.opened import changed_model, scope
from viz_app.session.cache.store import cached
from viz_app.session.current_run import CurrentRun
from viz_app.session.lanes import is_long

Chosen = tuple[
    Any, ...
]  # for the model's fields that are not typed, in their order; empty where there is none
SHORT = 64  # tokens of a text that may share a batch
# Texts that share one where the model writes each one's answer first. Of two, each alone has the first answer sooner, and costs no
# more: alone one reads ahead in what was written lately (LiveSession.drafts). Measured with eng-fra, ms of CPU an edit: alone 23;
# in a batch of 2, 3, 4, 8: 22, 19, 17, 13.
FEWEST_WRITTEN = 3

# Short runs side by side only wait for each other's interpreter lock, at every operation of torch; long ones for memory.
_one_run, _one_long_run = threading.Lock(), threading.Lock()


def trace(
    scope: Scope,
    texts: tuple[str, ...],
    drafts: tuple[tuple[int, ...], ...] = (),
    chosen: Chosen = (),
) -> Trace:
    """The run of a model on what stands in the boxes of its fields and what is `chosen` for those that are not typed; `drafts` as
    in models.Scope.run. Raises models.InputError."""
    asked = _field_values(scope, texts, chosen)

    def run() -> Trace:
        with _one_long_run if is_long(asked) else _one_run:
            return scope.run(*asked, drafts=drafts)

    return cached(scope, "trace", asked, make=run)


def _field_values(scope: Scope, texts: tuple[str, ...], chosen: Chosen) -> tuple[Value | None, ...]:
    """The texts and what is chosen as the model's fields: an optional text that is blank is not given, nor is a position beyond
    the texts, or where no token can be hidden, nor an order that is left to right. Raises models.InputError."""
    fields, others = (
        scope.model.text_fields,
        [field for field in scope.model.fields if field.kind != TEXT],
    )
    given = tuple(
        None if field.optional and not text.strip() else text
        for field, text in zip(fields, texts, strict=True)
    )
    if not any(chosen):
        return given
    rows = scope.encode(*given)
    kept = []
    for field, value in zip(others, chosen, strict=True):
        if value and field.kind == POSITIONS:
            places = hidable(rows[field.stream], scope.tokenizer.mask_id)
            value = tuple(position for position in value if position in places) or None
        if value and field.kind == ORDER:
            n = len(rows[field.stream].ids)
            value = order_of(n, value)
            value = None if value == tuple(range(n)) else value
        kept.append(value)
    return (*given, *kept) if any(kept) else given


def run_together(requests: Collection[tuple[str, tuple[str, ...], Chosen]]) -> None:
    """Run (checkpoint, texts of its fields, what is chosen for the others) in one batch for each checkpoint, so that `trace` has
    them ready. What cannot be read, what is so long that the others would wait for it, and what so few have asked for that a batch
    saves nothing is left to `trace`."""
    for name in {name for name, *_ in requests}:
        try:
            opened = scope(name)
        except CheckpointError:
            continue
        texts = _readable(opened, [(texts, chosen) for n, texts, chosen in requests if n == name])
        if len(texts) < (FEWEST_WRITTEN if opened.model.translates else 2):
            continue
        with _one_run:
            traces = opened.run_each(texts)
        for given, made in zip(texts, traces, strict=True):
            cached(opened, "trace", given, make=lambda made=made: made)


def _readable(
    scope: Scope, requests: list[tuple[tuple[str, ...], Chosen]]
) -> list[tuple[Value | None, ...]]:
    readable = []
    for texts, chosen in requests:
        with suppress(
            models.InputError, ValueError
        ):  # ValueError: texts typed for a model with other fields
            given = _field_values(scope, texts, chosen)
            if max(len(row.ids) for row in scope.encode(*given).values()) <= SHORT:
                readable.append(given)
    return readable


def changed_run(own: CurrentRun, spec: RunSpec) -> CurrentRun:
    """Return the run of this spec, which changes something about the unchanged run `own`; `own` itself if it changes nothing
    about the forward pass. Raises models.checkpoint.CheckpointError."""
    if spec.is_own:
        return replace(own, spec=spec)
    scope = changed_model(own.scope, spec.model)
    values = reading(scope, own.trace)
    trace = cached(scope, "run", values, spec.edits, make=lambda: spec.reread(scope, own.trace))
    return replace(own, scope=scope, trace=trace, spec=spec, own=own)


def given_trace(scope: Scope, *values: Value | None) -> Trace:
    """Return a model's run on these fields, texts or rows of tokens that are already there. Raises models.InputError."""
    return cached(scope, "run", values, (), make=lambda: scope.run(*values))


def autoregression(
    run: CurrentRun, given: tuple[int, ...], method: decoding_runs.Method
) -> decoding_runs.Autoregression:
    """Return the tokens that a method generates from these under the run's edits, with every step's attention."""
    scope, edits = run.scope, run.spec.edits
    return cached(
        scope,
        "decoded",
        given,
        method,
        edits,
        make=lambda: decoding_runs.autoregressive(scope.model, given, method, edits),
    )


def single_pass(
    run: CurrentRun, given: tuple[int, ...], tokens: tuple[int, ...]
) -> decoding_runs.Run:
    """Return one pass without a cache, under the run's edits, over tokens that are already there."""
    scope, edits = run.scope, run.spec.edits
    return cached(
        scope,
        "single pass",
        given,
        tokens,
        edits,
        make=lambda: decoding_runs.single_pass(scope.model, given, tokens, edits),
    )


def written_ids(scope: Scope, source: str) -> tuple[int, ...]:
    """The tokens a model writes for a text. Raises models.InputError."""
    return cached(scope, "written", source, make=lambda: scope.write(source).ids)


def unmasked_run(scope: Scope, trace: Trace, most: int | None) -> MaskedRun:
    """A run under the model's own masks, beside which changed ones are shown; `most` as in
    models.runs.masked_comparison.run_masked."""
    what = tuple(trace.fields.values()), tuple(trace.streams.values()), most
    return cached(scope, "unmasked", *what, make=lambda: unmasked(scope, trace, most))


def masked_runs(
    scope: Scope,
    requests: tuple[tuple[str | Encoding | None, ...], ...],
    edits: Edits,
    written: tuple[tuple[int, ...], ...] = (),
    most: int | None = None,
) -> list[MaskedRun]:
    """Inputs in one batch under these edits; `written` and `most` as in models.runs.masked_comparison.run_masked. Raises
    models.InputError."""
    return cached(
        scope,
        "masked",
        requests,
        edits,
        most,
        make=lambda: run_masked(scope, requests, edits, written, most),
    )
