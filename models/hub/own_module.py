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
from models.hub.config import HubConfig
from models.hub.model import NUMBERS, HubModel
from models.hub.watch import watching
from models.hub.writers import CausalLM
from models.layers.cache import Cache
from models.layers.masks import Masks, SiteKind
from models.runs.scope import Scope
from models.tokenizers.base import Encoding, Tokenizer

LONGEST = 4096  # tokens
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

    Raises ValueError for a module in training mode, whose dropout would be drawn anew in each run, and, at the first run, for one
    whose attention cannot be seen."""
    if module.training:
        raise ValueError(
            "the module is in training mode, in which dropout is drawn anew at each run; call its .eval() first"
        )
    if len(fields) != 1:
        raise ValueError(
            f"fields must be the name of one text, not {len(fields)}: of several, nothing tells whose an attention is"
        )
    tokenizer = OwnTokenizer(encode, decode)
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    kind = type(module).__name__
    config = HubConfig(kind, 0, 0, 1, 0, n_ctx, 1, "float32", tokenizer.pad_id, source="own module")
    model = (OwnModel if decode is None else OwnWriter)(
        module, config, fields[0], call or (lambda m, *inputs: m(*inputs))
    )
    return Scope(Checkpoint(Path(name or kind), model, tokenizer, {"examples": [example]}), device)


class OwnModel(HubModel):
    """A module that is shown and answers nothing that is known."""

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
        output = self.watched_output(text, tensors)
        found = next(
            (
                t
                for t in (output if isinstance(output, tuple | list) else (output,))
                if isinstance(t, Tensor)
            ),
            None,
        )
        return {NUMBERS: text if found is None else found}

    def watched_output(self, text: Int[Tensor, "batch n"], tensors: tuple[Tensor, ...] = ()) -> Any:
        """What the module answers, under watch. Raises ValueError if a recorded run shows no attention."""
        with watching(self.places(text)) as forward_pass:
            output = self.call(self.module, *(tensors or (text,)))
        if forward_pass.recording is not None and not forward_pass.recording.attention:
            raise ValueError(
                f"{self.config.architecture}: {next(iter(forward_pass.recording.unrecorded.values()), NOTHING)}"
            )
        return output


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
        output = self.watched_output(text, tensors)
        logits = (
            output
            if isinstance(output, Tensor)
            else next((t for t in output if isinstance(t, Tensor)), None)
        )
        if logits is None or logits.dim() != 3 or logits.shape[:2] != text.shape:
            shape = None if logits is None else tuple(logits.shape)
            wanted = f"({text.shape[0]}, {text.shape[1]}, vocabulary)"
            name = self.config.architecture
            raise ValueError(
                f"{name} should answer with logits {wanted}, not {shape}; `call` can ask it otherwise"
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
    """The owner's functions as a tokenizer."""

    def __init__(self, encode: Encode, decode: Callable[[list[int]], str] | None) -> None:
        self._encode, self._decode = encode, decode
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
            raise ValueError(
                f"encode cannot read this text ({type(error).__name__}: {error})"
            ) from None
        if isinstance(inputs, Inputs):
            n = len(inputs.tokens)
            return OwnEncoding(
                text, tuple(range(n)), inputs.tokens, (None,) * n, tensors=inputs.tensors
            )
        ids = [int(i) for i in inputs]
        if not ids:
            raise ValueError("this text gives no tokens")
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
        return "" if self._decode is None else self._decode([int(i) for i in ids])

    def token(self, i: int) -> str:
        if i == self.pad_id:
            return "[pad]"
        return (self._decode([int(i)]).replace(" ", "▁") if self._decode else "") or str(int(i))

    def is_special(self, i: int) -> bool:
        return False

    def to_json(self) -> str:
        return json.dumps({"own": True})


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
