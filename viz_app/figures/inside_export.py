"""Files to take away from "Inside a head". The numbers are the model's own, every digit kept."""

import csv
import io

import numpy as np

from models import anatomy
from models.trace import Trace
from viz_app.figures import inside_matrices
from viz_app.figures.inside import Cell
from viz_app.figures.inside_scaling import bars, curves
from viz_app.figures.labels import labels
from viz_app.figures.sites import token_rows


def walk_csv(trace: Trace, at: Cell) -> str:
    """A row a key, all of them: q·k, score, the mask's verdict, masked score, weight, then q∘k and weight·v number by number."""
    w, names = at.walk, labels(token_rows(trace, at.site)[1])
    numbers = range(1, at.site.d_head + 1)
    heading = ["key", "q·k", "score", "allowed", "masked", "weight"]
    heading += [f"{product} {d}" for product in ("q∘k", "weight·v") for d in numbers]
    rows = [
        [f"{j} {names[j].text}", w.raw[j], w.scores[j], int(w.allowed[j]), w.masked[j], w.weights[j], *w.products[j], *w.parts[j]]
        for j in range(len(names))
    ]
    return _table(heading, rows)


def walk_npz(trace: Trace, at: Cell) -> bytes:
    """Every vector and number of the walk under its name (a, memory, q, k, v, products, raw, scores, … b, added), all keys,
    with every head's part, the output, and the tokens."""
    w, every = at.walk, anatomy.heads(trace, at.site, at.query)
    query, key = token_rows(trace, at.site)
    names = ("a", "memory", "q", "k", "v", "products", "raw", "scores", "allowed", "masked", "weights", "parts", "b", "added")
    arrays = {name: getattr(w, name).numpy() for name in names}
    heads = {"head_out": every.head_out, "heads_added": every.added, "bias": every.bias}
    heads |= {"output": every.total, "residual": every.residual}
    arrays |= {name: value.numpy() for name, value in heads.items()}
    return _npz(arrays | {"query_tokens": np.array(query.tokens), "key_tokens": np.array(key.tokens), "query": np.array(w.query)})


def matrices_npz(at: Cell) -> bytes:
    """x, memory, W_Q … W_O (this head's blocks), q, k, v, scores, weights, b and added, a token a row; and where it may read."""
    arrays = {name: value.numpy() for name, value in inside_matrices.numbers(at.site, at.head).items()}
    return _npz({**arrays, "allowed": at.site.allowed(head=at.head).numpy()})


def scaling_csv(trace: Trace, at: Cell) -> str:
    """Entropy and gradient norm for each divisor, then the weights with and without the division for each key shown."""
    rows = [["divisor", c["divisor"], c["entropy"], c["gradient"]] for c in curves(at)]
    rows += [["weight", b["key"], b["softmax"], b["weight"]] for b in bars(trace, at)]
    return _table(["what", "divisor | key", "entropy (nats) | softmax", "gradient norm | weight"], rows)


def heads_csv(trace: Trace, at: Cell) -> str:
    """A row a head at the chosen query: length, cosine with the output and with the stream, then the vector it adds."""
    every = anatomy.heads(trace, at.site, at.query)
    heading = ["head", "length", "cosine with output", "cosine with stream"]
    heading += [f"added {d}" for d in range(1, len(every.total) + 1)]
    rows = [
        [h + 1, every.norms[h], every.along_total[h], every.along_residual[h], *every.added[h]] for h in range(at.site.n_heads)
    ]
    foot = {"bias": every.bias, "output": every.total, "stream": every.residual}
    rows += [[name, value.norm(), "", "", *value] for name, value in foot.items()]
    return _table(heading, rows)


def _table(heading: list[str], rows: list[list]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(heading)
    writer.writerows([_exact(value) for value in row] for row in rows)
    return out.getvalue()


def _exact(value) -> str:
    """The shortest decimal that names exactly this float32."""
    return str(np.float32(value)) if hasattr(value, "item") else str(value)


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()
