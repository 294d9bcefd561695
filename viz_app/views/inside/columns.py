"""The columns of the walk's table for any similarity: what stands in each, on which colour scale, and how a number came about."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from models.analysis.head_walk import Walk
from models.trace import AttentionSite
from viz_app import words
from viz_app.views.inside.named_terms import CONTENT, named_scores, products_of

Why = tuple[
    str | dict[str, str], ...
]  # text, and numbers: {"top" | "row" | "key": array} is its number under the pointer


@dataclass(frozen=True)
class Column:
    """A column of vectors ("strip"), of numbers or of weights. `array` holds its rows, a row a key; `names` is what the
    query's own row and a key's row are called; columns of one `family` belong together number by number."""

    title: str
    note: str
    kind: str
    array: str
    scale: float = 1.0
    names: tuple[str, str] = ("", "")
    family: str = ""
    why: Why = field(default=())


def arrays(site: AttentionSite, w: Walk, rows: list[int]) -> dict[str, Tensor]:
    """What the columns are made of, for the keys in `rows`."""
    values = {
        "a": w.a,
        "memory": w.memory[rows],
        "q": w.q,
        "k": w.k[rows],
        "v": w.v[rows],
        "compared_q": w.comparison.q,
        "compared_k": w.comparison.k[rows],
        "products": w.comparison.elementwise[rows],
        "terms": w.comparison.terms[rows],
        "scores": w.scores[rows],
        "masked": w.masked[rows],
        "weights": w.weights[rows],
        "parts": w.parts[rows],
        "b": w.b,
    }
    more = {
        "scaled dot": {"raw": w.raw[rows]},
        "additive": {"learned_v": site.similarity.learned.get("v")},
    }
    named = {products_of(term.name): term.products[rows] for term in w.named_terms}
    named |= {name: scores[rows] for name, scores in named_scores(w).items()}
    return values | more.get(site.similarity.name, {}) | named


def columns(site: AttentionSite, values: dict[str, Tensor]) -> dict[str, Column]:
    """Every column that a stage of this site's walk may show, by its id."""
    alignment, name = words.is_alignment(site), site.similarity.name
    together = {  # things compared share a scale
        "a": ("a", "memory"),
        "k": ("q", "k"),
        "sides": ("compared_q", "compared_k"),
        "products": ("products",),
        "terms": ("terms",),
        "scores": ("raw",) if name == "scaled dot" else ("scores",),
        "v": ("v", "b"),
    }
    scale = {column: max(peak(values[array]) for array in of) for column, of in together.items()}
    value = "h" if alignment else "v"
    arrives = ("s (top), h", ("s", "h")) if alignment else ("a", ("a", "a"))
    found = {
        "a": Column(arrives[0], _sizes(values, "a", "memory", scale["a"]), "strip", "memory", scale["a"], arrives[1]),
        **_comparison(site, values, scale),
        "masked": Column("+ mask", "", "number", "masked", scale["scores"]),
        "weights": Column("softmax", "weight, 0 to 1", "weight", "weights"),
        "v": Column(value, f"{len(values['b'])} numbers, ±{_brief(scale['v'])}", "strip", "v", scale["v"], family="v"),
        "parts": Column(f"weight × {value}", f"on the scale of {value}, ±{_brief(scale['v'])}", "strip", "parts", scale["v"],
                        family="v", why=("= weight ", {"key": "weights"}, f" × {value} ", {"row": "v"})),
    }  # fmt: skip
    return found | _named(site, values, found["terms"])


def _comparison(
    site: AttentionSite, values: dict[str, Tensor], scale: dict[str, float]
) -> dict[str, Column]:
    """The columns in which q meets k, from both vectors to the score."""
    name = site.similarity.name
    left, right = ("W s", "U h") if words.is_alignment(site) else _sides(name)
    d, d_terms = len(values["q"]), len(values["compared_q"])
    mixed = name in (
        "general",
        "additive",
    )  # then a number of q has no one number that it turns into
    q, k = {"top": "compared_q"}, {"row": "compared_k"}
    times: Why = (f"= {left} ", q, f" × {right} ", k)
    of_term: dict[str, Why] = {
        "scaled dot": ("= ", {"row": "products"}, f" / √{d}"),
        "cosine": (f"= t {_t(site):.4g} × q̂ ", q, " × k̂ ", k),
        "additive": ("= v ", {"top": "learned_v"}, " × ", {"row": "products"}),
    }
    return {
        "k": Column("q (top), k", _sizes(values, "q", "k", scale["k"]), "strip", "k", scale["k"], ("q", "k"),
                    "" if mixed else "terms"),
        "sides": Column(f"{left} (top), {right}", _sizes(values, "compared_q", "compared_k", scale["sides"]), "strip",
                        "compared_k", scale["sides"], (left, right), "terms"),
        "products": Column(
            "tanh of their sum" if name == "additive" else "q ∘ k", f"number by number, ±{_brief(scale['products'])}", "strip",
            "products", scale["products"], family="terms",
            why=("= tanh(", q, " + ", k, ")") if name == "additive" else times,
        ),
        "terms": Column(_term(name), f"sums to the {_score(site)}, ±{_brief(scale['terms'])}", "strip", "terms", scale["terms"],
                        family="terms", why=of_term.get(name, times)),
        "raw": Column("q · k", "their sum", "number", "raw", scale["scores"], why=(f"the sum of {d} products",)),
        "scores": Column(
            "÷ √dₖ" if name == "scaled dot" else _score(site), f"÷ {d**0.5:.2f}" if name == "scaled dot" else "their sum", "number",
            "scores", scale["scores"],
            why=("= ", {"key": "raw"}, f" / √{d}") if name == "scaled dot" else (f"the sum of {d_terms} numbers",),
        ),
    }  # fmt: skip


def _named(site: AttentionSite, values: dict[str, Tensor], terms: Column) -> dict[str, Column]:
    """Where a score has named terms: each as a strip and as the number that it sums to, and these added up, on one scale; `terms`
    is the similarity's strip."""
    if not site.terms:
        return {}
    names, d = [CONTENT, *(term.name for term in site.terms)], site.d_head
    scale = max(peak(values[name]) for name in (*names, "scores"))
    strips = max(
        peak(values[array]) for array in ("terms", *(products_of(name) for name in names[1:]))
    )
    note = f"sums to the {CONTENT} term, ±{_brief(strips)}"
    found = {"terms": replace(terms, title=f"{CONTENT}: {terms.title}", note=note, scale=strips)}
    for term in site.terms:
        array = products_of(term.name)
        found[array] = Column(
            f"{term.name}, number by number",
            f"sums to the {term.name} term, ±{_brief(strips)}",
            "strip",
            array,
            strips,
            family=array,
        )
    n_products = {name: values[products_of(name)].shape[1] for name in names[1:]}
    sums = {name: (f"the sum of {n} numbers",) for name, n in n_products.items()}
    found |= {
        name: Column(name, "its sum", "number", name, scale, why=why) for name, why in sums.items()
    }
    first: Why = (
        ("= ", {"key": "raw"}, f" / √{d}")
        if site.similarity.name == "scaled dot"
        else ("the sum of its products",)
    )
    found[CONTENT] = Column(
        CONTENT,
        f"÷ {d**0.5:.2f}" if "raw" in values else "its sum",
        "number",
        CONTENT,
        scale,
        why=first,
    )
    why = [part for name in names for part in (f" + {name} ", {"key": name})]
    why[0] = f"= {CONTENT} "
    found["scores"] = Column("= score", "all added up", "number", "scores", scale, why=tuple(why))
    found["masked"] = Column("+ mask", "", "number", "masked", scale)
    return found


def links(site: AttentionSite) -> list[tuple[str, str]]:
    """(array, what it is called) of the numbers from the first sum to the share."""
    named = [
        (CONTENT, "÷ √dₖ"),
        *((term.name, f"+ {term.name}") for term in site.terms),
        ("scores", "= score"),
    ]
    first = (
        [("raw", "q·k"), ("scores", "÷ √dₖ")]
        if site.similarity.name == "scaled dot"
        else [("scores", _score(site))]
    )
    if site.terms:
        first = [*(link for link in first if link[0] == "raw"), *named]
    return [*first, ("masked", "+ mask"), ("weights", "softmax")]


def _t(site: AttentionSite) -> float:
    """What a cosine is multiplied by; 1 where there is none."""
    return (
        float(site.similarity.learned["log_t"].exp()) if site.similarity.name == "cosine" else 1.0
    )


def _score(site: AttentionSite) -> str:
    return "energy" if words.is_alignment(site) else "score"


def _sides(name: str) -> tuple[str, str]:
    """What a query and a key are compared as."""
    return {"cosine": ("q̂", "k̂"), "general": ("q·M", "k"), "additive": ("W q", "U k")}.get(
        name, ("q", "k")
    )


def _term(name: str) -> str:
    left, right = _sides(name)
    return {"scaled dot": "q ∘ k / √dₖ", "cosine": "t · q̂ ∘ k̂", "additive": "v ∘ tanh"}.get(
        name, f"{left} ∘ {right}"
    )


def _sizes(values: dict[str, Tensor], top: str, rows: str, scale: float) -> str:
    of_top, of_row = len(values[top]), values[rows].shape[1]
    return f"{of_top if of_top == of_row else f'{of_top}, {of_row}'} numbers, ±{_brief(scale)}"


def _brief(value: float) -> str:
    """As `brief` in components/walk/signed.js."""
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def peak(values: Tensor) -> float:
    """The largest absolute value, as a float32."""
    return float(np.float32(values.abs().max())) if values.numel() else 0.0


def as_json(column: Column) -> dict[str, Any]:
    """For the component."""
    return {**vars(column), "names": list(column.names), "why": list(column.why)}
