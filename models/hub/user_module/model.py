"""A module of the user's own as an Architecture whose output has no known meaning."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from models.architectures.base import Architecture, Field
from models.errors import IndistinctRowsError, InputError
from models.hub.model import NUMBERS_OUTPUT, HubModel
from models.hub.recording.context import HeadPlace, OneText, PassContext
from models.hub.recording.forward_pass import ForwardPass
from models.hub.recording.watch import watching
from models.hub.sizes import HubConfig
from models.hub.user_module.rows import keeps_rows_apart
from models.hub.user_module.token_rows import (
    MOVED,
    ModuleInputs,
    OnlyItself,
    RecordedAttention,
    misfits,
)
from models.hub.user_module.tokenizer import (
    UserEncoding,
    describe_error,
)
from models.tokenizers.base import Encoding
from models.trace import Recording, current, record
from models.trace.edits import Edit, HeadOff, Where
from models.trace.edits.active import active, editing

CallModule = Callable[..., Any]
NO_ATTENTION_SEEN = (
    "it calls neither scaled_dot_product_attention nor multi_head_attention_forward, and no weights "
    "of a softmax could be followed to a product with values, so there is no attention to show"
)


class UserModel(HubModel):
    """A module whose attention is shown and whose output has no known meaning."""

    pads = False
    answer_description = "numbers of unknown meaning"

    def __init__(self, module: nn.Module, config: HubConfig, name: str, call: CallModule) -> None:
        super().__init__(module, config)
        self.call = call
        self.fields = (Field(name, "text"),)
        self.heads: dict[str, HeadPlace] | None = None  # of the last recorded run without edits
        self._rows_apart: bool | None = None  # None until the first batch
        # names of attentions that weigh tokens in their order
        self._ordered_sites: set[str] = set()
        self._moved_sites: dict[str, str] = {}  # name of another attention → the reason
        # the same, by numbers of tokens
        self._unclear_sites: dict[tuple[int, ...], dict[str, str]] = {}
        self._device = next((p.device for p in module.parameters()), torch.device("cpu"))
        # one run at a time: the module may keep tensors of its own, and this model learns from it
        self._running = threading.RLock()

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def token_table(self) -> None:
        """None: it is not known which of its matrices is the embedding."""
        return

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        """Return the ids of the rows, or the tensors that the only row came with.

        Raises ValueError for several rows of tensors, or of different lengths, whose padding the
        module could not know.
        """
        return (*Architecture.inputs(self, rows), *self.own_tensors([row["text"] for row in rows]))

    def own_tensors(self, encodings: Sequence[Encoding]) -> tuple[Tensor, ...]:
        """Return the tensors that the only row came with; none if the module takes token ids.

        Raises ValueError for several rows of tensors or of different lengths.
        """
        rows = [e.tensors for e in encodings if isinstance(e, UserEncoding) and e.tensors]
        if len({len(e.ids) for e in encodings}) > 1 or (rows and len(encodings) > 1):
            raise ValueError(
                "this module reads one row at a time, because it cannot know which tokens are padding"
            )
        return tuple(t.to(self.device) for t in rows[0]) if rows else ()

    def forward(self, text: Int[Tensor, "batch n"], *tensors: Tensor) -> Any:
        """Return the first tensor of the module's output, or the row if it lacks the batch axis."""
        output = self.watched_output(text, tensors)
        return {
            NUMBERS_OUTPUT: text if output is None or output.shape[:1] != text.shape[:1] else output
        }

    def watched_output(
        self, text: Int[Tensor, "batch n"], tensors: tuple[Shaped[Tensor, "batch ..."], ...] = ()
    ) -> Tensor | None:
        """Return the first tensor of the module's output, watched.

        Raises what `watched_call` raises.
        """
        return self.watched_call([ModuleInputs(tensors or (text,), text.shape[1], len(text))])

    def context_of(self, texts: Sequence[ModuleInputs]) -> PassContext:
        """Return the context of a pass over these texts."""
        (text,) = texts
        row = torch.zeros(text.n_rows, text.n_tokens, dtype=torch.long, device=self.device)
        origins = OneText(text.tensors, self.kinds[0], text.n_tokens)
        return replace(self.pass_context(row), provenance=origins)

    def watched_call(self, texts: Sequence[ModuleInputs]) -> Tensor | None:
        """Return the first tensor of the module's output, watched.

        Raises:
            InputError: the module fails, or a recorded run shows no attention.
            IndistinctRowsError: it does not keep the rows of a batch apart.
        """
        with self._running:
            return self._watched_call(texts)

    def _watched_call(self, texts: Sequence[ModuleInputs]) -> Tensor | None:
        inputs, lengths = _tensors(texts), tuple(text.n_tokens for text in texts)
        if max(text.n_rows for text in texts) > 1 and not self.keeps_rows_apart(inputs):
            raise IndistinctRowsError(f"{self.config.architecture} reads one row at a time")
        if active() is not None and self.heads is None:  # edits name heads of an earlier run
            with editing(()), record():
                self._watched_call(texts)
        recording, state = current(), torch.get_rng_state()
        before = None if recording is None or active() is not None else _copy(recording)
        output, forward_pass = self._pass(texts)
        if recording is not None and before is not None:
            self.heads = forward_pass.heads.places()
            if min(lengths) > 1 and not recording.attention.keys() <= self._ordered_sites:
                self._check_token_order(texts, _recorded_attentions(forward_pass))
                _restore(recording, before)
                torch.set_rng_state(state)
                output, forward_pass = self._pass(texts)
        for reason in forward_pass.unreached.values():
            raise self.refused(reason)
        if recording is not None and not recording.attention:
            raise self.refused(next(iter(recording.unrecorded.values()), NO_ATTENTION_SEEN))
        return _first_tensor(output)

    def _pass(self, texts: Sequence[ModuleInputs]) -> tuple[Any, ForwardPass]:
        """Return the module's output and the pass that watched it.

        Raises as `watched_call` does if the module fails.
        """
        lengths = tuple(text.n_tokens for text in texts)
        refused = self._moved_sites | self._unclear_sites.get(lengths, {})
        context = replace(
            self.context_of(texts), heads=self.heads or {}, misfits=refused, taps=self.taps
        )
        with watching(context) as forward_pass:
            try:
                output = self.call(self.module, *_tensors(texts))
            except IndistinctRowsError:
                raise
            except Exception as error:  # the module is its owner's and may raise anything
                what = f"cannot read this {self.fields[0].kind} ({describe_error(error)})"
                raise self.refused(what) from error
        return output, forward_pass

    def _check_token_order(
        self, texts: Sequence[ModuleInputs], sites: Mapping[str, RecordedAttention]
    ) -> None:
        """Learn which of these attentions do not weigh the tokens in their order."""

        def run(
            others: Sequence[ModuleInputs], names: Sequence[str], off: Sequence[str]
        ) -> Mapping[str, RecordedAttention]:
            edits: list[Edit] = [OnlyItself(Where(site=name)) for name in names]
            edits += [HeadOff(Where(site=name)) for name in off]
            with editing(edits), record():
                return _recorded_attentions(self._pass(others)[1])

        with torch.no_grad():
            reasons = misfits(run, texts, sites)
        self._ordered_sites |= sites.keys() - reasons.keys()
        lengths = tuple(text.n_tokens for text in texts)
        heads = (self.heads or {}).items()
        parts = {name: reasons[at.site] for name, at in heads if at.site in reasons}
        for name, reason in (reasons | parts).items():
            refused = (
                self._moved_sites
                if reason == MOVED
                else self._unclear_sites.setdefault(lengths, {})
            )
            refused[name] = reason

    def keeps_rows_apart(self, inputs: Sequence[Shaped[Tensor, "batch ..."]]) -> bool:
        """Return True if the module answers each row of a batch as it does alone."""
        with self._running:
            if self._rows_apart is None:
                self._rows_apart = keeps_rows_apart(
                    lambda *row: _first_tensor(self.call(self.module, *row)), inputs
                )
            return self._rows_apart

    def checked_logits(
        self, logits: Shaped[Tensor, ...] | None, row: Int[Tensor, "batch m"]
    ) -> Float[Tensor, "batch m vocab"]:
        """Return these logits.

        Raises InputError unless there is a row of them for each position.
        """
        if logits is not None and logits.dim() == 3 and logits.shape[:2] == row.shape:
            return logits
        shape = None if logits is None else tuple(logits.shape)
        expected = f"({row.shape[0]}, {row.shape[1]}, vocabulary)"
        raise self.refused(
            f"expected logits {expected}, not {shape}; pass a `call` that returns them"
        )

    def refused(self, reason: str) -> InputError:
        """Return the error that names this module and its field."""
        return InputError(f"{self.config.architecture}: {reason}", self.fields[0].name)


def _tensors(texts: Sequence[ModuleInputs]) -> tuple[Tensor, ...]:
    return tuple(t for text in texts for t in text.tensors)


def _recorded_attentions(forward_pass: ForwardPass) -> dict[str, RecordedAttention]:
    sites = {} if forward_pass.recording is None else forward_pass.recording.attention
    return {
        name: RecordedAttention(site, forward_pass.values_by_site.get(name))
        for name, site in sites.items()
    }


def _copy(recording: Recording) -> Recording:
    return Recording(
        dict(recording.activations), dict(recording.attention), dict(recording.unrecorded)
    )


def _restore(recording: Recording, before: Recording) -> None:
    """Restore the earlier content of a recording."""
    recording.activations, recording.attention = before.activations, before.attention
    recording.unrecorded = before.unrecorded


def _first_tensor(output: Any) -> Tensor | None:
    parts = output if isinstance(output, tuple | list) else (output,)
    return next((part for part in parts if isinstance(part, Tensor)), None)
