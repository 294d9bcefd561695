"""`attnscope decode`, `inspect` and `seal`: print an answer, a checkpoint or its checksums."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import fields

import torch

from models.architectures.base import IMAGE_FIELD, ORDER_FIELD, SOUND_FIELD, TEXT_FIELD
from models.checkpoint import seal
from models.devices import chosen_device
from models.hub.describe import model_summary
from models.hub.model import HubModel
from models.images import read as read_image
from models.opening import folder_of, load
from models.percent import percent
from models.runs.inputs import FieldInput
from models.runs.scope import Scope
from models.sounds import SoundRow
from models.sounds import read as read_sound
from models.trace import Trace
from models.trace.outputs import (
    ClassProbabilities,
    MultiLabelProbabilities,
    Numbers,
    TokenClasses,
    TokenInOrder,
)


def _open_scope(options: argparse.Namespace, device: str | torch.device) -> Scope:
    """Open the named checkpoint.

    Raises:
        ValueError: --dtype does not apply to this checkpoint.
    """
    scope = load(options.checkpoint, device=device, dtype=options.dtype)
    if options.dtype not in (None, "float32") and not isinstance(scope.model, HubModel):
        raise ValueError(
            f"--dtype applies to Hugging Face models only; {scope.name} runs in float32"
        )
    return scope


def print_answer(options: argparse.Namespace) -> int:
    """Run `attnscope decode`: print what a model writes or answers; return the exit status."""
    scope = _open_scope(options, chosen_device(options.device))
    orders = [field.name for field in scope.model.fields if field.kind == ORDER_FIELD]
    if options.order and not orders:
        raise ValueError(f"--order does not apply to {scope.name}: it does not predict in an order")
    if not scope.model.can_write:
        order = {name: options.order for name in orders if options.order}
        print("\n".join(_answers(scope.run(*_values(scope, options.text), **order))))
        return 0
    if len(options.text) > 1:
        raise ValueError(f"{scope.name} takes one prompt, got {len(options.text)}")
    settings = {"seed": options.seed} if options.how == "sample" else {}
    print(scope.write(_values(scope, options.text)[0], options.how, **settings).text)
    return 0


_FILE_READERS = {IMAGE_FIELD: read_image, SOUND_FIELD: read_sound}


def _values(scope: Scope, texts: Sequence[str]) -> list[FieldInput]:
    """Return the values of the first fields: texts, or the files at these paths.

    Raises:
        ValueError: there are more than the model reads, or a file cannot be read.
    """
    fields = [one for one in scope.model.fields if one.kind in (TEXT_FIELD, *_FILE_READERS)]
    if len(texts) > len(fields):
        titles = " and ".join(one.title for one in fields)
        raise ValueError(f"{scope.name} takes {titles}, got {len(texts)} inputs")
    return [
        _FILE_READERS[field.kind](text) if field.kind in _FILE_READERS else text
        for text, field in zip(texts, fields, strict=False)
    ]


def _answers(trace: Trace) -> Iterator[str]:
    """Yield the lines of an answer from a model that does not generate.

    These are the answer's text and the probability of each class. A model that predicts in an order
    gets one line for each token in that order: how surprising it was and which one was expected.
    """
    classes = {
        name: output
        for name, output in trace.outputs.items()
        if isinstance(output, ClassProbabilities)
    }
    numbers = [output for output in trace.outputs.values() if isinstance(output, Numbers)]
    yield from (f"{' × '.join(map(str, output.shape))} numbers" for output in numbers)
    if ordered := [output for output in trace.outputs.values() if isinstance(output, TokenInOrder)]:
        yield from _in_order(ordered[0], trace.streams[ordered[0].stream].tokens)
    elif labelled := [o for o in trace.outputs.values() if isinstance(o, TokenClasses)]:
        row = trace.streams[labelled[0].stream]
        if isinstance(row, SoundRow):  # the classes are letters, which make up a text
            yield trace.output
        yield from _labelled(labelled[0], labelled[0].parts or row.tokens)
    elif len(classes) + len(numbers) < len(trace.outputs):
        yield trace.output
    for output in trace.outputs.values():
        if isinstance(output, MultiLabelProbabilities):
            pairs = zip(output.names, output.probabilities.tolist(), strict=True)
            yield ", ".join(f"{one} {percent(p, 1)}" for one, p in pairs) + ", each on its own"
    for name, output in classes.items():
        each = zip(output.names, output.probabilities.tolist(), strict=True)
        yield f"{name}: " + ", ".join(f"{one} {percent(p, 1)}" for one, p in each)


def _labelled(output: TokenClasses, tokens: Sequence[str]) -> Iterator[str]:
    best = output.log_probs.amax(-1).exp().tolist()
    for token, name, p in zip(tokens, output.predicted, best, strict=True):
        yield f"{token:16} {name} ({percent(p, 1)})"


def _in_order(output: TokenInOrder, tokens: Sequence[str]) -> Iterator[str]:
    for position in output.order:
        p, bits = float(output.log_probs[position].max().exp()), float(output.surprisal[position])
        yield f"{position:3} {tokens[position]:16} {bits:6.2f} bits; expected {output.predicted[position]} ({percent(p, 1)})"
    yield f"{float(output.surprisal.sum()):.2f} bits in all"


def seal_files(options: argparse.Namespace) -> int:
    """Run `attnscope seal`: record the checksums of checkpoints; return the exit status."""
    for name in options.checkpoint:
        sums = seal(folder_of(name))
        print(f"{name}: {len(sums)} files sealed: {', '.join(sums)}")
    return 0


def print_checkpoint(options: argparse.Namespace) -> int:
    """Run `attnscope inspect`: print what a checkpoint holds; return the exit status."""
    scope = _open_scope(options, "cpu")
    if isinstance(scope.model, HubModel):
        print("\n".join(model_summary(scope)))
        return 0
    record = scope.training
    print(
        f"{scope.name}: {scope.task}, {sum(p.numel() for p in scope.model.parameters()):,} parameters\n"
    )
    for f in fields(scope.config):
        print(f"  {f.name:18} {getattr(scope.config, f.name)}")
    print("\nparameters")
    for name, p in scope.model.named_parameters():
        print(f"  {name:48} {' × '.join(map(str, p.shape)):>12} {p.numel():>10,}")
    print("\ntraining")
    for name in (
        "command",
        "start",
        "step",
        "averaged_steps",
        "training_seconds",
        "device",
        "data",
        "licence",
        "scores",
    ):
        print(f"  {name:18} {record.get(name)}")
    for run in record.get("runs", []):
        print(f"  {run['name']:32} accuracy {', '.join(f'{one:.2f}' for one in run['accuracy'])}")
    print(f"  {'snapshots':18} {', '.join(map(str, scope.snapshots)) or 'none'}")
    for row in [r for r in record.get("curve", []) if "validation loss" in r]:
        print("  " + "  ".join(f"{k} {v}" for k, v in row.items()))
    return 0
