"""Anybody's own PyTorch module as a scope: a script's model, nn.TransformerEncoder, nn.MultiheadAttention, a vision model. Only
what its owner says of it is taken for true: how a text becomes its input, and whether it predicts the next token."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.architectures.base import Architecture, Field
from models.checkpoint import Checkpoint
from models.errors import InputError
from models.hub.config import HubConfig
from models.hub.model import NUMBERS, HubModel
from models.hub.watch import watching
from models.hub.writers import CausalLM
from models.layers.cache import Cache
from models.layers.masks import Masks, SiteKind
from models.runs.scope import Scope
from models.tokenizers.base import Encoding, Tokenizer

LONGEST = 4096  # tokens
TAKEN = ("edits", "drafts")  # arguments of `Scope.run` that are no fields
NOTHING = "its attention passes neither scaled_dot_product_attention nor multi_head_attention_forward, so that there is nothing to show"


@dataclass(frozen=True)
class Inputs:
    """What a module is called with, batch axis first, and the names of the tokens (or patches) that its attention is among."""

    tensors: tuple[Tensor, ...]
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class OwnEncoding(Encoding):
    """A row whose module is called with something else than token ids."""

    tensors: tuple[Tensor, ...] = field(default=(), compare=False)


Encode = Callable[[str], "Sequence[int] | Tensor | Inputs"]
Call = Callable[..., Any]


def watch(
    module: nn.Module,
    *,
    encode: Encode,
    decode: Callable[[list[int]], str] | None = None,
    fields: Sequence[str] = ("text",),
    call: Call | None = None,
    name: str = "",
    example: str = "The little dog was very hungry.",
    n_ctx: int = LONGEST,
) -> Scope:
    """A scope of a module in evaluation mode. `encode` makes of a text the token ids that it is called with, or Inputs; `decode`
    makes a text of ids, and says that the module answers with the logits of the next token at each position. `call(module,
    *inputs)` is how it is called, where that is not `module(*inputs)`, and returns those logits. `fields` is the one name of what
    is asked, `example` what it is opened with.

    Raises ValueError for a module in training mode, whose dropout would be drawn anew in each run. A run raises InputError if
    the module, `encode` or `decode` fails, or if no attention can be seen in it."""
    if module.training:
        raise ValueError(
            "the module is in training mode, in which dropout is drawn anew at each run; call its .eval() first"
        )
    if len(fields) != 1:
        raise ValueError(
            f"fields must be the name of one text, not {len(fields)}: of several, nothing tells whose an attention is"
        )
    if not fields[0].isascii() or not fields[0].isidentifier() or fields[0] in TAKEN:
        raise ValueError(
            f"a field's name must consist of letters, digits and underscores and not be {' or '.join(TAKEN)}, "
            f"not {fields[0]!r}"
        )
    tokenizer = OwnTokenizer(encode, decode, fields[0])
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    kind = type(module).__name__
    config = HubConfig(kind, 0, 0, 1, 0, n_ctx, 1, "float32", tokenizer.pad_id, source="own module")
    model = (OwnModel if decode is None else OwnWriter)(
        module, config, fields[0], call or (lambda m, *inputs: m(*inputs))
    )
    return Scope(Checkpoint(Path(name or kind), model, tokenizer, {"examples": [example]}), device)


class OwnModel(HubModel):
    """A module that is shown and answers nothing that is known."""

    pads = False

    def __init__(self, module: nn.Module, config: HubConfig, name: str, call: Call) -> None:
        super().__init__(module, config)
        self.call = call
        self.fields = (Field(name, "text"),)
        self._device = next((p.device for p in module.parameters()), torch.device("cpu"))

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def token_table(self) -> None:
        """Nobody said which of its matrices that is."""
        return

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        """The ids of the rows, or the tensors that the only row came with. Raises ValueError for several rows of tensors, or of
        different lengths, whose padding the module would not know of."""
        encodings = [row["text"] for row in rows]
        own = [e.tensors for e in encodings if isinstance(e, OwnEncoding) and e.tensors]
        if len({len(e.ids) for e in encodings}) > 1 or (own and len(rows) > 1):
            raise ValueError(
                "this module reads one row at a time: nothing tells it which of its tokens would be padding"
            )
        ids = Architecture.inputs(self, rows)
        return (*ids, *(t.to(self.device) for t in own[0])) if own else ids

    def forward(self, text: Int[Tensor, "batch n"], *tensors: Tensor) -> Any:
        """Return the first tensor of the module's output, and the row itself where none has its batch axis."""
        found = self.watched_output(text, tensors)
        return {NUMBERS: text if found is None or found.shape[:1] != text.shape[:1] else found}

    def watched_output(
        self, text: Int[Tensor, "batch n"], tensors: tuple[Tensor, ...] = ()
    ) -> Tensor | None:
        """Return the first tensor of the module's output, watched.

        Raises InputError if the module fails, or if a recorded run shows no attention."""
        with watching(self.places(text)) as forward_pass:
            try:
                output = self.call(self.module, *(tensors or (text,)))
            except Exception as error:  # the module is its owner's and may raise anything
                raise self.refused(f"cannot read this text ({described(error)})") from error
        if forward_pass.recording is not None and not forward_pass.recording.attention:
            raise self.refused(next(iter(forward_pass.recording.unrecorded.values()), NOTHING))
        parts = output if isinstance(output, tuple | list) else (output,)
        return next((part for part in parts if isinstance(part, Tensor)), None)

    def refused(self, reason: str) -> InputError:
        """Return the error that names this module and its field."""
        return InputError(f"{self.config.architecture}: {reason}", self.fields[0].name)


class OwnWriter(OwnModel):
    """A module that predicts the next token at each position."""

    writes = "text"
    kinds: tuple[SiteKind, ...] = CausalLM.kinds
    what_it_answers = CausalLM.what_it_answers
    opening, written_masks, encode, longest = (
        CausalLM.opening,
        CausalLM.written_masks,
        CausalLM.encode,
        CausalLM.longest,
    )
    outputs, answer = Architecture.outputs, Architecture.answer
    can_cache = False

    def forward(
        self, text: Int[Tensor, "batch n"], *tensors: Tensor
    ) -> Float[Tensor, "batch n vocab"]:
        logits = self.watched_output(text, tensors)
        if logits is None or logits.dim() != 3 or logits.shape[:2] != text.shape:
            shape = None if logits is None else tuple(logits.shape)
            wanted = f"({text.shape[0]}, {text.shape[1]}, vocabulary)"
            raise self.refused(
                f"expected logits {wanted}, not {shape}; `call` can ask it otherwise"
            )
        return logits

    def decode(
        self,
        row: Int[Tensor, "batch m"],
        memory: None,
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        return self.forward(row)


class OwnTokenizer(Tokenizer):
    """The owner's functions as a tokenizer; where one fails, an InputError names the `field` that holds the text."""

    def __init__(
        self, encode: Encode, decode: Callable[[list[int]], str] | None, field: str
    ) -> None:
        self._encode, self._decode, self._field = encode, decode, field
        self.special_ids, self._of_bytes = {"pad": 2**40}, False  # a number that no vocabulary has

    @property
    def vocab_size(self) -> int:
        return 0

    def special(self, name: str) -> tuple[int, str] | None:
        return None

    def encode(self, text: str, *, before: str = "", after: str = "") -> Encoding:
        try:
            inputs = self._encode(text)
        except Exception as error:  # it is the owner's, and may raise anything
            reason = f"encode cannot read this text ({described(error)})"
            raise InputError(reason, self._field) from error
        if isinstance(inputs, Inputs):
            n = len(inputs.tokens)
            return OwnEncoding(
                text, tuple(range(n)), inputs.tokens, (None,) * n, tensors=inputs.tensors
            )
        ids = [int(i) for i in inputs]
        if not ids:
            raise InputError("this text gives no tokens", self._field)
        return Encoding(text, tuple(ids), self.tokens(ids), tuple(self._places(text, ids)))

    def _places(self, text: str, ids: Sequence[int]) -> Iterable[tuple[int, int] | None]:
        """Where each token stands in the text, where they say together what was typed."""
        whole = self._decode is not None and self.decode(ids) == text
        return self._spans(ids) if whole else [None] * len(ids)

    def _spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        ends = [len(self.decode(ids[:i])) for i in range(len(ids) + 1)]
        return [(ends[i], max(ends[i], ends[i + 1])) for i in range(len(ids))]

    def words(self, text: str) -> None:
        """Nobody has said which of its tokens are of one word."""
        return

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(self.encode(text).ids) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        if self._decode is None:
            return ""
        ids = [int(i) for i in ids]
        try:
            return str(self._decode(ids))
        except Exception as error:  # it is the owner's, and may raise anything
            shown = ", ".join(map(str, ids[:8])) + ", …" * (len(ids) > 8)
            reason = f"decode cannot write the tokens {shown} ({described(error)})"
            raise InputError(reason, self._field) from error

    def token(self, i: int) -> str:
        if i == self.pad_id:
            return "[pad]"
        return self.decode([i]).replace(" ", "▁") or str(int(i))

    def is_special(self, i: int) -> bool:
        return False

    def to_json(self) -> str:
        return json.dumps({"own": True, "field": self._field})


def described(error: Exception) -> str:
    """Return an error of the owner's code as its type and the first line of its message."""
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first:.300}" if first else type(error).__name__


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
