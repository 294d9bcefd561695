"""Induction (Olsson et al. 2022): a head finds a token's last occurrence and copies what followed.

Both measures use random tokens, <s> t₁ … tₙ … t₁ … tₙ …, so that nothing but the repetition helps.
The number of other tokens between the two blocks differs from text to text: a head that looks back
by a fixed distance is not an induction head. They apply to language models at any step of their
training.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.analysis.head_walk import head_projection
from models.architectures import Model
from models.evaluation_mode import evaluating
from models.layers.sublayers import Sublayer
from models.trace import Recording, record

MAX_REPEATED = 4  # tokens that are repeated, at most
MAX_BETWEEN = 8  # other tokens before they are repeated, at most
N_TEXTS = 4  # of each distance
MIN_JUMP = 0.2  # a score that rises by less in all has no jump


@dataclass(frozen=True, eq=False)
class Repeats:
    """Texts in which a block of `n` distinct random tokens is repeated, after `gaps` others."""

    ids: Int[Tensor, "text token"]
    n: int
    gaps: Int[Tensor, "text"]

    @property
    def queries(self) -> Int[Tensor, "text query"]:
        """Positions of the second block, but for its last: what follows that is another token."""
        return 1 + self.n + self.gaps[:, None] + torch.arange(self.n - 1)

    @property
    def keys(self) -> Int[Tensor, "query"]:
        """Positions after the first occurrences of the tokens at `queries`."""
        return 2 + torch.arange(self.n - 1)


@dataclass(frozen=True, eq=False)
class Induction:
    """Two measures of each head of a language model on repeated random tokens.

    `prefix_matching` is the mean weight, 0 to 1, that a repeated token gives the one after its
    first occurrence, at the distance where it gives least. `copying` is how much the head itself
    raises the logit of that token above the mean of the block's other tokens.
    """

    prefix_matching: Float[Tensor, "layer head"]
    copying: Float[Tensor, "layer head"]

    @property
    def score(self) -> float:
        """The largest prefix matching of any head: the induction score of the model."""
        return float(self.prefix_matching.max())

    @property
    def head(self) -> tuple[int, int]:
        """Layer and head of the largest prefix matching."""
        layer, head = divmod(int(self.prefix_matching.argmax()), self.prefix_matching.shape[1])
        return layer, head


def repeated_texts(
    tokens: Sequence[int], n_ctx: int, start_id: int, *, n_texts: int = N_TEXTS, seed: int = 0
) -> Repeats:
    """Return `n_texts` texts of each distance: <s>, a block, other tokens, the block, others.

    Raises:
        ValueError: there are too few tokens, or too few positions.
    """
    n = min(MAX_REPEATED, len(tokens) - 1, (n_ctx - 2) // 2)
    if n < 2:
        raise ValueError(f"induction needs 3 tokens and 6 positions, not {len(tokens)} and {n_ctx}")
    most = min(MAX_BETWEEN, len(tokens) - n, n_ctx - 1 - 2 * n)
    rng, rows = torch.Generator().manual_seed(seed), []
    gaps = torch.arange(most + 1).repeat_interleave(n_texts)
    for gap in gaps.tolist():
        sample = torch.tensor(tokens)[torch.randperm(len(tokens), generator=rng)[: n + most]]
        again, others = sample[:n], sample[n:]
        rows.append(torch.cat([torch.tensor([start_id]), again, others[:gap], again, others[gap:]]))
    return Repeats(torch.stack(rows), n, gaps)


def is_measurable(model: Model) -> bool:
    """Return True for a language model of pre-norm layers, whose sum gives the logits."""
    layers = _attentions(model)
    adds = all(part.norm == "pre" and part.out_norm is None for part in layers)
    return model.continues and bool(layers) and adds


def _attentions(model: Model) -> list[Sublayer]:
    return [part for part in model.sublayers if part.attends]


@torch.no_grad()
def induction(model: Model, repeats: Repeats) -> Induction:
    """Measure every head of a language model on texts of `repeated_texts`.

    Raises:
        ValueError: it is not one that can be measured.
    """
    layers = _attentions(model)
    if not is_measurable(model):
        raise ValueError("induction is measured in a pre-norm language model only")
    with evaluating(model), record() as recording:
        model(repeats.ids.to(model.device))
    matching, copying = [], []
    for part in layers:
        site = recording.attention[part.path]
        weights = torch.stack([site.weights(None, text) for text in range(len(repeats.ids))])
        matching.append(_matching(weights.cpu(), repeats))
        copying.append(_copying(model, recording, part, repeats))
    return Induction(torch.stack(matching), torch.stack(copying).cpu())


def _matching(
    weights: Float[Tensor, "text head token key"], repeats: Repeats
) -> Float[Tensor, "head"]:
    """Return the mean weight of `keys` at `queries`, at the distance where it is least."""
    texts = torch.arange(len(repeats.ids))[:, None]
    each = weights[texts, :, repeats.queries, repeats.keys].mean(1)  # (text, head)
    means = [each[repeats.gaps == gap].mean(0) for gap in repeats.gaps.unique()]
    return torch.stack(means).amin(0)


def _copying(
    model: Model, recording: Recording, part: Sublayer, repeats: Repeats
) -> Float[Tensor, "head"]:
    """Return how much each head raises the logit of the token at `keys`, at `queries`.

    The scale of the last norm is held as it was in the run (direct logit attribution).
    """
    site = recording.attention[part.path]
    texts, queries = torch.arange(len(repeats.ids))[:, None], repeats.queries
    final = recording.activations[model.sublayers[-1].after].value[texts, queries]
    scale = _scale(model.last_norm, final)
    once = repeats.ids[:, 1 : repeats.n + 1].to(model.device)  # (text, token of the block)
    directions = model.embedding.weight.detach()[once]  # (text, token, d_model)
    is_copied = nn.functional.one_hot(repeats.keys - 1, repeats.n).bool()  # (query, token)
    raised = []
    for head in range(site.n_heads):
        W_O, _ = head_projection(site, "W_O", head)  # (d_head, d_model)
        added = part.scale * site.out[texts, head, queries] @ W_O
        added = (added - added.mean(-1, keepdim=True)) * scale
        logits = added @ directions.mT  # (text, query, token)
        copied = logits[:, is_copied.to(logits.device)].mean()
        raised.append(copied - logits[:, ~is_copied.to(logits.device)].mean())
    return torch.stack(raised)


def _scale(
    norm: nn.Module, x: Float[Tensor, "*places d_model"]
) -> Float[Tensor, "*places d_model"]:
    """Return gain / standard deviation of a LayerNorm at x."""
    if not isinstance(norm, nn.LayerNorm):
        return torch.ones_like(x)
    gain = norm.weight.detach()
    return gain / (x.var(-1, correction=0, keepdim=True) + norm.eps).sqrt()


@dataclass(frozen=True)
class Jump:
    """The shortest stretch of a training in which a score makes half of its rise, or more."""

    before: int  # step
    after: int  # step
    rise: float


def find_jump(scores: dict[int, float]) -> Jump | None:
    """Return the jump of a score by step; None if it rises by less than MIN_JUMP in all.

    It hardly depends on how close to each other the steps are.
    """
    least, whole = math.inf, 0.0
    for step in (steps := sorted(scores)):
        least = min(least, scores[step])
        whole = max(whole, scores[step] - least)
    if whole < MIN_JUMP:
        return None
    jumps: list[Jump] = []
    starts: deque[int] = deque()  # steps from which a stretch may begin, with rising scores
    for step in steps:
        while starts and scores[step] - scores[starts[0]] >= whole / 2:
            start = starts.popleft()  # any later end makes a longer stretch
            jumps.append(Jump(start, step, scores[step] - scores[start]))
        while starts and scores[starts[-1]] >= scores[step]:
            starts.pop()
        starts.append(step)
    return min(jumps, key=lambda each: (each.after - each.before, -each.rise))
