"""What the page "Inside a head" says: the title of a walk, and each stage in a sentence and in a formula.

Formulas are plain text; _{…} and ^{…} mark what stands low or high. Notation: the lecture's a, q, k, v, α, α̂, b, with i the
query's position and j the key's.
"""

import math
from dataclasses import dataclass

from models.anatomy import Heads, Walk
from models.trace import AttentionSite
from viz_app import words
from viz_app.figures.labels import SPACE, Label

VIEWS = {
    "walk": "Step by step",
    "matrices": "Matrices",
    "scaling": "√dₖ",
    "heads": "Sum of the heads",
}
CONVENTIONS = {"rows": "A = Q·Kᵀ (a token is a row)", "columns": "A = Kᵀ·Q (a token is a column)"}


@dataclass(frozen=True)
class Stage:
    """One stop of the walk: `name` under the slider, what happens in words, and the same as a formula."""

    name: str
    title: str
    sentence: str
    formula: str


def quoted(label: Label) -> str:
    """A token inside a sentence: “cat”, [start]."""
    if label.special:
        return label.text
    return f"“{label.text.lstrip(SPACE) or label.text}”"


def token_names(site: AttentionSite, t: words.Terms) -> tuple[str, str]:
    """What the query tokens and the key tokens are called: ("French token", "English token")."""
    query = t.source_token if site.kind == "encoder_self" else t.target_token
    key = t.target_token if site.kind == "decoder_self" else t.source_token
    return query, key


def title(site: AttentionSite, head: int, t: words.Terms, query: Label, key: Label, weight: float) -> str:
    """What the walk is about: one weight of one head."""
    reader, read = token_names(site, t)
    who, whom = f"the {reader} {quoted(query)}", f"the {read} {quoted(key)}"
    return f"{words.place(site, head)}: how {who} comes to give {share(weight) if weight else 'none'} of its attention to {whom}"


def heads_title(site: AttentionSite, t: words.Terms, query: Label) -> str:
    """What the sum of the heads is about: one token at one layer."""
    side = "Encoder" if site.kind == "encoder_self" else "Decoder"
    reader, _ = token_names(site, t)
    kind = words.KIND_TITLES[site.kind].lower()
    return f"{side} layer {site.layer + 1}, {kind}: what each head adds to the {reader} {quoted(query)}"


def share(weight: float) -> str:
    """A weight as a share of the attention: "62 %", "0.3 %", "nothing"."""
    percent = 100 * weight
    if percent == 0:
        return "nothing"
    return f"{percent:.0f} %" if 1 <= percent <= 99 or percent == 100 else f"{percent:.2g} %" if percent < 1 else "over 99 %"


def stages(
    site: AttentionSite, w: Walk, every: Heads, key: int, query: Label, read: Label, blocked: dict[str, int],
    t: words.Terms,
) -> list[Stage]:
    """The stops of the walk in order; `blocked` counts, for each mask layer, the keys it hides from this query."""
    q, k, n = quoted(query), quoted(read), len(w.weights)
    root, weight = math.sqrt(site.d_head), float(w.weights[key])
    return [
        Stage(
            "a", "The vectors that arrive",
            f"Each token comes as a list of {len(w.a)} numbers, made by the layers before. {q} (on top) is about to read; "
            + _what_is_below(site, t),
            f"a^{{i}}, a^{{j}} ∈ R^{{{len(w.a)}}}   (d_{{model}} = {len(w.a)})",
        ),
        Stage(
            "q k v", "Query, keys and values",
            f"The head makes short vectors of {site.d_head} numbers. {q} gets a query: what it looks for. Every token that can "
            "be read gets a key: what it can be found by, and a value: what it hands over.",
            "q^{i} = W^{Q}a^{i} + b^{Q},  k^{j} = W^{K}a^{j} + b^{K},  v^{j} = W^{V}a^{j} + b^{V}"
            f"   (d_{{k}} = {site.d_head})",
        ),
        Stage(
            "q∘k", "Does the key fit the query?",
            f"Multiply query and key number by number, then add up. Where both have the same sign the product is positive. "
            f"With {k} the {site.d_head} products add up to {number(w.raw[key])}.",
            "q^{i}·k^{j} = Σ_{d} q^{i}_{d} k^{j}_{d}",
        ),
        Stage(
            "÷√dₖ", "Made smaller",
            f"A sum of {site.d_head} products grows large, so each is divided by √{site.d_head} = {root:.4g}. "
            f"For {k} that leaves the score {number(w.scores[key])}.",
            "α_{i,j} = q^{i}·k^{j} / √d_{k}",
        ),
        Stage("mask", "What may not be read", _masking(w, key, q, k, blocked), "α_{i,j} ← −∞  where the mask blocks j"),
        Stage(
            "softmax", "From scores to shares", _softmax(w, q, k, weight, n),
            "α̂_{i,j} = exp(α_{i,j}) / Σ_{j′} exp(α_{i,j′})",
        ),
        Stage(
            "×v", "Take from each value its share",
            f"Each value is multiplied by its share. {q} takes {share(weight)} of the value of {k}; the fainter a row, the less "
            "is taken.",
            "α̂_{i,j} v^{j}",
        ),
        Stage(
            "b", "Add up what was taken",
            f"The column added up is what this head found for {q}: a mixture of the values of all {n} tokens.",
            "b^{i} = Σ_{j} α̂_{i,j} v^{j}",
        ),
        Stage(
            "W_O", "All heads together", _output(site, w, every, q),
            "Concat(b^{i,1} … b^{i,h}) W^{O} = Σ_{h} b^{i,h} W^{O}_{h}  (+ b^{O})",
        ),
    ]


def explain(view: str, site: AttentionSite, t: words.Terms) -> str:
    """What stands under the picture of a view: in words, then in symbols."""
    d, h = site.d_head, site.n_heads
    return {
        "walk": f"{words.where_from(site, t)}\n\n{words.how_to_read(site)}",
        "matrices": "All steps of the walk for all tokens at once. One product **Q·Kᵀ** compares every query with every key, "
        "and none has to wait for another: that is why attention runs in parallel. Papers mostly write a token as a row, "
        "A = Q·Kᵀ with softmax over each row; the lecture writes it as a column, A = Kᵀ·Q with softmax over each column. "
        "The numbers are the same, turned.",
        "scaling": f"If the numbers of q and k were independent with mean 0 and variance 1, q·k would have variance d_k = {d}: "
        f"dividing by √{d} brings it back to 1 (Vaswani et al. 2017, §3.2.1). **Entropy** −Σ p·ln p says how evenly a query "
        "spreads its attention, in nats. The **gradient** of softmax is diag(p) − p·pᵀ; its size ‖·‖ (Frobenius) says how far "
        "the weights move when the scores do. The curves take any divisor; the dashed lines mark the model's and 1.",
        "heads": f"Concat(b¹ … b{_raised(h)})·W_O = Σₕ bʰ·W_Oʰ + bias: laying the {h} results side by side and multiplying by "
        "W_O is adding up one part from each head. **Length** says how much a head adds. The **cosine** with the output says "
        "whether it goes the way the sum goes; with the stream, whether it strengthens (above 0) or takes away (below 0) what "
        "the token's vector already holds.",
    }[view]


def heads_sentence(every: Heads, query: Label) -> str:
    """Which head adds most at this token, and what the sum is beside the stream it is added to."""
    best = int(every.norms.argmax())
    return (
        f"At {quoted(query)}, head {best + 1} adds most: a vector of length {float(every.norms[best]):.2f}. All heads and the "
        f"bias together make {float(every.total.norm()):.2f}, which is added to the token's own vector of length "
        f"{float(every.residual.norm()):.2f}."
    )


def _raised(n: int) -> str:
    return "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(n))


def number(value: float) -> str:
    """A number in a sentence, with a true minus sign."""
    return f"{float(value):.2f}".replace("-", "−")


def shown(n_shown: int, n_keys: int, rest: float) -> str:
    """What the walk says about keys it has no room for; empty if all are there."""
    if n_shown == n_keys:
        return ""
    return (
        f"{n_shown} of {n_keys} keys: the strongest, and the chosen one. The others hold "
        f"{share(rest) if rest else 'none'} of the weight; every sum is over all {n_keys}."
    )


def _what_is_below(site: AttentionSite, t: words.Terms) -> str:
    where = {
        "encoder_self": f"below is what it can read, all of {t.source}.",
        "decoder_self": f"below is what it can read, {t.target}.",
        "cross": f"below is what it can read: {t.source}, as the encoder's last layer left it.",
    }
    return where[site.kind]


def _masking(w: Walk, key: int, q: str, k: str, blocked: dict[str, int]) -> str:
    if not blocked:
        return f"Nothing is blocked here: {q} may read every token, so the scores stay as they are."
    layers = " and ".join(f"{count} by the {name} mask" for name, count in blocked.items())
    this = f"{k} is open and keeps its score." if w.allowed[key] else f"{k} is blocked: its score becomes −∞."
    return f"{int((~w.allowed).sum())} of {len(w.allowed)} tokens are blocked for {q} ({layers}). {this}"


def _softmax(w: Walk, q: str, k: str, weight: float, n: int) -> str:
    if not w.allowed.any():
        return f"Every token is blocked, so {q} reads nothing: all its weights are 0, and so is b."
    among = int(w.allowed.sum())
    return (
        f"Softmax turns scores into shares: none is negative, together they make 1. {k} gets {weight:.4f}; "
        f"an even split over {among} token{'s' if among > 1 else ''} would be {1 / among:.4f}."
    )


def _output(site: AttentionSite, w: Walk, every: Heads, q: str) -> str:
    if site.n_heads == 1:
        return f"There is one head. W_O turns its b into {len(w.added)} numbers, which are added to the vector of {q}."
    return (
        f"The {site.n_heads} heads' results stand side by side and W_O mixes them, which is the same as adding up one part "
        f"from each head. This head's part has length {float(w.added.norm()):.2f}, the sum {float(every.total.norm()):.2f}, "
        f"and the vector of {q} it is added to {float(every.residual.norm()):.2f}."
    )
