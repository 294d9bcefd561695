"""One forward pass under watch: what of its attentions and of its layers goes into the recording, and under which masks it runs.

The q, k, v, mask and scale that attention is called with are the causes that `models.trace` keeps. Masks are changed at the same
place, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from models.hub.call import Call
from models.hub.deferred_projections import deferred, one_each, source, with_projections
from models.hub.masks import Explanation, as_attn_mask, explain
from models.hub.places import Frame, Places
from models.hub.projections import Linear, Linears, reads_joined, same_memory
from models.hub.taps import Tap
from models.layers.masks import Mask, SiteKind
from models.layers.similarity import masked_softmax, of_scale
from models.trace import AttentionSite, Recording, current
from models.trace.attend import attend
from models.trace.deferred import Product
from models.trace.edits import Edits
from models.trace.recorder import LARGEST_KEPT, free_name
from models.trace.site import per_head


class Pass:
    """One forward pass under watch."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.frames: list[Frame] = []
        self.recording: Recording | None = current()
        self.linears = Linears()
        self.calls: dict[str, int] = {}  # name of a kind → how many attentions of it there were
        self.masks: dict[tuple, tuple[Tensor | None, Explanation]] = {}
        self.names: set[str] = set()  # paths at which there was an attention
        self.open_site: AttentionSite | None = None  # the last attention, whose W_O may come next
        self.position_table: Tensor | None = (
            None  # the vectors of places, from the first one that a text stands at
        )
        self._makers: dict[int, tuple[Tensor, str]] = {}

    def attend(self, call: Call, run: Callable[[Tensor | None, bool], Tensor]) -> Tensor:
        """One attention; `run` makes the call with a mask. Its result is untouched unless an edit changes its mask."""
        frame, q = self.frame, call.q
        n_query, n_key = q.shape[2], call.k.shape[2]
        kind = self._kind(frame, n_query, n_key)
        if isinstance(kind, str):
            self.pass_over(kind)
            return run(call.attn_mask, call.is_causal)
        if misfit := self._misfit(kind, n_query, n_key):
            self.pass_over(misfit)
            return run(call.attn_mask, call.is_causal)
        number = self.calls[kind.name] = self.calls.get(kind.name, -1) + 1
        explanation = self._explanation(call, kind)
        terms, name = explanation.terms, self._name(frame.path)

        def kernel(mask: Mask) -> Tensor:
            if mask is explanation.mask:
                return run(call.attn_mask, call.is_causal)
            return run(as_attn_mask(mask, terms, n_query, n_key, q.dtype), False)

        def record(recording: Recording, out: Tensor, mask: Mask, edits: Edits) -> None:
            self._record(call, Explanation(mask, terms), frame, kind, number, name, out, edits)

        return attend(
            kind, name, q, call.k, call.v, explanation.mask,
            kernel=kernel,
            weights=lambda mask: weights_of(call, Explanation(mask, terms)),
            record=record,
            number=number,
        )  # fmt: skip

    def _kind(self, frame: Frame, n_query: int, n_key: int) -> SiteKind | str:
        """The kind of an attention, or the reason why it is of none."""
        if self.places.provenance is None:
            return self.places.kind(frame)
        return self.places.provenance.kind(n_query, n_key)

    def _name(self, path: str) -> str:
        """The path of the module at work; with a number where it attends more than once."""
        recorded = () if self.recording is None else self.recording.attention
        name = free_name(path, self.names.union(recorded))
        self.names.add(name)
        return name

    @property
    def frame(self) -> Frame:
        """The module at work."""
        return self.frames[-1] if self.frames else Frame("attention", ())

    def pass_over(self, reason: str) -> None:
        """Give the reason why an attention of the module at work is not recorded."""
        if self.recording is not None:
            self.recording.unrecorded[self.frame.path] = reason

    def note_product(self, linear: Linear) -> None:
        """A product with a matrix: perhaps the W_O of the attention before it."""
        self.linears.add(linear)
        if (site := self.open_site) is None:
            return
        self.open_site = None
        if reads_joined(linear, site.out):
            self._with_output(
                site, linear.weight.detach(), None if linear.bias is None else linear.bias.detach()
            )

    def note_outputs(self, tensors: Sequence[Tensor]) -> None:
        """The module at work has made these; of those that look like weights the innermost that made them is known later."""
        if self.recording is not None:
            for t in tensors[1:]:
                if t.dim() == 4:
                    self._makers.setdefault(t.untyped_storage().data_ptr(), (t, self.frame.path))

    def maker(self, t: Tensor) -> str:
        """The path of the module that made this; empty where none did."""
        return self._makers.get(t.untyped_storage().data_ptr(), (None, ""))[1]

    def tap(self, taps: Sequence[Tap], tensors: Sequence[Tensor]) -> None:
        """Record the first of these tensors under each name."""
        if self.recording is None or not tensors or not taps:
            return
        value = (
            tensors[0]
            if tensors[0].dim() > 2
            else tensors[0].unflatten(0, (-1, self.places.n_query))
        )
        for tap in taps:
            if tap.name not in self.recording.activations and (
                not tap.largest or value.numel() <= tap.largest
            ):
                stream = self.places.kind(self.frame).query_stream
                kept = value if tap.make is None else tap.make(value)
                self.recording.tap("", tap.name, kept, stream, tap.feature, tap.formula)

    def note_lookup(self, ids: Tensor, table: Tensor, vectors: Tensor) -> None:
        """Vectors taken from a table: those of the tokens, or of places that follow each other, one for each token."""
        kind, n = self.places.kind(self.frame), self.places.n_query
        if self.places.provenance is not None and self.places.provenance.lengths(kind):
            return  # of several texts, nothing says whose these are
        if ids.shape[-1:] != (n,) or vectors.dim() not in (2, 3) or self.recording is None:
            return
        vectors = vectors if vectors.dim() == 3 else vectors[None]
        if self._is_token_table(table):
            if vectors.numel() > 4 * LARGEST_KEPT:  # the layers' streams begin with it
                return
            name, formula = "embedding", "embedding(token)"
        else:
            first = ids.reshape(-1, n)[:1]
            if n < 2 or not torch.equal(first, first[:, :1] + torch.arange(n, device=ids.device)):
                return
            name, formula, place = "position", "position vectors, looked up", int(first[0, 0])
            self.position_table = table.detach()[place - self.places.start :]
            vectors = table[place : place + n][None]  # the same numbers, which lie there anyway
        if f"{kind.stack}.{name}" not in self.recording.activations:
            self.recording.tap(kind.stack, name, vectors, kind.query_stream, "d_model", formula)

    def _is_token_table(self, table: Tensor) -> bool:
        own = self.places.token_table
        return own is not None and same_memory(own, table)

    def tokens(self, kind: SiteKind, n_key: int) -> tuple[int, int]:
        """Return how many queries and keys an attention of this kind has; `n_key` where its stream is not known."""
        own = self.places.provenance and self.places.provenance.lengths(kind)
        return own or (self.places.n_query, self.places.n_key.get(kind.key_stream, n_key))

    def _misfit(self, kind: SiteKind, n_query: int, n_key: int) -> str:
        """Return why this attention has no place on the tokens of its streams; empty if it has one."""
        tokens = self.tokens(kind, n_key)
        if (n_query, n_key) == tokens:
            return ""
        return f"it asks for {n_query} × {n_key} cells, where the run has {tokens[0]} × {tokens[1]} tokens"

    def _explanation(self, call: Call, kind: SiteKind) -> Explanation:
        """The mask's layers, worked out once for all attentions that share it."""
        mask, n_query, n_key = call.attn_mask, call.q.shape[2], call.k.shape[2]
        about = (
            (mask.data_ptr(), mask.shape, mask.stride(), mask.dtype)
            if mask is not None
            else (call.is_causal,)
        )
        key = (*about, n_query, n_key, kind.name)
        if key not in self.masks:
            padding = self.places.padding.get(kind.key_stream)
            explanation = explain(mask, call.is_causal, n_query, n_key, padding, call.q.device)
            if kind.query_stream != kind.key_stream:
                explanation.mask.start = self.places.start
            self.masks[key] = (
                mask,
                explanation,
            )  # the tensor too, so that no other gets its memory
        return self.masks[key][1]

    def _record(
        self,
        call: Call,
        explanation: Explanation,
        frame: Frame,
        kind: SiteKind,
        number: int,
        name: str,
        out: Tensor,
        edits: Edits,
    ) -> None:
        q, n_heads, groups = call.q, call.q.shape[1], self.places.groups
        k, v = one_each(call.k, groups, n_heads), one_each(call.v, groups, n_heads)
        origins = call.origins or tuple(self.linears.origin(t) for t in (q, k, v))
        x = source(origins[0], q, frame)
        reads_itself = origins[2] is None and kind.query_stream == kind.key_stream
        memory = (
            x if reads_itself else source(origins[2], v, frame)
        )  # with a cache the new positions only
        whole = all(origins) and k.shape[1] == n_heads
        site = AttentionSite(
            name,
            kind,
            x,
            memory,
            *(deferred(origin, t) for origin, t in zip(origins, (q, k, v), strict=True)),
            out.detach(),
            explanation.mask,
            of_scale(call.scale, q.shape[-1]),
            {f"W_{part}": (o.weight, o.bias) for part, o in zip("QKV", origins, strict=True)}
            if whole
            else {},
            terms=explanation.terms,
            number=number,
            dtype=q.dtype,
            edits=edits,
        )
        self.recording.attention[name] = with_projections(
            site, {}
        )  # they are complete with W_O, which comes next
        if call.output is not None:
            self._with_output(site, *call.output)
        else:
            self.open_site = site

    def _with_output(self, site: AttentionSite, weight: Tensor, bias: Tensor | None) -> None:
        """The attention with its W_O, and what that makes."""
        if site.projections:
            self.recording.attention[site.name] = with_projections(
                site, site.projections | {"W_O": (weight, bias)}
            )
        attn_out = Product(site.out.transpose(1, 2).flatten(2), weight, bias)
        self.recording.tap(
            site.name, "attn_out", attn_out, site.query_stream, "d_model", "Concat(head_out)·W_O"
        )


def weights_of(call: Call, explanation: Explanation) -> Float[Tensor, "batch head query key"]:
    """The weights of a call by the readable route, in its own dtype."""
    q, k = call.q.float(), per_head(call.k.float(), call.q.shape[1], 1)
    scores, (n_query, n_key) = of_scale(call.scale, q.shape[-1])(q, k), (q.shape[2], k.shape[2])
    if explanation.terms:
        queries = torch.arange(n_query) + (n_key - n_query)
        added = [
            sum(term.scores(None, queries, n_key, row) for term in explanation.terms)
            for row in range(len(q))
        ]
        scores = scores + torch.stack(added)
    return masked_softmax(scores, explanation.mask.allowed).to(call.q.dtype)
