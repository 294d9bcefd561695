"""One decoding run: next-token distributions of growing rows, from a cache or recomputed."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from models.architectures import Model
from models.decoding.one_token import for_single_token
from models.layers.cache import Cache
from models.trace.edits import Edit, editing, effective, opens_ahead

Forced = Sequence[int] | Mapping[int, int]  # the first tokens of a run, or tokens by position


def sees_ahead(model: Model, edits: Sequence[Edit]) -> bool:
    """Return True if a generated position may attend to a later one, by its own mask or edits."""
    self_attentions = [
        kind.name for kind in model.kinds if kind.query_stream == kind.key_stream == model.writes
    ]
    return model.sees_ahead or any(opens_ahead(edits, kind) for kind in self_attentions)


class Incremental:
    """A decoding run over a batch of sources or prompts.

    `edits` apply by position, so that a row of m tokens meets the top-left part of a changed mask.
    Nothing is cached if they open cells ahead, because a new token then changes earlier states.
    `inputs` is what `model.encoder_inputs` makes from the rows; `memory` is their encoding under
    these edits, if it exists already.
    """

    def __init__(
        self,
        model: Model,
        inputs: Shaped[Tensor, "batch *size"],
        *,
        use_cache: bool = True,
        edits: Sequence[Edit] = (),
        memory: Float[Tensor, "batch n d_memory"] | None = None,
    ) -> None:
        self.model, self.inputs, self.edits = model, inputs, effective(edits)
        self.opening = model.opening(inputs)  # (batch, n) before anything is generated
        if memory is None:
            with editing(self.edits):
                memory = model.encode(inputs, model.written_masks(inputs, self.opening[:, :0]))
        self.memory = memory
        cached = use_cache and model.can_cache and not sees_ahead(model, self.edits)
        self.cache = Cache() if cached else None
        self.one_token = for_single_token(model) if cached else model
        self.n_cached = 0
        self.process = model.logits_processor(inputs, self.opening.shape[1])

    def next_log_probs(self, row: Int[Tensor, "batch m"]) -> Float[Tensor, "batch vocab"]:
        """Return log-probabilities (nats) of the token after `row`, as `new_logits`."""
        return self.new_logits(row)[:, -1].log_softmax(-1)

    def scores(
        self, row: Int[Tensor, "batch m"], logits: Float[Tensor, "batch vocab"]
    ) -> Float[Tensor, "batch vocab"] | None:
        """Return the scores by which the token after `row` is chosen.

        None if nothing changes the model's logits, so that they are the log-probabilities. If the
        model's settings suppress every token, its own logits are used.
        """
        scores = logits if self.process is None else self.process(row, logits)
        if scores is logits:
            return None
        is_suppressed = scores.amax(-1, keepdim=True) == -torch.inf
        return torch.where(is_suppressed, logits, scores)

    def new_logits(self, row: Int[Tensor, "batch m"]) -> Float[Tensor, "batch new vocab"]:
        """Return logits after each position of `row` that is new since the last call.

        `row` starts with the opening, and only grows from call to call. A <pad> that the model
        generated is masked too.
        """
        start = self.n_cached
        masks = self.model.written_masks(self.inputs, row, start)
        with editing(self.edits, {self.model.writes: start}):
            model = self.model if row[:, start:].numel() > 1 else self.one_token
            logits = model.decode(row[:, start:], self.memory, masks, self.cache, start)
        self.n_cached = 0 if self.cache is None else row.shape[1]
        return logits.float()

    @property
    def goes_back(self) -> bool:
        """True if positions can be read ahead and removed again.

        False for a recurrent state, or if positions see later ones.
        """
        return self.cache is not None and self.model.can_go_back

    def cut(self, n: int) -> None:
        """Go back to the first n positions of the row.

        Raises:
            ValueError: the run has no cache.
        """
        if self.cache is None:
            raise ValueError("a run without a cache cannot go back")
        self.cache.cut(n)
        self.n_cached = n

    def reorder(self, rows: Int[Tensor, "batch"]) -> None:
        """Keep these rows of the batch, in this order."""
        self.inputs = self.inputs[rows]
        self.memory = None if self.memory is None else self.memory[rows]
        if self.cache is not None:
            self.cache.reorder(rows)


def id_row(ids: Sequence[int], model: Model) -> Int[Tensor, "1 n"]:
    """Return these tokens as a batch of one on the model's device."""
    return torch.tensor([list(ids)], device=model.device)


def by_position(forced: Forced) -> dict[int, int]:
    """Return forced tokens by position."""
    return dict(forced) if isinstance(forced, Mapping) else dict(enumerate(forced))


def limit_of(model: Model, inputs: Sequence[int], max_new: int | None) -> int:
    """Return the maximum number of new tokens, within the model's context.

    `max_new` of None is the model's own limit for these tokens.

    Raises:
        ValueError: `max_new` is below 1.
    """
    if max_new is None:
        return model.max_new_tokens(len(inputs))
    if max_new < 1:
        raise ValueError(f"max_new must be at least 1, not {max_new}")
    n_opening = model.opening(model.encoder_inputs([inputs])).shape[1]
    return min(max_new, model.stream_limit(model.writes) - n_opening)


def check_room_to_generate(model: Model, inputs: Sequence[int]) -> None:
    """Check that the given tokens leave room to generate.

    Raises:
        ValueError: they do not.
    """
    if model.max_new_tokens(len(inputs)) < 1:
        raise ValueError(
            f"{len(inputs)} tokens leave no room to generate: the model reads at most {model.config.n_ctx}"
        )
