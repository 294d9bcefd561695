"""Ways to damage a checkpoint folder, drawn by a seeded generator: bytes, values, tensors, whole files."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

JSON_FILES = ("config.json", "tokenizer.json", "training.json")
WEIGHTS = "model.safetensors"
Damage = Callable[[Path, Random], str]  # a function that does the damage and describes it

# values that hardly any field was meant to hold
VALUES: list[Any] = [
    None, True, False, 0, 1, 2, 3, 5, 7, -1, 64.0, 0.5, -0.5, 1.5, 1e300, 10**6, 2**31, 2**63, 10**30, 10**400, float("nan"),
    float("inf"), "", "x", "0", "64", "\ud800", "none", "pre", "learned", "dot", "cosine", "tanh", "seq2seq", "transformer",
    "attention only", [], {}, [1], ["a"], {"a": 1}, [[[]]], "é" * 1000, "../../x", "<b>x</b>",
]  # fmt: skip

# features that other tokenizers have and ours never have
FOREIGN: dict[str, dict[str, Any]] = {
    "pads": {"padding": {
        "strategy": {"Fixed": 300}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "<pad>",
    }},
    "truncates": {"truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 1}},
    "panics when it truncates": {
        "truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 5},
    },
    "adds a token": {"added_tokens": [
        {"id": 999, "content": "a", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": False},
    ]},
    "multiplies": {"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}},
    "lower-cases": {"normalizer": {"type": "Lowercase"}},
    "puts in front": {"normalizer": {"type": "Prepend", "prepend": "b"}},
    "splits otherwise": {"pre_tokenizer": {"type": "WhitespaceSplit"}},
    "decodes otherwise": {"decoder": {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}},
    "processes": {"post_processor": {
        "type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {},
    }},
}  # fmt: skip


def a_bit(folder: Path, rng: Random) -> str:
    path, content = _bytes(folder, rng)
    place = rng.randrange(len(content))
    content[place] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return f"{path.name}: a bit of byte {place}"


def some_bytes(folder: Path, rng: Random) -> str:
    path, content = _bytes(folder, rng)
    start = rng.randrange(len(content))
    end = min(len(content), start + rng.choice([1, 2, 8, 64]))
    new = rng.choice([bytes(end - start), rng.randbytes(end - start), b"", content[start:end] * 2])
    content[start:end] = new
    path.write_bytes(content)
    return f"{path.name}: bytes {start} to {end} become {new[:16]!r}"


def its_end(folder: Path, rng: Random) -> str:
    path, content = _bytes(folder, rng)
    n = rng.randrange(len(content))
    path.write_bytes(rng.choice([content[:n], content + rng.randbytes(1 + n % 40)]))
    return f"{path.name}: cut or made longer near {n}"


def a_value(folder: Path, rng: Random) -> str:
    """Replace, remove, duplicate or move a value somewhere in a JSON file."""
    path = folder / rng.choice(JSON_FILES)
    content = json.loads(path.read_text("utf-8"))
    holder, key = _place(content, rng)
    kind = rng.choice(["another", "another", "another", "near", "gone", "more", "swapped"])
    before = holder[key]
    if kind == "gone":
        del holder[key]
    elif kind == "more":
        _insert(holder, rng)
    elif kind == "swapped":
        other = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        holder[key], holder[other] = holder[other], holder[key]
    else:
        holder[key] = _near(before, rng) if kind == "near" else rng.choice(VALUES)
    path.write_text(json.dumps(content), "utf-8")
    return f"{path.name}: {key!r} ({str(before)[:30]!r}) {kind}: {str(_get(holder, key))[:40]!r}"


def a_setting(folder: Path, rng: Random) -> str:
    """Damage a field of config.json; there are few, and each decides how the model runs."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    name = rng.choice(list(config))
    config[name] = _near(config[name], rng) if rng.random() < 0.4 else rng.choice(VALUES)
    path.write_text(json.dumps(config))
    return f"config.json: {name} = {str(config[name])[:40]!r}"


def a_record(folder: Path, rng: Random) -> str:
    """Damage a top-level entry of training.json, one that the app reads."""
    path = folder / "training.json"
    record = json.loads(path.read_text("utf-8"))
    name = rng.choice([*record, "by_length", "scores", "examples", "curve", "step"])
    deep = rng.choice([
        lambda v: v, lambda v: [v], lambda v: {"held-out exact match": v}, lambda v: [{"step": v, "loss": v}],
        lambda v: [{"step": 1, "loss": v}], lambda v: [{"step": 20, "loss": 1.0, "exact match": v}],
        lambda v: [{"least": v, "most": 3, "cases": 1, "score": v}],
    ])  # fmt: skip
    record[name] = deep(rng.choice(VALUES))
    path.write_text(json.dumps(record), "utf-8")
    return f"training.json: {name} = {str(record[name])[:60]!r}"


def a_tensor(folder: Path, rng: Random) -> str:
    """Change a parameter of the weights or of a snapshot, and write a valid file again."""
    path = rng.choice([folder / WEIGHTS, *_snapshots(folder)])
    with safe_open(path, "pt") as file:
        state = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a dict)
        metadata = file.metadata()
    name = rng.choice(sorted(state))
    kind = rng.choice(list(_TENSORS))
    metadata = _TENSORS[kind](state, name, metadata, rng)
    save_file({n: t.contiguous() for n, t in state.items()}, path, metadata)
    return f"{path.name}: {name} {kind}"


def a_foreign_tokenizer(folder: Path, rng: Random) -> str:
    name = rng.choice(list(FOREIGN))
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | FOREIGN[name]), "utf-8")
    return f"tokenizer.json: {name}"


def a_token(folder: Path, rng: Random) -> str:
    """Damage the vocabulary: tokens are swapped, renamed, moved to another id, duplicated or removed; merges likewise."""
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text("utf-8"))
    model = content["model"]
    vocabulary, merges = model["vocab"], model.get("merges") or []
    one, other = rng.sample(sorted(vocabulary), 2)
    kind = rng.choice(
        ["swapped", "renamed", "id", "twice", "gone", "merge", "merge gone", "merge of nothing"]
    )
    if kind == "swapped":
        vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    elif kind == "renamed":
        vocabulary[rng.choice(["z", "<s>", "", "é", "\ud800", "ab", "x" * 5000])] = vocabulary.pop(
            one
        )
    elif kind == "id":
        vocabulary[one] = rng.choice([-1, 10**6, 2**32, 2**64, 1.5, "7", None, len(vocabulary)])
    elif kind == "twice":
        vocabulary[one] = vocabulary[other]
    elif kind == "gone":
        del vocabulary[one]
    elif merges and kind == "merge":
        i, j = rng.randrange(len(merges)), rng.randrange(len(merges))
        merges[i], merges[j] = merges[j], merges[i]
    elif merges and kind == "merge gone":
        merges.pop(rng.randrange(len(merges)))
    else:
        merges.append(rng.choice([["q", "q"], ["a"], [], "a b", None, [one, 7]]))
        model["merges"] = merges
    path.write_text(json.dumps(content), "utf-8")
    return f"tokenizer.json: {one!r} {kind}"


def a_file(folder: Path, rng: Random) -> str:
    """Remove a file, or replace it by a folder or another file of the checkpoint, or rename it."""
    path = rng.choice([*(folder / name for name in (*JSON_FILES, WEIGHTS)), *_snapshots(folder)])
    others = [
        p
        for p in (*(folder / name for name in (*JSON_FILES, WEIGHTS)), *_snapshots(folder))
        if p != path
    ]
    kind = rng.choice(["gone", "a folder", "another file", "empty", "renamed"])
    if kind == "another file":
        shutil.copyfile(rng.choice(others), path)
    elif kind == "renamed":
        stem = rng.choice(["000003", "²", "x", "9" * 200])
        path.rename(path.with_name(f"{stem}.safetensors"))
    else:
        path.unlink()
    if kind == "a folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    return f"{path.name}: {kind}"


# the relative frequency of each
DAMAGES: dict[Damage, int] = {
    a_bit: 6, some_bytes: 4, its_end: 2, a_value: 6, a_setting: 6, a_record: 5, a_tensor: 6, a_foreign_tokenizer: 2, a_token: 3,
    a_file: 2,
}  # fmt: skip


def draw(rng: Random) -> Damage:
    return rng.choices(list(DAMAGES), list(DAMAGES.values()))[0]


def _snapshots(folder: Path) -> list[Path]:
    return sorted((folder / "snapshots").glob("*.safetensors"))


def _bytes(folder: Path, rng: Random) -> tuple[Path, bytearray]:
    names = [
        *(folder / name for name in JSON_FILES),
        folder / WEIGHTS,
        folder / WEIGHTS,
        *_snapshots(folder)[:1],
    ]
    path = rng.choice(names)
    return path, bytearray(path.read_bytes())


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return all values in a JSON document, each as (its container, its key or index there)."""
    for key, part in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield value, key
        yield from places(part)


def _place(content: Any, rng: Random) -> tuple[Any, Any]:
    """Return a random value as (container, key or index); the top of the file as often as all the rest."""
    top = [(content, key) for key in content]
    return rng.choice(top if rng.random() < 0.5 else list(places(content)))


def _insert(holder: Any, rng: Random) -> None:
    if isinstance(holder, dict):
        holder[rng.choice(["colour", "", "step", "n_heads"])] = rng.choice(VALUES)
    else:
        holder.insert(rng.randrange(len(holder) + 1), rng.choice(VALUES))


def _near(value: Any, rng: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice(
            [
                value + 1,
                value - 1,
                float(value),
                value * 2,
                -value,
                value / 3,
                bool(value),
                str(value),
            ]
        )
    if isinstance(value, str):
        return rng.choice([value + " ", value.upper(), value[:-1], [value]])
    return rng.choice([[value], {"x": value}, None])


def _get(holder: Any, key: Any) -> Any:
    return (
        holder.get(key) if isinstance(holder, dict) else holder[key] if key < len(holder) else None
    )


def _changed(change: Callable[[torch.Tensor, Random], torch.Tensor]) -> Callable[..., Any]:
    def apply(state: dict[str, torch.Tensor], name: str, metadata: Any, rng: Random) -> Any:
        state[name] = change(state[name], rng)
        return metadata

    return apply


def _one(value: float) -> Callable[[torch.Tensor, Random], torch.Tensor]:
    def change(tensor: torch.Tensor, rng: Random) -> torch.Tensor:
        flat = tensor.flatten().clone()
        flat[rng.randrange(len(flat))] = value
        return flat.reshape(tensor.shape)

    return change


def _renamed(state: dict, name: str, metadata: Any, rng: Random) -> Any:
    state[rng.choice([name + "x", name.upper(), "decoder.layers.7.ff.W_1.weight"])] = state.pop(
        name
    )
    return metadata


def _swapped(state: dict, name: str, metadata: Any, rng: Random) -> Any:
    other = rng.choice([n for n in sorted(state) if state[n].shape == state[name].shape])
    state[name], state[other] = state[other], state[name]
    return metadata


_TENSORS: dict[str, Callable[..., Any]] = {
    "with noise": _changed(lambda t, rng: t + torch.randn(t.shape, generator=torch.Generator().manual_seed(rng.randrange(99)))
                           .to(t.dtype)),
    "nothing but 0": _changed(lambda t, rng: t * 0),
    "times 60000": _changed(lambda t, rng: t.double().mul(6e4).clamp(-6e4, 6e4).to(t.dtype)),
    "turned": _changed(lambda t, rng: t.flip(0)),
    "another shape": _changed(lambda t, rng: t.reshape(-1, 1)),
    "shorter": _changed(lambda t, rng: t[1:]),
    "in float64": _changed(lambda t, rng: t.double()),
    "in float32, huge": _changed(lambda t, rng: t.float() * 1e37),
    "in bfloat16": _changed(lambda t, rng: t.bfloat16()),
    "whole numbers": _changed(lambda t, rng: t.long()),
    "booleans": _changed(lambda t, rng: t > 0),
    "with a NaN": _changed(_one(float("nan"))),
    "with an infinity": _changed(_one(float("inf"))),
    "with one other number": _changed(_one(0.25)),
    "renamed": _renamed,
    "swapped": _swapped,
    "gone": lambda state, name, metadata, rng: (state.pop(name), metadata)[1],
    "of another step": lambda state, name, metadata, rng: {"step": rng.choice(["x", "", "-3", "1e9", "7", "9" * 5000, "²"])},
    "without metadata": lambda state, name, metadata, rng: None,
}  # fmt: skip
