"""Record the attentions and layers of one watched forward pass, under the edits in force.

The q, k, v, mask and scale that attention is called with are the causes that `models.trace` keeps.
Masks and head outputs are edited where attention is called; other intermediates are edited where a
module takes or returns them (`watch.Marks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from models.hub.recording.by_hand.heads import (
    FollowedHead,
    FollowedHeads,
    attention_name,
    finish_heads,
    join_heads,
)
from models.hub.recording.by_hand.unshown import Unshown, UnshownSums
from models.hub.recording.context import (
    AttentionCall,
    AttentionOutput,
    ModuleCall,
    PassContext,
    Tap,
)
from models.hub.recording.layer_count import LayerCount
from models.hub.recording.masks import MaskExplanation, as_attn_mask, call_weights, explain_mask
from models.hub.recording.projections import (
    Linear,
    Linears,
    defer_projection,
    reads_joined,
    same_memory,
    undo_gqa_repeat,
    versions_of,
)
from models.layers.masks import Mask, SiteKind
from models.layers.similarity import of_scale
from models.trace import AttentionSite, Recording, current
from models.trace.attend import attend
from models.trace.edits import Edits
from models.trace.edits.active import active
from models.trace.lazy import LazyLinear
from models.trace.recorder import MAX_KEPT_ELEMENTS, free_name
from models.trace.site import layer_of

NESTED = "its tokens are in a nested tensor, whose cells cannot be read"
WHOLE_MODULE = "the module itself"  # the name for an attention outside all parts of a module


@dataclass(frozen=True)
class SitePlace:
    """The kind, layer number and name of one attention, and the module that it is called in."""

    kind: SiteKind
    number: int
    name: str
    frame: ModuleCall

    @property
    def title(self) -> str:
        """The name for display."""
        return self.name or WHOLE_MODULE

    @property
    def is_edited(self) -> bool:
        """True if an edit in force applies here."""
        edits = active()
        layer = layer_of(self.name, self.number)
        return edits is not None and bool(edits.at(self.kind.name, self.name, layer))


class ForwardPass:
    """Record the attentions and layers of one watched forward pass, under the edits in force."""

    def __init__(self, context: PassContext) -> None:
        self.context = context
        self.frames: list[ModuleCall] = []
        self.recording: Recording | None = current()
        self.linears = Linears()
        self.layer_count = LayerCount(context.layers)
        self.masks: dict[tuple, tuple[Tensor | None, MaskExplanation]] = {}
        # paths at which there was an attention
        self.names: set[str] = set() if context.names is None else context.names
        self.outputs: set[str] = set()  # names of attention outputs that were seen as products
        self.last_attention: AttentionOutput | None = (
            None  # until the next product, which may be its W_O
        )
        self.edits = active()
        self.is_followed = self.recording is not None or self.edits is not None
        self.edits_activations = self.edits is not None and bool(self.edits.activations)
        self.by_functions = False  # see watch.watching
        self.is_paused = False  # True while an edit computes, which is not part of the model's pass
        # position vectors, from the first position of a text on
        self.position_table: Tensor | None = None
        self._makers: dict[int, tuple[Tensor, str]] = {}
        self.lengths = {context.n_query, *context.n_key.values()}  # numbers of tokens of the run
        self.unshown, self.heads = UnshownSums(), FollowedHeads()
        # name of an attention of which weights alone are known → its values, by head
        self.values_by_site: dict[str, Tensor] = {}
        self.unreached: dict[str, str] = {}  # an attention that edits do not reach → the reason

    def attend(
        self,
        call: AttentionCall,
        run: Callable[[Tensor | None, bool], Tensor],
        take_weights: Callable[[Tensor], None] | None = None,
    ) -> Tensor:
        """Compute and record one attention; `run` makes the call with a mask.

        The result is untouched unless an edit changes it. `take_weights` gets the weights if edits
        change them.
        """
        q, n_query, n_key = call.q, call.q.shape[2], call.k.shape[2]
        n_rows = self.context.n_rows
        if q.is_nested:
            place = NESTED
        elif q.shape[0] > n_rows and self.has_lengths(q, call.k):
            place = (
                f"its batch has {len(q)} rows, where the run has {n_rows} text{'s' * (n_rows > 1)}"
            )
        else:
            place = self.place(n_query, n_key)
        if isinstance(place, str):
            self.skip(place)
            return run(call.attn_mask, call.is_causal)
        kind, number, name, frame = place.kind, place.number, place.name, place.frame
        explanation = self._explanation(call, kind)
        terms = explanation.terms

        sites: list[AttentionSite] = []

        def kernel(mask: Mask) -> Tensor:
            if mask is explanation.mask:
                return run(call.attn_mask, call.is_causal)
            return run(as_attn_mask(mask, terms, n_query, n_key, q.dtype), False)

        def record(recording: Recording, out: Tensor, mask: Mask, edits: Edits) -> None:
            explained = MaskExplanation(mask, terms)
            site = self.record_site(
                recording, call, explained, frame, kind, number, name, out, edits
            )
            sites.append(site)

        head_out = attend(
            kind, name, q, call.k, call.v, explanation.mask,
            kernel=kernel,
            weights=lambda mask: call_weights(call, MaskExplanation(mask, terms)),
            record=record,
            number=number,
            take_weights=take_weights,
        )  # fmt: skip
        if call.output is None:
            site = sites[0] if sites else None
            out = head_out.detach()
            if (versions := versions_of(out)) is None:
                out = out.clone()
            self.last_attention = AttentionOutput(name, kind.query_stream, out, site, versions)
        return head_out

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

    def place(
        self,
        n_query: int,
        n_key: int,
        of: tuple[Shaped[Tensor, ...], Shaped[Tensor, ...]] | None = None,
    ) -> SitePlace | str:
        """Return the place of the attention that is called now, or why it is not recorded.

        `of` are its queries and keys, unless the provenance has noted them.
        """
        frame = self.frame
        if of is not None and self.context.provenance is not None:
            self.context.provenance.note_call(*of)
        kind = self._kind(frame, n_query, n_key)
        if isinstance(kind, str):
            return kind
        if misfit := self._misfit(kind, n_query, n_key):
            return misfit
        name = self._name(frame.path)
        if name in self.context.misfits:
            return self.context.misfits[name]
        at = self.context.heads.get(name)
        number = (
            self.layer_count.next(kind.name, self.frames or [frame]) if at is None else at.number
        )
        return SitePlace(kind, number, name, frame)

    def _kind(self, frame: ModuleCall, n_query: int, n_key: int) -> SiteKind | str:
        """Return the kind of an attention, or the reason why it has none."""
        if self.context.provenance is None:
            return self.context.kind(frame)
        return self.context.provenance.kind(n_query, n_key)

    def _name(self, path: str) -> str:
        """Return the path of the module at work, numbered if it attends more than once."""
        recorded = {} if self.recording is None else self.recording.attention
        taken = path in self.names or path in recorded
        name = free_name(path, self.names.union(recorded)) if taken else path
        self.names.add(name)
        return name

    def add_head(self, head: FollowedHead) -> None:
        """Add an attention written by hand, joined to the heads before it if it is one of them."""
        heads = self.heads.add(head)
        site = head.site
        if len(heads) > 1:
            self.layer_count.join(head.kind.name, heads[0].number)
            site = join_heads(heads)
        if self.recording is not None and site is not None and len(heads) > 1:
            for name in (*(each.name for each in heads), attention_name(heads)):
                self.recording.attention.pop(name, None)
            self.recording.attention[site.name] = site
        self.last_attention = finish_heads(heads, site)

    @property
    def frame(self) -> ModuleCall:
        """The module at work."""
        return self.frames[-1] if self.frames else ModuleCall("attention")

    def skip(self, reason: str) -> None:
        """Note the reason why an attention of the module at work is not recorded."""
        if self.recording is not None:
            self.recording.unrecorded[self.frame.path or WHOLE_MODULE] = reason

    def name_unrecorded(self) -> None:
        """Name each module whose own softmax was not recorded, unless it is named already."""
        if self.recording is None:
            return
        for path, sums in self.unshown.by_module().items():
            path = path or WHOLE_MODULE
            if path not in self.recording.unrecorded:
                name = free_name(path, self.recording.attention)
                self.recording.unrecorded[name] = self._reason(sums)

    def _reason(self, sums: Sequence[Unshown]) -> str:
        """Return why these sums are not recorded: their sizes, or else the first one's reason."""
        shapes = list(dict.fromkeys(tuple(each.weights.shape) for each in sums if each.is_softmax))
        if all(set(shape[-2:]) <= self.lengths for shape in shapes):
            return sums[0].reason
        sizes = " and ".join(" × ".join(map(str, shape)) for shape in shapes)
        return f"it takes a softmax of {sizes} weights, not of one for each pair of tokens"

    def on_product(self, linear: Linear) -> Tensor:
        """Note a product with a matrix, which may be the W_O of the attention before it.

        Returns the result, which an edit may change if it is the attention's output.
        """
        self.linears.add(linear)
        memory = self.context.memory
        if memory and linear.x is memory[0] and not self.names:
            memory.append(linear.y)  # for a decoder of another width
        last, self.last_attention = self.last_attention, None
        if last is None or not reads_joined(linear, last.head_out, last.versions):
            return linear.y
        batch, _, n_query, _ = last.head_out.shape
        before, name = linear.y.reshape(batch, n_query, -1), f"{last.name}.attn_out"
        self.outputs.add(name)
        after = self.edited(name, before, last.stream)
        if self.recording is not None and last.site is not None:
            bias = None if linear.bias is None else linear.bias.detach()
            attn_out = after if self.edits_activations else None
            self._with_output(self.recording, last.site, linear.weight.detach(), bias, attn_out)
        return linear.y if after is before else after.reshape(linear.y.shape)

    def on_outputs(self, tensors: Sequence[Shaped[Tensor, ...]]) -> None:
        """Note which module returned each tensor that may be weights; the innermost one counts."""
        if self.recording is not None:
            for t in tensors[1:]:
                if t.dim() == 4:
                    self._makers.setdefault(t.untyped_storage().data_ptr(), (t, self.frame.path))

    def maker(self, t: Shaped[Tensor, ...]) -> str:
        """Return the path of the module that made a tensor; empty if none did."""
        return self._makers.get(t.untyped_storage().data_ptr(), (None, ""))[1]

    def tap(self, taps: Sequence[Tap], tensors: Sequence[Shaped[Tensor, ...]]) -> Tensor | None:
        """Edit and record the first of these tensors; return its replacement, or None."""
        if not tensors or not (self.recording is not None or self.edits_activations):
            return None
        tensor = tensors[0]
        value = before = self._by_row(tensor)
        stream = self.context.kind(self.frame).query_stream
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
        """Return a tensor by rows of the batch, where all tokens are in one axis."""
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
        kind, n = self.context.kind(self.frame), self.context.n_query
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

    def tokens(self, kind: SiteKind, n_key: int) -> tuple[int, int]:
        """Return the number of queries and keys; `n_key` if the stream's is not known."""
        lengths = self.context.provenance and self.context.provenance.lengths(kind)
        return lengths or (self.context.n_query, self.context.n_key.get(kind.key_stream, n_key))

    def has_lengths(
        self, query: Float[Tensor, "*lead query d_head"], key: Float[Tensor, "*lead key d_head"]
    ) -> bool:
        """Return True if there are as many queries and keys as the run has tokens."""
        return {query.shape[-2], key.shape[-2]} <= self.lengths

    def _misfit(self, kind: SiteKind, n_query: int, n_key: int) -> str:
        """Return why this attention does not fit the tokens of its streams; empty if it fits."""
        tokens = self.tokens(kind, n_key)
        if (n_query, n_key) == tokens:
            return ""
        return f"it asks for {n_query} × {n_key} cells, where the run has {tokens[0]} × {tokens[1]} tokens"

    def _explanation(self, call: AttentionCall, kind: SiteKind) -> MaskExplanation:
        """Return the mask's layers, computed once for all attentions that share it."""
        mask, n_query, n_key = call.attn_mask, call.q.shape[2], call.k.shape[2]
        about = (
            (mask.data_ptr(), mask.shape, mask.stride(), mask.dtype)
            if mask is not None
            else (call.is_causal,)
        )
        key = (*about, n_query, n_key, kind.name)
        if key not in self.masks:
            padding = self.context.padding.get(kind.key_stream)
            explanation = explain_mask(mask, call.is_causal, n_query, n_key, padding, call.q.device)
            if kind.query_stream != kind.key_stream:
                explanation.mask.start = self.context.start
            self.masks[key] = (
                mask,
                explanation,
            )  # the tensor too, so that its memory is not reused
        return self.masks[key][1]

    def record_site(
        self,
        recording: Recording,
        call: AttentionCall,
        explanation: MaskExplanation,
        frame: ModuleCall,
        kind: SiteKind,
        number: int,
        name: str,
        out: Shaped[Tensor, ...],
        edits: Edits,
    ) -> AttentionSite:
        """Store one attention in the recording, with projections if q, k and v are products."""
        call = self._unscaled(call)
        q, n_heads, groups = call.q, call.q.shape[1], self.context.groups
        k, v = undo_gqa_repeat(call.k, groups, n_heads), undo_gqa_repeat(call.v, groups, n_heads)
        of_q, of_k, of_v = call.origins or [self.linears.origin(t) for t in (q, k, v)]
        x = self.linears.source(of_q, q, frame.inputs)
        reads_itself = of_v is None and kind.query_stream == kind.key_stream
        # with a cache the new positions only
        memory = x if reads_itself else self.linears.source(of_v, v, frame.inputs)
        origins = {"W_Q": of_q, "W_K": of_k, "W_V": of_v} if k.shape[1] == n_heads else {}
        projections = {name: (o.weight, o.bias) for name, o in origins.items() if o is not None}
        site = AttentionSite(
            name,
            kind,
            x,
            memory,
            defer_projection(of_q, q),
            defer_projection(of_k, k),
            defer_projection(of_v, v),
            out.detach().clone(),  # a copy: the model may change it
            explanation.mask,
            call.similarity or of_scale(call.scale, q.shape[-1]),
            projections if len(projections) == 3 else {},
            terms=explanation.terms,
            number=number,
            dtype=q.dtype if q.dtype.itemsize <= v.dtype.itemsize else v.dtype,
            edits=edits,
        )
        # its projections are complete with W_O, which comes next
        recording.attention[name] = replace(site, projections={})
        if call.output is not None:
            self._with_output(recording, site, *call.output)
        return site

    def _unscaled(self, call: AttentionCall) -> AttentionCall:
        """Return a call with the products that its q, k and v are copies of, if they are copies.

        If q was multiplied by a number before the call, which then has no scale of its own, that
        number becomes the scale (Whisper).
        """
        if call.scale != 1 or call.origins or call.similarity is not None:
            return call
        scaled = [self.linears.scaled_copy(t) for t in (call.q, call.k, call.v)]
        copies = [one for one in scaled if one is not None]
        if len(copies) < len(scaled) or any(one.factor != 1 for one in copies[1:]):
            return call
        q, k, v = (one.part.detach() for one in copies)
        origins = tuple(one.origin for one in copies)
        return replace(call, q=q, k=k, v=v, scale=copies[0].factor, origins=origins)

    @staticmethod
    def _with_output(
        recording: Recording,
        site: AttentionSite,
        weight: Float[Tensor, "d_out d_in"],
        bias: Float[Tensor, " d_out"] | None,
        attn_out: Float[Tensor, "batch query d_out"] | None = None,
    ) -> None:
        """Record the W_O of an attention, and its output, if given as `attn_out` or else lazily."""
        if site.projections:
            projections = {**site.projections, "W_O": (weight, bias)}
            recording.attention[site.name] = replace(site, projections=projections)
        elif (recorded := recording.attention.get(site.name)) is not None:
            recording.attention[site.name] = replace(recorded, W_O=(weight, bias))
        lazy = LazyLinear(site.out.transpose(1, 2).flatten(2), weight, bias)
        value, formula = lazy if attn_out is None else attn_out, "Concat(head_out)·W_O"
        recording.tap(site.name, "attn_out", value, site.query_stream, "d_model", formula)
