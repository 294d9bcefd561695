"""What a head measurably does, as one number each, by which heads can be put in order. a(i,j) is the weight that query i gives key
j, counted from 1; means are over the queries of one text."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.slices import row_slices
from models.analysis.softmax import entropy
from models.tokenizers.base import Encoding
from models.trace import AttentionSite


@dataclass(frozen=True)
class Measure:
    """One measure: what it is called, its formula (_{…} and ^{…} mark what stands low or high), what it says, and its unit;
    whether heads with the least come first; whether it speaks of a text that reads itself."""

    name: str
    formula: str
    sentence: str
    unit: str = "mean weight"
    least_first: bool = False
    of_one_text: bool = False


MEASURES = {
    "entropy": Measure(
        "Entropy", "−(1/n) Σ_{i,j} a(i,j) ln a(i,j)",
        "How widely a query spreads its attention: 0 if one token has all of it (or none may be read), ln n if n tokens share "
        "alike. The most decided head comes first.", "nats", least_first=True,
    ),
    "previous": Measure(
        "Previous token", "1/(n−1) Σ_{i>1} a(i,i−1)", "How much a token reads of the one right before it.", of_one_text=True,
    ),
    "diagonal": Measure(
        "Diagonal", "(1/m) Σ_{i≤m} a(i,i),  m = min(n, keys)",
        "How much is read at the reader's own place: of itself, or of the token at the same place in the other text.",
    ),
    "first": Measure("First token", "(1/n) Σ_{i} a(i,1)", "How much the first token is read, whoever reads."),
    "same": Measure(
        "Same token", "1/|S| Σ_{i∈S} Σ_{j≠i, t(j)=t(i)} a(i,j)",
        "How much a token reads of others like it, as a mean over the set S of those that may read one.",
    ),
}  # fmt: skip


def measures(
    site: AttentionSite, query: Encoding, key: Encoding
) -> dict[str, Float[Tensor, "head"] | None]:
    """Each of MEASURES for every head of a site whose axes carry these tokens; None where it cannot be taken: one token has no
    previous one, and a text without a token twice no same one. Worked out head by head and some rows at a time."""
    alike = torch.tensor(query.ids)[:, None] == torch.tensor(key.ids)  # (query, key)
    own = site.query_stream == site.key_stream
    if own:
        alike &= ~torch.eye(len(alike), dtype=torch.bool)
    diagonal, previous = min(site.n_query, site.n_key), site.n_query - 1 if own else 0
    found = {name: torch.zeros(site.n_heads) for name in MEASURES}
    readers = torch.zeros(site.n_heads)
    for head in range(site.n_heads):
        for rows in row_slices(site):
            weights, i = (
                site.weights(head, rows=rows),
                torch.arange(rows.start, min(rows.stop, site.n_query)),
            )
            n = i - rows.start  # the rows of `weights`
            found["entropy"][head] += entropy(weights).sum() / site.n_query
            found["first"][head] += weights[:, 0].sum() / site.n_query
            on, behind = i < diagonal, i > 0
            found["diagonal"][head] += weights[n[on], i[on]].sum() / diagonal
            if previous:
                found["previous"][head] += weights[n[behind], i[behind] - 1].sum() / previous
            may = alike[rows] & site.allowed(head=head, rows=rows)
            found["same"][head] += (weights * may).sum()
            readers[head] += may.any(-1).sum()
    found["same"] /= readers.clamp(min=1)
    there = {"previous": previous > 0, "same": bool(readers.any())}
    return {name: values if there.get(name, True) else None for name, values in found.items()}


def order(values: Float[Tensor, "head"] | None, least_first: bool) -> list[int]:
    """The heads by a measure, of equals the first first; as they stand where it could not be taken."""
    if values is None:
        return []
    return torch.argsort(values, descending=not least_first, stable=True).tolist()
