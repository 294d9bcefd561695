"""Writing with a model: teacher-forced, greedy, sampling, beam. Each yields step records of one form, so they align."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.architectures import Model
from models.layers.attention import Cache
from models.trace import Recording, record
from models.trace.edits import Edits, editing

Forced = Sequence[int] | Mapping[int, int]      # the first tokens of a run, or position (from 0) → token


@dataclass(frozen=True)
class Step:
    """One decoding step: given the opening of the row and `prefix`, the model's log-probabilities (nats) and the token taken
    from them.

    In a teacher-forced step the token is the given one. `recording` holds the step's activations when asked for:
    with the cache its queries are this step's only; without it and teacher-forced, all positions' so far.
    """

    index: int
    prefix: tuple[int, ...]
    token: int
    log_probs: Float[Tensor, "vocab"]
    recording: Recording | None = None

    @property
    def log_prob(self) -> float:
        """Log-probability of the token taken."""
        return float(self.log_probs[self.token])

    @property
    def entropy(self) -> float:
        """Entropy of the distribution, in nats."""
        return float(-(self.log_probs.exp() * self.log_probs.clamp(min=-1e9)).sum())

    def top(self, k: int) -> list[tuple[int, float]]:
        """The k most probable tokens with their probabilities."""
        values, ids = self.log_probs.topk(min(k, len(self.log_probs)))
        return list(zip(ids.tolist(), values.exp().tolist(), strict=True))


class Incremental:
    """A decoding run over a batch of given rows (sources, or texts to go on with): next-token distributions for growing rows,
    from a cache or recomputed.

    `edits` hold by position, so that a row of m tokens meets the top-left part of a changed mask. Nothing is cached if they
    open cells ahead: then a new token changes what the ones before it have seen. `memory` is what the model has made of the
    given rows under these edits, if that is already there."""

    def __init__(
        self,
        model: Model,
        given: Int[Tensor, "batch n"],
        *,
        use_cache: bool = True,
        edits: Edits | None = None,
        memory: Float[Tensor, "batch n d_memory"] | None = None,
    ) -> None:
        self.model, self.given, self.edits = model, given, edits or Edits()
        self.opening = model.opening(given)                  # (batch, n) before a token is written
        if memory is None:
            with editing(self.edits):
                memory = model.encode(given, model.written_masks(given, self.opening[:, :0]))
        self.memory = memory
        grows = [kind.name for kind in model.kinds if kind.query_stream == kind.key_stream == model.writes]
        self.cache = Cache() if use_cache and not any(map(self.edits.opens_ahead, grows)) else None
        self.n_cached = 0

    def next_log_probs(self, row: Int[Tensor, "batch m"]) -> Float[Tensor, "batch vocab"]:
        """Log-probabilities (nats) of the token after `row`, which starts with the opening and only grows."""
        return self.new_log_probs(row)[:, -1]

    def new_log_probs(self, row: Int[Tensor, "batch m"]) -> Float[Tensor, "batch new vocab"]:
        """The same after each position of `row` that is new since the last call.

        A <pad> that the model wrote is not read either."""
        start, written = self.n_cached, {kind.name for kind in self.model.kinds if kind.query_stream == self.model.writes}
        whole = self.model.written_masks(self.given, row)
        masks = {name: mask.since(start) if name in written else mask for name, mask in whole.items()}
        with editing(self.edits):
            logits = self.model.decode(row[:, start:], self.memory, masks, self.cache, start)
        self.n_cached = 0 if self.cache is None else row.shape[1]
        return logits.float().log_softmax(-1)

    @property
    def goes_back(self) -> bool:
        """Can positions be read ahead and taken back? Not those in a recurrent state, nor where they see each other."""
        return self.cache is not None and not self.model.is_recurrent

    def cut(self, n: int) -> None:
        """Go back to the first n positions of the row, where the run `goes_back`."""
        self.cache.cut(n)
        self.n_cached = n

    def reorder(self, rows: Int[Tensor, "batch"]) -> None:
        """Keep these rows of the batch, in this order."""
        self.given = self.given[rows]
        self.memory = None if self.memory is None else self.memory[rows]
        if self.cache is not None:
            self.cache.reorder(rows)


def _row(ids: Sequence[int], model: Model) -> Int[Tensor, "1 n"]:
    return torch.tensor([list(ids)], device=model.device)


@torch.inference_mode()
def teacher_forced(
    model: Model, given: Sequence[int], written: Sequence[int], *, recorded: bool = False
) -> Iterator[Step]:
    """All positions at once, then one record a position of what is `written` after the `given` tokens, and one for </s>.
    A source ends with </s>; `written` is y₁ … yₘ without specials."""
    rows = _row(given, model)
    opening = model.opening(rows)[0].tolist()
    row = _row([*opening, *written], model)
    with record() if recorded else nullcontext() as recording:
        masks = model.written_masks(rows, row)
        logits = model.decode(row, model.encode(rows, masks), masks)[0, len(opening) - 1 :]
    tokens = [*written, model.config.end_id]
    for i, (log_probs, token) in enumerate(zip(logits.float().log_softmax(-1).cpu(), tokens, strict=True)):
        yield Step(i, tuple(written[:i]), token, log_probs, recording)


def greedy(model: Model, given: Sequence[int], **how: Any) -> Iterator[Step]:
    """The most probable token at each step. Takes what `written` takes."""
    return written(model, given, lambda log_probs: int(log_probs.argmax()), **how)


def sample(
    model: Model,
    given: Sequence[int],
    *,
    seed: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    **how: Any,
) -> Iterator[Step]:
    """Draw each token from the distribution after `filtered`. The same seed draws the same text."""
    rng = torch.Generator().manual_seed(seed)

    def draw(log_probs: Tensor) -> int:
        return int(torch.multinomial(filtered(log_probs, temperature, top_k, top_p).exp(), 1, generator=rng))

    return written(model, given, draw, **how)


def filtered(
    log_probs: Float[Tensor, "vocab"], temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Float[Tensor, "vocab"]:
    """Log-probabilities at a temperature, kept to the k best and to the smallest set whose sum reaches p (nucleus
    sampling, Holtzman et al. 2020), renormalised. Raises ValueError for a setting that leaves nothing."""
    if temperature <= 0:
        raise ValueError(f"temperature must be above 0, not {temperature}; greedy decoding is its limit")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, not {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, not {top_p}")
    log_probs = (log_probs / temperature).log_softmax(-1)
    if top_k is not None and top_k < len(log_probs):
        log_probs = log_probs.masked_fill(log_probs < log_probs.topk(top_k).values[-1], -torch.inf).log_softmax(-1)
    if top_p is not None and top_p < 1:   # at 1, rounding in the sum would drop the last tokens
        ordered, index = log_probs.exp().sort(descending=True)
        beyond = ordered.cumsum(-1) - ordered >= top_p
        log_probs = log_probs.masked_fill(torch.zeros_like(beyond).scatter(0, index, beyond), -torch.inf).log_softmax(-1)
    return log_probs


def written(
    model: Model,
    given: Sequence[int],
    choose: Callable[[Tensor], int],
    *,
    max_new: int | None = None,
    forced: Forced = (),
    drafts: Sequence[Sequence[int]] = (),
    use_cache: bool = True,
    recorded: bool = False,
    edits: Edits | None = None,
    memory: Float[Tensor, "1 n d_memory"] | None = None,
) -> Iterator[Step]:
    """One token after the other until </s> or `max_new` tokens (by default what `longest` says). `forced` tokens are
    taken whatever the model would choose; `choose` is asked all the same, so that the random stream does not shift. Each
    record stands before the next token is computed. `edits` and `memory` as in `Incremental`.

    `drafts` are guesses at what will be written, such as what was written for similar sources, the best guess last. They
    change nothing but the time: tokens that would go on as a draft does are read in one pass, and stand as far as they are
    what would have been taken (blockwise parallel decoding, Stern et al. 2018; from texts that are there, He et al. 2023).
    Recorded or uncached runs and recurrent states read none."""
    at, end = _by_position(forced), model.config.end_id
    limit = _limit(model, given, max_new)
    prefix: list[int] = []
    with torch.inference_mode():
        run = Incremental(model, _row(given, model), use_cache=use_cache, edits=edits, memory=memory)
        opening = run.opening[0].tolist()
    drafts = [list(draft) for draft in drafts] if run.goes_back and not recorded else []
    while len(prefix) < limit and end not in prefix:
        guess = _going_on(prefix, drafts)[: limit - 1 - len(prefix)]
        with torch.inference_mode(), record() if recorded else nullcontext() as recording:
            ahead = run.new_log_probs(_row([*opening, *prefix, *guess], model))[0, -len(guess) - 1 :].cpu()
        for log_probs, guessed in zip(ahead, [*guess, None], strict=True):
            chosen = choose(log_probs)
            token = at.get(len(prefix), chosen)
            yield Step(len(prefix), tuple(prefix), token, log_probs, recording)
            prefix.append(token)
            if token != guessed or token == end:
                break
        if guess:
            run.cut(len(opening) - 1 + len(prefix))


def _going_on(prefix: list[int], drafts: list[list[int]]) -> list[int]:
    """What comes in one of the drafts after most of the last tokens of `prefix`: of equals the one of the last draft, at the
    nearest position. At the start it is the whole last draft."""
    if not prefix:
        return drafts[-1] if drafts else []
    best, found = (0, 0, 0), []
    for rank, draft in enumerate(drafts):
        for i in (i for i, token in enumerate(draft) if token == prefix[-1]):
            n = 1
            while n <= min(i, len(prefix) - 1) and draft[i - n] == prefix[-1 - n]:
                n += 1
            if (match := (n, rank, -abs(i + 1 - len(prefix)))) > best:
                best, found = match, draft[i + 1 :]
    return found


def _by_position(forced: Forced) -> dict[int, int]:
    return dict(forced) if isinstance(forced, Mapping) else dict(enumerate(forced))


def _limit(model: Model, given: Sequence[int], max_new: int | None) -> int:
    """`max_new`, by default what the model says of so many given tokens; within what it can read."""
    if max_new is None:
        return model.longest(len(given))
    if max_new < 1:
        raise ValueError(f"max_new must be at least 1, not {max_new}")
    n_opening = model.opening(_row(given, model)).shape[1]
    return min(max_new, model.config.n_ctx - n_opening)


@torch.inference_mode()
def greedy_batch(
    model: Model, given: Int[Tensor, "batch n"], memory: Float[Tensor, "batch n d_memory"] | None = None
) -> list[list[int]]:
    """Greedy decoding of many padded sources at once. Rows end before their </s>. `memory` as in `Incremental`."""
    run = Incremental(model, given, memory=memory)
    pad, end, row = model.config.pad_id, model.config.end_id, run.opening
    ended = torch.zeros(len(given), dtype=torch.bool, device=given.device)
    for _ in range(model.longest(given.shape[1])):
        token = run.next_log_probs(row).argmax(-1).masked_fill(ended, pad)
        row = torch.cat([row, token[:, None]], dim=1)
        ended |= token == end
        if ended.all():
            break
    return [[i for i in written if i not in (pad, end)] for written in row[:, run.opening.shape[1] :].tolist()]


@dataclass(frozen=True)
class Hypothesis:
    """One node of the beam: the tokens so far, their summed log-probability, its score with length penalty, and the
    index of its parent among the hypotheses of the step before (−1 at the first step)."""

    tokens: tuple[int, ...]
    log_prob: float
    score: float
    parent: int
    ended: bool       # with </s>


@dataclass(frozen=True)
class BeamStep:
    """The hypotheses kept after one step, best first; ended ones stay in the beam as they are."""

    index: int
    kept: tuple[Hypothesis, ...]


def length_penalty(n_tokens: int, alpha: float) -> float:
    """((5 + n) / 6)^α (Wu et al. 2016, eq. 14)."""
    return ((5 + n_tokens) / 6) ** alpha


@torch.inference_mode()
def beam(
    model: Model,
    given: Sequence[int],
    *,
    width: int = 4,
    alpha: float = 0.6,
    max_new: int | None = None,
    forced: Forced = (),
) -> Iterator[BeamStep]:
    """Beam search; the best hypothesis is `kept[0]` of the last step. Paper: width 4, α = 0.6 (Vaswani et al. §6.1).

    Where a token is `forced`, every unfinished hypothesis goes on with it alone."""
    if width < 1:
        raise ValueError(f"beam width must be at least 1, not {width}")
    at = _by_position(forced)
    limit = _limit(model, given, max_new)
    run = Incremental(model, _row(given, model))
    opening = run.opening[0].tolist()
    kept: list[Hypothesis] = []
    for index in range(limit):
        alive = [i for i, h in enumerate(kept) if not h.ended] if index else [-1]
        if not alive:
            return
        prefixes = [kept[i].tokens if i >= 0 else () for i in alive]
        log_probs = run.next_log_probs(torch.cat([_row([*opening, *p], model) for p in prefixes])).cpu()
        candidates = [replace(h, parent=i) for i, h in enumerate(kept) if h.ended]
        for i, row in zip(alive, log_probs, strict=True):
            candidates += _children(kept[i] if i >= 0 else None, i, row, model.config.end_id, width, alpha, at.get(index))
        kept = sorted(candidates, key=lambda h: -h.score)[:width]
        yield BeamStep(index, tuple(kept))
        rows = [alive.index(h.parent) for h in kept if not h.ended]
        run.reorder(torch.tensor(rows, dtype=torch.long, device=run.given.device))


def _children(
    parent: Hypothesis | None, i: int, log_probs: Tensor, end: int, width: int, alpha: float, only: int | None = None
) -> list[Hypothesis]:
    tokens, total = (parent.tokens, parent.log_prob) if parent else ((), 0.0)
    values, ids = log_probs.topk(min(width, len(log_probs)))
    if only is not None:
        values, ids = log_probs[only : only + 1], torch.tensor([only])
    penalty = length_penalty(len(tokens) + 1, alpha)
    return [
        Hypothesis((*tokens, token), total + value, (total + value) / penalty, i, token == end)
        for token, value in zip(ids.tolist(), values.tolist(), strict=True)
    ]
