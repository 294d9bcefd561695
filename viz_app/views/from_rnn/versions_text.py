"""What the section "Three models" says."""

from collections.abc import Sequence

from models.architectures import Model
from models.layers.sublayers import FEED_FORWARD
from models.percent import percent

FIXED_VECTOR, ALIGNMENT, NO_RECURRENCE = (
    "RNN, one fixed vector",
    "RNN with Bahdanau's alignment",
    "Attention without recurrence",
)
N_OTHERS = 24  # tokens that each token of the source becomes in turn
BOTTLENECK = "The bottleneck: all that the first of them is given of the text"
VECTOR = "h(m)"
BARS = f"How much of h(m) each token changes: ‖h(m)′ − h(m)‖ / ‖h(m)‖ when it becomes another, mean of {N_OTHERS} tokens drawn once."
TYPED, KNOWN = "the text you typed for it", "it should say"


def bottleneck(whose: str, n: int) -> str:
    """What the vector is."""
    return f"The encoder of {whose} reads everything, and hands on {n} numbers, the same {n} for three words as for thirty."


def legend(has_reference: bool, n_texts: int) -> str:
    """How what differs is marked, and against what; empty where there is nothing to compare a text with."""
    if not has_reference and n_texts < 2:
        return ""
    against = (
        "what it should say"
        if has_reference
        else "what the others write, because what it should say is not known"
    )
    return (
        f"Compared with {against}: underlined, what it has beyond that (invented); struck through, what it lacks (lost). Other "
        "words for the same thing are marked too."
    )


def verdict(has_reference: bool, invented: bool, lost: bool) -> str:
    """Before the pieces that one text lost."""
    if lost:
        return "Lost: "
    if invented:
        return "Nothing lost."
    return (
        "Word for word what it should say."
        if has_reference
        else "Nothing that the others do not have."
    )


def found(changes: Sequence[float], rewritten: tuple[int, int]) -> str:
    """Where the vector hears most, in Markdown: the first token, the last and the one that changes it least, all computed; and in
    how many trials with that one replaced the text came out different."""
    first, last, least = changes[0], changes[-1], min(changes)
    place = list(changes).index(least) + 1
    return (
        f"Changing the **first** token changes h(m) by {percent(first)} of its length, the **last** by {percent(last)}, and token "
        f"{place} of {len(changes)} least: by {percent(least)}. With that one replaced, the model wrote another text in "
        f"**{rewritten[0]} of {rewritten[1]}** trials."
    )


def attention_title(model: Model) -> str:
    """The name of a model that attends without recurrence, by the parts its layers have."""
    if not any(kind.role == "self" for kind in model.kinds):
        return "Cross-attention alone, without recurrence"
    if any(sublayer.role == FEED_FORWARD for sublayer in model.sublayers):
        return "Self-attention, as in the Transformer"
    if not model.sublayers:  # the parts of its layers are not known
        return "Self-attention, without recurrence"
    added = all(sublayer.adds for sublayer in model.sublayers)
    return f"Self-attention, without {'' if added else 'residual connections or '}feed-forward"


_WHY = (
    "**Why it loses.** The decoder of the first model never sees the source again: with every other number of the encoder set to 0 "
    "it says the same (see the check)."
)


def why(aligns: bool, heads: int, layers: int) -> str:
    """Explain what the first model lacks and the others have: whether there is one with an alignment, and in how many heads and
    layers the third attends to the source (0 where there is no third model)."""
    parts = []
    if aligns:
        parts.append("The second keeps all states h(j) and chooses among them anew at every step")
    if heads:
        name = "third" if aligns else "model without recurrence"
        third = f"the {name} chooses among the vectors of all tokens"
        where = f"{heads} head{'s' * (heads != 1)}"
        where += f" of each of {layers} layers" if layers != 1 else " of one layer"
        parts.append(f"{third}, in {where}")
    text = "; ".join(parts)
    return f"{_WHY} {text[0].upper()}{text[1:]}." if text else _WHY


def missing(names: Sequence[str]) -> str:
    """Which of the three models there is none of."""
    return f"For this task, on the same data and tokens, there is no trained model of this kind: {', '.join(names)}."
