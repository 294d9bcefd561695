"""The downloads of the page Inside a head, at full float32 precision."""

import numpy as np

from models.analysis import head_sum
from models.trace import Trace
from viz_app.drawing.cells import has_many_cells, part_around
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.export import npz_file, texts
from viz_app.drawing.labels import labels
from viz_app.drawing.weight_cell import WeightCell
from viz_app.views.inside import matrices as inside_matrices
from viz_app.views.inside.named_terms import named_scores
from viz_app.views.inside.scaling import bars, scaling_curves


def walk_csv(trace: Trace, cell: WeightCell) -> str:
    """Return a row for each key, shown or not: score, mask, weight, and their summands.

    These are the numbers that sum to the score and those of weight·v (or what an edit takes of v);
    with the scaled dot product q·k is included, and each named term with its numbers.
    """
    walk, names = cell.walk, labels(trace.axes(cell.site)[1])
    raw = {"q·k": walk.raw} if cell.site.similarity.name == "scaled dot" else {}
    sums = {f"{name} term": scores for name, scores in named_scores(walk).items()}
    products = {
        "term": walk.comparison.terms,
        **{f"{term.name} term": term.products for term in walk.named_terms},
        ("taken of v" if walk.sets_factors else "weight·v"): walk.parts,
    }
    heading = ["key", *raw, *sums, "score", "allowed", "masked", "weight"]
    for product, values in products.items():
        heading += [f"{product} {d + 1}" for d in range(values.shape[1])]
    rows = [
        [
            f"{j} {names[j].text}",
            *(values[j] for values in (*raw.values(), *sums.values())),
            walk.scores[j],
            int(walk.allowed[j]),
            walk.masked[j],
            walk.weights[j],
            *(number for values in products.values() for number in values[j]),
        ]
        for j in range(len(names))
    ]
    return _table(heading, rows)


def walk_npz(trace: Trace, cell: WeightCell) -> bytes:
    """Return every array of the walk under its name, for all keys, with the tokens.

    The names are a, memory, q, k, v, compared_q, compared_k, met, terms, scores … b, and learned_…
    for parameters of the similarity; where there is W_O, also every head's part and the output.
    """
    walk = cell.walk
    query, key = trace.axes(cell.site)
    names = ("a", "memory", "q", "k", "v", "scores", "allowed", "masked", "weights", "parts", "b")
    arrays = {name: getattr(walk, name).numpy() for name in names}
    comparison = walk.comparison
    compared = {
        "compared_q": comparison.q,
        "compared_k": comparison.k,
        "met": comparison.elementwise,
        "terms": comparison.terms,
    }
    compared |= {f"{term.name}_terms": term.products for term in walk.named_terms}
    compared |= {f"{name}_scores": scores for name, scores in named_scores(walk).items()}
    extra = compared | {
        f"learned_{name}": value for name, value in cell.site.similarity.learned.items()
    }
    if cell.site.projections:
        head_sums = head_sum.head_sum(trace, cell.site, cell.query)
        extra |= {
            "added": walk.added,
            "head_out": head_sums.head_out,
            "heads_added": head_sums.added,
        }
        extra |= {"output": head_sums.total} | (
            {} if head_sums.bias is None else {"bias": head_sums.bias}
        )
        extra |= {} if head_sums.residual is None else {"residual": head_sums.residual}
    arrays |= {name: value.numpy() for name, value in extra.items()}
    return npz_file(
        arrays
        | {
            "query_tokens": texts(labels(query)),
            "key_tokens": texts(labels(key)),
            "query": np.array(walk.query),
        }
    )


def matrices_npz(cell: WeightCell) -> bytes:
    """Return the matrices of the head, with a row for each token, and its mask.

    They are x, memory, W_Q … W_O (this head's blocks), q, k, v, scores, weights, b and added. For a
    long text it is the part around the chosen weight; `first` holds its first query and key, from
    0.
    """
    arrays = {name: value.numpy() for name, value in inside_matrices.numbers(cell).items()}
    rows, columns = part_around(cell.site, (cell.query, cell.key))
    first = {"first": np.array([rows.start, columns.start])} if has_many_cells(cell.site) else {}
    return npz_file(
        {
            **arrays,
            "allowed": cell.site.allowed(head=cell.head, rows=rows)[:, columns].numpy(),
            **first,
        }
    )


def scaling_csv(trace: Trace, cell: WeightCell) -> str:
    """Return entropy and gradient norms by divisor, then the weights with and without √d_k."""
    rows = [
        ["divisor", c["divisor"], c["entropy"], c["gradient"], c["product_gradient"]]
        for c in scaling_curves(cell)
    ]
    rows += [["weight", b["key"], b["softmax"], b["weight"], ""] for b in bars(trace, cell)]
    return _table(
        [
            "what",
            "divisor | key",
            "entropy (nats) | softmax",
            "gradient norm | weight",
            "gradient norm by q·k",
        ],
        rows,
    )


def heads_csv(trace: Trace, cell: WeightCell) -> str:
    """Return a row for each head at the chosen query: length, cosines, and the vector it adds.

    The cosines are those with the output and with the residual stream.
    """
    head_sums = head_sum.head_sum(trace, cell.site, cell.query)
    cosines = {"cosine with output": head_sums.along_total}
    cosines |= (
        {} if head_sums.residual is None else {"cosine with stream": head_sums.along_residual}
    )
    heading = [
        "head",
        "length",
        *cosines,
        *(f"added {d}" for d in range(1, len(head_sums.total) + 1)),
    ]
    rows = [
        [
            h + 1,
            head_sums.norms[h],
            *(cosine[h] for cosine in cosines.values()),
            *head_sums.added[h],
        ]
        for h in range(cell.site.n_heads)
    ]
    foot = ({} if head_sums.bias is None else {"bias": head_sums.bias}) | {
        "output": head_sums.total
    }
    foot |= {} if head_sums.residual is None else {"stream": head_sums.residual}
    rows += [[name, value.norm(), *[""] * len(cosines), *value] for name, value in foot.items()]
    return _table(heading, rows)


def _table(heading: list[str], rows: list[list]) -> str:
    return csv_table(heading, ([_exact(value) for value in row] for row in rows))


def _exact(value) -> str:
    """Return the shortest decimal that names exactly this float32."""
    return str(np.float32(value)) if hasattr(value, "item") else str(value)
