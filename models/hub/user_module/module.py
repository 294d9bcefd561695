"""Wrap any PyTorch module as a Scope: a script's model, nn.TransformerEncoder, a vision model.

Its owner declares how a text becomes its input, and whether it predicts the next token; all else is
measured.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from models.checkpoint import Checkpoint
from models.hub.sizes import HubConfig
from models.hub.user_module.image import (
    EncodeImage,
    Patches,
    UserImageModel,
    UserImageTokenizer,
    example_images,
)
from models.hub.user_module.model import CallModule, UserModel
from models.hub.user_module.texts import UserTexts, UserTranslator, UserWriter
from models.hub.user_module.tokenizer import PADDING_ID, Inputs, TextsTokenizer, UserTokenizer
from models.runs.scope import Scope

__all__ = ["Inputs", "Patches", "scope_of", "watch"]

MAX_MODULE_TOKENS = 4096  # tokens
ONE_OF = "give either encode, for a module that reads text, or encode_image"
TAKEN = ("edits", "draft_tokens")  # arguments of `Scope.run` that are not fields
EXAMPLE = "The little dog was very hungry."
PAIR_EXAMPLES = (EXAMPLE, "Le petit chien avait très faim.")  # of a source and a target


def watch(
    module: nn.Module,
    *,
    encode: Callable[..., Any] | None = None,
    encode_image: EncodeImage | None = None,
    classes: Sequence[str] = (),
    decode: Callable[[list[int]], str] | None = None,
    fields: Sequence[str] = ("text",),
    call: CallModule | None = None,
    name: str = "",
    example: str | Sequence[str] = "",
    n_ctx: int = MAX_MODULE_TOKENS,
    end: int | None = None,
) -> Scope:
    """Return a scope of a module in evaluation mode.

    `encode` turns a text into the token ids that the module is called with, or into Inputs.
    `decode` turns ids into text; passing it declares that the module returns next-token logits at
    every position, so that it can generate, until the id `end` if that is given. `call(module,
    *inputs)` replaces `module(*inputs)` and must then return those logits. `fields` names the
    inputs; `example` is the text shown when the module is opened.

    With two `fields`, such as ("source", "target"), `encode` gets both texts and returns the inputs
    of each, the source's first; an attention is shown on the texts that its queries and keys come
    from. With `decode` and `end` such a module generates a target: its logits are those of the next
    target token, and `encode(source, "")` returns the ids that a target begins with.

    A module that reads an image has `encode_image` in place of `encode`: it gets the image, a
    PIL.Image in RGB, and returns Patches. Given the names of `classes`, the module returns a
    logit for each (assets/examples/vision_transformer.py).

    Raises:
        ValueError: the module is in training mode, in which each run draws a new dropout mask, or
            the fields' names or the combination of arguments are not as above.
        InputError: in a run, `encode`, `decode` or the module fails, or shows no attention.
    """
    _check(module, fields, decode, end)
    _check_input(encode, encode_image, classes, decode, fields, example)
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    kind, call = type(module).__name__, call or (lambda m, *inputs: m(*inputs))
    is_one, writes = len(fields) == 1, decode is not None
    text = example or (EXAMPLE if is_one else PAIR_EXAMPLES[0] if writes else PAIR_EXAMPLES)
    example = text if isinstance(text, str) else list(text)
    config = HubConfig(
        kind, 0, 0, 1, 0, n_ctx, 1, "float32", PADDING_ID,
        end_id=-1 if end is None else end, source="own module",
    )  # fmt: skip
    if encode_image is not None:
        return _scope_of_images(module, config, call, encode_image, classes, name or kind, device)
    if encode is None:
        raise ValueError(ONE_OF)
    if is_one:
        tokenizer = UserTokenizer(encode, decode, fields[0])
        model = (UserWriter if writes else UserModel)(module, config, fields[0], call)
    else:
        tokenizer = TextsTokenizer(encode, decode, fields, end)
        if writes:
            tokenizer.open_with(example if isinstance(example, str) else example[0])
            model = UserTranslator(module, config, fields, call, tokenizer.start)
        else:
            model = UserTexts(module, config, fields, call)
    training = {"examples": [example]}
    return Scope(Checkpoint(Path(name or kind), model, tokenizer, training), device, name=name)


def _scope_of_images(
    module: nn.Module,
    config: HubConfig,
    call: CallModule,
    encode_image: EncodeImage,
    classes: Sequence[str],
    name: str,
    device: torch.device,
) -> Scope:
    """Return a scope of a module that reads an image."""
    tokenizer = UserImageTokenizer(encode_image)
    model = UserImageModel(module, config, call, classes)
    training = {"examples": example_images()}
    return Scope(Checkpoint(Path(name), model, tokenizer, training), device, name=name)


def _check_input(
    encode: Callable[..., Any] | None,
    encode_image: EncodeImage | None,
    classes: Sequence[str],
    decode: Callable[[list[int]], str] | None,
    fields: Sequence[str],
    example: str | Sequence[str],
) -> None:
    """Raise ValueError unless the arguments of `watch` are those of a text or of an image."""
    if encode is not None and encode_image is not None:
        raise ValueError(ONE_OF)
    if encode is not None and classes:
        raise ValueError("classes are those of an image: they need encode_image")
    if encode_image is not None and (decode is not None or tuple(fields) != ("text",) or example):
        raise ValueError("decode, fields and example are for a module that reads text")


def _check(
    module: nn.Module,
    fields: Sequence[str],
    decode: Callable[[list[int]], str] | None,
    end: int | None,
) -> None:
    """Raise ValueError for arguments of `watch` that do not go together."""
    if module.training:
        raise ValueError(
            "the module is in training mode, in which each run draws a new dropout mask; call its .eval() first"
        )
    if len(fields) not in (1, 2) or isinstance(fields, str):
        raise ValueError(f"fields must be the names of one text or two, not {fields!r}")
    if wrong := [f for f in fields if not f.isascii() or not f.isidentifier() or f in TAKEN]:
        raise ValueError(
            f"a field's name must consist of letters, digits and underscores and not be {' or '.join(TAKEN)}, "
            f"not {wrong[0]!r}"
        )
    if len(fields) == 2 and (decode is None) != (end is None):
        came, missing = ("end", "decode") if decode is None else ("decode", "end")
        raise ValueError(
            f"a module that writes a second text needs decode and end: {came} came without {missing}"
        )


def scope_of(argument: str) -> Scope:
    """Return the scope that a function of the user's makes, named as path/to/file.py:function.

    Raises ValueError.
    """
    path, _, function = argument.rpartition(":")
    if not Path(path).is_file() or not function.isidentifier():
        raise ValueError(f"expected path/to/file.py:function, got {argument!r}")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"expected a file of Python code, got {path!r}")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    make = getattr(loaded, function, None)
    scope = make() if callable(make) else None
    if not isinstance(scope, Scope):
        raise ValueError(
            f"{function} in {path} should return what models.watch returns, not {type(scope).__name__}"
        )
    return scope
