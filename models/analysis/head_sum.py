"""The sum of the heads: the part of each in the sublayer's output for one query.

Vaswani et al. 2017, §3.2.2.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.head_walk import check_index, head_projection
from models.analysis.slices import row_slices, slice_with
from models.trace import AttentionSite, Trace


@dataclass(frozen=True)
class HeadSum:
    """Concat(head_out)·W_O of one query, head by head: total = Σ added + bias (§3.2.2).

    Norms are Euclidean lengths. `bias` is None if W_O has none.
    """

    head_out: Float[Tensor, "head d_head"]  # the parts of Concat
    added: Float[Tensor, "head d_model"]  # head_out · the head's block of W_O
    bias: Float[Tensor, "d_model"] | None
    total: Float[Tensor, "d_model"]  # the sublayer's output
    # the residual stream it is added to; None in a model without one
    residual: Float[Tensor, "d_model"] | None

    @property
    def norms(self) -> Float[Tensor, "head"]:
        """Length of each head's part."""
        return self.added.norm(dim=-1)

    @property
    def along_total(self) -> Float[Tensor, "head"]:
        """Cosine of each head's part with the sublayer's output."""
        return _cosine(self.added, self.total)

    @property
    def along_residual(self) -> Float[Tensor, "head"] | None:
        """Cosine of each head's part with the residual stream: above 0 it strengthens it."""
        return None if self.residual is None else _cosine(self.added, self.residual)

    @property
    def between(self) -> Float[Tensor, "head head"]:
        """Cosine of each head's part with each other's: below 0 they cancel."""
        return _cosine(self.added[:, None], self.added)


def head_sum(trace: Trace, site: AttentionSite, query: int) -> HeadSum:
    """Return the part of each head for one query.

    Raises:
        ValueError: The query does not exist, or the site has no W_O.
    """
    check_index(query, site.n_query, "query")
    if not site.projections:
        raise ValueError(f"{site.name} has no W_O: its context is used as it is")
    rows, place = slice_with(site, query, site.n_heads)
    head_out = site.head_out(rows=rows)[:, place]  # (head, d_head)
    added = torch.stack(
        [head_out[h] @ head_projection(site, "W_O", h)[0] for h in range(site.n_heads)]
    )
    bias, stream = site.projections["W_O"][1], residual(trace, site)
    total = added.sum(0) if bias is None else added.sum(0) + bias
    return HeadSum(head_out, added, bias, total, None if stream is None else stream[query])


def added_norms(site: AttentionSite, batch: int = 0) -> Float[Tensor, "head query"]:
    """Return the length of each head's part at each query, head by head and some rows at a time."""
    site, norms = site.read("q", "k", "v"), torch.zeros(site.n_heads, site.n_query)
    for head in range(site.n_heads):
        w_o_block = head_projection(site, "W_O", head)[0]
        for rows in row_slices(site):
            norms[head, rows] = (site.head_out(head, batch, rows) @ w_o_block).norm(dim=-1)
    return norms


def residual(trace: Trace, site: AttentionSite) -> Float[Tensor, "query d_model"] | None:
    """Return the residual stream that this attention's output is added to; None without one.

    Under post-LN it is the attention's own input.
    """
    layer = site.name.rsplit(".", 1)[0]
    before = {"cross": "resid_mid", "query": "query_resid_pre"}.get(site.role, "resid_pre")
    stream = trace.activations.get(f"{layer}.{before}")
    return None if stream is None else stream.value[0]


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return torch.nn.functional.cosine_similarity(a, b, dim=-1, eps=1e-12)
