"""One head as matrix products: every matrix once, and the equations in the row or the column convention.

Rows: Q = X·W_Q, A = Q·Kᵀ/√d_k, B = Â·V. Columns, as in the lecture: Q = W^Q·I, A = Kᵀ·Q/√d_k, B = V·Â. The numbers are the
same; the component transposes.
"""

from typing import Any

from torch import Tensor

from models import anatomy
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.figures.inside import Cell
from viz_app.figures.labels import labels
from viz_app.figures.payload import pack
from viz_app.figures.sites import blocked_bits, token_rows


def matrices(trace: Trace, at: Cell, terms: words.Terms, convention: str = "rows") -> bytes:
    """The payload of the component `matrices`. Raises ValueError for a convention other than rows and columns."""
    if convention not in ("rows", "columns"):
        raise ValueError(f"convention must be rows or columns, not {convention!r}")
    site, head, values = at.site, at.head, numbers(at.site, at.head)
    self_attention = site.kind != "cross"
    if self_attention:
        del values["memory"]                                # the same vectors as x: sent once
    query, key = token_rows(trace, site)
    header: dict[str, Any] = {
        "site": site.name, "head": head, "query": at.query, "key": at.key, "convention": convention,
        "title": f"{words.head_title(site, head, terms)}, as matrices", "file": f"{words.file_name(site, head)}.{convention}",
        "tokens": {"query": [label.as_json() for label in labels(query)], "key": [label.as_json() for label in labels(key)]},
        "masks": [layer.name for layer in site.mask.layers],
        "matrices": _matrices(site, values, self_attention), "equations": equations(site, convention, self_attention),
    }
    return pack(header, blocked=blocked_bits(site).numpy(), **{name: v.contiguous().numpy() for name, v in values.items()})


def numbers(site: AttentionSite, head: int) -> dict[str, Tensor]:
    """Every matrix of the head, a token a row: x, memory, W_Q … W_O (the head's blocks), q, k, v, scores, weights, b, added."""
    blocks = {name: anatomy.block(site, name, head)[0] for name in ("W_Q", "W_K", "W_V", "W_O")}
    b = site.head_out(head)
    return {
        "x": site.x[0], "memory": site.memory[0], **blocks, "q": site.q[0, head], "k": site.k[0, head], "v": site.v[0, head],
        "scores": site.scores(head), "weights": site.weights(head), "b": b, "added": b @ blocks["W_O"],
    }


def equations(site: AttentionSite, convention: str, self_attention: bool) -> list[dict[str, Any]]:
    """The products in order. A term is a sign, or a matrix with its name; `transposed` is against the row convention's."""
    by_rows = convention == "rows"
    x, memory = ("X", "X" if self_attention else "M") if by_rows else ("I", "I" if self_attention else "M")

    def product(title: str, formula: str, left: dict, right: dict, result: dict, after: str = "", size: str = "small") -> dict:
        first, second = (left, right) if by_rows else (right, left)
        return {"title": title, "formula": formula, "size": size, "terms": [first, "·", second, f"{after} =".strip(), result]}

    def projection(array: str, name: str, who: str, source: str, says: str) -> dict:
        weight = f"W^{{{name}}}"
        formula = f"{name} = {source} {weight} + b^{{{name}}}" if by_rows else f"{name} = {weight} {source} + b^{{{name}}}"
        return product(
            says, formula, _term(who, source), _term(f"W_{name}", weight), _term(array, name), "+ bias"
        )

    key_array = "x" if self_attention else "memory"
    root = f"√{site.d_head}"
    turned = "K^{T}"
    product_a = product(
        "Every query with every key:", "A = Q K^{T} / √d_{k}" if by_rows else "A = K^{T} Q / √d_{k}",
        _term("q", "Q"), _term("k", turned, transposed=True), _term("scores", "A"), f"/ {root}", "large",
    )
    along = "each row" if by_rows else "each column"
    return [
        projection("q", "Q", "x", x, "Queries:"),
        projection("k", "K", key_array, memory, "Keys:"),
        projection("v", "V", key_array, memory, "Values:"),
        product_a,
        {"title": f"Mask, then softmax over {along}:", "formula": "Â = softmax(A + mask)", "size": "large",
         "terms": [_term("scores", "A"), "→", _term("weights", "Â")]},
        product("Mix the values:", "B = Â V" if by_rows else "B = V Â",
                _term("weights", "Â"), _term("v", "V"), _term("b", "B"), size="large"),
        product("This head's part of the output:", "B W^{O}_{h}" if by_rows else "W^{O}_{h} B",
                _term("b", "B"), _term("W_O", "W^{O}_{h}"), _term("added", "part"), size="small"),
    ]


def _term(array: str, name: str, transposed: bool = False) -> dict[str, Any]:
    return {"matrix": array, "name": name, "transposed": transposed}


def _matrices(site: AttentionSite, values: dict[str, Tensor], self_attention: bool) -> dict[str, dict[str, Any]]:
    """For each matrix: its array, shape, what its axes are, its colour scale, and what it is in words."""
    peak = {name: float(v.abs().max()) for name, v in values.items()}
    streams, projections = max(peak["x"], peak.get("memory", 0)), max(peak[f"W_{n}"] for n in "QKV")
    rows, key_rows = "query", "key"
    described = {
        "x": ("token vectors", (rows, "number"), streams, ""),
        "memory": ("vectors of the tokens that are read", (key_rows, "number"), streams, ""),
        "W_Q": ("weights W_Q of this head", ("input", "number"), projections, "learned"),
        "W_K": ("weights W_K of this head", ("input", "number"), projections, "learned"),
        "W_V": ("weights W_V of this head", ("input", "number"), projections, "learned"),
        "W_O": ("weights W_O of this head", ("number", "output"), peak["W_O"], "learned"),
        "q": ("queries", (rows, "number"), max(peak["q"], peak["k"]), "row of X · column of W_Q, + bias"),
        "k": ("keys", (key_rows, "number"), max(peak["q"], peak["k"]), "row of the tokens · column of W_K, + bias"),
        "v": ("values", (key_rows, "number"), max(peak["v"], peak["b"]), "row of the tokens · column of W_V, + bias"),
        "scores": ("score before the mask", (rows, key_rows), peak["scores"], f"q · k / √{site.d_head}"),
        "weights": ("weight", (rows, key_rows), 1.0, "softmax over the keys"),
        "b": ("what the head found", (rows, "number"), max(peak["v"], peak["b"]), "weights · values"),
        "added": ("what the head adds", (rows, "number"), peak["added"], "b · W_O"),
    }
    return {
        name: {
            "array": name, "shape": list(values[name].shape), "says": says, "axes": list(axes), "scale": scale, "made": made,
            "weights": name == "weights", "masked": name == "weights", "pick": name in ("scores", "weights"),
        }
        for name, (says, axes, scale, made) in described.items()
        if name in values
    }
