"""Two ways through the same decoder by position: teacher forcing, and generating token by token.

A `Run` has one form for both, so that they can be compared: at position i the decoder has read its
opening (<s>, or a prompt) and y₁ … yᵢ, returns a distribution, and a token is taken: the given one,
the chosen one or a forced one.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from models import decoding
from models.analysis.checks import ROUNDING, check_used
from models.architectures import Model
from models.decoding import BeamStep, Step
from models.decoding.incremental import check_room_to_generate
from models.decoding.run_rows import PassRows, StepRows, closed_rows
from models.trace import Activation, AttentionSite, Recording, Trace, in_float32
from models.trace.edits import Edit

DECODING_METHODS = ("greedy", "sample", "beam")


@dataclass(frozen=True)
class Method:
    """The method that chooses the next token; `forced` holds (position, token) pairs."""

    strategy: str = "greedy"
    temperature: float = 1.0  # this, the next two and the seed: sampling only
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    width: int = 4  # this and α: beam only
    alpha: float = 0.6
    max_new: int | None = None  # maximum number of tokens; None: the model's limit
    forced: tuple[tuple[int, int], ...] = ()

    def filtered(self, scores: Float[Tensor, "*batch vocab"]) -> Float[Tensor, "*batch vocab"]:
        """Return the log-probabilities that a token is drawn from; `scores` unless sampling."""
        if self.strategy != "sample":
            return scores
        return decoding.filtered(scores, self.temperature, self.top_k, self.top_p)


@dataclass(frozen=True)
class Run:
    """One run by position. `taken[i]` follows `read[i]`; `rows[site][i]` is (head, key)."""

    read: tuple[int, ...]
    taken: tuple[int, ...]
    log_probs: Float[Tensor, "position vocab"]
    rows: Mapping[str, StepRows | PassRows]
    cached: tuple[int, ...]  # target positions whose keys came from the cache, at each position
    # largest difference of weights · v from the forward pass, as in `_kernel_error`; None without v
    kernel_error: float | None
    ended: bool  # with </s>; if not, it reached its limit, or the given text ends there
    # of a recurrent decoder, by activation
    states: dict[str, Float[Tensor, "position d"]] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32  # that the model ran in
    # by which each token was chosen: logits after the model's generation settings; None if these
    # change nothing, and for a beam, which chooses by sums
    scores: Float[Tensor, "position vocab"] | None = None

    def __len__(self) -> int:
        return len(self.taken)

    @property
    def entropy_bits(self) -> Float[Tensor, "position"]:
        """Entropy of each distribution, −Σ p log₂ p in bits."""
        return torch.special.entr(self.log_probs.exp()).sum(-1) / math.log(2)

    @property
    def choices(self) -> Float[Tensor, "position vocab"]:
        """The scores that chose each token, the log-probabilities if nothing changed them."""
        return self.log_probs if self.scores is None else self.scores

    def weights(
        self, site: str, head: int | None = None, block: int = 1
    ) -> Float[Tensor, "position key"]:
        """Return each position's weights in one head (None: mean of heads), 0 beyond its keys.

        Only the largest weight of each `block` of keys is returned.
        """
        return self.rows[site].weights(head, block)


@dataclass(frozen=True)
class Autoregression:
    """A generated text by position and, for beam search, the hypotheses at each step."""

    method: Method
    run: Run
    beam: tuple[BeamStep, ...] = ()


def of_trace(trace: Trace, first: int = 0) -> Run:
    """Return a teacher-forced trace by position, from its single pass.

    Tokens are taken after position `first` of the written stream, the last position of a prompt.
    The last token of an open text is read, but none is taken after it.

    Raises:
        ValueError: no token follows `first`.
    """
    output = trace.next_token
    end = len(output.labels)
    if not 0 <= first < end:
        raise ValueError(
            f"first must be a position with a token after it, 0 to {end - 1}, not {first}"
        )
    targets = trace.streams[output.stream].ids[first:end]
    sites, log_probs = _decoder_sites(trace.attention), output.log_probs[first:end]
    return _all_at_once(
        targets, output.labels[first:], output.is_closed, log_probs, sites, trace.activations, first
    )


@torch.inference_mode()
def uncached_run(
    model: Model, inputs: Sequence[int], tokens: Sequence[int], edits: Sequence[Edit] = ()
) -> Run:
    """Return one uncached pass under these edits, over tokens that follow the given ones.

    `tokens` may end with </s>, which is taken but not read.
    """
    options = {"recorded": True, "edits": edits}
    steps = list(decoding.teacher_forced(model, inputs, tokens[:-1], **options))
    recording, first = _recording(steps[0]), _first_written(model, inputs)
    log_probs = torch.stack([s.log_probs for s in steps])
    row = (_opening(model, inputs)[-1], *tokens[:-1])
    ended = tokens[-1] in model.end_ids
    return _all_at_once(
        row,
        tokens,
        ended,
        log_probs,
        _decoder_sites(recording.attention),
        recording.activations,
        first,
    )


def _recording(step: Step) -> Recording:
    if step.recording is None:
        raise ValueError("the steps of a run must be recorded")
    return step.recording


def _opening(model: Model, inputs: Sequence[int]) -> list[int]:
    return model.opening(model.encoder_inputs([inputs]))[0].tolist()


def _first_written(model: Model, inputs: Sequence[int]) -> int:
    """Return the position at which the first token is taken, the last of the opening."""
    return len(_opening(model, inputs)) - 1


def _decoder_sites(attention: Mapping[str, AttentionSite]) -> dict[str, AttentionSite]:
    """Return the attentions that determine the next token: those in the decoder."""
    return {name: in_float32(site) for name, site in attention.items() if site.stack == "decoder"}


def autoregressive(
    model: Model, inputs: Sequence[int], method: Method, edits: Sequence[Edit] = ()
) -> Autoregression:
    """Generate with a method under these edits, recording every step.

    Under beam search the run is the best hypothesis, read step by step.

    Raises:
        ValueError: a setting is invalid, or the given tokens leave no room to generate.
    """
    check_room_to_generate(model, inputs)
    forced = dict(method.forced)
    options = {"forced": forced, "recorded": True, "max_new": method.max_new, "edits": edits}
    if method.strategy == "greedy":
        return Autoregression(
            method, _one_by_one(model, inputs, decoding.greedy(model, inputs, **options))
        )
    if method.strategy == "sample":
        settings = {n: getattr(method, n) for n in ("seed", "temperature", "top_k", "top_p")}
        return Autoregression(
            method,
            _one_by_one(model, inputs, decoding.sample(model, inputs, **settings, **options)),
        )
    if method.strategy != "beam":
        raise ValueError(f"strategy must be {', '.join(DECODING_METHODS)}, not {method.strategy!r}")
    settings = {n: getattr(method, n) for n in ("width", "alpha", "max_new")}
    steps = tuple(decoding.beam(model, inputs, forced=forced, edits=edits, **settings))
    best = steps[-1].hypotheses[0].tokens
    run = _one_by_one(
        model,
        inputs,
        decoding.greedy(model, inputs, **options | {"forced": best, "max_new": len(best)}),
    )
    return Autoregression(method, replace(run, scores=None), steps)


def first_divergence(a: Run, b: Run) -> int | None:
    """Return the first position at which two runs take different tokens; None if there is none."""
    return next((i for i, (x, y) in enumerate(zip(a.taken, b.taken, strict=False)) if x != y), None)


@dataclass
class _StepCollector:
    """The parts of a step-by-step run, collected so that no step's tensors outlive it."""

    steps: list[Step] = field(default_factory=list)
    rows: dict[str, list[Tensor]] = field(default_factory=dict)
    closed: dict[str, list[Tensor | None]] = field(default_factory=dict)
    cached: list[int] = field(default_factory=list)
    states: dict[str, list[Tensor]] = field(default_factory=dict)
    error: float | None = None
    dtype: torch.dtype = torch.float32

    def add(self, step: Step) -> None:
        n_cached, recording = 0, _recording(step)
        for name, site in _decoder_sites(recording.attention).items():
            last = site.n_query - 1
            weights = site.weights(rows=slice(last, last + 1))
            row = weights[:, 0].float().cpu()
            closed = closed_rows(site, row.sum(-1, keepdim=True), slice(last, last + 1))
            self.rows.setdefault(name, []).append(row)
            self.closed.setdefault(name, []).append(None if closed is None else closed[:, 0])
            error = _kernel_error(site, weights if last == 0 else None)
            self.error, self.dtype = _larger(self.error, error), site.dtype
            if site.role == "self":
                n_cached = (
                    site.n_key - site.memory.shape[1]
                )  # `memory` holds the new positions only
        self.cached.append(n_cached)
        for name, states in _states(recording.activations).items():
            self.states.setdefault(name, []).append(states[-1])
        self.steps.append(replace(step, recording=None))


def _one_by_one(model: Model, inputs: Sequence[int], steps: Iterable[Step]) -> Run:
    collector = _StepCollector()
    for step in steps:
        collector.add(step)
    taken = tuple(step.token for step in collector.steps)
    return Run(
        (_opening(model, inputs)[-1], *taken[:-1]),
        taken,
        torch.stack([s.log_probs for s in collector.steps]),
        {
            n: StepRows(tuple(rows), tuple(collector.closed[n]))
            for n, rows in collector.rows.items()
        },
        tuple(collector.cached),
        collector.error,
        taken[-1] in model.end_ids,
        {name: torch.stack(states) for name, states in collector.states.items()},
        collector.dtype,
        _scores(collector.steps),
    )


def _scores(steps: Sequence[Step]) -> Float[Tensor, "position vocab"] | None:
    if all(step.scores is None for step in steps):
        return None
    return torch.stack([step.log_probs if step.scores is None else step.scores for step in steps])


def _states(activations: Mapping[str, Activation]) -> dict[str, Float[Tensor, "position d"]]:
    """Return the states of a recurrent decoder; empty for another."""
    names = [name for name in ("decoder.states", "decoder.contexts") if name in activations]
    return {name: activations[name].value[0].float().cpu() for name in names}


def _all_at_once(
    read: Sequence[int],
    taken: Sequence[int],
    ended: bool,
    log_probs: Tensor,
    sites: dict[str, AttentionSite],
    activations: Mapping[str, Activation],
    first: int = 0,
) -> Run:
    """Return the positions from `first` on of one pass over the whole row."""
    rows = {name: PassRows(site, first, len(read)) for name, site in sites.items()}
    error = reduce(_larger, map(_kernel_error, sites.values()), None)
    dtype = next((site.dtype for site in sites.values()), torch.float32)
    return Run(
        tuple(read),
        tuple(taken),
        log_probs,
        rows,
        (0,) * len(read),
        error,
        ended,
        _states(activations),
        dtype,
    )


def _kernel_error(site: AttentionSite, weights: Tensor | None = None) -> float | None:
    """Return the difference as a share of its limit (`check_used`), in units of ROUNDING.

    None for a site with only weights, whose v is unknown. `weights` as in `check_used`.
    """
    if not site.has_causes:
        return None
    used = check_used(site, weights=weights)
    return ROUNDING * used.value / used.limit


def _larger(a: float | None, b: float | None) -> float | None:
    """Return the larger error, NaN if one is NaN; None if neither is known."""
    errors = [error for error in (a, b) if error is not None]
    return next((error for error in errors if math.isnan(error)), max(errors, default=None))


def largest(values: Float[Tensor, "..."]) -> float:
    """Return the largest absolute value; infinity if there is none, so that no check passes."""
    return float(values.abs().max()) if values.numel() else math.inf
