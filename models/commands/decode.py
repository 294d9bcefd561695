"""`attnscope decode`: print the text that a checkpoint generates, or its answer."""

import argparse
from collections.abc import Iterator, Sequence

from models.architectures.base import IMAGE_FIELD, ORDER_FIELD, SOUND_FIELD, TEXT_FIELD
from models.commands.arguments import Commands, add_device, add_dtype, open_scope, seed
from models.devices import chosen_device
from models.images import read as read_image
from models.number_text import percent
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


def add_decode(commands: Commands) -> None:
    """Add `attnscope decode`."""
    decode = commands.add_parser(
        "decode", help="print the text a checkpoint generates, or its answer"
    )
    decode.add_argument("checkpoint")
    decode.add_argument(
        "text",
        nargs="+",
        help="the input text, or the path of an image or a sound; several for a model with several inputs (a question "
        "and its context)",
    )
    decode.add_argument(
        "--order",
        nargs="+",
        type=int,
        metavar="POSITION",
        help="prediction order of an order-based model: every position of the text, from 0",
    )
    decode.add_argument("--how", choices=["greedy", "beam", "sample"], default="greedy")
    decode.add_argument("--seed", type=seed, default=1, help="random seed for --how sample")
    add_device(decode)
    add_dtype(decode)
    decode.set_defaults(run=_print_answer)


def _print_answer(options: argparse.Namespace) -> int:
    """Run `attnscope decode`: print what a model writes or answers; return the exit status."""
    scope = open_scope(options, chosen_device(options.device))
    orders = [field.name for field in scope.model.fields if field.kind == ORDER_FIELD]
    if options.order and not orders:
        raise ValueError(f"--order does not apply to {scope.name}: it does not predict in an order")
    if not scope.model.can_write:
        if options.how != "greedy":
            raise ValueError(f"--how does not apply to {scope.name}: it does not generate text")
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
        yield from _order_lines(ordered[0], trace.streams[ordered[0].stream].tokens)
    elif labelled := [o for o in trace.outputs.values() if isinstance(o, TokenClasses)]:
        row = trace.streams[labelled[0].stream]
        if isinstance(row, SoundRow):  # the classes are letters, which make up a text
            yield trace.output
        yield from _label_lines(labelled[0], labelled[0].parts or row.tokens)
    elif len(classes) + len(numbers) < len(trace.outputs):
        yield trace.output
    for output in trace.outputs.values():
        if isinstance(output, MultiLabelProbabilities):
            pairs = zip(output.names, output.probabilities.tolist(), strict=True)
            yield ", ".join(f"{one} {percent(p, 1)}" for one, p in pairs) + ", each on its own"
    for name, output in classes.items():
        each = zip(output.names, output.probabilities.tolist(), strict=True)
        yield f"{name}: " + ", ".join(f"{one} {percent(p, 1)}" for one, p in each)


def _label_lines(output: TokenClasses, tokens: Sequence[str]) -> Iterator[str]:
    best = output.log_probs.amax(-1).exp().tolist()
    for token, name, p in zip(tokens, output.predicted, best, strict=True):
        yield f"{token:16} {name} ({percent(p, 1)})"


def _order_lines(output: TokenInOrder, tokens: Sequence[str]) -> Iterator[str]:
    for position in output.order:
        p, bits = float(output.log_probs[position].max().exp()), float(output.surprisal[position])
        yield f"{position:3} {tokens[position]:16} {bits:6.2f} bits; expected {output.predicted[position]} ({percent(p, 1)})"
    yield f"{float(output.surprisal.sum()):.2f} bits in total"
