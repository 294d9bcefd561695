"""Record the attentions and layers of one watched forward pass, under the edits in force.

The q, k, v, mask and scale that attention is called with are the causes that `models.trace` keeps.
Masks and head outputs are edited where attention is called; other intermediates are edited where a
module takes or returns them (`watch.Marks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxtyping import Float, Shaped
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
    module_at_work,
)
from models.hub.recording.intermediates import Intermediates
from models.hub.recording.layer_count import LayerCount
from models.hub.recording.masks import MaskExplanation, as_attn_mask, call_weights, explain_mask
from models.hub.recording.projections import (
    Linear,
    Linears,
    reads_joined,
    versions_of,
)
from models.hub.recording.sites import SitePlace, SiteRecorder, record_output
from models.layers.masks import Mask, SiteKind
from models.trace import AttentionSite, Recording, current
from models.trace.attend import attend
from models.trace.edits import Edits
from models.trace.edits.active import active
from models.trace.edits.base import WHOLE_MODULE
from models.trace.recorder import free_name

NESTED = "its tokens are in a nested tensor, whose cells cannot be read"


class ForwardPass:
    """Record the attentions and layers of one watched forward pass, under the edits in force."""

    def __init__(self, context: PassContext) -> None:
        self.context = context
        # of the model whose pass this is; None: the hooks of any model count
        self.model_number = None if context.taps is None else context.taps.number
        self.frames: list[ModuleCall] = []
        self.recording: Recording | None = current()
        self.linears = Linears()
        self.layer_count = LayerCount(context.layers)
        self.masks: dict[tuple, tuple[Tensor | None, MaskExplanation]] = {}
        # paths at which there was an attention
        self.names: set[str] = set() if context.names is None else context.names
        self.last_attention: AttentionOutput | None = (
            None  # until the next product, which may be its W_O
        )
        self.edits = active()
        self.is_followed = self.recording is not None or self.edits is not None
        self.intermediates = Intermediates(context, self.frames, self.recording, self.edits)
        self.sites = SiteRecorder(self.linears, context.groups)
        self.by_functions = False  # see watch.watching
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
        place = self._place_of(call)
        if isinstance(place, str):
            self.skip(place)
            return run(call.attn_mask, call.is_causal)
        q, kind, name = call.q, place.kind, place.name
        explanation = self._explanation(call, kind)
        terms = explanation.terms

        sites: list[AttentionSite] = []

        def kernel(mask: Mask) -> Tensor:
            if mask is explanation.mask:
                return run(call.attn_mask, call.is_causal)
            return run(as_attn_mask(mask, terms, q.shape[2], call.k.shape[2], q.dtype), False)

        def record(recording: Recording, out: Tensor, mask: Mask, edits: Edits) -> None:
            explained = MaskExplanation(mask, terms)
            sites.append(self.sites.record(recording, call, explained, place, out, edits))

        head_out = attend(
            kind, name, q, call.k, call.v, explanation.mask,
            kernel=kernel,
            weights=lambda mask: call_weights(call, MaskExplanation(mask, terms)),
            record=record,
            number=place.number,
            take_weights=take_weights,
        )  # fmt: skip
        if call.output is None:
            site = sites[0] if sites else None
            out = head_out.detach()
            if (versions := versions_of(out)) is None:
                out = out.clone()
            self.last_attention = AttentionOutput(name, kind.query_stream, out, site, versions)
        return head_out

    def _place_of(self, call: AttentionCall) -> SitePlace | str:
        """Return the place of a call, or why it is not recorded."""
        q, n_rows = call.q, self.context.n_rows
        if q.is_nested:
            return NESTED
        if q.shape[0] > n_rows and self.has_lengths(q, call.k):
            return (
                f"its batch has {len(q)} rows, where the run has {n_rows} text{'s' * (n_rows > 1)}"
            )
        return self.place(q.shape[2], call.k.shape[2])

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
        return module_at_work(self.frames)

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
        before = linear.y.reshape(batch, n_query, -1)
        name = f"{last.name}.attn_out" if last.name else "attn_out"
        self.intermediates.outputs.add(name)
        after = self.intermediates.edited(name, before, last.stream)
        if self.recording is not None and last.site is not None:
            bias = None if linear.bias is None else linear.bias.detach()
            attn_out = after if self.intermediates.edits_activations else None
            record_output(self.recording, last.site, linear.weight.detach(), bias, attn_out)
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
