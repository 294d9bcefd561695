"""Edit and record the intermediates of a watched pass: what modules take and return."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from models.hub.recording.context import ModuleCall, PassContext, Tap, module_at_work
from models.hub.recording.projections import same_memory
from models.layers.masks import SiteKind
from models.trace import Recording
from models.trace.edits.active import Active
from models.trace.recorder import MAX_KEPT_ELEMENTS


class Intermediates:
    """Edit and record the intermediates of one watched pass; `frames` are its modules at work."""

    def __init__(
        self,
        context: PassContext,
        frames: Sequence[ModuleCall],
        recording: Recording | None,
        edits: Active | None,
    ) -> None:
        self.context, self.frames = context, frames
        self.recording, self.edits = recording, edits
        self.edits_activations = edits is not None and bool(edits.activations)
        self.is_paused = False  # True while an edit computes, which is not part of the model's pass
        self.outputs: set[str] = set()  # names of attention outputs that were seen as products
        # position vectors, from the first position of a text on
        self.position_table: Tensor | None = None

    def edited(
        self, name: str, value: Float[Tensor, "batch token feature"], stream: str
    ) -> Float[Tensor, "batch token feature"]:
        """Return an intermediate under the edits in force, the same tensor if none changes it."""
        if self.edits is None or not self.edits_activations:
            return value
        self.is_paused = True
        try:
            return self.edits.activation(name, value, stream)
        finally:
            self.is_paused = False

    def tap(self, taps: Sequence[Tap], tensors: Sequence[Shaped[Tensor, ...]]) -> Tensor | None:
        """Edit and record the first of these tensors; return its replacement, or None."""
        if not tensors or not (self.recording is not None or self.edits_activations):
            return None
        tensor = tensors[0]
        value = before = self._by_row(tensor)
        stream = self.context.kind(module_at_work(self.frames)).query_stream
        for tap in taps:
            if tap.is_product and tap.name in self.outputs:
                continue
            if tap.which:
                self._keep(tap, self._by_row(tensors[tap.which]).float(), stream)
                continue
            if self.edits_activations:
                value = self.edited(tap.name, value, stream)
                if value is not before and tap.in_place:
                    value = before = before.copy_(value)
            self._keep(tap, value, stream)
        return None if value is before else value.reshape(tensor.shape)

    def _by_row(self, tensor: Shaped[Tensor, ...]) -> Shaped[Tensor, ...]:
        """Split a tensor into the rows of the batch if all its tokens are on one axis."""
        return tensor if tensor.dim() > 2 else tensor.unflatten(0, (-1, self.context.n_query))

    def _keep(self, tap: Tap, value: Float[Tensor, "batch token feature"], stream: str) -> None:
        """Record an intermediate, unless it is too large or recorded already."""
        if self.recording is None or tap.name in self.recording.activations:
            return
        if not tap.largest or value.numel() <= tap.largest:
            activation = value.clone() if tap.copies else value
            activation = activation if tap.make is None else tap.make(activation)
            self.recording.tap("", tap.name, activation, stream, tap.feature, tap.formula)

    def on_embedding(
        self,
        ids: Int[Tensor, ...],
        table: Float[Tensor, "rows feature"],
        vectors: Float[Tensor, "... feature"],
    ) -> Float[Tensor, "... feature"]:
        """Record vectors taken from a table: of the tokens, or of consecutive positions.

        Returns the vectors; an edit may change those of the tokens.
        """
        kind, n = self.context.kind(module_at_work(self.frames)), self.context.n_query
        if self.context.provenance is not None and self.context.provenance.lengths(kind):
            return vectors  # with several texts, it is unknown whose these are
        if ids.shape[-1:] != (n,) or vectors.dim() not in (2, 3):
            return vectors
        batched = vectors if vectors.dim() == 3 else vectors[None]
        if not self._is_token_table(table):
            if self._may_be_added(table):
                self._on_positions(ids, table, kind)
            return vectors
        after = self.edited(f"{kind.stack}.embedding", batched, kind.query_stream)
        if after.numel() <= 4 * MAX_KEPT_ELEMENTS:  # the layers' streams begin with it
            self._keep_vectors(kind, "embedding", after, "embedding(token)")
        return vectors if after is batched else after.reshape(vectors.shape)

    def _on_positions(self, ids: Tensor, table: Tensor, kind: SiteKind) -> None:
        """Record the vectors of positions, if these ids are consecutive."""
        n = self.context.n_query
        first = ids.reshape(-1, n)[:1]
        if self.recording is None or n < 2:
            return
        if torch.equal(first, first[:, :1] + torch.arange(n, device=ids.device)):
            place = int(first[0, 0])
            if self.position_table is None:
                self.position_table = table.detach()[place - self.context.start :]
            vectors = table[place : place + n][None]  # a view, without a copy
            self._keep_vectors(kind, "position", vectors, "position vectors, looked up")

    def _keep_vectors(
        self, kind: SiteKind, name: str, vectors: Float[Tensor, "batch token feature"], formula: str
    ) -> None:
        if self.recording is None or f"{kind.stack}.{name}" in self.recording.activations:
            return
        self.recording.tap(kind.stack, name, vectors, kind.query_stream, "d_model", formula)

    def _is_token_table(self, table: Tensor) -> bool:
        embedding = self.context.token_table
        return embedding is not None and same_memory(embedding, table)

    def _may_be_added(self, table: Tensor) -> bool:
        """Return True unless its rows are narrower than the tokens', such as angles of a head."""
        embedding = self.context.token_table
        return embedding is None or table.shape[-1] >= embedding.shape[-1]
