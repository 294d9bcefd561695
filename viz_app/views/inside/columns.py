"""The columns of the walk's table for any similarity: values, scales, and how they are computed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from models.analysis.head_walk import Walk
from models.layers.similarity import CAPPED, DOT_TIMES
from models.trace import AttentionSite
from viz_app import words
from viz_app.views.inside.named_terms import CONTENT_TERM, named_scores, products_of

# text, and numbers: {"top" | "row" | "key": array} becomes the array's number under the pointer
Why = tuple[str | dict[str, str], ...]


@dataclass(frozen=True)
class Column:
    """A column of vectors (kind "strip"), numbers ("number") or weights ("weight").

    `array` names its values, with a row for each key; `names` are the display names of the query's
    own row and of a key's row; columns of one `family` correspond number by number.
    """

    title: str
    note: str
    kind: str
    array: str
    scale: float = 1.0
    names: tuple[str, str] = ("", "")
    family: str = ""
    why: Why = field(default=())


def column_arrays(site: AttentionSite, walk: Walk, rows: list[int]) -> dict[str, Tensor]:
    """Return the arrays of all columns, for the keys in `rows`."""
    values = {
        "a": walk.a,
        "memory": walk.memory[rows],
        "q": walk.q,
        "k": walk.k[rows],
        "v": walk.v[rows],
        "compared_q": walk.comparison.q,
        "compared_k": walk.comparison.k[rows],
        "products": walk.comparison.elementwise[rows],
        "terms": walk.comparison.terms[rows],
        "scores": walk.scores[rows],
        "masked": walk.masked[rows],
        "weights": walk.weights[rows],
        "parts": walk.parts[rows],
        "b": walk.b,
    }
    by_similarity = {
        "scaled dot": {"raw": walk.raw[rows]},
        "additive": {"learned_v": site.similarity.learned.get("v")},
    }
    terms = {products_of(term.name): term.products[rows] for term in walk.named_terms}
    terms |= {name: scores[rows] for name, scores in named_scores(walk).items()}
    return values | by_similarity.get(site.similarity.name, {}) | terms


def colour_scales(site: AttentionSite, values: dict[str, Tensor]) -> dict[str, float]:
    """Return the largest magnitude on each colour scale of the walk; compared vectors share one."""
    name = site.similarity.name
    shared = {  # scale → the arrays that share it
        "a": ("a", "memory"),
        "k": ("q", "k"),
        "sides": ("compared_q", "compared_k"),
        "products": ("products",),
        "terms": ("terms",),
        "scores": ("raw",) if name == "scaled dot" else ("scores",),
        "v": ("v", "b"),
    }
    if site.terms:
        names = [term.name for term in site.terms]
        shared["named"] = (CONTENT_TERM, *names, "scores")
        shared["named terms"] = ("terms", *map(products_of, names))
    return {
        column: max(peak(values[array]) for array in members) for column, members in shared.items()
    }


def walk_columns(
    site: AttentionSite, w: Walk, values: dict[str, Tensor], scale: Mapping[str, float]
) -> dict[str, Column]:
    """Return every column that a stage of this site's walk may show, by its id.

    `scale` is the result of `colour_scales`.
    """
    alignment = words.is_alignment(site)
    value = "h" if alignment else "v"
    first_column = ("s (top), h", ("s", "h")) if alignment else ("a", ("a", "a"))
    by_id = {
        "a": Column(first_column[0], _sizes(values, "a", "memory", scale["a"]), "strip", "memory", scale["a"], first_column[1]),
        **_comparison(site, values, scale),
        "masked": Column("+ mask", "", "number", "masked", scale["scores"]),
        "weights": Column(_weight_title(w), "weight, 0 to 1", "weight", "weights"),
        "v": Column(value, f"{len(values['b'])} numbers, ±{_brief(scale['v'])}", "strip", "v", scale["v"], family="v"),
        "parts": Column(f"weight × {value}", f"on the scale of {value}, ±{_brief(scale['v'])}", "strip", "parts", scale["v"],
                        family="v", why=("= weight ", {"key": "weights"}, f" × {value} ", {"row": "v"})),
    }  # fmt: skip
    if w.sets_weights:
        by_id["weights"] = replace(by_id["weights"], why=("not softmax of the scores",))
    if w.sets_factors:
        by_id["parts"] = replace(by_id["parts"], title=f"taken of {value}", why=())
    return by_id | _named(site, values, by_id["terms"], scale)


def _comparison(
    site: AttentionSite, values: dict[str, Tensor], scale: Mapping[str, float]
) -> dict[str, Column]:
    """Return the columns in which query and key are compared, from both vectors to the score."""
    name = site.similarity.name
    left, right = ("W s", "U h") if words.is_alignment(site) else _sides(name)
    d, d_terms = len(values["q"]), len(values["compared_q"])
    # True if a matrix mixes the numbers of q, so that none of them belongs to a single term
    mixed = name in ("general", "additive")
    times: Why = (f"= {left} ", _Q, f" × {right} ", _K)
    return {
        "k": Column("q (top), k", _sizes(values, "q", "k", scale["k"]), "strip", "k", scale["k"], ("q", "k"),
                    "" if mixed else "terms"),
        "sides": Column(f"{left} (top), {right}", _sizes(values, "compared_q", "compared_k", scale["sides"]), "strip",
                        "compared_k", scale["sides"], (left, right), "terms"),
        "products": Column(
            "tanh of their sum" if name == "additive" else "q ∘ k", f"number by number, ±{_brief(scale['products'])}", "strip",
            "products", scale["products"], family="terms",
            why=("= tanh(", _Q, " + ", _K, ")") if name == "additive" else times,
        ),
        "terms": Column(_term(name), f"sums to the {_score(site)}, ±{_brief(scale['terms'])}", "strip", "terms", scale["terms"],
                        family="terms", why=_term_origin(site, d, times)),
        "raw": Column("q · k", "their sum", "number", "raw", scale["scores"], why=(f"the sum of {d} products",)),
        "scores": Column(
            "÷ √dₖ" if name == "scaled dot" else _score(site), f"÷ {d**0.5:.2f}" if name == "scaled dot" else "their sum", "number",
            "scores", scale["scores"],
            why=("= ", {"key": "raw"}, f" / √{d}") if name == "scaled dot" else (f"the sum of {d_terms} numbers",),
        ),
    }  # fmt: skip


# the number of either compared vector under the pointer
_Q, _K = {"top": "compared_q"}, {"row": "compared_k"}


def _term_origin(site: AttentionSite, d: int, times: Why) -> Why:
    """Return how a term of the score is computed; `times` is the product of both sides."""
    product: Why = (f"= {_constant(site):.4g} × q ", _Q, " × k ", _K)
    origins: dict[str, Why] = {
        "scaled dot": ("= ", {"row": "products"}, f" / √{d}"),
        "cosine": (f"= t {_t(site):.4g} × q̂ ", _Q, " × k̂ ", _K),
        "additive": ("= v ", {"top": "learned_v"}, " × ", {"row": "products"}),
        DOT_TIMES: product,
        CAPPED: (*product, ", made smaller as tanh makes their sum"),
    }
    return origins.get(site.similarity.name, times)


def _named(
    site: AttentionSite, values: dict[str, Tensor], terms: Column, scales: Mapping[str, float]
) -> dict[str, Column]:
    """Return the columns of a score with named terms: each term's strip and sum, and the total.

    They share one scale; `terms` is the similarity's own strip.
    """
    if not site.terms:
        return {}
    names = [CONTENT_TERM, *(term.name for term in site.terms)]
    scale, strips = scales["named"], scales["named terms"]
    note = f"sums to the {CONTENT_TERM} term, ±{_brief(strips)}"
    by_id = {
        "terms": replace(terms, title=f"{CONTENT_TERM}: {terms.title}", note=note, scale=strips)
    }
    for term in site.terms:
        array = products_of(term.name)
        by_id[array] = Column(
            f"{term.name}, number by number",
            f"sums to the {term.name} term, ±{_brief(strips)}",
            "strip",
            array,
            strips,
            family=array,
        )
        why = (f"the sum of {values[array].shape[1]} numbers",)
        by_id[term.name] = Column(term.name, "its sum", "number", term.name, scale, why=why)
    by_id[CONTENT_TERM] = _content(site, values, scale)
    why = [part for name in names for part in (f" + {name} ", {"key": name})]
    why[0] = f"= {CONTENT_TERM} "
    by_id["scores"] = Column("= score", "all added up", "number", "scores", scale, why=tuple(why))
    by_id["masked"] = Column("+ mask", "", "number", "masked", scale)
    return by_id


def _content(site: AttentionSite, values: dict[str, Tensor], scale: float) -> Column:
    """Return the column of the similarity's own term, beside which others are added."""
    why: Why = (
        ("= ", {"key": "raw"}, f" / √{site.d_head}")
        if site.similarity.name == "scaled dot"
        else ("the sum of its products",)
    )
    note = f"÷ {site.d_head**0.5:.2f}" if "raw" in values else "its sum"
    return Column(CONTENT_TERM, note, "number", CONTENT_TERM, scale, why=why)


def _weight_title(w: Walk) -> str:
    return "set by an edit" if w.sets_weights else "softmax"


def links(site: AttentionSite, w: Walk) -> list[tuple[str, str]]:
    """Return (array, display name) of the numbers from the first sum to the weight."""
    term_links = [
        (CONTENT_TERM, "÷ √dₖ"),
        *((term.name, f"+ {term.name}") for term in site.terms),
        ("scores", "= score"),
    ]
    first = (
        [("raw", "q·k"), ("scores", "÷ √dₖ")]
        if site.similarity.name == "scaled dot"
        else [("scores", _score(site))]
    )
    if site.terms:
        first = [*(link for link in first if link[0] == "raw"), *term_links]
    return [*first, ("masked", "+ mask"), ("weights", _weight_title(w))]


def _t(site: AttentionSite) -> float:
    """Return the factor of a cosine similarity; 1 for other similarities."""
    return (
        float(site.similarity.learned["log_t"].exp()) if site.similarity.name == "cosine" else 1.0
    )


def _constant(site: AttentionSite) -> float:
    """Return the constant that q·k is multiplied by; 1 for other similarities."""
    return float(site.similarity.learned.get("s", 1.0))


def _score(site: AttentionSite) -> str:
    return "energy" if words.is_alignment(site) else "score"


def _sides(name: str) -> tuple[str, str]:
    """Return the display names of the compared forms of query and key."""
    return {"cosine": ("q̂", "k̂"), "general": ("q·M", "k"), "additive": ("W q", "U k")}.get(
        name, ("q", "k")
    )


def _term(name: str) -> str:
    left, right = _sides(name)
    return {
        "scaled dot": "q ∘ k / √dₖ",
        "cosine": "t · q̂ ∘ k̂",
        "additive": "v ∘ tanh",
        DOT_TIMES: "s · q ∘ k",
        CAPPED: "s · q ∘ k, capped",
    }.get(name, f"{left} ∘ {right}")


def _sizes(values: dict[str, Tensor], top: str, rows: str, scale: float) -> str:
    of_top, of_row = len(values[top]), values[rows].shape[1]
    return f"{of_top if of_top == of_row else f'{of_top}, {of_row}'} numbers, ±{_brief(scale)}"


def _brief(value: float) -> str:
    """Format a number as `brief` in components/walk/signed.js does."""
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def peak(values: Tensor) -> float:
    """Return the largest absolute value, as a float32."""
    return float(np.float32(values.abs().max())) if values.numel() else 0.0


def as_json(column: Column) -> dict[str, Any]:
    """Return a column's fields for the component."""
    return {**vars(column), "names": list(column.names), "why": list(column.why)}
