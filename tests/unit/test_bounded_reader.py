"""Files in a checkpoint folder that would block, exhaust or crash a naive reader."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import models
from models import checkpoint_files as files
from models.checkpoint import CheckpointError
from models.hub.files import MAX_CONFIG_BYTES, MAX_INDEX_BYTES, weight_files
from models.hub.load import is_folder
from models.opening import describe

DEEP = b"[" * 400_000
GB = 2**30


def write(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 12 * GB)


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "deep": (write(DEEP), "nested too deeply"),
    "deep in an entry": (write(b'{"model_type": ' + DEEP), "nested too deeply"),
    "a pipe": (os.mkfifo, "not a regular file"),
    "a folder": (Path.mkdir, "cannot be read"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "12 GB": (sparse, "larger than the"),
    "a link in a circle": (lambda path: path.symlink_to(path.name), "cannot be read"),
    "a link to nothing": (lambda path: path.symlink_to("gone"), "cannot be read"),
    "no text": (write(b"\xff\xfe{}"), "not readable as JSON"),
    "a number of a million digits": (
        write(b'{"n": ' + b"9" * 10**6 + b"}"),
        "not readable as JSON",
    ),
    "a list": (write(b'["model_type"]'), "expected a JSON object"),
    "empty": (write(b""), "not readable as JSON"),
}


@pytest.fixture(params=BAD)
def bad(request: pytest.FixtureRequest) -> tuple[Callable[[Path], object], str]:
    return BAD[request.param]


@pytest.mark.parametrize("ask", [is_folder, describe, models.load], ids=lambda ask: ask.__name__)
def test_a_bad_configuration_is_a_checkpoint_error(tmp_path: Path, bad, ask) -> None:
    make, reason = bad
    make(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match=f"config.json: .*{reason}"):
        ask(tmp_path)


@pytest.mark.parametrize("name", ["training.json", "tokenizer.json"])
def test_so_is_any_other_file(checkpoint: Path, bad, name: str) -> None:
    (checkpoint / name).unlink()
    bad[0](checkpoint / name)
    with pytest.raises(CheckpointError, match=name):
        models.load(checkpoint)


def test_an_index_of_shards_is_read_within_bounds(tmp_path: Path, bad) -> None:
    make, reason = bad
    make(tmp_path / "model.safetensors.index.json")
    if (tmp_path / "model.safetensors.index.json").is_file():
        with pytest.raises(CheckpointError, match=reason):
            weight_files(tmp_path)


def test_no_memory_is_a_checkpoint_error_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(json, "loads", exhausted)
    with pytest.raises(CheckpointError, match=r"not readable as JSON \(out of memory\)"):
        files.read_json(tmp_path / "config.json")


def test_a_file_that_grows_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_bytes(b" " * 9)
    assert files.read_bytes(tmp_path / "config.json", 9) == b" " * 9
    fstat = os.fstat

    def grow(file: int) -> os.stat_result:
        status = fstat(file)
        (tmp_path / "config.json").write_bytes(b" " * 99)
        return status

    monkeypatch.setattr(files.os, "fstat", grow)
    with pytest.raises(CheckpointError, match="larger than the limit of 9 bytes"):
        files.read_bytes(tmp_path / "config.json", 9)


@pytest.mark.parametrize("path", ["nowhere", "null\0character", "long" * 999])
def test_an_impossible_path_is_a_checkpoint_error(path: str) -> None:
    with pytest.raises(CheckpointError, match="cannot be read"):
        files.read_bytes(Path(path))


def test_bounds_of_a_library_folder() -> None:
    """Configurations with a thousand labels and indexes of hundreds of shards fit, and no file can fill the memory."""
    labels = {"id2label": {str(i): f"a label of some length {i}" for i in range(1000)}}
    index = {f"model.layers.{i}.mlp.experts.{i}.down_proj.weight": "x" * 30 for i in range(10**5)}
    assert len(json.dumps(labels)) < MAX_CONFIG_BYTES < 2**24
    assert len(json.dumps(index)) < MAX_INDEX_BYTES < 2**28


def test_infinity_is_read_where_the_library_writes_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "mamba2", "time_step_limit": [0.0, Infinity]}'
    )
    assert is_folder(tmp_path)
    with pytest.raises(CheckpointError, match="Infinity is not a finite number"):
        files.read_json(tmp_path / "config.json")
