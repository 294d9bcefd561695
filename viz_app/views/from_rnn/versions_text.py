"""What the section "Three models" says."""

from collections.abc import Sequence

from models.percent import percent

TITLES = (
    "RNN, one fixed vector",
    "RNN with Bahdanau's alignment",
    "Self-attention, as in the Transformer",
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


WHY = (
    "**Why it loses.** The decoder of the first model never sees the source again: with every other number of the encoder set to 0 "
    "it says the same (see the check). The second keeps all states h(j) and chooses among them anew at every step; the third "
    "does so in several heads and layers."
)


def missing(names: Sequence[str]) -> str:
    """Which of the three models there is none of."""
    return f"For this task, on the same data and tokens, there is no trained model of this kind: {', '.join(names)}."
