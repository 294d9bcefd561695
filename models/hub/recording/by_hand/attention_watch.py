"""Find the torch functions that weigh values with a softmax, and record these attentions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from models.errors import IndistinctRowsError
from models.hub.recording.by_hand.attention import Causes, attend_by_hand, causes_of
from models.hub.recording.by_hand.explained import explain_scores
from models.hub.recording.by_hand.followed import (
    EXP,
    FollowedStep,
    ScoreProduct,
    Softmax,
    softmax_of,
)
from models.hub.recording.by_hand.given import record_given
from models.hub.recording.by_hand.products import PRODUCTS, Product, product_of
from models.hub.recording.by_hand.roles import UNKNOWN_ROWS, WRONG_AXIS, WeightedSum, roles_of
from models.hub.recording.by_hand.steps import Steps
from models.trace import AttentionSite

if TYPE_CHECKING:
    from models.hub.recording.forward_pass import ForwardPass

CUT = "its weights are cut or reordered between the softmax and the values"
NO_SOFTMAX = "its scores weigh the values without a softmax"
NOT_TAKEN_APART = "its scores could not be taken apart"
WEIGHTS_MIXED = "a matrix mixes its weights between the softmax and the values"
NOT_SUMMED = "no product of its weights with values could be followed"


class ByHand:
    """Attention that a watched module writes out itself."""

    def __init__(self, forward_pass: ForwardPass) -> None:
        self.forward_pass = forward_pass
        provenance = forward_pass.context.provenance
        self.steps = Steps(forward_pass.lengths, provenance, lambda: forward_pass.frame.path)

    def called(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, Tensor] | None:
        """Return the result of a weighted sum and its queries; None if the call is not one."""
        if func not in PRODUCTS or not self.steps:
            return None
        product = product_of(func, args, kwargs)
        for softmax in self.steps.cut(args):
            self.forward_pass.unshown.add(self.forward_pass.frame.path, CUT, softmax.value)
        if product is not None and self.steps.is_used(product.a, product.b):
            self._name_second_use(product)
        weights = None if product is None else self._weights(product)
        if product is None or weights is None:
            return None
        step, is_a = weights
        attention = self._roles(product, step, is_a)
        if isinstance(attention, str):
            if attention == UNKNOWN_ROWS.format(self.forward_pass.context.n_rows):
                self._check_unedited(attention)
            self._leave_out(step, attention)
            return None
        if attention.softmax.scores is not None:
            self.steps.forget(attention.softmax.scores.root)
        attended = self._attend(attention, func, args, kwargs)
        self.steps.forget(attention.softmax)
        return attended

    def name_unsummed(self) -> None:
        """Name each softmax of queries and keys that no sum has taken, unless it is shown."""
        recording = self.forward_pass.recording
        sites = [] if recording is None else list(recording.attention.values())
        for softmax in self.steps.unsummed.values():
            is_shown = any(_are_weights(softmax.raw(), site) for site in sites)
            if not is_shown:  # a module may compute the weights of a recorded function again
                self.forward_pass.unshown.add(softmax.path, NOT_SUMMED, softmax.raw())

    def _name_second_use(self, product: Product) -> None:
        """Name a product with weights that have weighed values before, which edits do not reach."""
        for t in (product.a, product.b):
            if (place := self.steps.used(t)) is None:
                continue
            reason, forward_pass = f"it uses the weights of {place.title} again", self.forward_pass
            forward_pass.unshown.add(forward_pass.frame.path, reason, t)
            if place.is_edited:
                forward_pass.unreached[place.name] = (
                    f"no change reaches all of {place.title}, whose weights are used twice"
                )

    def _weights(self, product: Product) -> tuple[FollowedStep, bool] | None:
        """Return the operand that holds weights, and whether it is the first."""
        for t, is_a in ((product.a, True), (product.b, False)):
            step = self.steps.of(t)
            if step is None:
                continue
            if isinstance(step.root, ScoreProduct):
                return self._without_softmax(product, step, is_a)
            return step, is_a
        return None

    def _without_softmax(
        self, product: Product, step: FollowedStep, is_a: bool
    ) -> tuple[FollowedStep, bool] | None:
        """Return weights that exp and a division made from scores; name those without a softmax."""
        labels = product.of_a if is_a else product.of_b
        if len(product.summed) != 1:
            return None
        dim = labels.index(product.summed[0])
        if (weights := softmax_of(step, dim)) is not None:
            return weights, is_a
        if step.value.shape[dim] not in self.forward_pass.lengths:
            return None
        provenance = self.forward_pass.context.provenance
        if self.steps.is_of_keys(step, dim) if provenance else step.before(EXP) is not None:
            self._leave_out(step, NO_SOFTMAX)
        return None

    def _roles(self, product: Product, step: FollowedStep, is_a: bool) -> WeightedSum | str:
        context, lengths = self.forward_pass.context, self.forward_pass.lengths
        attention = roles_of(product, step, is_a, context.n_rows, lengths)
        other = product.b if is_a else product.a
        if attention == WRONG_AXIS and context.provenance and not context.provenance.of(other):
            return WEIGHTS_MIXED
        return attention

    def _leave_out(self, step: FollowedStep, reason: str) -> None:
        path, is_softmax = self.forward_pass.frame.path, isinstance(step.root, Softmax)
        self.forward_pass.unshown.add(path, reason, step.value, is_softmax)
        self.steps.forget(step.root)

    def _check_unedited(self, reason: str) -> None:
        """Check that no edit is in force where texts and heads cannot be told apart.

        Raises:
            IndistinctRowsError: An edit is, so that each text has to be run alone.
        """
        if self.forward_pass.edits is not None:
            path, n = self.forward_pass.frame.path, self.forward_pass.context.n_rows
            raise IndistinctRowsError(
                f"{path or 'the module itself'} cannot be edited in a batch of {n}: {reason}"
            )

    def _causes(self, weighted_sum: WeightedSum) -> Causes | str:
        """Return the causes of the weights, or the reason why they are unknown."""
        try:
            explanation = explain_scores(weighted_sum)
            if isinstance(explanation, str):
                return explanation
            return causes_of(weighted_sum, explanation, self.forward_pass.linears)
        except Exception:  # the module's steps may fail on other numbers, or under torch.vmap
            return NOT_TAKEN_APART

    def _record_weights(self, weighted_sum: WeightedSum, reason: str) -> str:
        """Record the weights alone; return why they are not recorded, empty if they are."""
        try:
            return record_given(self.forward_pass, weighted_sum, reason)
        except Exception:  # under torch.vmap no number can be read
            return reason

    def _attend(
        self,
        weighted_sum: WeightedSum,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> tuple[Any, Tensor]:
        """Return the weighted sum; record its causes or weights, or name it as unrecorded."""
        forward_pass, used = self.forward_pass, weighted_sum.weights.value
        causes = self._causes(weighted_sum)
        queries = weighted_sum.softmax.args[0] if isinstance(causes, str) else causes.queries
        if isinstance(causes, str):
            if weighted_sum.roles.is_assumed:
                self._check_unedited(causes)
            result = func(*args, **kwargs)
            if reason := self._record_weights(weighted_sum, causes):
                self._leave_out(weighted_sum.weights, reason)
            return result, queries
        n_query, n_key = causes.softmaxed.shape[2:]
        place = forward_pass.place(n_query, n_key, (causes.queries, causes.keys))
        if isinstance(place, str):
            self._leave_out(weighted_sum.weights, place)
            return func(*args, **kwargs), queries
        at = forward_pass.context.heads.get(place.name)
        self.steps.use(weighted_sum.softmax, place if at is None else replace(place, name=at.site))
        if forward_pass.context.returns_weights:
            forward_pass.unshown.add_recorded(weighted_sum.softmax, used)
        return attend_by_hand(
            forward_pass, place, weighted_sum, causes, func, args, kwargs
        ), queries


def _are_weights(t: Tensor, site: AttentionSite) -> bool:
    """Return True if a softmax is that of a recorded attention, as it was before any edit."""
    weights = site.weights()
    if weights.numel() * len(site.out) != t.numel():
        return False
    own = t.reshape(-1, *weights.shape)[0].to(weights).nan_to_num()  # a row without open keys
    return bool(site.edits) or torch.allclose(own, weights, atol=1e-4)
