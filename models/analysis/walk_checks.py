"""Checks of each step of a head's walk against another route to the same numbers."""

import torch
from torch import Tensor

from models.analysis.checks import Check, rounding_in
from models.analysis.head_sum import head_sum
from models.analysis.head_walk import Walk, head_projection, head_walk
from models.trace import AttentionSite, Trace


def check_walk(trace: Trace, site: AttentionSite, query: int, head: int) -> list[Check]:
    """Check each step of the walk against another route to the same numbers.

    Limits are as in models.analysis.checks: 1e-5 of the size of what is summed, more in half
    precision.
    """
    w = head_walk(site, query, head)
    terms = torch.cat([w.comparison.terms, *(term.products for term in w.named_terms)], -1)
    score = " + ".join([site.similarity.formula, *(term.name for term in w.named_terms)])
    within = [
        _check(
            "the terms add up to the score",
            terms.sum(-1) - w.scores,
            terms.abs().sum(-1),
            f"Largest difference of their sum from the score {score}, over all keys of this query",
        ),
        _check(
            "weights are shares",
            (w.weights.sum() - w.allowed.any().float())[None],
            w.weights,
            "Difference of the weights' sum from 1 (from 0 where the mask leaves no key)",
        ),
        _check(
            "b is what the model used",
            w.b - site.out[0, head, query],
            w.v,
            f"Largest difference of Σ weight·v{', as edited,' if site.edits else ''} from the forward pass's own attention output",
            site.dtype,
        ),
    ]
    return (
        [*_check_projections(trace, site, w), *within]
        if site.projections
        else [*_check_states(trace, site), *within]
    )


def _check_projections(trace: Trace, site: AttentionSite, w: Walk) -> list[Check]:
    """Check the projections to q, k and v, and the sum of the heads."""
    heads_of_query = head_sum(trace, site, w.query)
    differences = torch.cat(
        [
            _project(site, "W_Q", w.head, w.a) - w.q,
            *(
                (_project(site, name, w.head, w.memory) - recorded).flatten()
                for name, recorded in (("W_K", w.k), ("W_V", w.v))
            ),
        ]
    )
    attn_out = trace.activations[f"{site.name}.attn_out"].value[0, w.query]
    return [
        _check(
            "projections give q, k and v",
            differences,
            torch.cat([w.q, w.k.flatten(), w.v.flatten()]),
            "Largest difference of W·a + bias from the q, k and v recorded in the run",
            site.dtype,
        ),
        _check(
            "the heads add up",
            heads_of_query.total - attn_out,
            heads_of_query.added.abs().sum(0),
            "Largest difference of Σ b·W_O + bias from the sublayer's recorded output",
            site.dtype,
        ),
    ]


def _check_states(trace: Trace, site: AttentionSite) -> list[Check]:
    """Check that an alignment's queries and keys are the decoder's and encoder's states."""
    before, states = site.q[0, 0, 1:], trace.activations["decoder.states"].value[0, :-1]
    recorded = trace.activations["encoder.states"].value[0]
    return [
        _check(
            "queries are the states before",
            before - states,
            states,
            "Largest difference of query i from the decoder's state s(i−1), for i ≥ 2",
        ),
        _check(
            "keys and values are the h_j",
            torch.cat([site.k[0, 0] - recorded, site.v[0, 0] - recorded]),
            recorded,
            "Largest difference from the encoder's recorded states",
        ),
    ]


def _check(
    name: str, difference: Tensor, size: Tensor, sentence: str, dtype: torch.dtype = torch.float32
) -> Check:
    largest, of = (float(t.abs().max()) if t.numel() else 0.0 for t in (difference, size))
    return Check(name, largest, rounding_in(dtype) * max(1.0, of), sentence)


def _project(site: AttentionSite, name: str, head: int, x: Tensor) -> Tensor:
    weight, bias = head_projection(site, name, head)
    return x @ weight if bias is None else x @ weight + bias
