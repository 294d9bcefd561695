"""Record attention whose scores are unknown: its weights alone, and the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from models.hub.recording.by_hand.roles import WeightedSum
from models.hub.recording.given_weights import as_site, unlike_weights

if TYPE_CHECKING:
    from models.hub.recording.forward_pass import ForwardPass


def record_given(forward_pass: ForwardPass, weighted_sum: WeightedSum, reason: str) -> str:
    """Record the weights of a sum; return why they are not recorded, empty if they are.

    They are known to weigh tokens only if the values are a product x·W with a row for each token.
    """
    weights = weighted_sum.by_head(weighted_sum.weights.value, weighted_sum.weights.layout)
    values = weighted_sum.values_by_head()
    if weights is None or values is None or forward_pass.context.returns_weights:
        return reason
    n_query, n_key = weights.shape[2:]
    copy = forward_pass.linears.scaled_copy(values)
    if copy is None or copy.origin.x.shape[1] != n_key:
        return f"{reason}, so it is unknown whether it weighs tokens"
    place = forward_pass.place(n_query, n_key, (weighted_sum.softmax.args[0], weighted_sum.values))
    if isinstance(place, str):
        return place
    if reason_against := unlike_weights(weights):
        return reason_against
    if place.is_edited:
        forward_pass.unreached[place.name] = (
            f"no change reaches {place.title}, whose weights alone are known: {reason}"
        )
    if forward_pass.recording is not None:
        forward_pass.values_by_site[place.name] = values
        site = as_site(place.name, place.kind, place.number, weights.detach().clone(), forward_pass)
        forward_pass.recording.attention[place.name] = replace(site, why_given=reason)
    return ""
