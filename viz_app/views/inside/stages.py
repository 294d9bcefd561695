"""The stages of the walk for any similarity, with sentences, formulas, columns (see scene.py)."""

from models.analysis.head_sum import HeadSum
from models.layers.masks import LOOK_AHEAD
from models.layers.similarity import CAPPED, DOT_TIMES
from viz_app import words
from viz_app.views.inside.named_terms import CONTENT_TERM, term_stages
from viz_app.views.inside.scene import Scene, Stage
from viz_app.views.inside.text import format_number, weight_share
from viz_app.words.allowed import has_own_mask


def walk_stages(s: Scene) -> list[Stage]:
    """Return the stops of the walk in order."""
    alignment = words.is_alignment(s.site)
    inputs = [_states(s)] if alignment else [_vectors(s), _projections(s)]
    compared = [*COMPARED[s.site.similarity.name](s), *term_stages(s)]
    before = (
        ("scores",)
        if s.walk.named_terms
        else tuple(c for c in compared[-1].columns if c in ("terms", "raw", "scores"))
    )
    value, result = ("h", "c") if alignment else ("v", "b")
    score = "e" if alignment else "α"
    share_of = "α" if alignment else "α̂"
    rest = [
        Stage(
            "mask", "Apply the mask", _masking(s), f"{score}_{{i,j}} ← −∞  where the mask blocks j",
            (*before, "masked"), ("scores", "masked"),
        ),
        Stage(
            "softmax", "From scores to weights", _softmax(s),
            f"{share_of}_{{i,j}} = exp({score}_{{i,j}}) / Σ_{{j′}} exp({score}_{{i,j′}})",
            (*before, "masked", "weights"), ("masked",),
        ),
        Stage(
            f"×{value}", "Weight each state" if alignment else "Weight each value",
            _weighing(s, alignment),
            f"{share_of}_{{i,j}} {value}_{{j}}" if alignment else f"{share_of}_{{i,j}} {value}^{{j}}",
            ("weights", "v", "parts"), ("v",), rest=True,
        ),
        Stage(
            result, "Add up the weighted values", _sum(s, alignment),
            "c_{i} = Σ_{j} α_{i,j} h_{j}" if alignment else "b^{i} = Σ_{j} α̂_{i,j} v^{j}",
            ("weights", "v", "parts"), foot=result, rest=True,
        ),
    ]  # fmt: skip
    output = [] if s.head_sum is None else [Stage(
        "W_O", "Combine all heads", _output(s),
        f"Concat(b^{{i,1}} … b^{{i,h}}) W^{{O}} = Σ_{{h}} b^{{i,h}} W^{{O}}_{{h}}{'' if s.head_sum.bias is None else '  (+ b^{O})'}",
    )]  # fmt: skip
    return [*inputs, *compared, *rest, *output]


# The inputs


def _vectors(s: Scene) -> Stage:
    where, d = _where(s), len(s.walk.a)
    return Stage(
        "a", "The vectors that arrive",
        f"Each token arrives at this attention as {d} numbers. {s.q} (on top) is the query; {where}",
        f"a^{{i}}, a^{{j}} ∈ R^{{{d}}}   (d_{{model}} = {d})", ("a",), ("a",), {"a": "a"},
    )  # fmt: skip


def _where(s: Scene) -> str:
    """Return what this query can read, as a clause."""
    site, key = s.site, s.terms.of(s.site.key_stream).text
    if site.role == "query":
        return (
            f"below is {key} in the content stream. Its own vector comes from the query stream, which has never seen "
            "the token at its position."
        )
    if site.role == "content" and has_own_mask(site) and not s.walk.allowed.all():
        return f"below is {key}; a mask will hide what comes after it in the order."
    if site.site_kind.between_streams:
        left = ", as it left the encoder" if (site.stack, site.role) == ("decoder", "cross") else ""
        return f"below are the keys: {key}{left}."
    if s.walk.allowed.all():
        return f"below are the keys: all of {key}."
    if LOOK_AHEAD in s.blocked and not s.walk.allowed[s.walk.query + 1 :].any():
        return f"below is {key}; a mask will hide what comes after it."
    n = int((~s.walk.allowed).sum())
    return f"below is {key}; a mask will hide {n} token{'s' * (n > 1)}."


def _projections(s: Scene) -> Stage:
    d = s.site.d_head
    return Stage(
        "q k v", "Query, keys and values",
        f"The head makes {'shorter ' * (d < len(s.walk.a))}vectors of {d} numbers. {s.q} gets a query: what it looks for. Every token that "
        "may be attended to gets a key and a value. It is found by its key; its value is what it passes on.",
        f"{_projected(s, 'q', 'i')},  {_projected(s, 'k', 'j')},  {_projected(s, 'v', 'j')}   (d_{{k}} = {d})",
        ("a", "k", "v"), ("k", "v"), {"a": "a", "k": "q"},
    )  # fmt: skip


def _projected(s: Scene, name: str, place: str) -> str:
    matrix = name.upper()
    bias = "" if s.site.projections[f"W_{matrix}"][1] is None else f" + b^{{{matrix}}}"
    return f"{name}^{{{place}}} = W^{{{matrix}}}a^{{{place}}}{bias}"


def _states(s: Scene) -> Stage:
    d, m = len(s.walk.a), s.walk.memory.shape[1]
    return Stage(
        "s, h", "The states that meet",
        f"The decoder is about to read {s.q} and predict the next token. Its state is s(i−1), {d} "
        f"numbers (on top). Below are the encoder's states h(j), {m} numbers for each token of "
        f"{s.terms.of(s.site.key_stream).text}.",
        f"s_{{i−1}} ∈ R^{{{d}}},  h_{{j}} ∈ R^{{{m}}}", ("a",), ("a",), {"a": "a"},
    )  # fmt: skip


# From the scores to the output


def _masking(s: Scene) -> str:
    w = s.walk
    if not s.blocked:
        return f"Nothing is blocked here: {s.q} may attend to every token, so the scores do not change."
    layers = ", ".join(f"{name}: {count}" for name, count in s.blocked.items())
    effect = (
        f"{s.k} is open and keeps its score."
        if w.allowed[s.key]
        else f"{s.k} is blocked: its score becomes −∞."
    )
    return f"{int((~w.allowed).sum())} of {len(w.allowed)} tokens are blocked for {s.q} ({layers}). {effect}"


def _softmax(s: Scene) -> str:
    w = s.walk
    if not w.allowed.any():
        return f"Every token is blocked, so {s.q} attends to nothing: all its weights are 0, and so is the sum."
    n_allowed = int(w.allowed.sum())
    if w.sets_weights:
        return (
            f"An edit sets the weights of this row, instead of softmax. {s.k} gets {float(w.weights[s.key]):.4f}; softmax "
            f"of the scores would give {float(w.softmaxed[s.key]):.4f}."
        )
    return (
        f"Softmax turns scores into weights: none is negative, and together they add up to 1. {s.k} gets "
        f"{float(w.weights[s.key]):.4f}; an even split over {n_allowed} token{'s' if n_allowed > 1 else ''} would be"
        f" {1 / n_allowed:.4f}."
    )


def _weighing(s: Scene, alignment: bool) -> str:
    value = "state" if alignment else "value"
    taken = weight_share(float(s.walk.factors[s.key]))
    if s.walk.sets_factors:
        return (
            f"An edit changes what is taken of each {value}. {s.q} takes {taken} of the {value} of {s.k}, whose weight is "
            f"{weight_share(float(s.walk.weights[s.key]))}. The fainter a row, the less is taken."
        )
    return (
        f"Each {'state h(j)' if alignment else 'value'} is multiplied by its weight. {s.q} takes {taken} of the {value} of "
        f"{s.k}. The fainter a row, the less is taken."
    )


def _sum(s: Scene, alignment: bool) -> str:
    n = len(s.walk.weights)
    if s.walk.sets_output:
        total, b = float(s.walk.parts.sum(0).norm()), float(s.walk.b.norm())
        return (
            f"The column is what an edit makes of their sum: {'the context' if alignment else 'the output of this head'} for "
            f"{s.q}. Its length is {b:.2f}, where that of the sum is {total:.2f}."
        )
    if alignment:
        n_read = int(s.walk.allowed.sum())
        states = (
            f"all {n} states" if n_read == n else f"the {n_read} of {n} states it may attend to"
        )
        return (
            f"The column added up is the context c(i), a mixture of {states}. The step that reads {s.q} gets it beside "
            "the token: s(i) = f(s(i−1), [y(i−1); c(i)])."
        )
    if s.walk.sets_factors:
        return f"The column is their sum, the output of this head for {s.q}."
    n_allowed = int(s.walk.allowed.sum())
    if not n_allowed:
        return f"Nothing was taken, so the output of this head for {s.q} is all zeros."
    tokens = (
        f"all {n} tokens"
        if n_allowed == n
        else f"the {n_allowed} of {n} tokens it may attend to"
        if n_allowed > 1
        else "the one token it may attend to"
    )
    content = f"a mixture of the values of {tokens}" if n_allowed > 1 else f"the value of {tokens}"
    return f"The column is their sum, the output of this head for {s.q}. It is {content}."


def _output(s: Scene) -> str:
    site, w, heads = s.site, s.walk, s.head_sum
    stream = (
        ""
        if heads.residual is None
        else f" It is added to the vector of {s.q}, whose length is {float(heads.residual.norm()):.2f}."
    )
    if site.n_heads == 1:
        destination = (
            "which are passed on as they are"
            if heads.residual is None
            else f"which are added to the vector of {s.q}"
        )
        subject = "these are the ones" if heads.bias is None else "with the bias they make those"
        return f"There is one head. W_O turns its b into {len(w.added)} numbers; {subject} {destination}."
    return (
        f"The {site.n_heads} heads' outputs are joined, and W_O mixes them. That is the same as adding up one part "
        f"from each head. This head's part has length {float(w.added.norm()):.2f}, the sum{_with_bias(heads)} "
        f"{float(heads.total.norm()):.2f}.{stream}"
    )


def _with_bias(heads: HeadSum) -> str:
    return "" if heads.bias is None else " with the bias"


def _result(s: Scene) -> tuple[str, str, str, str]:
    """Return what query and key add up to: its name, value, symbol and column.

    It is the score, or one term of it if the model adds others.
    """
    if s.walk.named_terms:
        return "the content term", format_number(s.walk.content[s.key]), CONTENT_TERM, CONTENT_TERM
    return "the score", s.score, "α_{i,j}", "scores"


def _scaled_dot(s: Scene) -> list[Stage]:
    d, (quantity, value, symbol, name) = s.site.d_head, _result(s)
    return [
        Stage(
            "q∘k", "Does the key fit the query?",
            "Multiply query and key number by number, then add up. Where both have the same sign the product is positive. "
            f"With {s.k} the {d} products add up to {format_number(s.walk.raw[s.key])}.",
            "q^{i}·k^{j} = Σ_{d} q^{i}_{d} k^{j}_{d}", ("k", "products", "raw"), ("products", "raw"), {"k": "q"},
        ),
        Stage(
            "÷√dₖ", "Scaled down",
            f"A sum of many products can grow large, so it is divided by √{d} = {d**0.5:.4g}. For {s.k} that leaves "
            f"{quantity} {value}.",
            f"{symbol} = q^{{i}}·k^{{j}} / √d_{{k}}", ("k", "terms", "raw", name), ("terms", name), {"k": "q"},
        ),
    ]  # fmt: skip


def _dot(s: Scene) -> list[Stage]:
    quantity, value, symbol, name = _result(s)
    return [
        Stage(
            "q∘k", "Does the key fit the query?",
            f"Multiply query and key number by number, then add up: that sum is {quantity}, and nothing is divided by √dₖ. With "
            f"{s.k} the {s.site.d_head} products add up to {value}.",
            f"{symbol} = q^{{i}}·k^{{j}} = Σ_{{d}} q^{{i}}_{{d}} k^{{j}}_{{d}}", ("k", "terms", name), ("terms", name), {"k": "q"},
        ),
    ]  # fmt: skip


def _times(s: Scene) -> list[Stage]:
    quantity, value, symbol, name = _result(s)
    factor = float(s.site.similarity.learned["s"])
    return [
        Stage(
            "s·q∘k", "Does the key fit the query?",
            f"Multiply query and key number by number, and each product by a constant of the model, {factor:.4g}; then add up. "
            f"That sum is {quantity}. With {s.k} the {s.site.d_head} products add up to {value}.",
            f"{symbol} = s·q^{{i}}·k^{{j}} = s Σ_{{d}} q^{{i}}_{{d}} k^{{j}}_{{d}}   (s = {factor:.4g})",
            ("k", "terms", name), ("terms", name), {"k": "q"},
        ),
    ]  # fmt: skip


def _capped(s: Scene) -> list[Stage]:
    quantity, value, symbol, name = _result(s)
    scale, cap = (float(s.site.similarity.learned[one]) for one in ("s", "c"))
    return [
        Stage(
            "c·tanh", "Does the key fit the query?",
            f"Multiply query and key number by number and by {scale:.4g}, then add up. tanh keeps that sum between −{cap:.4g} and "
            f"{cap:.4g}, which makes all products of a key smaller by one factor. They then add up to {quantity}. With "
            f"{s.k} it is {value}.",
            f"{symbol} = c·tanh(s·q^{{i}}·k^{{j}} / c)   (s = {scale:.4g}, c = {cap:.4g})",
            ("k", "terms", name), ("terms", name), {"k": "q"},
        ),
    ]  # fmt: skip


def _cosine(s: Scene) -> list[Stage]:
    t = float(s.site.similarity.learned["log_t"].exp())
    sides = {"sides": "compared_q"}
    return [
        Stage(
            "q̂, k̂", "Only the direction counts",
            "Query and keys are divided by their lengths, so that a key gets no weight for its length. Only the "
            "direction of each is left.",
            "q̂^{i} = q^{i} / ‖q^{i}‖,  k̂^{j} = k^{j} / ‖k^{j}‖", ("k", "sides"), ("sides",), {"k": "q", **sides},
        ),
        Stage(
            "q̂∘k̂", "Does the key point the same way?",
            f"Multiply number by number and by t = {t:.4g}, then add up: t times the cosine of the angle between them."
            " Training finds t (it begins at 10). Without it no weight could be more than e² ≈ 7.4 times another. "
            f"With {s.k} the score is {s.score}.",
            "α_{i,j} = t·cos(q^{i}, k^{j}) = t Σ_{d} q̂^{i}_{d} k̂^{j}_{d}", ("sides", "terms", "scores"), ("terms", "scores"), sides,
        ),
    ]  # fmt: skip


def _general(s: Scene) -> list[Stage]:
    sides = {"sides": "compared_q"}
    return [
        Stage(
            "q·M", "The query is transformed first",
            "A learned matrix M turns the query into what is compared with the keys. All heads of this attention "
            "share it.",
            "q^{i}M", ("k", "sides"), ("sides",), {"k": "q", **sides},
        ),
        Stage(
            "qM∘k", "Does the key fit the transformed query?",
            f"Multiply number by number, then add up: that sum is the score. With {s.k} it is {s.score}.",
            "α_{i,j} = q^{i}M·k^{j} = Σ_{d} (q^{i}M)_{d} k^{j}_{d}", ("sides", "terms", "scores"), ("terms", "scores"), sides,
        ),
    ]  # fmt: skip


def _additive(s: Scene) -> list[Stage]:
    alignment, d = words.is_alignment(s.site), len(s.walk.comparison.q)
    left, right, before = (
        ("W s_{i−1}", "U h_{j}", "a") if alignment else ("W q^{i}", "U k^{j}", "k")
    )
    query_side, key_side = ("the state", "every h(j)") if alignment else ("the query", "every key")
    top = {"a": "a"} if alignment else {"k": "q"}
    sides = {"sides": "compared_q"}
    energy = "energy" if alignment else "score"
    symbol = "e" if alignment else "α"
    return [
        Stage(
            "W, U", "Both made comparable",
            (f"The matrix W makes {d} numbers of {query_side}, the matrix U makes {d} of {key_side}. Now the two can be"
            " added.")
            + (" U h(j) is the same at every step and is computed once." if alignment else ""),
            f"{left},  {right} ∈ R^{{{d}}}", (before, "sides"), ("sides",), {**top, **sides},
        ),
        Stage(
            "tanh", "Added, and kept between −1 and 1",
            "The two are added number by number and go through tanh. This is the hidden layer of a small network that"
            " learns which state fits which.",
            f"tanh({left} + {right})", ("sides", "products"), ("products",), sides,
        ),
        Stage(
            "v∘", "How well do they fit?",
            f"Each of the {d} numbers is multiplied by its number in v, and the products add up to the {energy}. "
            f"Nothing is divided by √d. With {s.k} they add up to {s.score}.",
            f"{symbol}_{{i,j}} = v·tanh({left} + {right}) = Σ_{{d}} v_{{d}} tanh(…)_{{d}}", ("products", "terms", "scores"),
            ("terms", "scores"),
        ),
    ]  # fmt: skip


COMPARED = {
    "scaled dot": _scaled_dot,
    "dot": _dot,
    DOT_TIMES: _times,
    CAPPED: _capped,
    "cosine": _cosine,
    "general": _general,
    "additive": _additive,
}
