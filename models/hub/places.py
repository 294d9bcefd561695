"""What a pass under watch knows of where it is: the module at work, and what its streams hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from jaxtyping import Bool
from torch import Tensor

from models.hub.provenance import Provenance
from models.layers.masks import SiteKind


@dataclass(frozen=True)
class Frame:
    """A module at work: its path, and the tensors it is called with."""

    path: str
    inputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class Places:
    """What the caller of a pass knows of it: which kind an attention is of, by what its module was given, and what its streams
    hold. `padding` is stream → True at its tokens, absent where it has no padding; `groups` is how many heads read one key head."""

    kind: Callable[[Frame], SiteKind]
    n_query: int
    start: int = 0  # position of the first query on the stream that is written
    n_key: Mapping[str, int] = field(default_factory=dict)
    padding: Mapping[str, Bool[Tensor, "batch key"]] = field(default_factory=dict)
    groups: int = 1
    token_table: Tensor | None = None  # the embedding matrix
    provenance: Provenance | None = (
        None  # of a module whose attentions are told apart by where their rows come from
    )
