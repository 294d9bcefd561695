"""Measures of a head's behaviour, one number each, by which heads can be sorted.

a(i,j) is the weight that query i gives key j, counted from 1; means are over the queries of one
text.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.slices import row_slices
from models.analysis.softmax import entropy_nats
from models.tokenizers.base import Encoding
from models.trace import AttentionSite


@dataclass(frozen=True)
class Measure:
    """Name, formula (_{…}: subscript, ^{…}: superscript), meaning and unit of a measure.

    With `least_first`, heads with the smallest value come first; with `of_one_text`, it applies to
    self-attention only. `per_query` takes weights (query, key) and the positions of their queries;
    the measure is its mean over all queries. A measure without one is computed in `measures`.
    """

    name: str
    formula: str
    sentence: str
    unit: str = "mean weight"
    least_first: bool = False
    of_one_text: bool = False
    per_query: Callable[[Tensor, Tensor], Tensor] | None = None


MEASURES = {
    "entropy": Measure(
        "Entropy", "−(1/n) Σ_{i,j} a(i,j) ln a(i,j)",
        "How widely a query spreads its attention. It is 0 if one token gets all of it, or none may be attended to. It is ln n if n "
        "tokens share it equally. The most decided head comes first.", "nats", least_first=True,
        per_query=lambda weights, queries: entropy_nats(weights),
    ),
    "previous": Measure(
        "Previous token", "1/(n−1) Σ_{i>1} a(i,i−1)", "How much a token attends to the one right before it.", of_one_text=True,
    ),
    "diagonal": Measure(
        "Diagonal", "(1/m) Σ_{i≤m} a(i,i),  m = min(n, keys)",
        "How much a query attends to its own position: to itself, or to the token there in the other text.",
    ),
    "first": Measure(
        "First token", "(1/n) Σ_{i} a(i,1)", "How much attention the first token gets, averaged over all queries.",
        per_query=lambda weights, queries: weights[:, 0],
    ),
    "same": Measure(
        "Same token", "1/|S| Σ_{i∈S} Σ_{j≠i, t(j)=t(i)} a(i,j)",
        "How much a token attends to equal tokens: a mean over the set S of those that may attend to one.",
    ),
}  # fmt: skip


def measures(
    site: AttentionSite, query: Encoding, key: Encoding
) -> dict[str, Float[Tensor, "head"] | None]:
    """Return each of MEASURES for every head of a site whose axes carry these tokens.

    A measure that cannot be taken is None: a single token has no previous one, and a text without
    repeated tokens no equal ones. Weights are computed head by head and some rows at a time.
    """
    alike = torch.tensor(query.ids)[:, None] == torch.tensor(key.ids)  # (query, key)
    is_self = site.query_stream == site.key_stream
    if is_self:
        alike &= ~torch.eye(len(alike), dtype=torch.bool)
    diagonal, previous = min(site.n_query, site.n_key), site.n_query - 1 if is_self else 0
    values_by_name = {name: torch.zeros(site.n_heads) for name in MEASURES}
    n_readers = torch.zeros(site.n_heads)
    for head in range(site.n_heads):
        for rows in row_slices(site):
            weights, i = (
                site.weights(head, rows=rows),
                torch.arange(rows.start, min(rows.stop, site.n_query)),
            )
            n = i - rows.start  # the rows of `weights`
            for name, measure in MEASURES.items():
                if measure.per_query is not None:
                    of_queries = measure.per_query(weights, i)
                    values_by_name[name][head] += of_queries.sum() / site.n_query
            on_diagonal, has_previous = i < diagonal, i > 0
            values_by_name["diagonal"][head] += (
                weights[n[on_diagonal], i[on_diagonal]].sum() / diagonal
            )
            if previous:
                values_by_name["previous"][head] += (
                    weights[n[has_previous], i[has_previous] - 1].sum() / previous
                )
            readable = alike[rows] & site.allowed(head=head, rows=rows)
            values_by_name["same"][head] += (weights * readable).sum()
            n_readers[head] += readable.any(-1).sum()
    values_by_name["same"] /= n_readers.clamp(min=1)
    applicable = {"previous": previous > 0, "same": bool(n_readers.any())}
    return {
        name: values if applicable.get(name, True) else None
        for name, values in values_by_name.items()
    }


def order(values: Float[Tensor, "head"] | None, least_first: bool) -> list[int]:
    """Return the heads sorted by a measure; ties keep their order. Empty for None."""
    if values is None:
        return []
    return torch.argsort(values, descending=not least_first, stable=True).tolist()
