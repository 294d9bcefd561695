"""Checkpoint folders: a round trip loses nothing, a failed write leaves the old file, and damage is named."""

import errno
import json
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from models import checkpoint as module
from models import checkpoint_files
from models.checkpoint import (
    PREVIOUS_WEIGHTS,
    RECORD_LOCK,
    CheckpointError,
    add_to_record,
    change_record,
    load_checkpoint,
    save_checkpoint,
    seal,
)
from models.checkpoint_files import CHECKPOINT_FILES, snapshot_path, snapshots, write_bytes
from models.opening import load
from models.tokenizers.base import Tokenizer


def test_round_trip(tiny, tmp_path):
    tokenizer = Tokenizer.characters("abcdefghijklmnopqrstuvwxyzé")
    assert tokenizer.vocab_size == tiny.config.vocab_size
    training = {
        "step": 7,
        "task": "café",
        "curve": [{"step": 5, "loss": 1.5}, {"step": 7, "loss": 1.25}],
    }
    save_checkpoint(tmp_path / "deep" / "folder", tiny, tokenizer, training)
    again = load_checkpoint(tmp_path / "deep" / "folder")
    assert sorted(p.name for p in again.path.iterdir()) == sorted(CHECKPOINT_FILES)
    assert again.model.config == tiny.config
    assert again.training == training
    assert again.tokenizer.encode("café?") == tokenizer.encode("café?")
    assert not again.model.training
    assert again.model.state_dict().keys() == tiny.state_dict().keys()
    for name, value in again.model.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, tiny.state_dict()[name].half().float())
    ids = torch.tensor([[5, 6, 7, 2]])
    torch.testing.assert_close(
        again.model(ids, ids), tiny(ids, ids), atol=0.05, rtol=0.01
    )  # half precision


@pytest.fixture
def unsealed(checkpoint) -> Path:
    """The checkpoint as older versions wrote it, without checksums, so that damage is found in the file itself."""
    record = json.loads((checkpoint / "training.json").read_text())
    del record["checksums"]
    (checkpoint / "training.json").write_text(json.dumps(record))
    return checkpoint


def contents(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.iterdir() if p.is_file() and p.name != RECORD_LOCK)
    return {p.name: p.read_bytes() for p in files}


@pytest.mark.parametrize("failing", range(1, 5))
def test_a_full_disk_leaves_every_file_whole(checkpoint, monkeypatch, failing):
    """Write number `failing` stops halfway; no file is half written, none is left over, and the folder still loads."""
    before = load_checkpoint(checkpoint)
    files = contents(checkpoint)
    write, count = Path.write_bytes, 0

    def full(path: Path, content: bytes) -> int:
        nonlocal count
        count += 1
        if count == failing:
            write(path, content[: len(content) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with torch.no_grad():
        changed = load_checkpoint(checkpoint).model
        changed.embedding.weight += 1
    record = before.training | {
        "step": 499,
        "curve": [*before.training["curve"], {"step": 499, "loss": 0.0}],
    }
    with pytest.raises(OSError, match="No space left on device"):
        save_checkpoint(checkpoint, changed, before.tokenizer, record)
    assert contents(checkpoint).keys() == files.keys()
    assert contents(checkpoint)["model.safetensors"] == files["model.safetensors"]
    after = load_checkpoint(checkpoint)
    # A record written before the weights failed belongs to the weights that are there.
    assert after.training["step"] == before.training["step"] == 199
    assert after.training["curve"] == before.training["curve"]
    assert torch.equal(after.model.embedding.weight, before.model.embedding.weight)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_device_that_is_really_full(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"the old weights")
    temporary = f".{path.name}.{os.getpid()}-{threading.get_ident()}.partial"
    path.with_name(temporary).symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        write_bytes(path, b"the new weights")
    assert contents(tmp_path) == {"model.safetensors": b"the old weights"}


def test_a_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    seen = []
    replace = os.replace

    def watched(source: Path, target: Path) -> None:
        seen.append((source.read_bytes(), target.exists()))
        replace(source, target)

    monkeypatch.setattr(checkpoint_files.os, "replace", watched)
    write_bytes(tmp_path / "a", b"content")
    assert seen == [(b"content", False)]
    assert contents(tmp_path) == {"a": b"content"}


def test_two_threads_writing_one_file_do_not_mix(tmp_path):
    path, both = tmp_path / "training.json", threading.Barrier(2)
    contents_of = b"first" * 7, b"second" * 11

    def write(content: bytes) -> None:
        with checkpoint_files.replacing(path) as temporary:
            temporary.write_bytes(content)
            both.wait(10)
            assert temporary.read_bytes() == content
            both.wait(10)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, contents_of))
    assert path.read_bytes() in contents_of
    assert len(contents(tmp_path)) == 1


def test_a_folder_in_the_way_of_a_file(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError):  # noqa: PT011 (what a folder says differs between systems)
        write_bytes(tmp_path / "a", b"content")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def tensors(change):
    def damage(folder: Path) -> None:
        state = load_file(folder / "model.safetensors")
        change(state)
        save_file(state, folder / "model.safetensors", {"step": "199"})

    return damage


def config(**changes):
    def damage(folder: Path) -> None:
        old = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(old | changes))

    return damage


def text(name: str, content: str):
    return lambda folder: (folder / name).write_text(content)


def cut(name: str, share: float):
    def damage(folder: Path) -> None:
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: int(share * len(whole))])

    return damage


def renamed(state):
    state["encoder.layers.0.attention.W_Q.weight"] = state.pop(
        "encoder.layers.0.self_attn.W_Q.weight"
    )


def reshaped(state):
    state["embedding.weight"] = state["embedding.weight"][:, :-2].contiguous()


def with_nan(state):
    state["decoder.layers.0.ff.W_1.bias"][3] = float("nan")


def too_large(state):
    state["decoder.layers.0.ff.W_1.bias"] = state["decoder.layers.0.ff.W_1.bias"].float() + 70_000


def whole(state):
    state["embedding.weight"] = state["embedding.weight"].long()


def exploding(folder: Path) -> None:
    """A cosine's learned t = exp(60,000)."""
    sites = (
        "encoder.layers.0.self_attn",
        "decoder.layers.0.self_attn",
        "decoder.layers.0.cross_attn",
    )
    config(similarity="cosine")(folder)
    tensors(
        lambda state: state.update(
            {f"{site}.similarity.log_t": torch.tensor(60_000.0) for site in sites}
        )
    )(folder)


def step(said: str):
    def damage(folder: Path) -> None:
        save_file(
            load_file(folder / "model.safetensors"), folder / "model.safetensors", {"step": said}
        )

    return damage


def with_infinity(state):
    state["embedding.weight"][2, 3] = float("-inf")


DAMAGES = {
    **{f"{name} missing": (lambda f, n=name: (f / n).unlink(), f"not a checkpoint, {name} is missing") for name in CHECKPOINT_FILES},
    "weights cut in half": (cut("model.safetensors", 0.5), "model.safetensors: not readable as safetensors"),
    "weights cut in their header": (cut("model.safetensors", 0.01), "model.safetensors: not readable as safetensors"),
    "weights empty": (cut("model.safetensors", 0), "model.safetensors: not readable as safetensors"),
    "parameter renamed": (
        tensors(renamed), "model.safetensors: 2 parameters do not match the configuration, encoder.layers.0",
    ),
    "parameter missing": (tensors(lambda s: s.pop("embedding.weight")), "1 parameters do not match .*, embedding.weight"),
    "wrong shape": (tensors(reshaped), r"embedding.weight must have shape \(9, 33\) by config.json, got \(9, 31\)"),
    "NaN": (tensors(with_nan), "decoder.layers.0.ff.W_1.bias holds values that are not finite"),
    "more than half precision": (tensors(too_large), "decoder.layers.0.ff.W_1.bias holds values .* in half precision"),
    "whole numbers": (tensors(whole), "model.safetensors: expected dtypes F16, BF16, F32 and a step, got 'I64'"),
    "an answer that is no number": (exploding, "with these weights the model's output is not finite"),
    "a step of words": (step("many"), "model.safetensors: expected dtypes F16, BF16, F32 and a step, got 'many'"),
    "a step below 0": (step("-3"), "a step, got '-3'"),
    "a header beyond all bounds": (
        lambda f: (f / "model.safetensors").write_bytes((2**40).to_bytes(8, "little") + b"{}"),
        "not readable as safetensors .a header of 1,099,511,627,776 bytes in a file of 10",
    ),
    "infinite": (tensors(with_infinity), "embedding.weight holds values that are not finite"),
    "other d_ff": (config(d_ff=67), r"W_1.\w+ must have shape \(67.*, got \(61"),
    "other n_heads": (config(n_heads=2), r"config.json: d_model \(33\) must be divisible by n_heads \(2\)"),
    "no heads": (config(n_heads=0), r"config.json: d_model \(33\) must be divisible by n_heads \(0\)"),
    "no d_model": (config(d_model=0), "config.json: d_model must be at least 1, not 0"),
    "words for numbers": (config(d_model="33"), "config.json: "),
    "huge": (config(d_model=3 * 2**60), "config.json: "),
    "unknown setting": (config(colour="red"), "config.json: .*colour"),
    "unknown architecture": (config(architecture="gpt9"), "architecture 'gpt9' is not one of transformer"),
    "no architecture": (text("config.json", "{}"), "architecture None is not one of transformer"),
    "configuration cut": (cut("config.json", 0.5), "config.json: not readable as JSON"),
    "configuration a list": (text("config.json", "[1]"), "config.json: expected a JSON object"),
    "configuration deep": (text("config.json", "[" * 16_000), "config.json: not readable as JSON"),
    "record cut": (cut("training.json", 0.5), "training.json: not readable as JSON"),
    "record empty": (text("training.json", ""), "training.json: not readable as JSON"),
    "record with odd examples": (text("training.json", '{"examples": [1]}'), "training.json: examples must be a list"),
    "record without a curve of rows": (text("training.json", '{"curve": [1]}'), "training.json: curve must be a list"),
    "tokenizer cut": (cut("tokenizer.json", 0.5), "tokenizer.json: not a tokenizer"),
    "another tokenizer": (
        text("tokenizer.json", Tokenizer.characters("abc").to_json()),
        "the tokenizer has 7 tokens, but the model's vocab_size is 9",
    ),
    "bytes for text": (lambda f: (f / "tokenizer.json").write_bytes(bytes(range(128, 256))), "tokenizer.json: "),
}  # fmt: skip


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_named(unsealed, damage, message):
    load_checkpoint(unsealed)
    damage(unsealed)
    with pytest.raises(CheckpointError, match=message) as error:
        load_checkpoint(unsealed)
    assert str(unsealed) in str(error.value)


def other_positions(folder: Path) -> None:
    config(positions="none")(folder)


def other_letters(folder: Path) -> None:
    (folder / "tokenizer.json").write_text(Tokenizer.characters("edcba").to_json())


def other_weights(folder: Path) -> None:
    tensors(lambda state: state["embedding.weight"].mul_(1.01))(folder)


SOUND = {
    "config.json": other_positions,
    "tokenizer.json": other_letters,
    "model.safetensors": other_weights,
}


@pytest.mark.parametrize(("name", "change"), SOUND.items(), ids=SOUND)
def test_a_file_replaced_by_another_valid_one_is_reported_as_changed_until_sealed(
    checkpoint, name, change
):
    before = load(checkpoint, device="cpu").run("bad", "dab").next_token.logits
    change(checkpoint)
    with pytest.raises(
        CheckpointError,
        match=f"{checkpoint}/{name}: changed since the checkpoint was saved; .*attnscope seal",
    ):
        load_checkpoint(checkpoint)
    seal(checkpoint)
    assert not torch.equal(
        load(checkpoint, device="cpu").run("bad", "dab").next_token.logits, before
    )


def test_without_checksums_nothing_is_claimed(unsealed):
    for change in SOUND.values():
        change(unsealed)
    load_checkpoint(unsealed)


def test_the_record_holds_the_sha_256_of_every_other_file(checkpoint):
    record = json.loads((checkpoint / "training.json").read_text())
    write_bytes(snapshot_path(checkpoint, 199), (checkpoint / "model.safetensors").read_bytes())
    names = ["config.json", "tokenizer.json", "model.safetensors"]
    assert record["checksums"] == {
        name: sha256((checkpoint / name).read_bytes()).hexdigest() for name in names
    }
    names.append("snapshots/000199.safetensors")
    assert seal(checkpoint) == {
        name: sha256((checkpoint / name).read_bytes()).hexdigest() for name in names
    }
    again = json.loads((checkpoint / "training.json").read_text())
    assert again == record | {"checksums": seal(checkpoint)}
    add_to_record(checkpoint, licence="none")
    assert json.loads((checkpoint / "training.json").read_text()) == again | {"licence": "none"}


def test_an_entry_added_while_another_is_made_is_not_lost(checkpoint):
    other = threading.Thread(target=add_to_record, args=(checkpoint,), kwargs={"licence": "none"})

    def change(record):
        other.start()
        other.join(0.05)  # would have been written by now
        return {"curve": [{"step": record["step"], "loss": 2.5}]}

    change_record(checkpoint, change)
    other.join()
    record = json.loads((checkpoint / "training.json").read_text())
    assert record["licence"] == "none"
    assert record["curve"][-1]["loss"] == 2.5


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links are of another kind there")
def test_a_lock_that_is_a_link_changes_nothing_elsewhere(checkpoint):
    """A folder from elsewhere may hold one that points at any file of this machine."""
    elsewhere = checkpoint.parent / "elsewhere"
    elsewhere.write_text("a file of one's own")
    lock = checkpoint / RECORD_LOCK
    lock.unlink(missing_ok=True)
    lock.symlink_to(elsewhere)
    with pytest.raises(OSError, match=RECORD_LOCK):
        add_to_record(checkpoint, licence="none")
    assert elsewhere.read_text() == "a file of one's own"


def test_a_snapshot_must_match_its_checksum_and_its_name(checkpoint):
    saved = (checkpoint / "model.safetensors").read_bytes()
    write_bytes(snapshot_path(checkpoint, 199), saved)
    seal(checkpoint)
    load_checkpoint(checkpoint, snapshot=199)
    tensors(lambda state: state["embedding.weight"].mul_(1.01))(checkpoint)
    write_bytes(snapshot_path(checkpoint, 199), (checkpoint / "model.safetensors").read_bytes())
    write_bytes(checkpoint / "model.safetensors", saved)
    with pytest.raises(
        CheckpointError,
        match=r"snapshots/000199.safetensors: changed since the checkpoint was saved",
    ):
        load_checkpoint(checkpoint, snapshot=199)
    write_bytes(snapshot_path(checkpoint, 5), saved)
    with pytest.raises(
        CheckpointError, match=r"snapshots/000005.safetensors: holds the weights of step 199"
    ):
        load_checkpoint(checkpoint, snapshot=5)
    with pytest.raises(
        CheckpointError, match=r"snapshots/000005.safetensors: holds the weights of step 199"
    ):
        seal(checkpoint)


def test_files_not_named_like_snapshots_are_ignored(checkpoint):
    for name in ("000007", "1234567", "²", "٣٣٣٣٣٣", "7", "0000007", "-00001", "x", "9" * 200):
        write_bytes(checkpoint / "snapshots" / f"{name}.safetensors", b"")
    (checkpoint / "snapshots" / "000009.safetensors").mkdir()
    assert snapshots(checkpoint) == [7, 1234567]


@pytest.mark.parametrize("written", range(1, 6))
def test_a_run_killed_between_any_two_files_leaves_a_checkpoint_that_opens(
    checkpoint, monkeypatch, written
):
    """The update stops after its first n files: the old weights load until the new ones are written, the new ones afterwards."""
    before = load_checkpoint(checkpoint)
    write, names = module.write_bytes, []

    def killed(path: Path, content: bytes) -> None:
        if len(names) == written:
            raise KeyboardInterrupt
        names.append(path.name)
        write(path, content)

    changed = load_checkpoint(checkpoint).model
    with torch.no_grad():
        changed.embedding.weight += 1
    record = before.training | {
        "step": 499,
        "curve": [*before.training["curve"], {"step": 499, "loss": 0.0}],
    }
    monkeypatch.setattr(module, "write_bytes", killed)
    if written < 5:
        with pytest.raises(KeyboardInterrupt):
            save_checkpoint(checkpoint, changed, before.tokenizer, record)
    else:
        save_checkpoint(checkpoint, changed, before.tokenizer, record)
    assert (
        names
        == ["config.json", "tokenizer.json", "training.json", "model.safetensors", "training.json"][
            :written
        ]
    )
    after = load_checkpoint(checkpoint)
    assert after.training["step"] == (499 if "model.safetensors" in names else 199)
    assert (
        PREVIOUS_WEIGHTS in json.loads((checkpoint / "training.json").read_text())["checksums"]
    ) == (written in (3, 4))


@pytest.mark.parametrize("saved", [1, 2, 3])
def test_a_checkpoint_opens_while_a_run_saves_into_it(checkpoint, monkeypatch, saved):
    """The run saves between the reading of the weights and of the record, a few times in a row: the newest weights open. A
    checkpoint that is never at rest is refused like one that was changed."""
    before = load_checkpoint(checkpoint)
    read, steps = module.read_bytes, []

    def busy(path: Path) -> bytes:
        content = read(path)
        if path.name == "model.safetensors" and len(steps) < saved:
            steps.append(200 + len(steps))
            with torch.no_grad():
                before.model.embedding.weight += 1
            save_checkpoint(
                checkpoint, before.model, before.tokenizer, before.training | {"step": steps[-1]}
            )
        return content

    monkeypatch.setattr(module, "read_bytes", busy)
    if saved == 3:
        with pytest.raises(CheckpointError, match="changed since the checkpoint was saved"):
            load_checkpoint(checkpoint)
    after = load_checkpoint(checkpoint)
    assert after.training["step"] == steps[-1] == 199 + saved
    assert torch.equal(after.model.embedding.weight, before.model.embedding.weight.half().float())


class Bomb:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return (os.system, (f"touch {self.target}",))


@pytest.mark.parametrize("name", CHECKPOINT_FILES)
@pytest.mark.parametrize("writer", ["pickle", "torch.save"])
def test_a_pickle_in_disguise_is_never_unpickled(checkpoint, tmp_path, name, writer):
    bomb = {"embedding.weight": Bomb(tmp_path / "exploded")}
    (checkpoint / name).unlink()
    with (checkpoint / name).open("wb") as file:
        pickle.dump(bomb, file) if writer == "pickle" else torch.save(bomb, file)
    with pytest.raises(CheckpointError):
        load_checkpoint(checkpoint)
    assert not (tmp_path / "exploded").exists()
    pickle.loads(pickle.dumps(bomb))  # the bomb does go off when it is unpickled
    assert (tmp_path / "exploded").exists()


def test_a_record_that_ran_ahead_is_cut_back_to_the_weights(checkpoint):
    record = json.loads((checkpoint / "training.json").read_text())
    ahead = record | {
        "step": 400,
        "curve": [*record["curve"], {"step": 220, "loss": 0.1}, {"step": 400, "loss": 0.1}],
    }
    (checkpoint / "training.json").write_text(json.dumps(ahead))
    del record["checksums"]
    assert load_checkpoint(checkpoint).training == record


def test_a_folder_that_is_no_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match="neither a folder nor a shipped checkpoint"):
        load("nowhere")
    with pytest.raises(
        CheckpointError,
        match="config.json, tokenizer.json, training.json, model.safetensors is missing",
    ):
        load(tmp_path)
    with pytest.raises(CheckpointError, match=r"nowhere: no such folder"):
        load_checkpoint(tmp_path / "nowhere")


def test_a_snapshot_that_is_missing_or_damaged(checkpoint):
    with pytest.raises(CheckpointError, match=r"000005.safetensors: cannot be read"):
        load_checkpoint(checkpoint, snapshot=5)
    write_bytes(snapshot_path(checkpoint, 5), b"half")
    with pytest.raises(CheckpointError, match=r"000005.safetensors: not readable as safetensors"):
        load_checkpoint(checkpoint, snapshot=5)
    load_checkpoint(checkpoint)
