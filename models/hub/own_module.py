"""Wrap any PyTorch module as a Scope: a script's model, nn.TransformerEncoder, nn.MultiheadAttention, a vision model.

Only what its owner says of it is taken for true: how a text becomes its input, and whether it predicts the next token."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn

from models.checkpoint import Checkpoint
from models.hub.config import HubConfig
from models.hub.own_model import Call, OwnModel, OwnWriter
from models.hub.own_texts import OwnTexts
from models.hub.own_tokenizer import Encode, EncodeTexts, Inputs, OwnTokenizer, TextsTokenizer
from models.runs.scope import Scope

__all__ = ["Inputs", "scope_of", "watch"]

LONGEST = 4096  # tokens
TAKEN = ("edits", "drafts")  # arguments of `Scope.run` that are no fields
EXAMPLE = "The little dog was very hungry."
EXAMPLES = (EXAMPLE, "Le petit chien avait très faim.")  # of a source and a target


def watch(
    module: nn.Module,
    *,
    encode: Encode | EncodeTexts,
    decode: Callable[[list[int]], str] | None = None,
    fields: Sequence[str] = ("text",),
    call: Call | None = None,
    name: str = "",
    example: str | Sequence[str] = "",
    n_ctx: int = LONGEST,
) -> Scope:
    """Return a scope of a module in evaluation mode. `encode` makes of a text the token ids that it is called with, or Inputs;
    `decode` makes a text of ids, and says that the module answers with the logits of the next token at each position.
    `call(module, *inputs)` is how it is called, where that is not `module(*inputs)`, and returns those logits. `fields` names
    what is asked, `example` is what it is opened with.

    Of two `fields`, such as ("source", "target"), `encode` gets both texts and returns what each gives the module, the source's
    first; an attention is shown on the texts that its queries and keys come from.

    Raises ValueError for a module in training mode, whose dropout would be drawn anew in each run. A run raises InputError if
    the module, `encode` or `decode` fails, or if no attention can be seen in it."""
    if module.training:
        raise ValueError(
            "the module is in training mode, in which dropout is drawn anew at each run; call its .eval() first"
        )
    if len(fields) not in (1, 2) or isinstance(fields, str):
        raise ValueError(f"fields must be the names of one text or two, not {fields!r}")
    if wrong := [f for f in fields if not f.isascii() or not f.isidentifier() or f in TAKEN]:
        raise ValueError(
            f"a field's name must consist of letters, digits and underscores and not be {' or '.join(TAKEN)}, "
            f"not {wrong[0]!r}"
        )
    if len(fields) == 2 and decode is not None:
        raise ValueError("decode is for a module that reads one text and continues it")
    is_one = len(fields) == 1
    tokenizer = (
        OwnTokenizer(encode, decode, fields[0]) if is_one else TextsTokenizer(encode, fields)
    )
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    kind = type(module).__name__
    config = HubConfig(kind, 0, 0, 1, 0, n_ctx, 1, "float32", tokenizer.pad_id, source="own module")
    call = call or (lambda m, *inputs: m(*inputs))
    if is_one:
        model = (OwnModel if decode is None else OwnWriter)(module, config, fields[0], call)
    else:
        model = OwnTexts(module, config, fields, call)
    given = example or (EXAMPLE if is_one else EXAMPLES)
    examples = [given if isinstance(given, str) else list(given)]
    return Scope(Checkpoint(Path(name or kind), model, tokenizer, {"examples": examples}), device)


def scope_of(named: str) -> Scope:
    """The scope that a function of the user's own makes, named as path/to/file.py:function. Raises ValueError."""
    path, _, function = named.rpartition(":")
    if not Path(path).is_file() or not function.isidentifier():
        raise ValueError(f"--module wants path/to/file.py:function, not {named!r}")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    make = getattr(loaded, function, None)
    scope = make() if callable(make) else None
    if not isinstance(scope, Scope):
        raise ValueError(
            f"{function} in {path} should return what models.watch returns, not {type(scope).__name__}"
        )
    return scope
