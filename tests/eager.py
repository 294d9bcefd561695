"""Run one text, or two, with a model here and with transformers' own attention written out (`eager`)."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

import models
from models import Scope
from models.hub.token_types import TYPES_INPUT
from models.layers.masks import SiteKind
from models.trace import Trace
from models.trace.edits import Edits, MaskChange, for_kinds

GIVEN, WRITTEN = "She is reading", "the sea."
CELLS = ((4, 1), (4, 2))  # which every look-ahead mask leaves open


class Softmaxes(TorchFunctionMode):
    """Keep every softmax between this many queries and keys, with CELLS at −∞ if they are painted."""

    def __init__(self, shape: tuple[int, int], is_painted: bool = False) -> None:
        super().__init__()
        self.shape, self.kept = shape, list[Tensor]()
        self.blocked = torch.zeros(shape, dtype=torch.bool)
        for cell in CELLS if is_painted else ():
            self.blocked[cell] = True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in (F.softmax, torch.softmax, Tensor.softmax):
            return func(*args, **(kwargs or {}))
        if args[0].dim() < 3 or tuple(args[0].shape[-2:]) != self.shape:
            return func(*args, **(kwargs or {}))
        args = (args[0].masked_fill(self.blocked, -torch.inf), *args[1:])
        self.kept.append(func(*args, **(kwargs or {})))
        return self.kept[-1]


class Asked:
    """A text and its run here, with the inputs that the library needs for the same answer."""

    def __init__(self, scope: Scope) -> None:
        self.scope, self.model = scope, scope.model
        self.texts = (GIVEN, WRITTEN) if self.model.translates else (GIVEN,)
        self.trace = scope.run(*self.texts)
        self.rows = list(self.model.inputs([self.trace.streams]))
        names = ("input_ids", "decoder_input_ids" if len(self.model.streams) > 1 else TYPES_INPUT)
        self.inputs = dict(zip(names, self.rows, strict=False)) | {"use_cache": False}
        module = self.model.module
        self.eager = type(module)._from_config(
            copy.deepcopy(module.config), attn_implementation="eager"
        )
        self.eager.eval().load_state_dict(module.state_dict())

    @torch.no_grad()
    def own(self, edits: Edits | Sequence[Any] = ()) -> Tensor:
        """The answer as computed here."""
        with models.trace.edits.editing(edits):
            answer = self.model(*self.rows)
        return answer if isinstance(answer, Tensor) else next(iter(answer.values()))

    @torch.no_grad()
    def theirs(self, module: Any) -> Tensor:
        """The answer of this module of the library."""
        output = module(**self.inputs)
        return next(output[k] for k in ("logits", "prediction_logits", 0) if k == 0 or k in output)

    def shape(self, kind: SiteKind) -> tuple[int, int]:
        lengths = [len(self.trace.streams[s].ids) for s in (kind.query_stream, kind.key_stream)]
        return lengths[0], lengths[1]

    def edited(self, kind: SiteKind) -> tuple[Edits, Trace]:
        """Edits that forbid CELLS in this kind of attention, and the run under them."""
        edits = for_kinds(**{kind.name: MaskChange(block=CELLS)})
        return edits, self.scope.run(*self.texts, edits=edits)


def off_by(one: Tensor, other: Tensor) -> float:
    """Return the largest difference relative to the largest number."""
    assert one.shape == other.shape
    return float((one - other).abs().max()) / max(1.0, float(other.abs().max()))


def maps(output: Any) -> Iterator[Tensor]:
    """Return the attention maps that the library returns, (head, query, key)."""
    for name in ("encoder_attentions", "decoder_attentions", "cross_attentions", "attentions"):
        for each in getattr(output, name, None) or ():
            if isinstance(each, Tensor) and each.dim() == 4:
                yield each[0]
