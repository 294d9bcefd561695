"""One attention head step by step: a → q, k, v → scores → weights → b → W_O, for one query.

The steps are derived from an AttentionSite by the readable route, so that a page can show each one;
walk_checks.py compares them with what the forward pass returned. Indices count from 0. In an RNN's
alignment, q is the state before the step, k and v are the encoder's states, and there is no W_O.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.analysis.score_terms import ScoreComparison, compare_scores
from models.analysis.slices import slice_with
from models.layers.similarity import masked_softmax
from models.trace import AttentionSite
from models.trace.edits import Edits

EDITED = 1e-4  # of a weight, or of the largest value; what differs by less is rounding


@dataclass(frozen=True)
class NamedTerm:
    """Contribution of a term besides the similarity to one query's scores (models.trace.terms)."""

    name: str
    products: Float[Tensor, "key d"]  # elementwise
    scores: Float[Tensor, "key"]  # what they sum to


@dataclass(frozen=True)
class Walk:
    """One query's row of one head, step by step: softmax(similarity(q, k))·v.

    Vaswani et al. 2017, eq. 1; Bahdanau et al. 2015, eqs. 4-6.
    """

    query: int
    head: int
    a: Float[Tensor, "d_query"]  # the query token's vector, input of W_Q
    memory: Float[Tensor, "key d_memory"]  # the key tokens' vectors, input of W_K and W_V
    q: Float[Tensor, "d_q"]
    k: Float[Tensor, "key d_k"]
    v: Float[Tensor, "key d_v"]
    comparison: ScoreComparison  # q and each k, elementwise
    named_terms: tuple[NamedTerm, ...]  # added to it; empty in most models
    scores: Float[Tensor, "key"]  # sum of the terms of `comparison` and the named ones, unmasked
    allowed: Bool[Tensor, "key"]
    masked: Float[Tensor, "key"]  # scores, −∞ where the mask blocks
    softmaxed: Float[Tensor, "key"]  # softmax of the masked scores
    weights: Float[Tensor, "key"]  # these, unless an edit has set others
    factors: Float[Tensor, "key"]  # of the values: the weights, unless an edit says otherwise
    parts: Float[Tensor, "key d_v"]  # factor · v
    # their sum, unless an edit has changed it: this row of head_out; an RNN's context c
    b: Float[Tensor, "d_v"]
    # the head's part of the sublayer's output, without the bias; None without W_O
    added: Float[Tensor, "d_model"] | None
    edits: Edits  # in force at this attention

    @property
    def sets_weights(self) -> bool:
        """True if an edit has set other weights than softmax gives."""
        return self._may_change("weights") and not torch.allclose(
            self.softmaxed, self.weights, atol=EDITED
        )

    @property
    def sets_factors(self) -> bool:
        """True if an edit takes more or less of a value than its weight."""
        return not torch.equal(self.factors, self.weights)

    @property
    def sets_output(self) -> bool:
        """True if an edit has changed the sum of the parts."""
        rounding = EDITED * max(1.0, float(self.v.abs().max()))
        return self._may_change("head_out") and not torch.allclose(
            self.parts.sum(0), self.b, atol=rounding
        )

    def _may_change(self, what: str) -> bool:
        return any(edit.changes(what) for edit in self.edits)

    @property
    def raw(self) -> Float[Tensor, "key"]:
        """q·k as the sum of its products, unscaled."""
        return self.comparison.elementwise.sum(-1)

    @property
    def content(self) -> Float[Tensor, "key"]:
        """Similarity of q and k as the sum of its terms: the score if no other term is added."""
        return self.comparison.terms.sum(-1)


def head_walk(site: AttentionSite, query: int, head: int, batch: int = 0) -> Walk:
    """Return the steps from one token's vector to the head's output.

    Scores, weights and b are the site's, to the last digit; check_walk verifies that the terms and
    parts add up to them.

    Raises:
        ValueError: The query or head does not exist.
    """
    check_index(query, site.n_query, "query")
    check_index(head, site.n_heads, "head")
    key_head = head // (site.n_heads // site.k.shape[1])
    q, k, v = site.q[batch, head, query], site.k[batch, key_head], site.v[batch, key_head]
    rows, place = slice_with(site, query)
    allowed = site.allowed(batch, head, rows)[place]
    scores, every_weight = site.scores(head, batch, rows)[place], site.weights(head, batch, rows)
    weights = every_weight[place]  # (key,), as scores
    factors = site.factors(every_weight, head, batch, rows)[place]
    b = site.mixed(every_weight, head, batch, rows)[place]
    return Walk(
        query,
        head,
        site.x[batch, query],
        site.memory[batch],
        q,
        k,
        v,
        compare_scores(site.similarity, q, k),
        _named_terms(site, query, head, batch),
        scores,
        allowed,
        scores.masked_fill(~allowed, -torch.inf),
        masked_softmax(scores[None], allowed[None])[0],
        weights,
        factors,
        factors[:, None] * v,
        b,
        b @ head_projection(site, "W_O", head)[0] if site.projections else None,
        site.edits,
    )


def _named_terms(site: AttentionSite, query: int, head: int, batch: int) -> tuple[NamedTerm, ...]:
    position = torch.tensor([query])
    return tuple(
        NamedTerm(
            term.name,
            term.products(head, query, site.n_key, batch),
            term.scores(head, position, site.n_key, batch)[0],
        )
        for term in site.terms
    )


def head_projection(
    site: AttentionSite, name: str, head: int
) -> tuple[Float[Tensor, "d_in d_out"], Float[Tensor, "d_bias"] | None]:
    """Return a head's own part of a projection: (weight, bias), with q = a·weight + bias.

    The shapes are (d_model, d_head) and (d_head,) for W_Q, W_K and W_V. For W_O the weight is
    (d_head, d_model), and the bias the whole one, which belongs to no head. The bias is None if the
    model has none.
    """
    weight, bias = site.projections[name]
    columns = slice(head * site.d_head, (head + 1) * site.d_head)
    if name == "W_O":
        return weight[:, columns].T, bias
    return weight[columns].T, None if bias is None else bias[columns]


def check_index(index: int, n: int, what: str) -> None:
    """Check the index of a query or a head.

    Raises:
        ValueError: It does not exist.
    """
    if not 0 <= index < n:
        raise ValueError(f"{what} must be 0 to {n - 1} at this site, not {index}")
