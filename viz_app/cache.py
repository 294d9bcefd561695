"""Everything the app keeps between reruns and shares between sessions. What is returned here is read-only by convention."""

import gc
import os
import threading
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import streamlit as st
import torch

import models
from models import Scope, Trace, aligned
from models.checkpoint import CheckpointError
from models.interventions import MaskChanges
from models.masked_runs import MaskedRun, run_masked
from models.position_measures import FormulaMeasures, measure
from models.reach import CHECKED, Choice, Reach, autograd_gap
from models.reach import reach as reach_of
from models.scope import shipped_folder
from models.tokenizer import Encoding

_one_run = threading.Lock()   # runs side by side only wait for each other's interpreter lock, at every operation of torch
SHORT = 64          # tokens of a text that may share a batch
KEPT_TRACES = 48    # one of a short sentence is under 1 MB, one of 500 tokens some 50 MB; a session needs one or two


def scope(name: str) -> Scope:
    """The opened checkpoint of this shipped name or folder. Raises models.checkpoint.CheckpointError."""
    return _scope(name, _version(name))


def trace(name: str, source: str, target: str | None, drafts: tuple[tuple[int, ...], ...] = ()) -> Trace:
    """The run of a checkpoint on a text; `drafts` as in models.Scope.run. Raises models.InputError, and CheckpointError."""
    return _trace(name, _version(name), source, target, drafts)


def run_together(asked: Collection[tuple[str, str, str]]) -> None:
    """Run (checkpoint, source, target) in one batch for each checkpoint, so that `trace` has them ready. What cannot be read,
    and what is so long that the others would wait for it, is left to `trace`."""
    for name in {name for name, *_ in asked}:
        try:
            texts = _readable(scope(name), [texts for n, *texts in asked if n == name])
            with _one_run:
                traces = scope(name).run_each(texts) if texts else []
        except CheckpointError:
            continue
        for (source, target), made in zip(texts, traces, strict=True):
            _trace(name, _version(name), source, target, (), made)


def _readable(scope: Scope, texts: list[tuple[str, str]]) -> list[tuple[str, str | None]]:
    readable = []
    for source, target in texts:
        with suppress(models.InputError):
            length = len(scope.encode_source(source).ids)
            if target.strip():
                length = max(length, len(scope.encode_target(target).ids))
            if length <= SHORT:
                readable.append((source, target if target.strip() else None))
    return readable


def snapshot(scope: Scope, step: int) -> Scope:
    """The checkpoint as it was after `step` steps. Raises models.checkpoint.CheckpointError."""
    return _snapshot(scope, *_weights(scope), step)


def snapshot_trace(scope: Scope, step: int, text: Trace) -> Trace:
    """The source and the target of `text` under the weights of an earlier step, teacher-forced."""
    return _snapshot_trace(scope, *_weights(scope), step, text.source.text, text.target)


def swapped_trace(scope: Scope, similarity: str, text: Trace) -> Trace:
    """The source and the target of `text` under the same weights with another similarity, teacher-forced."""
    return _swapped_trace(scope, *_weights(scope), similarity, text.source.text, text.target)


def decoded(scope: Scope, source: tuple[int, ...], method: aligned.Method) -> aligned.Autoregression:
    """What a method writes for these source tokens, with every step's attention."""
    return _decoded(scope, *_weights(scope), source, method)


def along(scope: Scope, source: tuple[int, ...], tokens: tuple[int, ...]) -> aligned.Run:
    """One pass without a cache over tokens that are already there."""
    return _along(scope, *_weights(scope), source, tokens)


def written(scope: Scope, source: str) -> tuple[int, ...]:
    """The tokens a model writes for a text. Raises models.InputError."""
    return _written(scope, *_weights(scope), source)


def masked_runs(
    scope: Scope,
    pairs: tuple[tuple[str, str | Encoding | None], ...],
    changes: MaskChanges,
    drafts: tuple[tuple[int, ...], ...] = (),
) -> list[MaskedRun]:
    """Pairs in one batch under changed masks; `drafts` as in models.Scope.run_batch. Raises models.InputError."""
    return _masked_runs(scope, *_weights(scope), pairs, changes, drafts)


def reach(scope: Scope, source: tuple[int, ...], choice: Choice) -> Reach:
    """What one layer over these source tokens lets reach what."""
    return _reach(scope, *_weights(scope), source, choice)


def same_pair(scope: Scope, source: str, target: Encoding) -> Trace:
    """A model's run on a source and on another run's target. Raises models.InputError."""
    return _same_pair(scope, *_weights(scope), source, target)


def _weights(scope: Scope) -> tuple[str, int]:
    """Names the weights of an opened checkpoint: its folder and its training step."""
    return str(scope.path), int(scope.training.get("step", 0))


@st.cache_resource(max_entries=32, show_spinner=False)
def _snapshot(_scope: Scope, path: str, trained: int, step: int) -> Scope:
    return models.load(path, snapshot=step)


@st.cache_resource(max_entries=KEPT_TRACES, show_spinner=False, hash_funcs={Encoding: repr})
def _snapshot_trace(_scope: Scope, path: str, trained: int, step: int, source: str, target: Encoding) -> Trace:
    return _snapshot(_scope, path, trained, step).run_batch([(source, target)])[0]


@st.cache_resource(max_entries=8, show_spinner=False)
def _swapped(_scope: Scope, path: str, trained: int, similarity: str) -> Scope:
    return _scope.with_similarity(similarity)


@st.cache_resource(max_entries=KEPT_TRACES, show_spinner=False, hash_funcs={Encoding: repr})
def _swapped_trace(_scope: Scope, path: str, trained: int, similarity: str, source: str, target: Encoding) -> Trace:
    return _swapped(_scope, path, trained, similarity).run_batch([(source, target)])[0]


@st.cache_resource(max_entries=KEPT_TRACES, show_spinner=False)
def _decoded(
    _scope: Scope, path: str, step: int, source: tuple[int, ...], method: aligned.Method
) -> aligned.Autoregression:
    return aligned.autoregressive(_scope.model, source, method)


@st.cache_resource(max_entries=KEPT_TRACES, show_spinner=False)
def _along(_scope: Scope, path: str, step: int, source: tuple[int, ...], tokens: tuple[int, ...]) -> aligned.Run:
    return aligned.along(_scope.model, source, tokens)


@st.cache_resource(max_entries=KEPT_TRACES, show_spinner=False)
def _written(_scope: Scope, path: str, step: int, source: str) -> tuple[int, ...]:
    return _scope.write(source).ids


@st.cache_resource(max_entries=KEPT_TRACES, show_spinner=False, hash_funcs={MaskChanges: repr, Encoding: repr})
def _masked_runs(
    _scope: Scope,
    path: str,
    step: int,
    pairs: tuple[tuple[str, str | Encoding | None], ...],
    changes: MaskChanges,
    _drafts: tuple[tuple[int, ...], ...],
) -> list[MaskedRun]:
    return run_masked(_scope, pairs, changes, _drafts)


@st.cache_resource(max_entries=4 * KEPT_TRACES, show_spinner=False)
def _reach(_scope: Scope, path: str, step: int, source: tuple[int, ...], choice: Choice) -> Reach:
    return reach_of(_scope.model, source, choice, gap=_autograd_gap(_scope, path, step, source[:CHECKED], choice))


@st.cache_resource(max_entries=4 * KEPT_TRACES, show_spinner=False)
def _autograd_gap(_scope: Scope, path: str, step: int, first: tuple[int, ...], choice: Choice) -> float:
    return autograd_gap(_scope.model, first, choice)


@st.cache_resource(max_entries=KEPT_TRACES, show_spinner=False, hash_funcs={Encoding: repr})
def _same_pair(_scope: Scope, path: str, step: int, source: str, target: Encoding) -> Trace:
    return _scope.run_batch([(source, target)])[0]


@st.cache_resource(max_entries=8, show_spinner=False)
def _scope(name: str, version: int) -> Scope:
    return models.load(name)


@st.cache_resource(max_entries=KEPT_TRACES, show_spinner=False)
def _trace(
    name: str,
    version: int,
    source: str,
    target: str | None,
    _drafts: tuple[tuple[int, ...], ...],
    _made: Trace | None = None,
) -> Trace:
    if _made:
        return _made
    with _one_run:
        return _scope(name, version).run(source, target, drafts=_drafts)


@st.cache_resource(max_entries=64, show_spinner=False)
def formula_measures(formula: str, n: int, d_model: int, shift: int) -> FormulaMeasures:
    """models.position_measures.measure, kept: its least squares take up to half a second."""
    return measure(formula, n, d_model, shift)


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


def _version(name: str) -> int:
    """Changes when a checkpoint's weights are replaced, so that one still in training is read again."""
    folder = shipped_folder() / name
    weights = (folder if folder.is_dir() else Path(name).expanduser()) / "model.safetensors"
    try:
        return weights.stat().st_mtime_ns
    except OSError:
        return 0
