"""The machinery of the benchmarks: the short form fails on errors only, and no client waits for ever."""

import asyncio
import sys
import types
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as benchmarks
from tests.benchmarks import clients
from tests.benchmarks.side_by_side import Result


def _module(name: str, *, raises: bool = False) -> types.ModuleType:
    """Return a benchmark that misses its aim by far, or raises."""

    def measure(short: bool) -> list[Result]:
        if raises:
            raise TypeError("a call that does not fit any more")
        return [Result(f"{name}, short: {short}", (99.0,), "≤ 1")]

    module = types.ModuleType(f"tests.benchmarks.{name}")
    module.measure = measure
    return module


@pytest.mark.parametrize(("raises", "status"), [(False, 0), (True, 1)])
def test_the_short_form_runs_every_benchmark_and_fails_only_on_an_error(
    raises: bool,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(benchmarks, "MODULES", (_module("first", raises=raises),))
    monkeypatch.setattr(benchmarks, "ALONE", (_module("second"),))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--short"])
    assert benchmarks.main() == status
    out, err = capsys.readouterr()
    assert "second, short: True" in out
    assert ("first: failed" in err) == raises


def test_every_benchmark_is_run_by_the_short_form() -> None:
    folder = benchmarks.__file__.rpartition("/")[0]
    files = {path.stem for path in Path(folder).glob("*.py")}
    listed = {module.__name__.rpartition(".")[2] for module in _all_modules()}
    assert files - listed == {"__init__", "__main__", "serving", "side_by_side"}


def _all_modules() -> tuple[types.ModuleType, ...]:
    return (*benchmarks.MODULES, *benchmarks.ALONE)


class _Opening(clients.Client):
    """A client whose model never opens; it counts how often it looks."""

    looks = 0

    async def commit(self, text: str) -> bytes:
        self.looks += 1
        return b""


def test_a_client_gives_up_on_a_model_that_does_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "PATIENCE", 0.2)
    monkeypatch.setattr(clients, "PAUSE", 0.05)
    client = _Opening(0, "", None)
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(client.arrive())
    assert 1 <= client.looks <= 5
