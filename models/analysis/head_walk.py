"""One attention head taken apart: a → q, k, v → scores → weights → b → W_O, for one query, with the run's own numbers.

Everything here is derived from an AttentionSite by the readable route, one step at a time, so that a page can show each
step; `check_walk` holds the steps against what the forward pass itself returned. Indices count from 0. An RNN's alignment
is walked likewise: its q is the state before the step, its k and v are both the encoder's states, and it has no W_O.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.analysis.checks import Check
from models.analysis.score_terms import Comparison, compare
from models.layers.similarity import masked_softmax
from models.trace import AttentionSite, Trace


@dataclass(frozen=True)
class NamedTerm:
    """What a term of the site besides the similarity adds to one query's scores (models.trace.terms)."""

    name: str
    products: Float[Tensor, "key d"]          # number by number
    scores: Float[Tensor, "key"]              # what they sum to


@dataclass(frozen=True)
class Walk:
    """One query's row of one head, step by step: softmax(similarity(q, k))·v (Vaswani et al. 2017, eq. 1; Bahdanau et al.
    2015, eqs. 4-6)."""

    query: int
    head: int
    a: Float[Tensor, "d_query"]               # the query token's vector, what W_Q is applied to
    memory: Float[Tensor, "key d_memory"]     # the key tokens' vectors, what W_K and W_V are applied to
    q: Float[Tensor, "d_q"]
    k: Float[Tensor, "key d_k"]
    v: Float[Tensor, "key d_v"]
    compared: Comparison                      # how q meets each k, number by number
    named: tuple[NamedTerm, ...]              # what is added to that; empty in most models
    scores: Float[Tensor, "key"]              # what the terms of `compared` and the named ones sum to, before the mask
    allowed: Bool[Tensor, "key"]
    masked: Float[Tensor, "key"]              # scores, −∞ where the mask blocks
    weights: Float[Tensor, "key"]
    parts: Float[Tensor, "key d_v"]           # weight · v
    b: Float[Tensor, "d_v"]                   # their sum, this row of head_out; an RNN's context c
    added: Float[Tensor, "d_model"] | None    # what the head adds to the sublayer's output, without the bias; None without W_O

    @property
    def raw(self) -> Float[Tensor, "key"]:
        """q·k as the sum of its products, before any scaling; under the scaled dot product not yet the score."""
        return self.compared.met.sum(-1)

    @property
    def content(self) -> Float[Tensor, "key"]:
        """The similarity of q and k as the sum of its terms: the score where no other term is added."""
        return self.compared.terms.sum(-1)


def walk(site: AttentionSite, query: int, head: int, batch: int = 0) -> Walk:
    """The steps from one token's vector to what the head passes on. Scores, weights and b are the site's, to the last digit;
    that the terms and parts add up to them is for check_walk to show.

    Raises ValueError for a query or head that is not there."""
    _expect(query, site.n_query, "query")
    _expect(head, site.n_heads, "head")
    key_head = head // (site.n_heads // site.k.shape[1])
    q, k, v = site.q[batch, head, query], site.k[batch, key_head], site.v[batch, key_head]
    allowed = site.allowed(batch, head)[query]
    scores, weights = site.scores(head, batch)[query], site.weights(head, batch)[query]      # (key,)
    b, position = site.head_out(head, batch)[query], torch.tensor([query])
    named = tuple(
        NamedTerm(term.name, term.products(head, query, site.n_key, batch), term.scores(head, position, site.n_key, batch)[0])
        for term in site.terms
    )
    return Walk(
        query, head, site.x[batch, query], site.memory[batch], q, k, v, compare(site.similarity, q, k),
        named, scores, allowed, scores.masked_fill(~allowed, -torch.inf), weights, weights[:, None] * v, b,
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


# Softmax, and what √d_k does to it


def entropy(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """−Σ p·ln p in nats: 0 if one key has everything, ln n if n keys share alike."""
    return torch.special.entr(weights).sum(-1)


def softmax_gradient(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows key key"]:
    """∂ weights/∂ scores = diag(p) − p·pᵀ, the Jacobian of softmax at its output p."""
    return torch.diag_embed(weights) - weights[..., :, None] * weights[..., None, :]


def gradient_norm(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """‖diag(p) − p·pᵀ‖ (Frobenius), without the n × n matrix: √(Σp² − 2Σp³ + (Σp²)²), in double because near a settled
    softmax the three terms almost cancel."""
    p = weights.double()
    squares = p.square().sum(-1)
    return (squares - 2 * p.pow(3).sum(-1) + squares.square()).clamp(min=0).sqrt().to(weights.dtype)


@dataclass(frozen=True)
class Scaling:
    """What dividing q·k by `divisor` makes of one or more rows. `gradient` is gradient_norm: how strongly the weights
    answer when a score, q·k/divisor, moves."""

    divisor: float
    scores: Float[Tensor, "*rows key"]
    weights: Float[Tensor, "*rows key"]
    entropy: Float[Tensor, "*rows"]
    gradient: Float[Tensor, "*rows"]

    @property
    def product_gradient(self) -> Float[Tensor, "*rows"]:
        """‖∂ weights/∂(q·k)‖: how strongly the weights answer when a product q·k moves, which by the chain rule is the
        gradient divided by the divisor. This is what reaches q and k."""
        return self.gradient / self.divisor


def scaling(
    raw: Float[Tensor, "*rows key"], allowed: Bool[Tensor, "*rows key"], divisor: float, added: Tensor | float = 0.0
) -> Scaling:
    """softmax(q·k/divisor + added) over the allowed keys. √d_head is the model's own divisor, 1 leaves scaling out (§3.2.1)."""
    if not divisor > 0:
        raise ValueError(f"the divisor must be positive, not {divisor}")
    scores = raw / divisor + added
    weights = masked_softmax(scores[..., None, :], allowed[..., None, :])[..., 0, :]
    return Scaling(divisor, scores, weights, entropy(weights), gradient_norm(weights))


def raw_scores(site: AttentionSite, head: int, batch: int = 0) -> Float[Tensor, "query key"]:
    """q·k of one head, with the terms that are divided together with it, neither scaled nor masked."""
    every, key_head = torch.arange(site.n_query), head // (site.n_heads // site.k.shape[1])
    divided = (term.divisor * term.scores(head, every, site.n_key, batch) for term in site.terms if term.divisor)
    return site.q[batch, head] @ site.k[batch, key_head].T + sum(divided)


def undivided_scores(site: AttentionSite, head: int, batch: int = 0) -> Float[Tensor, "query key"]:
    """What is added to one head's scores after the division; 0 in most models."""
    every = torch.arange(site.n_query)
    added = (term.scores(head, every, site.n_key, batch) for term in site.terms if not term.divisor)
    return sum(added, torch.zeros(site.n_query, site.n_key))


# The sum of the heads


@dataclass(frozen=True)
class Heads:
    """Concat(head_out)·W_O of one query, head by head: total = Σ added + bias (§3.2.2). Norms are Euclidean lengths. Without a
    bias of W_O it is None."""

    head_out: Float[Tensor, "head d_head"]    # the parts of Concat
    added: Float[Tensor, "head d_model"]      # head_out · the head's block of W_O
    bias: Float[Tensor, "d_model"] | None
    total: Float[Tensor, "d_model"]           # the sublayer's output
    residual: Float[Tensor, "d_model"] | None     # the residual stream it is added to; None in a model without one

    @property
    def norms(self) -> Float[Tensor, "head"]:
        return self.added.norm(dim=-1)

    @property
    def along_total(self) -> Float[Tensor, "head"]:
        """Cosine of each head's part with the sublayer's output."""
        return _cosine(self.added, self.total)

    @property
    def along_residual(self) -> Float[Tensor, "head"] | None:
        """Cosine of each head's part with the residual stream: above 0 it strengthens what is there."""
        return None if self.residual is None else _cosine(self.added, self.residual)

    @property
    def between(self) -> Float[Tensor, "head head"]:
        """Cosine of each head's part with each other's: below 0 they cancel."""
        return _cosine(self.added[:, None], self.added)


def heads(trace: Trace, site: AttentionSite, query: int) -> Heads:
    """What each head adds for one query. Raises ValueError for a query that is not there, and for a site without W_O."""
    _expect(query, site.n_query, "query")
    if not site.projections:
        raise ValueError(f"{site.name} has no W_O: its context goes on as it is")
    head_out = site.head_out()[:, query]                                 # (head, d_head)
    added = torch.stack([head_out[h] @ block(site, "W_O", h)[0] for h in range(site.n_heads)])
    bias, stream = site.projections["W_O"][1], residual(trace, site)
    total = added.sum(0) if bias is None else added.sum(0) + bias
    return Heads(head_out, added, bias, total, None if stream is None else stream[query])


def added_norms(site: AttentionSite, batch: int = 0) -> Float[Tensor, "head query"]:
    """The length of what each head adds at each query."""
    out = site.head_out(batch=batch)
    return torch.stack([(out[h] @ block(site, "W_O", h)[0]).norm(dim=-1) for h in range(site.n_heads)])


def residual(trace: Trace, site: AttentionSite) -> Float[Tensor, "query d_model"] | None:
    """The residual stream this attention's output is added to. Under post-LN it is the attention's own input. None in a
    model that has no such stream."""
    layer = site.name.rsplit(".", 1)[0]
    before = {"cross": "resid_mid", "query": "query_resid_pre"}.get(site.role, "resid_pre")
    stream = trace.activations.get(f"{layer}.{before}")
    return None if stream is None else stream.value[0]


def check_walk(trace: Trace, site: AttentionSite, query: int, head: int) -> list[Check]:
    """Each step of the walk against another route to the same numbers.

    Float32: limits are 1e-5 of the size of what is summed, as in models.analysis.checks."""
    w = walk(site, query, head)
    terms = torch.cat([w.compared.terms, *(term.products for term in w.named)], -1)
    score = " + ".join([site.similarity.formula, *(term.name for term in w.named)])
    within = [
        _check("the terms add up to the score", terms.sum(-1) - w.scores, terms.abs().sum(-1),
               f"Largest difference of their sum from the score {score}, over all keys of this query"),
        _check("weights are shares", (w.weights.sum() - w.allowed.any().float())[None], w.weights,
               "Difference of the weights' sum from 1 (from 0 where the mask leaves no key)"),
        _check("b is what the model used", w.parts.sum(0) - site.out[0, head, query], w.v,
               "Largest difference of Σ weight·v from the forward pass's own attention output"),
    ]
    return [*_check_projections(trace, site, w), *within] if site.projections else [*_check_states(trace, site), *within]


def _check_projections(trace: Trace, site: AttentionSite, w: Walk) -> list[Check]:
    """Where q, k and v come from, and that the heads make up the sublayer's output."""
    every = heads(trace, site, w.query)
    again = torch.cat([_projected(site, "W_Q", w.head, w.a) - w.q, *(
        (_projected(site, name, w.head, w.memory) - made).flatten() for name, made in (("W_K", w.k), ("W_V", w.v))
    )])
    own = trace.activations[f"{site.name}.attn_out"].value[0, w.query]
    return [
        _check("projections give q, k and v", again, torch.cat([w.q, w.k.flatten(), w.v.flatten()]),
               "Largest difference of W·a + bias from the q, k and v recorded in the run"),
        _check("the heads add up", every.total - own, every.added.abs().sum(0),
               "Largest difference of Σ b·W_O + bias from the sublayer's recorded output"),
    ]


def _check_states(trace: Trace, site: AttentionSite) -> list[Check]:
    """That an alignment reads with the state before the step, and reads the encoder's states."""
    before, states = site.q[0, 0, 1:], trace.activations["decoder.states"].value[0, :-1]
    read = trace.activations["encoder.states"].value[0]
    return [
        _check("queries are the states before", before - states, states,
               "Largest difference of query i from the decoder's state s(i−1), for i ≥ 2"),
        _check("keys and values are the h_j", torch.cat([site.k[0, 0] - read, site.v[0, 0] - read]), read,
               "Largest difference from the encoder's recorded states"),
    ]


def _check(name: str, difference: Tensor, size: Tensor, sentence: str) -> Check:
    largest, of = (float(t.abs().max()) if t.numel() else 0.0 for t in (difference, size))
    return Check(name, largest, 1e-5 * max(1.0, of), sentence)


def _projected(site: AttentionSite, name: str, head: int, x: Tensor) -> Tensor:
    weight, bias = block(site, name, head)
    return x @ weight if bias is None else x @ weight + bias


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return torch.nn.functional.cosine_similarity(a, b, dim=-1, eps=1e-12)


def _expect(index: int, n: int, what: str) -> None:
    if not 0 <= index < n:
        raise ValueError(f"{what} {index} is not there: this site has {n}, counted from 0")
