"""One attention head taken apart: a → q, k, v → scores → weights → b → W_O, for one query, with the run's own numbers.

Everything here is derived from an AttentionSite by the readable route, one step at a time, so that a page can show each
step; walk_checks.py holds the steps against what the forward pass itself returned. Indices count from 0. An RNN's alignment
is walked likewise: its q is the state before the step, its k and v are both the encoder's states, and it has no W_O.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.analysis.score_terms import Comparison, compare
from models.analysis.slices import slice_with
from models.trace import AttentionSite


@dataclass(frozen=True)
class NamedTerm:
    """What a term of the site besides the similarity adds to one query's scores (models.trace.terms)."""

    name: str
    products: Float[Tensor, "key d"]  # number by number
    scores: Float[Tensor, "key"]  # what they sum to


@dataclass(frozen=True)
class Walk:
    """One query's row of one head, step by step: softmax(similarity(q, k))·v (Vaswani et al. 2017, eq. 1; Bahdanau et al.
    2015, eqs. 4-6)."""

    query: int
    head: int
    a: Float[Tensor, "d_query"]  # the query token's vector, what W_Q is applied to
    memory: Float[
        Tensor, "key d_memory"
    ]  # the key tokens' vectors, what W_K and W_V are applied to
    q: Float[Tensor, "d_q"]
    k: Float[Tensor, "key d_k"]
    v: Float[Tensor, "key d_v"]
    comparison: Comparison  # how q meets each k, number by number
    named_terms: tuple[NamedTerm, ...]  # what is added to that; empty in most models
    scores: Float[
        Tensor, "key"
    ]  # what the terms of `comparison` and the named ones sum to, before the mask
    allowed: Bool[Tensor, "key"]
    masked: Float[Tensor, "key"]  # scores, −∞ where the mask blocks
    weights: Float[Tensor, "key"]
    parts: Float[Tensor, "key d_v"]  # weight · v
    b: Float[Tensor, "d_v"]  # their sum, this row of head_out; an RNN's context c
    added: (
        Float[Tensor, "d_model"] | None
    )  # what the head adds to the sublayer's output, without the bias; None without W_O

    @property
    def raw(self) -> Float[Tensor, "key"]:
        """q·k as the sum of its products, before any scaling; under the scaled dot product not yet the score."""
        return self.comparison.elementwise.sum(-1)

    @property
    def content(self) -> Float[Tensor, "key"]:
        """The similarity of q and k as the sum of its terms: the score where no other term is added."""
        return self.comparison.terms.sum(-1)


def walk(site: AttentionSite, query: int, head: int, batch: int = 0) -> Walk:
    """The steps from one token's vector to what the head passes on. Scores, weights and b are the site's, to the last digit;
    that the terms and parts add up to them is for check_walk to show.

    Raises ValueError for a query or head that is not there."""
    check_index(query, site.n_query, "query")
    check_index(head, site.n_heads, "head")
    key_head = head // (site.n_heads // site.k.shape[1])
    q, k, v = site.q[batch, head, query], site.k[batch, key_head], site.v[batch, key_head]
    rows, place = slice_with(site, query)
    allowed = site.allowed(batch, head, rows)[place]
    scores, weights = (
        site.scores(head, batch, rows)[place],
        site.weights(head, batch, rows)[place],
    )  # (key,)
    b, position = site.head_out(head, batch, rows)[place], torch.tensor([query])
    named_terms = tuple(
        NamedTerm(
            term.name,
            term.products(head, query, site.n_key, batch),
            term.scores(head, position, site.n_key, batch)[0],
        )
        for term in site.terms
    )
    return Walk(
        query,
        head,
        site.x[batch, query],
        site.memory[batch],
        q,
        k,
        v,
        compare(site.similarity, q, k),
        named_terms,
        scores,
        allowed,
        scores.masked_fill(~allowed, -torch.inf),
        weights,
        weights[:, None] * v,
        b,
        b @ block(site, "W_O", head)[0] if site.projections else None,
    )


def block(site: AttentionSite, name: str, head: int) -> tuple[Tensor, Tensor | None]:
    """A head's own part of a projection: (weight, bias) with q = a·weight + bias for W_Q, W_K and W_V, of shapes
    (d_model, d_head) and (d_head,). For W_O (d_head, d_model), and the whole bias, which belongs to no head. The bias is None
    where the model has none."""
    weight, bias = site.projections[name]
    own = slice(head * site.d_head, (head + 1) * site.d_head)
    if name == "W_O":
        return weight[:, own].T, bias
    return weight[own].T, None if bias is None else bias[own]


def check_index(index: int, n: int, what: str) -> None:
    """Raises ValueError for a query or a head that is not there."""
    if not 0 <= index < n:
        raise ValueError(f"{what} {index} is not there: this site has {n}, counted from 0")
