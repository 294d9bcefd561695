"""Record one attention of a watched pass: where it belongs, the causes of its weights, its W_O."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Float, Shaped
from torch import Tensor

from models.hub.recording.context import AttentionCall, ModuleCall
from models.hub.recording.masks import MaskExplanation
from models.hub.recording.projections import Linears, defer_projection, undo_gqa_repeat
from models.layers.masks import SiteKind
from models.layers.similarity import of_scale
from models.trace import AttentionSite, Recording
from models.trace.edits import Edits
from models.trace.edits.active import active
from models.trace.edits.base import path_or_module
from models.trace.lazy import LazyLinear
from models.trace.site import layer_of


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
        return path_or_module(self.name)

    @property
    def is_edited(self) -> bool:
        """True if an edit in force applies here."""
        edits = active()
        layer = layer_of(self.name, self.number)
        return edits is not None and bool(edits.at(self.kind.name, self.name, layer))


@dataclass(frozen=True)
class SiteRecorder:
    """Record the attentions of a pass by the products that made their q, k and v.

    `groups` is the number of query heads per key head.
    """

    linears: Linears
    groups: int

    def record(
        self,
        recording: Recording,
        call: AttentionCall,
        explanation: MaskExplanation,
        place: SitePlace,
        out: Shaped[Tensor, ...],
        edits: Edits,
    ) -> AttentionSite:
        """Store one attention in the recording, with projections if q, k and v are products."""
        kind, name, call = place.kind, place.name, self._unscale(call)
        q, n_heads, groups = call.q, call.q.shape[1], self.groups
        k, v = undo_gqa_repeat(call.k, groups, n_heads), undo_gqa_repeat(call.v, groups, n_heads)
        of_q, of_k, of_v = call.origins or [self.linears.origin(t) for t in (q, k, v)]
        x = self.linears.source(of_q, q, place.frame.inputs)
        reads_itself = of_v is None and kind.query_stream == kind.key_stream
        # with a cache the new positions only
        memory = x if reads_itself else self.linears.source(of_v, v, place.frame.inputs)
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
            number=place.number,
            dtype=q.dtype if q.dtype.itemsize <= v.dtype.itemsize else v.dtype,
            edits=edits,
        )
        # its projections are complete with W_O, which comes next
        recording.attention[name] = replace(site, projections={})
        if call.output is not None:
            record_output(recording, site, *call.output)
        return site

    def _unscale(self, call: AttentionCall) -> AttentionCall:
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


def record_output(
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
