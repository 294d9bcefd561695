"""Malicious Hugging Face folders: files that would take all memory or time, end the process or read other files are refused."""

import contextlib
import json
import os
import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hub_models import BY_NAME, library_tokenizer

import models
from models import CheckpointError, InputError, loading
from models.hub import files
from models.hub import load as hub
from models.hub.files import stage_folder
from models.hub.trial import client as trials
from tests.robustness.damage import VALUES, places

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT with a tokenizer that adds [CLS] and [SEP]."""
    folder, case = tmp_path_factory.mktemp("hub") / "bert", BY_NAME["BertForMaskedLM"]
    folder.mkdir()
    library = library_tokenizer(folder, 53)
    replace(case, sizes=case.sizes | {"vocab_size": len(library) + 3}).save(folder)
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    """A copy of the folder, to be damaged at will."""
    return Path(shutil.copytree(sound, tmp_path / "bert"))


def changed(folder: Path, name: str, change: Change) -> None:
    content = json.loads((folder / name).read_text("utf-8"))
    change(content)
    (folder / name).write_text(json.dumps(content), "utf-8")


def refused(folder: Path, sentence: str) -> None:
    with pytest.raises(CheckpointError, match=sentence or None) as error:
        models.load(folder, device="cpu")
    assert str(error.value).startswith(str(folder))


def replacing(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def fixed(**padding: Any) -> dict[str, Any]:
    return {
        "strategy": {"Fixed": 7},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    } | padding


def template(ids: list[int], times: int) -> dict[str, Any]:
    special = {"id": "[CLS]", "ids": ids, "tokens": ["[CLS]"] * len(ids)}
    first = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}] * times
    single = [*first, {"Sequence": {"id": "A", "type_id": 0}}]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"[CLS]": special},
    }


def splitting(pattern: str) -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


GROWING = {"type": "Sequence", "normalizers": [replacing("a", "b" * 10**6), replacing("b", "c" * 10**6)]}  # fmt: skip
TOKENIZERS: dict[str, tuple[Change, str]] = {
    "a normalizer that takes all memory": (
        lambda c: c.update(normalizer=GROWING),
        "its tokenizer .*cannot be used: trying it out crashed or took too much memory or time",
    ),
    "a normalizer that grows one rare letter": (
        lambda c: c.update(normalizer=replacing("ʭ", "b" * 1000)),
        r"its tokenizer turns 4,096 characters, 'ʭ{20}', into 4,096,000",
    ),
    "a template of many tokens": (
        lambda c: c.update(post_processor=template([2] * 10, 100)),
        "its tokenizer puts [0-9,]+ special tokens around texts, more than 64",
    ),
    "a template beyond the embedding": (
        lambda c: c.update(post_processor=template([10**6], 1)),
        "its tokenizer has a token 1,000,000, but the model's embedding",
    ),
    "a pattern that tries all ways": (
        lambda c: c.update(pre_tokenizer=splitting("(a+)+$")),
        "the tokenizer of this checkpoint cannot be used: .*retry-limit|its tokenizer cannot be used",
    ),
    "no token for what is unknown": (
        lambda c: c["model"].update(unk_token="nowhere"),
        "(?i)unk",
    ),
    "a prefix as long as a book": (
        lambda c: c["model"].update(continuing_subword_prefix="#" * 10**6),
        "its tokenizer has a continuing_subword_prefix of 1,000,000 characters, more than 64",
    ),
}


@pytest.mark.parametrize(("change", "sentence"), TOKENIZERS.values(), ids=TOKENIZERS)
def test_a_tokenizer_that_could_stop_the_server_is_refused(
    folder: Path, change: Change, sentence: str
) -> None:
    changed(folder, "tokenizer.json", change)
    refused(folder, sentence)


@pytest.mark.parametrize("padding", [{"strategy": {"Fixed": 10**9}}, {"pad_to_multiple_of": 2**62}])
def test_stored_padding_is_never_applied(folder: Path, padding: dict[str, Any]) -> None:
    changed(folder, "tokenizer.json", lambda c: c.update(padding=fixed(**padding)))
    assert len(models.load(folder, device="cpu").run("The dog").streams["text"].ids) == 8


CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "layers": ({"num_hidden_layers": 10**6}, "num_hidden_layers must be at most 1,024, not 1,000"),
    "labels": ({"num_labels": 10**9}, "num_labels must be at most [0-9,]+, the numbers in its w"),
    "vocabulary": ({"vocab_size": 10**9}, "vocab_size must be at most [0-9,]+, the numbers in its"),
    "width": ({"hidden_size": 10**5}, "hidden_size must be at most [0-9,]+, the numbers in its w"),
    "within bounds": (
        {"num_hidden_layers": 1000, "intermediate_size": 9000},
        "config.json describes a model of [0-9,]+ numbers, but its weights hold",
    ),
    "positions": (
        {"max_position_embeddings": 10**9},
        "config.json describes a model of [0-9,]+ numbers, but its weights hold",
    ),
}


@pytest.mark.parametrize(("changes", "sentence"), CONFIGS.values(), ids=CONFIGS)
def test_a_configuration_is_checked_against_its_weights_before_anything_is_built(
    folder: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], sentence: str
) -> None:
    monkeypatch.setattr(hub, "_read", lambda *_: pytest.fail("it was built"))
    changed(folder, "config.json", lambda c: c.update(changes))
    refused(folder, sentence)


def test_layers_that_share_their_weights_are_bounded_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    BY_NAME["AlbertForMaskedLM"].save(tmp_path / "albert")
    monkeypatch.setattr(hub, "_read", lambda *_: pytest.fail("it was built"))
    changed(tmp_path / "albert", "config.json", lambda c: c.update(num_hidden_layers=10**7))
    refused(tmp_path / "albert", "num_hidden_layers must be at most 1,024, not 10,000,000")


def test_a_longest_text_below_one_token_is_refused(folder: Path) -> None:
    changed(folder, "tokenizer_config.json", lambda c: c.update(model_max_length=-5))
    refused(folder, "it reads at most -5 tokens: model_max_length is -5")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text("swordfish\nthe\ndog\n[UNK]\n")
    return path


def test_settings_that_name_another_file_are_left_out(folder: Path, secret: Path) -> None:
    outward = {
        "vocab": str(secret), "merges": str(secret), "vocab_file": str(secret), "tokenizer_file": str(secret),
        "added_tokens_file": str(secret), "init_inputs": [str(secret)], "sp_model_kwargs": {"model_file": str(secret)},
        "anything": str(secret), "several": [str(secret), "x"], "fast_tokenizer_files": ["../secret.txt"],
    }  # fmt: skip
    kept = {"bos_token": "</s>", "extra_special_tokens": ["a/b"], "added_tokens_decoder": {"7": {"content": "/x"}}}  # fmt: skip
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).write_text(json.dumps(outward | kept))
    changed(folder, "config.json", lambda c: c.update(transformers_weights=str(secret)))
    with stage_folder(folder) as private:
        for name in ("tokenizer_config.json", "special_tokens_map.json"):
            left = json.loads((private / name).read_text())
            assert left == kept | {"sp_model_kwargs": {}, "several": ["x"]}
        assert "transformers_weights" not in json.loads((private / "config.json").read_text())
    assert not private.exists()


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize("key", ["vocab", "vocab_file", "tokenizer_file"])
def test_no_line_of_another_file_becomes_a_token(
    folder: Path, secret: Path, name: str, key: str
) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / name).write_text(json.dumps({"tokenizer_class": "BertTokenizer", key: str(secret)}))
    try:
        tokens = models.load(folder, device="cpu").run("swordfish dog").streams["text"].tokens
    except CheckpointError:
        return
    assert "swordfish" not in tokens


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "sub/x.safetensors", "x.bin", 5])  # fmt: skip
def test_an_index_names_shards_of_its_own_folder(folder: Path, name: object) -> None:
    (folder / "model.safetensors").rename(folder.parent / "secret.safetensors")
    (folder / files.SHARD_INDEX).write_text(json.dumps({"weight_map": {"a": name}}))
    refused(folder, "model.safetensors.index.json names no shards")


def test_an_index_beside_the_weights_does_not_hide_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "small.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    (folder / files.SHARD_INDEX).write_text(json.dumps({"weight_map": {"a": "small.safetensors"}}))
    monkeypatch.setattr(files, "free_memory", lambda device: 1000)
    refused(folder, "its weights take")


def test_weights_that_would_be_unpickled_are_not_read(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, r"would have to be unpickled .* safe_serialization=True")
    (folder / "pytorch_model.bin.index.json").write_text(
        json.dumps({"weight_map": {"a": "../../secret.bin"}})
    )
    refused(folder, r"would have to be unpickled")


SMALL = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("kind", ["pipe", "folder", "circle", "deep", "sparse"])
def test_anything_but_a_regular_file_is_refused_at_once(folder: Path, name: str, kind: str) -> None:
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "circle":
        path.symlink_to(path)
    elif kind == "deep":
        path.write_text("[" * 400_000)
    else:
        with path.open("wb") as file:
            file.truncate(12 * 2**30)
    if kind == "deep" and name == "vocab.txt":
        assert models.load(folder, device="cpu")  # one more file of text
    else:
        refused(folder, "")


@pytest.mark.parametrize("seed", range(10))
def test_any_damage_is_refused_or_does_no_harm(folder: Path, seed: int) -> None:
    """A value somewhere in one of its files is replaced by an unexpected one."""
    rng = Random(seed)
    path = rng.choice(sorted(folder.glob("*.json")))
    content = json.loads(path.read_text("utf-8"))
    holder, key = rng.choice(list(places(content)))
    holder[key] = rng.choice(VALUES)
    path.write_text(json.dumps(content), "utf-8")
    with contextlib.suppress(CheckpointError):
        scope = models.load(folder, device="cpu")
        with contextlib.suppress(InputError):
            scope.run("The dog was hungry")


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Path]:
    """Make a folder whose trial never ends by itself."""
    prepare = trials._CODE
    trials._end()
    trials.verdicts.clear()
    sleeping = "import time; from models.hub.trial import process; process.try_folder = lambda *_: time.sleep(900); "
    monkeypatch.setattr(trials, "_CODE", sleeping + prepare)
    yield folder
    trials._end()


@pytest.mark.slow
def test_giving_up_ends_the_wait_for_a_trial(endless: Path) -> None:
    trying, enough = threading.Event(), threading.Event()

    def watch(what: str, done: int, total: int) -> None:
        if what == loading.TRIED:
            trying.set()
        if enough.is_set():
            raise loading.Cancelled("enough")

    errors: list[str] = []

    def open_it() -> None:
        with loading.report_loading(watch):
            try:
                models.load(endless, device="cpu")
            except loading.Cancelled as error:
                errors.append(str(error))

    thread = threading.Thread(target=open_it)
    thread.start()
    assert trying.wait(60)
    enough.set()
    thread.join(60)
    assert errors == ["enough"]


def test_a_trial_ends_by_itself(endless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "TRIAL_SECONDS", 1.0)
    refused(endless, "its folder cannot be used: trying it out took over 1 s")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The list of copies that were tried out."""
    trials.verdicts.clear()
    tried_out, tried = trials._try, []

    def count(folder: Path, dtype: str) -> int | str:
        tried.append(folder)
        return tried_out(folder, dtype)

    monkeypatch.setattr(trials, "_try", count)
    return tried


@pytest.mark.slow
def test_a_folder_is_tried_out_once_for_its_content(
    folder: Path, tmp_path: Path, counted: list[Path]
) -> None:
    for _ in range(2):
        models.load(folder, device="cpu")
    assert len(counted) == 1
    models.load(folder, device="cpu", dtype="bfloat16")  # other sizes
    assert len(counted) == 2
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    models.load(other, device="cpu")
    assert len(counted) == 2
    changed(folder, "tokenizer.json", lambda t: t.update(post_processor=template([1], 100)))
    for _ in range(2):
        refused(folder, f"^{re.escape(str(folder))}: its tokenizer puts [0-9,]+ special tokens")
    assert len(counted) == 3
    shutil.copy(other / "tokenizer.json", folder)
    models.load(folder, device="cpu")
    assert len(counted) == 3


def test_a_trial_that_crashed_is_made_again(folder: Path, counted: list[Path]) -> None:
    (folder / "tokenizer.json").write_text("[", "utf-8")
    for _ in range(2):
        refused(folder, "its tokenizer cannot be used")
    assert len(counted) == 2


@pytest.mark.parametrize(
    "sent",
    [
        b"[" * 9 + b"\n", b"7\n", b"null\n", b'{"raised": 7}\n', b'{"raised": ""}\n', b'{"bytes": "many"}\n',
        b'{"stage": {}}\n', b"\xff\n", b"[" * 10**5 + b"\n", b"x" * (trials.MAX_MESSAGE_BYTES + 1),
    ],
)  # fmt: skip
def test_what_a_trial_sends_besides_messages_is_a_crash(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "TRIAL_SECONDS", 5.0)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=theirs.sendall, args=(b'{"stage": "model"}\n' + sent,))
        sender.start()
        with pytest.raises(
            CheckpointError, match="^its model cannot be used: (trying it out cr|$)"
        ):
            trials._verdict(ours)
        sender.join()


def test_the_folders_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = trials._Verdicts()
    for i in range(trials.MAX_REMEMBERED + 1):
        verdicts.add(str(i), i)
        verdicts.get("0")
    assert (verdicts.get("0"), verdicts.get("1"), verdicts.get("2")) == (0, None, 2)
