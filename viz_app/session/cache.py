"""Everything the app keeps between reruns and shares between sessions. What is returned here is read-only by convention.

What a model has computed is kept under the fingerprint of its weights, wherever and whenever they were opened; an opened
checkpoint under its folder and the state of its files.
"""

import gc
import os
import threading
from collections.abc import Callable, Collection, Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import streamlit as st
import torch

import models
from models import Scope, Trace
from models.analysis import permutation_test
from models.analysis.fixed_vector import vector_changes as changes_of_vector
from models.analysis.masked_comparison import MaskedRun, run_masked
from models.analysis.position_measures import FormulaMeasures, measure
from models.analysis.reach import CHECKED, Choice, Reach, autograd_gap
from models.analysis.reach import reach as reach_of
from models.architectures.base import ORDER, POSITIONS, TEXT
from models.checkpoint import FILES, Checkpoint, CheckpointError, Description, snapshot_path
from models.decoding import runs as decoding_runs
from models.hub import load as hub
from models.scope import describe, shipped_folder
from models.tokenizers.base import Encoding
from models.tokenizers.encoding import hidable, order_of
from models.trace.edits import Edits
from models.training.scores import unmeasured
from viz_app import checkpoints
from viz_app.session.byte_cache import ByteCache, budget

Value = TypeVar("Value")
Chosen = tuple[Any, ...]        # for the model's fields that are not typed, in their order; empty where there is none

_kept = ByteCache(budget())
_one_run = threading.Lock()   # runs side by side only wait for each other's interpreter lock, at every operation of torch
SHORT = 64          # tokens of a text that may share a batch


def scope(name: str) -> Scope:
    """The opened checkpoint of this shipped name or folder, as its files are now. Raises models.checkpoint.CheckpointError."""
    return _kept.get(("opened", name, _files(name, FILES)), lambda: checkpoints.opened(name), spared=True)


def description(name: str) -> Description:
    """What the checkpoint of this shipped name or folder says it is; it is not opened. Raises models.checkpoint.CheckpointError."""
    return _kept.get(("described", name, _files(name, FILES)), lambda: describe(name))


def drawn_of(name: str, what: Hashable, make: Callable[[], Value]) -> Value:
    """What is drawn of a checkpoint that is not opened, as its files are now. Raises what `make` raises."""
    return _kept.get(("drawn of", what, name, _files(name, FILES)), make)


def snapshot(scope: Scope, step: int) -> Scope:
    """The checkpoint as it was after `step` steps. Raises models.checkpoint.CheckpointError."""
    path = str(scope.path)
    files = _files(path, (*FILES[:-1], snapshot_path(Path(), step)))
    return _kept.get(("opened", path, step, files), lambda: models.load(path, snapshot=step), spared=True)


def swapped(scope: Scope, similarity: str) -> Scope:
    """The same weights with another similarity. Raises ValueError for a model without self-attention."""
    return _of(scope, "swapped", similarity, make=lambda: scope.with_similarity(similarity), spared=True)


def trace(
    scope: Scope, texts: tuple[str, ...], drafts: tuple[tuple[int, ...], ...] = (), chosen: Chosen = ()
) -> Trace:
    """The run of a model on what stands in the boxes of its fields and what is `chosen` for those that are not typed; `drafts` as
    in models.Scope.run. Raises models.InputError."""
    asked = _given(scope, texts, chosen)

    def run() -> Trace:
        with _one_run:
            return scope.run(*asked, drafts=drafts)

    return _of(scope, "trace", asked, make=run)


def _given(scope: Scope, texts: tuple[str, ...], chosen: Chosen) -> tuple[Value | None, ...]:
    """The texts and what is chosen as the model's fields: an optional text that is blank is not given, nor is a position beyond
    the texts, or where no token can be hidden, nor an order that is left to right. Raises models.InputError."""
    fields, others = scope.model.text_fields, [field for field in scope.model.fields if field.kind != TEXT]
    given = tuple(None if field.optional and not text.strip() else text for field, text in zip(fields, texts, strict=True))
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


def run_together(asked: Collection[tuple[str, tuple[str, ...], Chosen]]) -> None:
    """Run (checkpoint, texts of its fields, what is chosen for the others) in one batch for each checkpoint, so that `trace` has
    them ready. What cannot be read, and what is so long that the others would wait for it, is left to `trace`."""
    for name in {name for name, *_ in asked}:
        try:
            opened = scope(name)
        except CheckpointError:
            continue
        texts = _readable(opened, [(texts, chosen) for n, texts, chosen in asked if n == name])
        with _one_run:
            traces = opened.run_each(texts) if texts else []
        for given, made in zip(texts, traces, strict=True):
            _of(opened, "trace", given, make=lambda made=made: made)


def _readable(scope: Scope, asked: list[tuple[tuple[str, ...], Chosen]]) -> list[tuple[Value | None, ...]]:
    readable = []
    for texts, chosen in asked:
        with suppress(models.InputError, ValueError):       # ValueError: texts typed for a model with other fields
            given = _given(scope, texts, chosen)
            if max(len(row.ids) for row in scope.encode(*given).values()) <= SHORT:
                readable.append(given)
    return readable


def forced(scope: Scope, source: str, target: Encoding) -> Trace:
    """A model's run on a source and on another run's target. Raises models.InputError."""
    return _of(scope, "forced", source, target, make=lambda: scope.run_batch([(source, target)])[0])


def snapshot_trace(scope: Scope, step: int, of: Trace) -> Trace:
    """The texts of a run, what the model wrote among them, under the weights of an earlier step, teacher-forced."""
    return _again(snapshot(scope, step), of)


def swapped_trace(scope: Scope, similarity: str, of: Trace) -> Trace:
    """The texts of a run under the same weights with another similarity, teacher-forced."""
    return _again(swapped(scope, similarity), of)


def _again(scope: Scope, of: Trace) -> Trace:
    model = scope.model
    asked = tuple(of.streams[field.stream] for field in model.fields) if model.translates else tuple(of.fields.values())
    return _of(scope, "again", asked, make=lambda: scope.run_batch([asked])[0])


def without_positions(scope: Scope) -> Scope:
    """The same weights without position vectors; nothing was measured of them."""

    def bare() -> Scope:
        model = permutation_test.without_positions(scope.model)
        return Scope(Checkpoint(scope.path, model, scope.tokenizer, unmeasured(scope.training)), scope.device)

    return _of(scope, "without positions", make=bare, spared=True)


def again(scope: Scope, row: Encoding) -> Trace:
    """A model's run on a row of tokens that is already there, on the stream of its first field."""
    return _of(scope, "row", row, make=lambda: scope.run(row))


def decoded(scope: Scope, source: tuple[int, ...], method: decoding_runs.Method) -> decoding_runs.Autoregression:
    """What a method writes for these source tokens, with every step's attention."""
    return _of(scope, "decoded", source, method, make=lambda: decoding_runs.autoregressive(scope.model, source, method))


def along(scope: Scope, source: tuple[int, ...], tokens: tuple[int, ...]) -> decoding_runs.Run:
    """One pass without a cache over tokens that are already there."""
    return _of(scope, "along", source, tokens, make=lambda: decoding_runs.along(scope.model, source, tokens))


def written(scope: Scope, source: str) -> tuple[int, ...]:
    """The tokens a model writes for a text. Raises models.InputError."""
    return _of(scope, "written", source, make=lambda: scope.write(source).ids)


def masked_runs(
    scope: Scope,
    asked: tuple[tuple[str | Encoding | None, ...], ...],
    edits: Edits,
    drafts: tuple[tuple[int, ...], ...] = (),
    most: int | None = None,
) -> list[MaskedRun]:
    """Inputs in one batch under these edits; `drafts` and `most` as in models.analysis.masked_comparison.run_masked. Raises
    models.InputError."""
    return _of(scope, "masked", asked, edits, most, make=lambda: run_masked(scope, asked, edits, drafts, most))


def reach(scope: Scope, source: tuple[int, ...], choice: Choice) -> Reach:
    """What one layer over these source tokens lets reach what."""

    def work_out() -> Reach:
        first = source[:CHECKED]
        gap = _of(scope, "gap", first, choice, make=lambda: autograd_gap(scope.model, first, choice))
        return reach_of(scope.model, source, choice, gap=gap)

    return _of(scope, "reach", source, choice, make=work_out)


def vector_changes(scope: Scope, source: tuple[int, ...], places: tuple[int, ...], others: tuple[int, ...]) -> torch.Tensor:
    """How much of its fixed vector each of these places of a source can change."""
    return _of(scope, "vector changes", source, places, others,
               make=lambda: changes_of_vector(scope.model, source, places, others))


def drawn(trace: Trace, what: Hashable, make: Callable[[], Value]) -> Value:
    """What is drawn of a run without changes, of a long text: worked out once, and not again at every rerun."""
    return _kept.get((trace.model.fingerprint, "drawn", what, tuple(row.ids for row in trace.streams.values())), make)


def formula_measures(formula: str, n: int, d_model: int, shift: int) -> FormulaMeasures:
    """models.analysis.position_measures.measure, kept: its least squares take up to half a second. No model is in it."""
    return _kept.get(("formula", formula, n, d_model, shift), lambda: measure(formula, n, d_model, shift))


def _of(scope: Scope, *what: Hashable, make: Callable[[], Value], spared: bool = False) -> Value:
    """What is kept of these weights."""
    return _kept.get((scope.fingerprint, *what), make, spared=spared)


def _files(name: str, files: Collection[str | Path]) -> tuple[tuple[int, ...], ...]:
    """Changes when one of a checkpoint's files is replaced or written: other times, another size or another file. Only who
    writes into the very same file and also sets back the system's own clock of changes goes unnoticed."""
    try:
        folder = shipped_folder() / name
        folder = folder if folder.is_dir() else Path(name).expanduser()
        found = [path.stat() for path in (folder / file for file in files) if path.exists() or not hub.is_folder(folder)]
    except (OSError, ValueError, RuntimeError):     # not there, or no path at all; models.load says what is wrong
        return ()
    return tuple((one.st_mtime_ns, one.st_ctime_ns, one.st_size, one.st_ino) for one in found)


@st.cache_resource(show_spinner=False)
def prepare() -> int:
    """Once a process, before anything runs: the threads of one run. Many sessions share the cores, and on the small
    tensors of one text several threads mostly wait for each other (measured: 5 to 15 times slower on a busy machine)."""
    threads = max(1, (os.cpu_count() or 1) // 4)
    torch.set_num_threads(threads)
    return threads


@st.cache_resource(show_spinner=False)
def settle() -> bool:
    """Once a process, when the first page stands: put what is loaded by now outside the garbage collector's rounds."""
    gc.collect()
    gc.freeze()
    return True
