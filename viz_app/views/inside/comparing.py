"""The stages of the walk in which query and key are compared, one way for each similarity; notation as in scene.py."""

from viz_app import words
from viz_app.views.inside.named_terms import CONTENT
from viz_app.views.inside.scene import Scene, Stage
from viz_app.views.inside.text import number


def _scaled_dot(s: Scene) -> list[Stage]:
    d = s.site.d_head
    what, leaves, symbol, name = "the score", s.score, "α_{i,j}", "scores"
    if s.w.named_terms:
        what, leaves, symbol, name = (
            "the content term",
            number(s.w.content[s.key]),
            CONTENT,
            CONTENT,
        )
    return [
        Stage(
            "q∘k", "Does the key fit the query?",
            "Multiply query and key number by number, then add up. Where both have the same sign the product is positive. "
            f"With {s.k} the {d} products add up to {number(s.w.raw[s.key])}.",
            "q^{i}·k^{j} = Σ_{d} q^{i}_{d} k^{j}_{d}", ("k", "products", "raw"), ("products", "raw"), {"k": "q"},
        ),
        Stage(
            "÷√dₖ", "Made smaller",
            f"A sum of many products can grow large, so each of the {d} is divided by √{d} = {d**0.5:.4g}. For {s.k} that leaves "
            f"{what} {leaves}.",
            f"{symbol} = q^{{i}}·k^{{j}} / √d_{{k}}", ("k", "terms", "raw", name), ("terms", name), {"k": "q"},
        ),
    ]  # fmt: skip


def _dot(s: Scene) -> list[Stage]:
    return [
        Stage(
            "q∘k", "Does the key fit the query?",
            "Multiply query and key number by number, then add up: that sum is the score, and nothing is divided by √dₖ. With "
            f"{s.k} the {s.site.d_head} products add up to {s.score}.",
            "α_{i,j} = q^{i}·k^{j} = Σ_{d} q^{i}_{d} k^{j}_{d}", ("k", "terms", "scores"), ("terms", "scores"), {"k": "q"},
        ),
    ]  # fmt: skip


def _cosine(s: Scene) -> list[Stage]:
    t = float(s.site.similarity.learned["log_t"].exp())
    sides = {"sides": "compared_q"}
    return [
        Stage(
            "q̂, k̂", "Only the direction counts",
            "Query and keys are divided by their lengths, so that a long key is not read for its length: what is left of each "
            "is its direction.",
            "q̂^{i} = q^{i} / ‖q^{i}‖,  k̂^{j} = k^{j} / ‖k^{j}‖", ("k", "sides"), ("sides",), {"k": "q", **sides},
        ),
        Stage(
            "q̂∘k̂", "Does the key point the same way?",
            f"Multiply number by number and by t = {t:.4g}, then add up: t times the cosine of the angle between them. Training "
            f"finds t (it begins at 10); without it no weight could be more than e² ≈ 7.4 times another. With {s.k} that "
            f"is {s.score}.",
            "α_{i,j} = t·cos(q^{i}, k^{j}) = t Σ_{d} q̂^{i}_{d} k̂^{j}_{d}", ("sides", "terms", "scores"), ("terms", "scores"), sides,
        ),
    ]  # fmt: skip


def _general(s: Scene) -> list[Stage]:
    sides = {"sides": "compared_q"}
    return [
        Stage(
            "q·M", "The query is turned first",
            "A matrix M, which training finds, turns the query into what the keys are compared with. All heads of this "
            "attention share it.",
            "q^{i}M", ("k", "sides"), ("sides",), {"k": "q", **sides},
        ),
        Stage(
            "qM∘k", "Does the key fit the turned query?",
            f"Multiply number by number, then add up: that sum is the score. With {s.k} it is {s.score}.",
            "α_{i,j} = q^{i}M·k^{j} = Σ_{d} (q^{i}M)_{d} k^{j}_{d}", ("sides", "terms", "scores"), ("terms", "scores"), sides,
        ),
    ]  # fmt: skip


def _additive(s: Scene) -> list[Stage]:
    alignment, d = words.is_alignment(s.site), len(s.w.comparison.q)
    left, right, before = (
        ("W s_{i−1}", "U h_{j}", "a") if alignment else ("W q^{i}", "U k^{j}", "k")
    )
    who, whom = ("the state", "every h(j)") if alignment else ("the query", "every key")
    top = {"a": "a"} if alignment else {"k": "q"}
    sides = {"sides": "compared_q"}
    energy = "energy" if alignment else "score"
    symbol = "e" if alignment else "α"
    return [
        Stage(
            "W, U", "Both made comparable",
            f"The matrix W makes {d} numbers of {who}, the matrix U makes {d} of {whom}: now they can be laid on each other."
            + (" U h(j) is the same at every step and is worked out once." if alignment else ""),
            f"{left},  {right} ∈ R^{{{d}}}", (before, "sides"), ("sides",), {**top, **sides},
        ),
        Stage(
            "tanh", "Added, and kept between −1 and 1",
            "The two are added number by number and go through tanh. This is the hidden layer of a small network that is "
            "trained to say what fits what.",
            f"tanh({left} + {right})", ("sides", "products"), ("products",), sides,
        ),
        Stage(
            "v∘", "How well do they fit?",
            f"Each of the {d} numbers is multiplied by its place in v, and the products add up to the {energy}. Nothing is "
            f"divided by √d. With {s.k} they add up to {s.score}.",
            f"{symbol}_{{i,j}} = v·tanh({left} + {right}) = Σ_{{d}} v_{{d}} tanh(…)_{{d}}", ("products", "terms", "scores"),
            ("terms", "scores"),
        ),
    ]  # fmt: skip


COMPARED = {
    "scaled dot": _scaled_dot,
    "dot": _dot,
    "cosine": _cosine,
    "general": _general,
    "additive": _additive,
}
