"""Attention written by hand, computed under the edits in force and recorded by its causes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from models.hub.recording.by_hand.axes import (
    AtomAxis,
    AxisOrder,
    arrange_axes,
    place_axes,
    resolve_axis,
)
from models.hub.recording.by_hand.explained import ExplainedScores
from models.hub.recording.by_hand.followed import ScoreProduct
from models.hub.recording.by_hand.heads import FollowedHead
from models.hub.recording.by_hand.products import Labels
from models.hub.recording.by_hand.roles import WeightedSum
from models.hub.recording.context import AttentionCall, rebuild
from models.hub.recording.masks import LOWEST, MaskExplanation, layers, sum_of_terms, term_of
from models.hub.recording.projections import Copy, Linears, Origin
from models.hub.recording.sites import SitePlace
from models.layers.masks import Mask, MaskLayer
from models.layers.similarity import AttentionSimilarity, capped_dot, of_scale
from models.trace import AttentionSite, Recording
from models.trace.attend import attend
from models.trace.edits import Edits
from models.trace.terms import ScoreTerm

if TYPE_CHECKING:
    from models.hub.recording.forward_pass import ForwardPass

# weights of one attention that are kept as the module computed them (4 MB)
MAX_GIVEN_WEIGHTS = 2**20
By4 = Float[Tensor, "batch head query key"]
_Side = tuple[Tensor, AxisOrder, Labels]  # an argument of a product, its axes and their labels


@dataclass(frozen=True)
class Causes:
    """q, k and v by head, their similarity, and the measured scores and weights."""

    q: Float[Tensor, "batch head query d_head"]
    k: Float[Tensor, "batch key_head key d_head"]
    v: Float[Tensor, "batch key_head key d_v"]
    similarity: AttentionSimilarity
    measured: ExplainedScores
    softmaxed: By4
    origins: tuple[Origin | None, ...]  # of q, k and v
    queries: Tensor  # as arguments of the module's product
    keys: Tensor


def causes_of(
    weighted_sum: WeightedSum, measured: ExplainedScores, linears: Linears
) -> Causes | str:
    """Return the causes of the weights, or the reason why they are unknown."""
    scores = weighted_sum.softmax.scores
    if scores is None or not isinstance(root := scores.root, ScoreProduct):
        return "its scores are not followed"
    roles = weighted_sum.roles
    if (sides := _query_and_key_sides(root, roles.key)) is None:
        return "its product is not of queries and keys: both sides have the axis of the keys"
    queries, keys = sides
    inner = tuple(a for label in root.product.summed for a in resolve_axis(_axis(keys, label)))
    q = arrange_axes(queries[0], queries[1], (roles.batch, roles.head, roles.query, inner))
    k = arrange_axes(keys[0], keys[1], (roles.batch, roles.head, roles.key, inner))
    v, softmaxed = (
        weighted_sum.values_by_head(),
        weighted_sum.by_head(weighted_sum.softmax.raw(), weighted_sum.softmax.layout),
    )
    if q is None or k is None or v is None or softmaxed is None:
        return "its queries, keys or values have an axis besides texts, heads, tokens and features"
    n_rows, n_heads = softmaxed.shape[:2]
    q = q.expand(n_rows, n_heads, *q.shape[2:])
    k, v = (t.expand(n_rows, *t.shape[1:]) for t in (k, v))
    copies = [linears.scaled_copy(t) for t in (q, k, v)]
    is_known = not roles.is_assumed or copies[0] is not None or copies[2] is not None
    if not is_known and not any(linears.makes_rows(t) for t in (q, v)):
        return "the order of texts and heads on an axis of its weights is unknown"
    varies = measured.factor.numel() > 1, measured.factor.shape[3] > 1
    q, k, similarity = _scale(q, k, measured, copies)
    if (factor := _head_factor(weighted_sum, softmaxed)) is None:
        return "its weights are changed between the softmax and the values"
    is_unchanged = factor.numel() == 1 and float(factor) == 1
    v = v if is_unchanged else v.expand(-1, n_heads, -1, -1) * factor
    is_no_product = (varies == (True, False), varies == (True, True), not is_unchanged)
    origins = tuple(
        None if copy is None or changed else copy.origin
        for copy, changed in zip(copies, is_no_product, strict=True)
    )
    return Causes(q, k, v, similarity, measured, softmaxed, origins, queries[0], keys[0])


def _query_and_key_sides(root: ScoreProduct, key_atoms: AtomAxis) -> tuple[_Side, _Side] | None:
    """Return the side of the queries and that of the keys; None if both have the keys' axis."""
    has_key = [
        any(a in key_atoms for axis in side for a in resolve_axis(axis))
        for side in (root.of_a, root.of_b)
    ]
    if all(has_key):
        return None
    product = root.product
    a, b = (product.a, root.of_a, product.of_a), (product.b, root.of_b, product.of_b)
    return (b, a) if has_key[0] else (a, b)  # without the axis there is a single key, taken as b


def _axis(side: _Side, label: int) -> Any:
    _, layout, labels = side
    return layout[labels.index(label)]


def _scale(
    q: Tensor, k: Tensor, measured: ExplainedScores, copies: list[Copy | None]
) -> tuple[Tensor, Tensor, AttentionSimilarity]:
    """Return q, k and their similarity.

    A number that multiplies the model's products q or k goes into the similarity's scale; a factor
    that varies goes into q or k, whichever it varies with.
    """
    factor = measured.factor
    if factor.numel() == 1:
        q, k, factor = _unscale(q, k, factor, copies)
    if factor.numel() > 1 and factor.shape[3] == 1:
        q, factor = q * factor, None
    elif factor.numel() > 1:
        k, factor = k.expand(-1, factor.shape[1], -1, -1) * factor.transpose(2, 3), None
    scale = 1.0 if factor is None else float(factor)
    if measured.cap is not None:
        return q, k, capped_dot(scale, measured.cap)
    usual, dtype = q.shape[-1] ** -0.5, measured.raw.dtype
    if dtype.itemsize < 4 and math.isclose(scale, usual, rel_tol=torch.finfo(dtype).eps):
        scale = usual  # the module's divisor before rounding
    return q, k, of_scale(scale, q.shape[-1])


def _unscale(
    q: Tensor, k: Tensor, factor: Tensor, copies: list[Copy | None]
) -> tuple[Tensor, Tensor, Tensor]:
    for i, copy in enumerate(copies[:2]):
        if copy is not None and copy.factor != 1:
            q, k = (copy.part, k) if i == 0 else (q, copy.part)
            factor = factor * copy.factor
    return q, k, factor


def _head_factor(weighted_sum: WeightedSum, softmaxed: By4) -> Tensor | None:
    """Return the heads' factor after the softmax, (batch, head, 1, 1); None if it is no factor."""
    one = torch.ones(1, 1, 1, 1, dtype=softmaxed.dtype, device=softmaxed.device)
    softmax = weighted_sum.softmax
    if weighted_sum.weights.value is softmax.value and not softmax.is_overwritten:
        return one
    used = weighted_sum.by_head(weighted_sum.weights.value, weighted_sum.weights.layout)
    if used is None:
        return None
    if torch.equal(used, softmaxed.to(used.dtype)):
        return one
    total = softmaxed.float().sum((2, 3), keepdim=True)
    factor = used.float().sum((2, 3), keepdim=True) / total
    close = torch.allclose(used.float(), softmaxed.float() * factor, rtol=1e-5, atol=1e-7)
    return factor.to(softmaxed.dtype) if close else None


def attend_by_hand(
    forward_pass: ForwardPass,
    place: SitePlace,
    weighted_sum: WeightedSum,
    causes: Causes,
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Tensor:
    """Compute the weighted sum and record it; the result is untouched unless an edit changes it."""
    return _HandWritten(forward_pass, place, weighted_sum, causes, func, args, kwargs).compute()


@dataclass(eq=False)
class _HandWritten:
    """A weighted sum of a module, while it is computed under the edits in force."""

    forward_pass: ForwardPass
    place: SitePlace
    weighted_sum: WeightedSum
    causes: Causes
    func: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    site: AttentionSite | None = None  # once it is recorded
    products: list[tuple[By4, Tensor]] = field(
        default_factory=list
    )  # by head, and as it was computed

    def __post_init__(self) -> None:
        self.explained = _explanation(self.forward_pass, self.place, self.causes)

    def compute(self) -> Tensor:
        place, causes, roles = self.place, self.causes, self.weighted_sum.roles
        at = self.forward_pass.context.heads.get(place.name)
        head_out = attend(
            place.kind, place.name if at is None else at.site, causes.q, causes.k, causes.v, self.explained.mask,
            kernel=self.kernel,
            weights=lambda mask: self.softmaxed(mask)[0].to(causes.v.dtype),
            record=self.record,
            number=place.number,
            heads=None if at is None else range(at.head, at.head + 1),
        )  # fmt: skip
        x, memory = (
            self.forward_pass.linears.source(origin, t, place.frame.inputs)
            for origin, t in ((causes.origins[0], causes.q), (causes.origins[2], causes.v))
        )
        one = place.name, place.frame.path, place.kind, place.number, x, memory
        out = head_out.detach().clone() if self.site is None else self.site.out
        self.forward_pass.add_head(FollowedHead(*one, out, self.site))
        unedited, product = self.products[0]
        if head_out is unedited:
            return product
        return place_axes(
            head_out.to(product.dtype), roles.of_out, self.weighted_sum.out, product.shape
        )

    def kernel(self, mask: Mask) -> By4:
        """Return the weighted sum under this mask, by head."""
        args, kwargs = self.args, self.kwargs
        if mask is not self.explained.mask:
            old = self.weighted_sum.weights.value
            new = self.weighted_sum.weights.again(self.softmaxed(mask)[1])
            args = [_replace(arg, old, new) for arg in args]
            kwargs = {name: _replace(arg, old, new) for name, arg in kwargs.items()}
        product = self.func(*args, **kwargs)
        by_head = arrange_axes(product, self.weighted_sum.out, self.weighted_sum.roles.of_out)
        if by_head is None:
            raise RuntimeError("a weighted sum has an axis that its weights and values lack")
        self.products.append((by_head, product))
        return by_head

    def softmaxed(self, mask: Mask) -> tuple[By4, Tensor]:
        """Return the weights under this mask, by head and as the module's softmax lays them out."""
        terms = _sum_terms(self.explained.terms, self.causes)
        return _softmax(self.weighted_sum, self.causes.measured.scores(terms), mask)

    def record(self, recording: Recording, out: Tensor, mask: Mask, edits: Edits) -> None:
        causes, place, explained = self.causes, self.place, self.explained
        call = AttentionCall(
            causes.q, causes.k, causes.v, None, False, None, causes.origins, similarity=causes.similarity
        )  # fmt: skip
        explanation = MaskExplanation(mask, explained.terms)
        site = self.forward_pass.sites.record(recording, call, explanation, place, out, edits)
        if (
            mask is explained.mask
            and not edits
            and (weights := _exact_weights(causes.softmaxed)) is not None
        ):
            site = recording.attention[site.name] = replace(site, given_weights=weights)
        self.site = self.site or site


def _replace(arg: Any, old: Tensor, new: Tensor) -> Any:
    if isinstance(arg, tuple | list):
        return rebuild(arg, (_replace(part, old, new) for part in arg))
    return new if arg is old else arg


def _sum_terms(
    terms: tuple[ScoreTerm, ...], causes: Causes
) -> Float[Tensor, "#batch #head query key"] | None:
    """Return the sum of the terms for all scores; None without terms."""
    n_rows, _, n_query, n_key = causes.softmaxed.shape
    queries = torch.arange(n_key - n_query, n_key)
    return sum_of_terms(terms, queries, n_key, n_rows).to(causes.q.device) if terms else None


def _softmax(weighted_sum: WeightedSum, scores: By4, mask: Mask) -> tuple[By4, Tensor]:
    """Return the weights under another mask, by head and as the module's softmax lays them out."""
    softmax = weighted_sum.softmax
    if (allowed := mask.allowed) is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    placed = place_axes(scores, weighted_sum.roles.of_weights, softmax.layout, softmax.value.shape)
    weights = softmax.of(placed.to(softmax.args[0].dtype))  # a term may be more precise
    if allowed is not None:  # softmax of a row without an open key is NaN
        closed = ~allowed.any(-1, keepdim=True).expand(*scores.shape[:3], 1).expand_as(scores)
        own_closed = place_axes(
            closed, weighted_sum.roles.of_weights, softmax.layout, softmax.value.shape
        )
        weights = weights.masked_fill(own_closed, 0.0)
    by_head = weighted_sum.by_head(weights, softmax.layout)
    if by_head is None:
        raise RuntimeError("weights have lost an axis")
    return by_head, weights


def _explanation(forward_pass: ForwardPass, place: SitePlace, causes: Causes) -> MaskExplanation:
    """Return the named layers of the module's mask, and the terms it adds to open scores.

    A row that finite numbers block everywhere counts as open: its weights are not 0.
    """
    measured, n_query = causes.measured, causes.q.shape[2]
    allowed = measured.open | (causes.softmaxed > 0)
    added = measured.added
    if not torch.equal(allowed, measured.open):
        free = measured.factor * measured.raw
        added = torch.where(allowed & ~measured.open, measured.masked - free, added)
    kind, context = place.kind, forward_pass.context
    padding = context.padding.get(kind.key_stream)
    between = kind.query_stream != kind.key_stream
    start = context.start if between else max(0, causes.k.shape[2] - n_query)
    queries = context.padding.get(kind.query_stream) if between else padding
    named = None
    if queries is not None:
        opened = allowed & ~measured.open
        if not (opened & queries[:, None, -n_query:, None]).any():
            named = [  # all layers leave open what a query of padding reads
                MaskLayer(layer.name, layer.allowed | _narrow(opened))
                for layer in layers(_narrow(measured.open), padding, n_query)
            ]
    if named is None:
        named = layers(_narrow(allowed), padding, n_query)
    return MaskExplanation(Mask(named, start), _terms(added.float(), allowed))


def _narrow(t: Tensor) -> Tensor:
    """Return a tensor with an axis of size 1 for texts and heads that are all alike."""
    for axis in (0, 1):
        first = t.narrow(axis, 0, 1)
        t = first if torch.equal(t, first.expand_as(t)) else t
    return t


def _terms(added: Float[Tensor, "batch head query key"], allowed: Tensor) -> tuple:
    """Return the terms added to the open scores; none for row constants, which softmax ignores.

    Constants below LOWEST do count: they swallow the scores.
    """
    least = added.masked_fill(~allowed, torch.inf).amin(-1, keepdim=True)
    most = added.masked_fill(~allowed, -torch.inf).amax(-1, keepdim=True)
    if bool(((least >= most) & (least > LOWEST)).all()):
        return ()
    added = added.masked_fill(~allowed, 0.0)
    by_key = added.masked_fill(~allowed, -torch.inf).amax(2, keepdim=True)
    if bool(((added == by_key) | ~allowed).all()):
        by_key = by_key.masked_fill(by_key == -torch.inf, 0.0)
        return (term_of(_narrow(by_key), _narrow(allowed.any(2, keepdim=True))),)
    return (term_of(_narrow(added), _narrow(allowed)),)


def _exact_weights(weights: By4) -> By4 | None:
    """Return the module's own weights if they are not too many, and exact."""
    exact = weights.dtype in (torch.float32, torch.float64)
    if not exact or weights.numel() > MAX_GIVEN_WEIGHTS or not bool(weights.isfinite().all()):
        return None
    return weights.detach().clone()  # a copy: the model may change it
