"""Files to take away from "Inside a head". The numbers are the model's own, every digit kept."""

import numpy as np

from models.analysis import head_sum
from models.trace import Trace
from viz_app.drawing.cells import around, is_long
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.export import npz_file, texts
from viz_app.drawing.labels import labels
from viz_app.drawing.weight_cell import Cell
from viz_app.views.inside import matrices as inside_matrices
from viz_app.views.inside.named_terms import named_scores
from viz_app.views.inside.scaling import bars, curves


def walk_csv(trace: Trace, cell: Cell) -> str:
    """A row a key, all of them: score, the mask's verdict, masked score, weight, then the terms that sum to the score and
    weight·v, number by number; under the scaled dot product q·k too. Where a score has named terms, each of them and its
    numbers."""
    w, names = cell.walk, labels(trace.axes(cell.site)[1])
    raw = {"q·k": w.raw} if cell.site.similarity.name == "scaled dot" else {}
    sums = {f"{name} term": scores for name, scores in named_scores(w).items()}
    products = {
        "term": w.comparison.terms,
        **{f"{term.name} term": term.products for term in w.named_terms},
        "weight·v": w.parts,
    }
    heading = ["key", *raw, *sums, "score", "allowed", "masked", "weight"]
    for product, of in products.items():
        heading += [f"{product} {d + 1}" for d in range(of.shape[1])]
    rows = [
        [
            f"{j} {names[j].text}",
            *(of[j] for of in (*raw.values(), *sums.values())),
            w.scores[j],
            int(w.allowed[j]),
            w.masked[j],
            w.weights[j],
            *(number for of in products.values() for number in of[j]),
        ]
        for j in range(len(names))
    ]
    return _table(heading, rows)


def walk_npz(trace: Trace, cell: Cell) -> bytes:
    """Every vector and number of the walk under its name (a, memory, q, k, v, compared_q, compared_k, met, terms, scores, …
    b), all keys, what the similarity has learned, and the tokens; where there is W_O, every head's part and the output."""
    w = cell.walk
    query, key = trace.axes(cell.site)
    names = ("a", "memory", "q", "k", "v", "scores", "allowed", "masked", "weights", "parts", "b")
    arrays = {name: getattr(w, name).numpy() for name in names}
    one = w.comparison
    compared = {
        "compared_q": one.q,
        "compared_k": one.k,
        "met": one.elementwise,
        "terms": one.terms,
    }
    compared |= {f"{term.name}_terms": term.products for term in w.named_terms}
    compared |= {f"{name}_scores": scores for name, scores in named_scores(w).items()}
    more = compared | {
        f"learned_{name}": value for name, value in cell.site.similarity.learned.items()
    }
    if cell.site.projections:
        every = head_sum.heads(trace, cell.site, cell.query)
        more |= {"added": w.added, "head_out": every.head_out, "heads_added": every.added}
        more |= {"output": every.total} | ({} if every.bias is None else {"bias": every.bias})
        more |= {} if every.residual is None else {"residual": every.residual}
    arrays |= {name: value.numpy() for name, value in more.items()}
    return npz_file(
        arrays
        | {
            "query_tokens": texts(labels(query)),
            "key_tokens": texts(labels(key)),
            "query": np.array(w.query),
        }
    )


def matrices_npz(cell: Cell) -> bytes:
    """x, memory, W_Q … W_O (this head's blocks), q, k, v, scores, weights, b and added, a token a row; and where it may read.
    Of a long text the part round the chosen weight, whose `first` query and key are counted from 0."""
    arrays = {name: value.numpy() for name, value in inside_matrices.numbers(cell).items()}
    rows, columns = around(cell.site, (cell.query, cell.key))
    first = {"first": np.array([rows.start, columns.start])} if is_long(cell.site) else {}
    return npz_file(
        {
            **arrays,
            "allowed": cell.site.allowed(head=cell.head, rows=rows)[:, columns].numpy(),
            **first,
        }
    )


def scaling_csv(trace: Trace, cell: Cell) -> str:
    """Entropy and the gradient's norm, by the scores and by q·k, for each divisor; then the weights with and without the division
    for each key shown."""
    rows = [
        ["divisor", c["divisor"], c["entropy"], c["gradient"], c["product_gradient"]]
        for c in curves(cell)
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


def heads_csv(trace: Trace, cell: Cell) -> str:
    """A row a head at the chosen query: length, cosine with the output and with the stream, then the vector it adds."""
    every = head_sum.heads(trace, cell.site, cell.query)
    cosines = {"cosine with output": every.along_total}
    cosines |= {} if every.residual is None else {"cosine with stream": every.along_residual}
    heading = ["head", "length", *cosines, *(f"added {d}" for d in range(1, len(every.total) + 1))]
    rows = [
        [h + 1, every.norms[h], *(cosine[h] for cosine in cosines.values()), *every.added[h]]
        for h in range(cell.site.n_heads)
    ]
    foot = ({} if every.bias is None else {"bias": every.bias}) | {"output": every.total}
    foot |= {} if every.residual is None else {"stream": every.residual}
    rows += [[name, value.norm(), *[""] * len(cosines), *value] for name, value in foot.items()]
    return _table(heading, rows)


def _table(heading: list[str], rows: list[list]) -> str:
    return csv_table(heading, ([_exact(value) for value in row] for row in rows))


def _exact(value) -> str:
    """The shortest decimal that names exactly this float32."""
    return str(np.float32(value)) if hasattr(value, "item") else str(value)
