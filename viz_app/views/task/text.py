"""What the page Task says: what the model is for, how surprised it was, what it expected at one place, in words made from
numbers."""

import math
from typing import Any

from models.analysis.expectations import Expectations
from models.trace import AttentionSite
from models.trace.outputs import NextToken, Output
from viz_app import words

QUESTION = "Task: what is this model for, and what does it answer?"
UNKNOWN = "The text ends here: nothing follows yet."
READING = "Shaded by weight, 0 to 1; hatched tokens are masked. Another layer or head: choose above, or on the page Attention."
NO_ATTENTION = "This model has no attention: no row of weights says what its answer read."
CONTINUES, WRITES = "says of every token how probable it is as the next", "reads one text and writes another"
ANSWERS = "reads a text whole and answers in one step"
NO_PICTURE = (
    "**This model does not write**, so there is no next token to be surprised by: it reads the whole text, in both directions, and "
    "its answer is the one above. What its tokens read of each other is on the page Attention. To see a text token by token, open "
    "**gpt**; to see one written, **eng-fra**."
)

EXPLANATION = """
**Surprisal** of a token is −log₂ p, where p is the probability that the model gave it before it had read it, given all that
stands before: 0 bits if it was certain, 1 bit more each time p halves. **Entropy**, −Σ p log₂ p, is the surprisal to be
expected before the token is known. **Perplexity** is 2 to the mean surprisal.

**The token that answers** is the one before: from its last vector the model makes the logits of what follows, and softmax
makes them probabilities. Its attention row says what one head read for that.
"""


def purpose(terms: words.Terms, output: Output, training: dict[str, Any]) -> str:
    """What the model is for, and how good it is at that if its record says so: the first of its scores."""
    writes = isinstance(output, NextToken)
    does = terms.purpose or (ANSWERS if not writes else WRITES if output.is_closed else CONTINUES)
    scores = found if isinstance(found := training.get("scores"), dict) else {}
    first = [name for name in scores if name != "cases"][:1]
    measured = words.measured({name: scores[name] for name in (*first, "cases") if name in scores})
    return f"This model {does}.{f' {measured[:1].upper()}{measured[1:]}.' if measured else ''}"


def title(terms: words.Terms, output: NextToken, field: str, teacher_forced: bool) -> str:
    """What the places of the text show."""
    if not output.is_closed:
        return f"How surprising each token of {terms.of(output.stream).text} is, given what stands before it"
    label = terms.label(field)
    if teacher_forced:
        return f"{label}, as given: how probable the model finds each token, and what it finds most probable besides"
    return f"{label}, as the model writes it: each token with its probability, and the most probable others"


def scale(output: NextToken) -> list[str]:
    """The two ends of the places' colours, and how to use them."""
    if output.is_closed:
        return ["0", "1  probability", "Click a token to see what was expected there."]
    n = output.logits.shape[1]
    most = f"{bits(math.log2(n))} bits, as if all {n:,} tokens were equally likely; more looks the same"
    return ["0", most, "Click a token to see what was expected in its place."]


def summary(expected: Expectations) -> str:
    """How hard the text was to guess, in one sentence."""
    n = len(expected.surprisal)
    if not n:
        return "Nothing follows anything yet: there is no token to be surprised by."
    return (
        f"{n} token{'s' * (n != 1)}, {bits(expected.mean_surprisal)} bits each on average: perplexity "
        f"{choices(expected.perplexity)}, as hard to guess as {choices(expected.perplexity)} equally likely tokens."
    )


def answer_title(before: str, special: bool) -> str:
    """Whose next token is shown."""
    return f"Expected after {before if special else f'“{before}”'}"


def fact(token: str, probability: float, surprisal: float, rank: int, n_vocabulary: int, mark: str) -> str:
    """What really stands there, and how probable it was."""
    return (
        f"{mark.capitalize()}: “{token}”, probability {percent(probability)}, rank {rank:,} of {n_vocabulary:,}, "
        f"{bits(surprisal)} bits."
    )


def rest(n_shown: int, mass: float, entropy: float) -> str:
    """What the listed tokens are of the whole distribution."""
    return (
        f"These {n_shown} hold {percent(mass)} of the probability. Entropy {bits(entropy)} bits: as open as a choice among "
        f"{choices(2**entropy)} equally likely tokens."
    )


def reading_title(site: AttentionSite, head: int, terms: words.Terms, token: str, special: bool) -> str:
    """Which row of attention is shown."""
    name = token if special else f"“{token}”"
    return f"{words.place(site, head)}: what {name}, the token that answers, reads of {terms.of(site.key_stream).text}"


def site_label(site: AttentionSite) -> str:
    """An attention site in a list."""
    return words.kind_short(site) if words.is_alignment(site) else f"{words.kind_short(site)}, layer {site.layer + 1}"


def bits(value: float) -> str:
    """A number of bits."""
    return "∞" if math.isinf(value) else f"{value:.2f}"


def choices(value: float) -> str:
    """A number of equally likely tokens."""
    return "∞" if math.isinf(value) else f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def percent(p: float) -> str:
    """A probability in percent; what would round to 0 or to 100 says so."""
    if 0 < p < 0.0005:
        return "< 0.05 %"
    return "> 99.95 %" if 0.9995 <= p < 1 else f"{100 * p:.1f} %"
