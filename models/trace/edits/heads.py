"""Edits of what heads pass on: heads switched off by five baselines, and heads scaled."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from models.trace.edits.base import FARTHEST, AttentionPart, Edit
from models.trace.edits.material import Material, material_for, replace_vectors

BASELINES = ("zero", "uniform", "offset", "mean", "resample")
FROM_TEXTS = ("mean", "resample")  # baselines that need held-out texts
MAX_FACTOR = 2.0

ExampleTexts = tuple[str | None, ...]  # texts of the model's fields, in their order


@dataclass(frozen=True)
class HeadOff(Edit):
    """Switch heads off: they pass on nothing that depends on this text.

    Baselines:
        zero: The head output is 0, before W_O (Michel et al. 2019, eq. 3, ξ = 0), which lies
            outside the distribution that later layers were trained on.
        uniform: The same weight on every key that the mask allows.
        offset: All weight on the key at a fixed distance from the query (−1: the previous token);
            if it is masked or does not exist, on the nearest allowed key.
            `models.analysis.best_offset` finds the best one of a run.
        mean: The mean head output at this position over held-out texts; positions that few texts
            reach share one mean.
        resample: The head output at this position in another held-out text, drawn with `seed`. An
            attention whose queries are all there from the start takes a text with the same number
            of tokens; a causal one takes each position from the first drawn text that is long
            enough.

    The texts of mean and resample are `texts`, or those that the checkpoint holds out. Their head
    outputs are computed when the edit is run (`Scope.with_material`), so that an edit stays a small
    value, and the same value means the same numbers for the same weights.
    """

    baseline: str = "zero"  # of BASELINES
    offset: int = 0  # in tokens, of the baseline "offset"
    seed: int = 0  # of the baseline "resample"
    texts: tuple[str | ExampleTexts, ...] = ()
    material: Material | None = field(default=None, compare=False, repr=False)

    def __post_init__(self, head: int | None) -> None:
        super().__post_init__(head)
        if self.baseline not in BASELINES:
            raise ValueError(
                f"a baseline is one of {', '.join(BASELINES)}, got {self.baseline!r:.60}"
            )
        if isinstance(self.texts, str):
            raise ValueError(f"texts must be in a list, got {self.texts!r:.60}")
        if abs(self.offset) > FARTHEST:
            raise ValueError(f"an offset is at most {FARTHEST} tokens, got {self.offset}")

    @property
    def examples(self) -> tuple[ExampleTexts, ...]:
        """The texts, each with all its fields."""
        return tuple((text,) if isinstance(text, str) else text for text in self.texts)

    @property
    def names_positions(self) -> bool:
        return super().names_positions or self.baseline == "offset"

    @property
    def depends_on_positions(self) -> bool:
        return super().depends_on_positions or self.baseline not in ("zero", "uniform")

    def changes(self, what: str) -> bool:
        return what == ("weights" if self.baseline in ("uniform", "offset") else "head_out")

    def weights(
        self, weights: Float[Tensor, "row head query key"], part: AttentionPart
    ) -> Float[Tensor, "row head query key"]:
        """Put the same weight on all keys, or all weight on one; the mask is applied after it."""
        new = torch.ones_like(weights) if self.baseline == "uniform" else self._at_offset(part)
        return torch.where(part.chosen(self.where), new.to(weights), weights)

    def head_out(
        self, head_out: Float[Tensor, "row head query d_head"], part: AttentionPart
    ) -> Float[Tensor, "row head query d_head"]:
        """Set the outputs of the chosen heads to 0, or to those of held-out texts."""
        if self.baseline == "zero":
            return head_out.masked_fill(part.chosen(self.where), 0.0)
        return replace_vectors(self, material_for(self.material, part.site, self), head_out, part)

    def effects(self) -> list[str]:
        texts = f"{len(self.texts)} given texts" if self.texts else "held-out texts"
        return [
            {
                "zero": "head output set to 0",
                "uniform": "the same weight on every allowed key",
                "offset": f"all weight on {_key_at(self.offset)}",
                "mean": f"head output replaced by its mean over {texts}",
                "resample": f"head output taken from another of the {texts}, seed {self.seed}",
            }[self.baseline]
        ]

    def _at_offset(self, part: AttentionPart) -> Float[Tensor, "#row #head query key"]:
        """Return rows with one 1: at the allowed key nearest to query + offset, earlier first."""
        keys = torch.arange(part.n_key, device=part.device)
        place = torch.tensor(list(part.queries), device=part.device)[:, None] + self.offset
        distance = ((keys - place).abs() * 2 + (keys > place))[None, None]
        if part.allowed is not None:
            distance = distance.masked_fill(~part.allowed, torch.iinfo(torch.long).max)
        return (keys == distance.argmin(-1, keepdim=True)).float()


def _key_at(offset: int) -> str:
    if offset in (-1, 0, 1):
        return ("the token itself", "the next token", "the previous token")[offset]
    return f"the token {abs(offset)} {'before' if offset < 0 else 'after'}"


@dataclass(frozen=True)
class HeadScale(Edit):
    """Multiply the outputs of heads, before W_O, by a factor from −2 to 2."""

    factor: float = 1.0

    def __post_init__(self, head: int | None) -> None:
        super().__post_init__(head)
        if not abs(self.factor) <= MAX_FACTOR:  # NaN fails
            raise ValueError(f"a factor is a number from -2 to 2, got {self.factor}")

    @property
    def is_none(self) -> bool:
        return self.factor == 1.0

    def head_out(
        self, head_out: Float[Tensor, "row head query d_head"], part: AttentionPart
    ) -> Float[Tensor, "row head query d_head"]:
        """Scale the outputs of the chosen heads."""
        return torch.where(part.chosen(self.where), self.factor * head_out, head_out)

    def effects(self) -> list[str]:
        return [f"head output times {self.factor:g}".replace("-", "−")]
