"""The equations of one head, in the row or the column convention, with the names of their matrices.

The symbols are those of viz_app/views/inside/matrices.py.
"""

from dataclasses import dataclass
from typing import Any

from models.layers.similarity import CAPPED, DOT_TIMES
from models.trace import AttentionSite
from viz_app import words
from viz_app.views.inside.named_terms import CONTENT_TERM

_EVERY_PAIR = "Every query with every key:"


def equations(
    site: AttentionSite, convention: str, one: bool | None = None
) -> list[dict[str, Any]]:
    """Return the products in order, as terms: signs, and matrices with their names.

    `transposed` is relative to the row convention. `one` is True if queries, keys and values are
    made of the same matrix, as in self-attention.
    """
    write = _Writer(convention == "rows")
    if words.is_alignment(site):
        names = {"q": "S", "k": "H", "v": "H", "scores": "E", "b": "C"}
        return [*_scores(site, write, names), _softmax(write, "E"), write.product(
            "Mix the states:", "C = Â H", "C = H Â", _term("weights", "Â"), _term("k", "H"), _term("b", "C"), size="large",
        )]  # fmt: skip
    self_attention = reads_itself(site)
    x, memory = (
        ("X", "X" if self_attention else "M")
        if write.by_rows
        else ("I", "I" if self_attention else "M")
    )
    key_array = "x" if (self_attention if one is None else one) else "memory"
    return [
        write.projection("q", "Q", "x", x, "Queries:", has_bias(site, "Q")),
        write.projection("k", "K", key_array, memory, "Keys:", has_bias(site, "K")),
        write.projection("v", "V", key_array, memory, "Values:", has_bias(site, "V")),
        *_scores(site, write, {"q": "Q", "k": "K", "scores": "A"}),
        _softmax(write, "A"),
        write.product(
            "Mix the values:",
            "B = Â V",
            "B = V Â",
            _term("weights", "Â"),
            _term("v", "V"),
            _term("b", "B"),
            size="large",
        ),
        write.product(
            "This head's part of the output:",
            "B W^{O}_{h}",
            "W^{O}_{h} B",
            _term("b", "B"),
            _term("W_O", "W^{O}_{h}"),
            _term("added", "part"),
        ),
    ]


@dataclass(frozen=True)
class _Writer:
    """A writer of products in one of the two conventions.

    With tokens as columns everything is transposed, so the factors change places.
    """

    by_rows: bool

    def product(
        self,
        title: str,
        rows: str,
        columns: str,
        left: dict,
        right: dict,
        result: dict,
        after: str = "",
        size: str = "small",
    ) -> dict[str, Any]:
        first, second = (left, right) if self.by_rows else (right, left)
        formula = rows if self.by_rows else columns
        return {
            "title": title,
            "formula": formula,
            "size": size,
            "terms": [first, "·", second, f"{after} =".strip(), result],
        }

    def projection(
        self, array: str, name: str, vectors: str, source: str, title: str, has_bias: bool
    ) -> dict[str, Any]:
        weight, bias = f"W^{{{name}}}", f" + b^{{{name}}}" * has_bias
        return self.product(
            title,
            f"{name} = {source} {weight}{bias}",
            f"{name} = {weight} {source}{bias}",
            _term(vectors, source),
            _term(f"W_{name}", weight),
            _term(array, name),
            "+ bias" * has_bias,
        )

    def learned(
        self, title: str, array: str, source: str, matrix: str, transposed: bool
    ) -> dict[str, Any]:
        """Return the product of queries or keys with a matrix of the similarity."""
        turned = f"{matrix}^{{T}}" if transposed == self.by_rows else matrix
        name = f"{source} {turned}" if self.by_rows else f"{turned} {source}"
        return self.product(
            title,
            name,
            name,
            _term(array, source),
            _term(f"learned_{matrix}", turned, transposed),
            _term(f"compared_{array}", name),
        )


def _scores(site: AttentionSite, write: _Writer, names: dict[str, str]) -> list[dict[str, Any]]:
    """Return the equations from Q and K to the scores."""
    if site.terms:
        parts = [_term(name, name) for name in (CONTENT_TERM, *(term.name for term in site.terms))]
        sums = [sign for part in parts for sign in (part, "+")][:-1]
        result = names["scores"]
        added = {
            "title": "Add the other terms:",
            "formula": f"{result} = {' + '.join(part['name'] for part in parts)}",
            "size": "large",
            "terms": [*sums, "=", _term("scores", result)],
        }
        return [
            *_similarity_equations(site, write, names | {"scores": CONTENT_TERM}, CONTENT_TERM),
            added,
        ]
    return _similarity_equations(site, write, names, "scores")


def _similarity_equations(
    site: AttentionSite, write: _Writer, names: dict[str, str], result: str
) -> list[dict[str, Any]]:
    """Return the equations of the similarity, which end in the array `result`."""
    a, scores, name = names["scores"], _term(result, names["scores"]), site.similarity.name
    if name == "additive":
        return _additive_equations(site, write, names, scores)
    turned = _term("k", f"{names['k']}^{{T}}", transposed=True)
    if name == "cosine":
        units = _term("compared_q", "Q̂"), _term("compared_k", "K̂^{T}", transposed=True)
        by_rows, by_columns = f"{a} = t Q̂ K̂^{{T}}", f"{a} = t K̂^{{T}} Q̂"
        return [
            *_unit_lengths(names),
            write.product(_EVERY_PAIR, by_rows, by_columns, *units, scores, "· t", "large"),
        ]
    if name == "general":
        through = write.learned("Queries through M:", "q", names["q"], "M", False)
        queries = _term("compared_q", through["formula"])
        by_rows, by_columns = f"{a} = Q M K^{{T}}", f"{a} = K^{{T}} M^{{T}} Q"
        product = write.product(
            _EVERY_PAIR, by_rows, by_columns, queries, turned, scores, size="large"
        )
        return [through, product]
    before, after, scaled = _constants(site)
    by_rows, by_columns = f"{a} = {before}Q K^{{T}}{after}", f"{a} = {before}K^{{T}} Q{after}"
    queries = _term("q", names["q"])
    return [
        write.product(_EVERY_PAIR, by_rows, by_columns, queries, turned, scores, scaled, "large")
    ]


def _additive_equations(
    site: AttentionSite, write: _Writer, names: dict[str, str], scores: dict[str, Any]
) -> list[dict[str, Any]]:
    left = write.learned("", "q", names["q"], "W", True)
    right = write.learned("", "k", names["k"], "U", True)
    left["title"], right["title"] = (
        ("States before each step:", "States of the encoder:")
        if words.is_alignment(site)
        else ("Queries, made comparable:", "Keys, made comparable:")
    )
    factors = [
        _term("compared_q", left["formula"]),
        _term("compared_k", f"({right['formula']})^{{T}}", transposed=True),
    ]
    first, second = factors if write.by_rows else reversed(factors)
    both = f"{left['formula']} + {right['formula']}"
    compared = {
        "title": _EVERY_PAIR,
        "formula": f"{names['scores']} = v·tanh({both}), each row with each",
        "size": "large",
        "terms": [first, "+", second, "→ tanh, · v =", scores],
    }
    return [left, right, compared]


def _unit_lengths(names: dict[str, str]) -> list[dict[str, Any]]:
    """Return the equations that bring queries and keys to length 1."""
    return [
        {"title": says, "formula": formula, "size": "small",
         "terms": [_term(array, whole), "→", _term(f"compared_{array}", unit)]}
        for says, formula, array, whole, unit in (
            ("Queries of length 1:", "q / ‖q‖", "q", names["q"], "Q̂"), ("Keys of length 1:", "k / ‖k‖", "k", names["k"], "K̂"),
        )
    ]  # fmt: skip


def _constants(site: AttentionSite) -> tuple[str, str, str]:
    """Return the factors before and after the product Q Kᵀ, and what is done to it."""
    name, learned = site.similarity.name, site.similarity.learned
    if name == "scaled dot":
        return "", " / √d_{k}", f"/ √{site.d_head}"
    if name == DOT_TIMES:
        return "", f" · {float(learned['s']):.4g}", f"· {float(learned['s']):.4g}"
    if name == CAPPED:
        scale, cap = float(learned["s"]), float(learned["c"])
        return f"{cap:.4g} tanh({scale:.4g} ", f" / {cap:.4g})", "→ tanh →"
    return "", "", ""


def _softmax(write: _Writer, scores: str) -> dict[str, Any]:
    along = "row" if write.by_rows else "column"
    return {
        "title": f"Mask and softmax, {along} by {along}:",
        "formula": f"Â = softmax({scores} + mask)",
        "size": "large",
        "terms": [_term("scores", scores), "→", _term("weights", "Â")],
    }


def _term(array: str, name: str, transposed: bool = False) -> dict[str, Any]:
    return {"matrix": array, "name": name, "transposed": transposed}


def reads_itself(site: AttentionSite) -> bool:
    """Return True if queries, keys and values are made of the same vectors."""
    return site.role in ("self", "content")


def has_bias(site: AttentionSite, name: str) -> bool:
    return site.projections[f"W_{name}"][1] is not None
