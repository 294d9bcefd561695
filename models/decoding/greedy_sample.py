"""Teacher forcing, greedy decoding and sampling, which yield step records of one form."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from models.architectures import Model
from models.decoding.incremental import (
    Forced,
    Incremental,
    by_position,
    id_row,
    limit_of,
)
from models.trace import Recording, record
from models.trace.edits import Edit, editing

# relative rounding error of a sum of float32 probabilities; a sum this close to p has reached it
_SUM_ROUNDING = 8 * torch.finfo(torch.float32).eps


@dataclass(frozen=True)
class Step:
    """One decoding step: the log-probabilities (nats) after `prefix`, and the token taken.

    In teacher forcing that is the given token. A generated token is chosen by `scores`, the logits
    after the model's generation settings; None where these change nothing. `recording` holds the
    step's activations if requested: with a cache only those of this step's query; in teacher
    forcing those of all positions.
    """

    index: int
    prefix: tuple[int, ...]
    token: int
    log_probs: Float[Tensor, "vocab"]
    recording: Recording | None = None
    scores: Float[Tensor, "vocab"] | None = None

    @property
    def log_prob(self) -> float:
        """Log-probability of the token taken."""
        return float(self.log_probs[self.token])

    @property
    def entropy(self) -> float:
        """Entropy of the distribution, in nats."""
        return float(-(self.log_probs.exp() * self.log_probs.clamp(min=-1e9)).sum())

    def top(self, k: int) -> list[tuple[int, float]]:
        """Return the k most probable tokens with their probabilities."""
        values, ids = self.log_probs.topk(min(k, len(self.log_probs)))
        return list(zip(ids.tolist(), values.exp().tolist(), strict=True))


@torch.inference_mode()
def teacher_forced(
    model: Model,
    inputs: Sequence[int],
    target: Sequence[int],
    *,
    recorded: bool = False,
    edits: Sequence[Edit] = (),
) -> Iterator[Step]:
    """Yield one step per position of the `target` tokens and </s>, from a single pass.

    A source ends with </s>; `target` is y₁ … yₘ without special tokens.
    """
    rows = model.encoder_inputs([inputs])
    opening = model.opening(rows)[0].tolist()
    row = id_row([*opening, *target], model)
    with record() if recorded else nullcontext() as recording, editing(edits):
        masks = model.written_masks(rows, row)
        logits = model.decode(row, model.encode(rows, masks), masks)[0, len(opening) - 1 :]
    tokens = [*target, model.config.end_id]
    for i, (log_probs, token) in enumerate(
        zip(logits.float().log_softmax(-1).cpu(), tokens, strict=True)
    ):
        yield Step(i, tuple(target[:i]), token, log_probs, recording)


def greedy(model: Model, inputs: Sequence[int], **settings: Any) -> Iterator[Step]:
    """Take the token of the highest score at each step; keyword arguments as in `generate`."""
    return generate(model, inputs, lambda scores: int(scores.argmax()), **settings)


def sample(
    model: Model,
    inputs: Sequence[int],
    *,
    seed: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    **settings: Any,
) -> Iterator[Step]:
    """Draw each token from the distribution after `filtered`; a seed fixes the text."""
    rng = torch.Generator().manual_seed(seed)

    def draw(scores: Tensor) -> int:
        return int(
            torch.multinomial(filtered(scores, temperature, top_k, top_p).exp(), 1, generator=rng)
        )

    return generate(model, inputs, draw, **settings)


def filtered(
    scores: Float[Tensor, "vocab"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "vocab"]:
    """Return the log-probabilities of scores at a temperature, limited to top k and top p.

    Top p keeps the smallest set whose sum reaches p (nucleus sampling, Holtzman et al. 2020).

    Raises:
        ValueError: a setting leaves nothing to draw from.
    """
    if temperature <= 0:
        raise ValueError(
            f"temperature must be above 0, not {temperature}; greedy decoding is its limit"
        )
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, not {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, not {top_p}")
    log_probs = (scores / temperature).log_softmax(-1)
    if top_k is not None and top_k < len(log_probs):
        log_probs = log_probs.masked_fill(
            log_probs < log_probs.topk(top_k).values[-1], -torch.inf
        ).log_softmax(-1)
    if top_p is not None and top_p < 1:  # at 1, rounding in the sum would drop the last tokens
        ordered, index = log_probs.double().exp().sort(descending=True)
        beyond = ordered.cumsum(-1) - ordered >= top_p * (1 - _SUM_ROUNDING)
        log_probs = log_probs.masked_fill(
            torch.zeros_like(beyond).scatter(0, index, beyond), -torch.inf
        ).log_softmax(-1)
    return log_probs


def generate(
    model: Model,
    inputs: Sequence[int],
    choose: Callable[[Tensor], int],
    *,
    max_new: int | None = None,
    forced: Forced = (),
    draft_tokens: Sequence[Sequence[int]] = (),
    use_cache: bool = True,
    recorded: bool = False,
    edits: Sequence[Edit] = (),
    memory: Float[Tensor, "1 n d_memory"] | None = None,
) -> Iterator[Step]:
    """Generate one token at a time until </s> or `max_new` tokens (default: the model's limit).

    `forced` tokens are taken whatever the model would choose; `choose` is called anyway, so that
    the random stream does not shift. Each record is yielded before the next token is computed.
    `edits` and `memory` as in `Incremental`.

    `draft_tokens` are guesses at the text, the best last. They change only the time it takes:
    several tokens that a draft predicts are read in one pass, and are kept as far as the model
    would have chosen them (blockwise parallel decoding, Stern et al. 2018; drafts from existing
    texts, He et al. 2023). They are ignored in recorded or uncached runs and with recurrent states.
    """
    limit, ends = limit_of(model, inputs, max_new), model.end_ids
    at = model.forced_by_position(limit) | by_position(forced)
    prefix: list[int] = []
    with torch.inference_mode():
        run = Incremental(
            model, model.encoder_inputs([inputs]), use_cache=use_cache, edits=edits, memory=memory
        )
        row = run.opening
    usable = [list(draft) for draft in draft_tokens] if run.goes_back and not recorded else []
    while len(prefix) < limit and not any(end in prefix for end in ends):
        guess = _propose_continuation(prefix, usable)[: limit - 1 - len(prefix)]
        with torch.inference_mode(), record() if recorded else nullcontext() as recording:
            with_guess = torch.cat([row, id_row(guess, model)], dim=1) if guess else row
            ahead = run.new_logits(with_guess)[0, -len(guess) - 1 :]
            all_log_probs = ahead.log_softmax(-1).cpu()
        n_read = len(prefix)
        for i, guessed in enumerate([*guess, None]):
            log_probs = all_log_probs[i]
            with torch.inference_mode():
                scores = run.scores(with_guess[:, : row.shape[1] + i], ahead[i : i + 1])
            scores = None if scores is None else scores[0].cpu()
            chosen = choose(log_probs if scores is None else scores)
            token = at.get(len(prefix), chosen)
            yield Step(len(prefix), tuple(prefix), token, log_probs, recording, scores)
            prefix.append(token)
            if token != guessed or token in ends:
                break
        row = torch.cat([row, id_row(prefix[n_read:], model)], dim=1)
        if guess:
            run.cut(row.shape[1] - 1)


def _propose_continuation(prefix: list[int], drafts: list[list[int]]) -> list[int]:
    """Return the continuation after the longest suffix of `prefix` found in a draft.

    Ties go to the latest draft, then to the nearest position. At the start it is the whole last
    draft.
    """
    if not prefix:
        return drafts[-1] if drafts else []
    best, continuation = (0, 0, 0), []
    for rank, draft in enumerate(drafts):
        for i in (i for i, token in enumerate(draft) if token == prefix[-1]):
            n = 1
            while n <= min(i, len(prefix) - 1) and draft[i - n] == prefix[-1 - n]:
                n += 1
            if (match := (n, rank, -abs(i + 1 - len(prefix)))) > best:
                best, continuation = match, draft[i + 1 :]
    return continuation


@torch.inference_mode()
def greedy_batch(
    model: Model,
    inputs: Shaped[Tensor, "batch *size"],
    memory: Float[Tensor, "batch n d_memory"] | None = None,
    limits: Sequence[int] | None = None,
) -> list[list[int]]:
    """Decode many padded sources greedily at once; rows end before </s>.

    `inputs` and `memory` as in `Incremental`; `limits` gives the maximum number of tokens of each
    row (default: the model's limit for the longest).
    """
    run = Incremental(model, inputs, memory=memory)
    pad, ends, row = (
        model.config.pad_id,
        torch.tensor(model.end_ids, device=inputs.device),
        run.opening,
    )
    if limits is None:
        limits = [model.max_new_tokens(inputs.shape[-1])] * len(inputs)
    last = torch.tensor(limits, device=inputs.device) - 1
    ended = last < 0
    forced = [model.forced_by_position(limit) for limit in limits]
    for index in range(max(limits, default=0)):
        logits = run.new_logits(row)[:, -1]
        scores = run.scores(row, logits)
        token = (logits.log_softmax(-1) if scores is None else scores).argmax(-1)
        at = torch.tensor([of_row.get(index, -1) for of_row in forced], device=inputs.device)
        token = torch.where(at < 0, token, at).masked_fill(ended, pad)
        row = torch.cat([row, token[:, None]], dim=1)
        ended |= torch.isin(token, ends) | (index >= last)
        if ended.all():
            break
    return [
        [i for i in tokens if i not in (pad, *model.end_ids)]
        for tokens in row[:, run.opening.shape[1] :].tolist()
    ]
