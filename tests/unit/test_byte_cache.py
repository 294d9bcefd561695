"""The cache of results: within its budget, least recently used out first, each computed once however many ask at once."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small import random_model
from torch import Tensor

from models.checkpoint import Checkpoint
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from viz_app import command
from viz_app.session import cache
from viz_app.session.byte_cache import MEGABYTE, ByteCache, budget, held_parts
from viz_app.session.cache import store
from viz_app.session.current_run import CurrentRun

KB = 1024


def block(n: int) -> np.ndarray:
    """An array that owns n bytes."""
    return np.zeros(n, np.uint8)


def size(value: object) -> int:
    return sum(held_parts(value)[0].values())


# --- the size of a value


@dataclass(frozen=True)
class Pair:
    left: object
    right: object


def test_every_storage_is_counted_once_and_whole() -> None:
    whole = torch.zeros(50, 20)
    alone = size(whole)
    assert alone == whole.nbytes == 4000
    views = [whole, whole[3], whole.T, whole.view(-1)[5:9]]
    assert size(views) == 4000 + sys.getsizeof(views)
    assert size(whole[3].clone()) == 80
    assert size(whole[3]) == 4000  # a row holds all of what it was cut from
    array = block(7000)
    assert size([array, array[3:5], array]) < 7000 + 700
    assert size(array[3:5]) > 7000


@pytest.mark.parametrize(
    "wrap", [lambda v: [v], lambda v: (v, v), lambda v: {"a": v}, lambda v: {3: [(v,)]}, lambda v: Pair(v, {v}),
             lambda v: Pair(Pair(0, v), v)],
)  # fmt: skip
def test_values_inside_containers_and_dataclasses_are_counted(wrap) -> None:
    inside = torch.zeros(1000)
    assert 4000 <= size(wrap(inside)) < 4000 + 2 * KB
    assert 90_000 <= size(wrap("x" * 90_000)) < 92_000


def test_circular_references_are_counted_once() -> None:
    ring: list = [torch.zeros(10)]
    ring.append(ring)
    assert size(ring) == 40 + sys.getsizeof(ring)


def test_a_run_holds_its_tensors_and_its_models_weights() -> None:
    scope = random_scope()
    trace = scope.run("ab", "abc")
    tensors = {
        t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in every_tensor(trace)
    }
    found = {key[1]: value for key, value in held_parts(trace)[0].items() if isinstance(key, tuple)}
    assert {address: n for address, n in found.items() if n} == {
        address: n for address, n in tensors.items() if n
    }
    weights = sum(4 * p.numel() for p in scope.model.parameters())
    assert weights < size(scope) < weights + 2 * MEGABYTE
    held = held_parts(scope)[0]
    assert sum(n for part, n in held_parts(trace)[0].items() if part not in held) < size(
        trace
    )  # W_Q … are the model's own


def every_tensor(trace) -> list[Tensor]:
    """Return every tensor of a trace, listed by name rather than found by walking."""
    found = [trace.next_token.logits]
    for activation in trace.activations.values():
        held = activation.lazy_value
        while not isinstance(held, Tensor):
            found += [held.weight, held.bias]
            held = held.x
        found.append(held)
    for site in trace.attention.values():
        found += [
            site.x,
            site.memory,
            site.q,
            site.k,
            site.v,
            site.out,
            *(layer.allowed for layer in site.mask.layers),
        ]
        found += [
            t
            for name in ("allowed", "blocking", "_additive")
            if (t := site.mask.__dict__.get(name)) is not None
        ]
        found += [t for both in site.projections.values() for t in both]
    return found


def random_scope(**changes: int) -> Scope:
    tokenizer = Tokenizer.characters("abcdefghijklmnopqrstuvwxyz ")
    model = random_model(vocab_size=tokenizer.vocab_size, **changes)
    return Scope(Checkpoint(Path("nowhere"), model, tokenizer, {}), torch.device("cpu"))


def test_a_run_counts_what_its_model_holds_only_when_the_model_is_gone() -> None:
    notes = {f"score {i}": f"{i:02}" * 1000 for i in range(50)}  # as a model's training.json
    kept = ByteCache(400 * KB)  # long: more than 6 kB
    kept.get("model", lambda: Pair(notes, None), is_shared=True)
    before = kept.bytes
    kept.get("run", lambda: [notes, block(3000)])
    assert 3000 < kept.bytes - before < 3000 + KB
    others = 0
    while "model" in kept:
        others += 1
        kept.get(others, lambda: block(5 * KB))
    before = kept.bytes
    kept.get("another run", lambda: [notes, block(KB)])
    assert kept.bytes - before > 50 * KB  # in the room that the model has left


# --- which values stay


def test_the_least_recently_used_goes_first() -> None:
    kept = ByteCache(100 * MEGABYTE)
    for name in "abc":
        kept.get(name, lambda: block(MEGABYTE * 33))
    assert all(name in kept for name in "abc")
    kept.get("a", lambda: pytest.fail("it is there"))
    kept.get("d", lambda: block(MEGABYTE * 33))
    assert [name for name in "abcd" if name in kept] == ["a", "c", "d"]
    assert 99 * MEGABYTE < kept.bytes <= kept.budget


def test_long_ones_go_before_short_ones_until_they_are_a_quarter() -> None:
    kept = ByteCache(640 * KB)  # long: more than 10 kB
    for i in range(30):
        kept.get(("short", i), lambda: block(9 * KB))
    for i in range(4):
        kept.get(("long", i), lambda: block(80 * KB))
    assert [i for i in range(4) if ("long", i) in kept] == [0, 1, 2, 3]
    kept.get("more", lambda: block(90 * KB))
    assert [i for i in range(4) if ("long", i) in kept] == [
        1,
        2,
        3,
    ]  # used last, gone first, because long
    assert all(("short", i) in kept for i in range(30))
    for i in range(30, 90):
        kept.get(("short", i), lambda: block(9 * KB))
    assert [i for i in range(4) if ("long", i) in kept] + ["more"] * ("more" in kept) == ["more"]
    assert 90 * KB < 640 * KB / 4  # so it stays in its turn, while short ones go
    assert ("short", 0) not in kept
    assert ("short", 89) in kept


def test_an_opened_checkpoint_does_not_count_as_a_long_text() -> None:
    kept = ByteCache(640 * KB)
    kept.get("model", lambda: block(200 * KB), is_shared=True)
    for i in range(9):
        kept.get(i, lambda: block(90 * KB))
    assert "model" in kept
    assert kept.bytes <= kept.budget


def test_a_shared_tensor_is_counted_once_and_goes_with_its_last_owner() -> None:
    kept, shared = ByteCache(64 * MEGABYTE), torch.zeros(MEGABYTE)
    for i in range(20):
        kept.get(i, lambda: (shared, torch.zeros(1000)))
    assert len(kept) == 20
    assert 4 * MEGABYTE < kept.bytes < 4.2 * MEGABYTE
    kept.get("full", lambda: block(63 * MEGABYTE), is_shared=True)
    assert len(kept) == 1
    assert 63 * MEGABYTE < kept.bytes < 63.1 * MEGABYTE


def test_a_value_larger_than_the_budget_is_returned_and_not_kept() -> None:
    kept, made = ByteCache(10 * KB), []
    kept.get("small", lambda: block(KB))
    for _ in range(2):
        assert len(kept.get("large", lambda: made.append(1) or block(11 * KB))) == 11 * KB
    assert made == [1, 1]
    assert "small" in kept
    assert "large" not in kept


def test_a_value_still_in_use_is_not_made_again_whatever_the_budget() -> None:
    kept, made = ByteCache(10 * KB), []

    def large() -> np.ndarray:
        made.append(1)
        return block(11 * KB)

    held = kept.get("large", large)
    assert kept.get("large", large) is held
    assert "large" in kept
    assert (made, len(kept)) == ([1], 0)
    assert kept.bytes == size(held)
    one = kept.get("one", lambda: block(6 * KB))
    kept.get("other", lambda: block(6 * KB))  # for which it has to go
    assert len(kept) == 1
    assert kept.get("one", lambda: pytest.fail("it is held")) is one
    del held, one
    assert "large" not in kept
    assert "one" not in kept
    assert kept.bytes == size(kept.get("other", lambda: pytest.fail("it is kept")))


def entries(kept: ByteCache) -> int:
    """Return the bytes of the kept values, which share nothing."""
    return sum(size(e.value) for each in (kept._long, kept._others) for e in each.values())


def test_what_sessions_hold_is_counted_until_they_release_it() -> None:
    """Their runs leave less room for the cache, but always a quarter; an opened model belongs to the sessions that use it."""
    kept = ByteCache(640 * KB)
    model = kept.get("model", lambda: block(800 * KB), is_shared=True)
    assert kept.bytes == 0
    runs = [kept.get(("run", i), lambda: block(90 * KB)) for i in range(12)]
    for i in range(90):
        kept.get(i, lambda: block(9 * KB))
    assert kept.bytes > 1080 * KB
    assert 60 * KB < entries(kept) <= 160 * KB
    assert 89 in kept
    for i, run in enumerate(runs):
        assert kept.get(("run", i), lambda: pytest.fail("it is held")) is run
    del run, runs
    assert kept.bytes == entries(kept)
    for i in range(90):
        kept.get(i, lambda: block(9 * KB))
    assert 600 * KB < kept.bytes <= kept.budget
    assert len(model) == 800 * KB


def test_the_count_is_right_after_many_values_have_come_and_gone() -> None:
    kept, rng = ByteCache(MEGABYTE), np.random.default_rng(3)
    shared = [torch.zeros(int(n)) for n in rng.integers(1, 9000, 7)]
    for i in rng.integers(0, 300, 300):
        kept.get(int(i), lambda i=i: [torch.zeros(int(rng.integers(1, 20_000))), shared[i % 7]])
        held = {}
        for entries in (kept._long, kept._others):
            for entry in entries.values():
                held |= held_parts(entry.value)[0]
        assert kept.bytes == sum(held.values()) <= kept.budget
    assert len(kept) > 3


# --- many at once


def test_a_value_is_computed_once_while_the_others_wait() -> None:
    for limit in (MEGABYTE, 1 * KB):  # kept, and too large to be kept
        kept, made, asked = ByteCache(limit), [], threading.Barrier(9)
        going, free = threading.Event(), threading.Event()

        def make(
            made: list = made, going: threading.Event = going, free: threading.Event = free
        ) -> np.ndarray:
            made.append(1)
            going.set()
            assert free.wait(60)
            return block(5 * KB)

        def ask(kept: ByteCache = kept, make=make, asked: threading.Barrier = asked) -> np.ndarray:
            asked.wait(60)
            return kept.get("one", make)

        with ThreadPoolExecutor(9) as pool:
            answers = [pool.submit(ask) for _ in range(9)]
            assert going.wait(60)
            assert not any(answer.done() for answer in answers)
            assert kept.get("other", lambda: 3) == 3  # a request for another value does not wait
            until = time.monotonic() + 60
            while len(kept._under_way["one"]._condition._waiters) < 8 and time.monotonic() < until:
                time.sleep(0.001)
            free.set()
            first, *others = (answer.result(60) for answer in answers)
        assert made == [1]
        assert all(other is first for other in others)


def test_an_error_reaches_all_waiting_callers_and_is_not_kept() -> None:
    kept, outcome = ByteCache(MEGABYTE), iter([KeyError("no"), SystemExit(3)])

    def fails() -> None:
        raise next(outcome)

    with pytest.raises(KeyError):
        kept.get("one", fails)
    with pytest.raises(SystemExit):
        kept.get("one", fails)
    assert kept.get("one", lambda: 5) == 5


# --- the budget


@pytest.mark.parametrize(("said", "megabytes"), [(None, 512), ("7", 7), ("0.5", 0.5)])
def test_the_budget_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, said: str | None, megabytes: float
) -> None:
    monkeypatch.delenv("ATTNSCOPE_CACHE_MB", raising=False)
    if said:
        monkeypatch.setenv("ATTNSCOPE_CACHE_MB", said)
    assert budget() == megabytes * 2**20


@pytest.mark.parametrize("said", ["", "0", "-3", "nan", "inf", "much", "1e999"])
def test_an_invalid_budget_is_reported_before_the_app_opens(
    said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ATTNSCOPE_CACHE_MB", said)
    monkeypatch.setattr("streamlit.web.cli.main", lambda *given, **named: pytest.fail("it opened"))
    monkeypatch.setattr("sys.argv", ["attnscope", "--no-browser"])
    assert command.main() == 1
    assert (
        capsys.readouterr().err
        == f"attnscope: ATTNSCOPE_CACHE_MB must be a number of megabytes above 0, not {said!r}\n"
    )


# --- with real runs


def test_five_hundred_words_again_and_again_stay_within_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = ByteCache(6 * MEGABYTE)
    monkeypatch.setattr(store, "cache_store", kept)
    scope, made = random_scope(n_ctx=1009), 0
    for i in range(9):
        text = " ".join("abcdefghijklmnopqrstuvwxyz"[(i + j) % 26] for j in range(500))
        trace = cache.trace(scope, (text, text[:50]))
        assert len(trace.streams["source"].ids) == 1000
        source, target = (row.ids for row in trace.streams.values())
        run = CurrentRun(scope, trace)
        swapped = replace(run.spec, model=replace(run.spec.model, similarity="dot"))
        runs = [
            trace,
            cache.cached_single_pass(run, source, target[1:9]),
            cache.changed_run(run, swapped).trace,
        ]
        made += size(trace)
        assert size(runs) > MEGABYTE
        assert kept.bytes <= kept.budget
        assert cache.trace(scope, (text, text[:50])) is trace
    assert len(kept) > 2
    assert made > 1.2 * kept.budget > kept.bytes > kept.budget / 4
