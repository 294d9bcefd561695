"""Induction (Olsson et al. 2022): a head finds a token's last occurrence and copies what followed.

Both measures are taken on random tokens that are repeated once, <s> t₁ … tₙ t₁ … tₙ, so that
nothing but the repetition helps. They apply to language models at any step of their training.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.analysis.head_walk import block
from models.architectures import Model
from models.layers.sublayers import FEED_FORWARD, Sublayer
from models.trace import Recording, record

BLOCK = 12  # tokens before they are repeated, at most
N_TEXTS = 16
SMALLEST_JUMP = 0.1  # a smaller rise between two steps is no jump


@dataclass(frozen=True, eq=False)
class Induction:
    """What each head of a language model does on repeated random tokens.

    `prefix_matching` is the mean weight, 0 to 1, that a repeated token gives the one after its
    first occurrence. `copying` is how much the head itself raises the logit of that token above the
    mean of the text's other tokens.
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


def repeated(
    tokens: Sequence[int], n_ctx: int, start_id: int, *, n_texts: int = N_TEXTS, seed: int = 0
) -> Int[Tensor, "text n"]:
    """Return texts of <s> and distinct random tokens, twice.

    Raises:
        ValueError: there are too few tokens, or too few positions.
    """
    n = min(BLOCK, len(tokens), (n_ctx - 1) // 2)
    if n < 2:
        raise ValueError(f"induction needs 2 tokens and 5 positions, not {len(tokens)} and {n_ctx}")
    rng = torch.Generator().manual_seed(seed)
    once = torch.stack(
        [
            torch.tensor(tokens)[torch.randperm(len(tokens), generator=rng)[:n]]
            for _ in range(n_texts)
        ]
    )
    return torch.cat([torch.full((n_texts, 1), start_id), once, once], dim=1)


def is_measurable(model: Model) -> bool:
    """Return True for a language model of pre-norm layers, whose sum gives the logits."""
    layers = _attentions(model)
    return model.continues and bool(layers) and all(part.norm == "pre" for part in layers)


def _attentions(model: Model) -> list[Sublayer]:
    return [part for part in model.sublayers if part.role != FEED_FORWARD]


@torch.no_grad()
def induction(model: Model, texts: Int[Tensor, "text n"]) -> Induction:
    """Measure every head of a language model on texts of `repeated`.

    Raises:
        ValueError: it is none of those that can be measured.
    """
    layers = _attentions(model)
    if not is_measurable(model):
        raise ValueError("induction is measured in a pre-norm language model only")
    was_training = model.training
    model.eval()
    with record() as recording:
        model(texts.to(model.device))
    model.train(was_training)
    n = texts.shape[1] // 2
    queries = torch.arange(n + 1, 2 * n + 1)  # tokens of the second copy
    keys = queries - n + 1  # those after their first occurrence
    matching, copying = [], []
    for part in layers:
        site = recording.attention[part.path]
        weights = torch.stack([site.weights(None, row) for row in range(len(texts))])
        matching.append(weights[:, :, queries, keys].mean((0, 2)))
        copying.append(_copying(model, recording, part, texts, queries, keys))
    return Induction(torch.stack(matching).cpu(), torch.stack(copying).cpu())


def _copying(
    model: Model,
    recording: Recording,
    part: Sublayer,
    texts: Int[Tensor, "text n"],
    queries: Int[Tensor, "query"],
    keys: Int[Tensor, "query"],
) -> Float[Tensor, "head"]:
    """Return how much each head raises the logit of the token at `keys`, at `queries`.

    The scale of the last norm is held as it was in the run (direct logit attribution).
    """
    site = recording.attention[part.path]
    final = recording.activations[model.sublayers[-1].after].value[:, queries]
    scale, device = _scale(model.last_norm, final), texts.device
    n = len(queries)
    once = texts[:, 1 : n + 1].to(model.device)  # (text, token): all tokens of the text
    directions = model.embedding.weight.detach()[once]  # (text, token, d_model)
    wanted = nn.functional.one_hot((keys - 1) % n, n).bool()  # (query, token)
    raised = []
    for head in range(site.n_heads):
        W_O, _ = block(site, "W_O", head)  # (d_head, d_model)
        added = site.out[:, head, queries] @ W_O
        added = (added - added.mean(-1, keepdim=True)) * scale
        logits = added @ directions.mT  # (text, query, token)
        own = logits[:, wanted.to(logits.device)].mean()
        raised.append(own - logits[:, ~wanted.to(logits.device)].mean())
    return torch.stack(raised).to(device)


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
    """The largest rise of a score between two steps that follow each other."""

    before: int  # step
    after: int  # step
    rise: float


def jump(scores: dict[int, float]) -> Jump | None:
    """Return the jump of a score by step; None if it never rises by SMALLEST_JUMP at once."""
    steps = sorted(scores)
    rises = [Jump(a, b, scores[b] - scores[a]) for a, b in pairwise(steps)]
    largest = max(rises, key=lambda each: each.rise, default=None)
    return largest if largest is not None and largest.rise >= SMALLEST_JUMP else None
