"""The wording of the page Compare."""

from collections.abc import Sequence
from dataclasses import dataclass

from models.analysis.comparison import POSITIONS, TOKENS, WORDS, KindPair
from models.number_text import how_many
from models.trace import AttentionSite, Trace
from models.trace.outputs import Numbers
from viz_app import words
from viz_app.drawing.labels import shorten
from viz_app.drawing.notes import first_output


@dataclass(frozen=True)
class Sides:
    """The names of the two runs: above a picture, and in a sentence."""

    captions: tuple[str, str]
    first: str
    second: str


PAGE = Sides(("This run", "Pinned run"), "this run", "the pinned run")
NOTEBOOK = Sides(("First run", "Second run"), "the first run", "the second run")
COMPARE_QUESTION = "Compare: which heads differ, and where?"
COMPARE_ANSWER = (
    "The stronger the colour, the further apart. Click a head for both maps and their difference."
)
NO_TEXT_TO_COMPARE = (
    "**This model reads no text**, so there are no held-out texts to compare heads on. The section **This "
    "text** compares them on the {} that is shown."
)
NO_HEADS_TO_COMPARE = "This model has no attention, so there are no heads to compare."
BESIDE_ITSELF = "Compare with:"
PINNED_HEAD = "Head of the pinned run"
NOTHING_LABEL = "[nothing]"  # that a model generates
SAME_HEAD = "with the same head"
WITH_HELP = "Compare each head with the one of the same layer and number, or all with one head."
COMPARE_TOO_LONG = "This run has {} tokens; every head can be compared for at most {}."
OTHER_LENGTHS = "The two texts have {} and {} tokens, so their cells do not match. Choose Same text above to compare the heads."
COMPARED_SINK_NOTE = "What a row leaves to no token counts as one more key."
COMPARED_BY_NOTE = {
    TOKENS: "Compared token by token.",
    WORDS: "The tokens differ, so heads are compared by words. A word has the mean over its queries and the sum over its keys.",
    POSITIONS: "The texts differ but have equally many tokens, so heads are compared by position.",
}
OTHER_TASK = "Trained for different tasks, so the answers are not compared."
UNKNOWN_TASK = "The task of one model is not recorded, so the answers are not compared."
VECTORS_APART = "Only the size of an answer in vectors is shown, so the answers are not compared."
MAX_WORD_IN_SENTENCE = 24  # characters in a sentence
OTHER_TOKENS = "[other tokens]"
REST_NOTE = "all tokens outside the text together"
REREAD = "Both read this run's answer."
COMPARE_LEGEND = "mean Jensen–Shannon divergence of the rows, in bits"
DISTANCE_HELP = """**Distance.** Each row of weights is a distribution over the keys. Two rows are compared by the Jensen–Shannon divergence
in bits. It is 0 if they are equal, 1 if they share no key. A head counts by the mean over its rows. A row in which only one
run may attend to anything counts ½. One in which neither may does not count.

**Difference.** Weight in this run minus weight in the other, cell by cell. Its colours have one scale for all heads of the page.

Models trained the same way from different random seeds differ too. Head 1 of one need not do what head 1 of the other does.
The section Many texts matches heads, and says how certain each match is. Other runs may give another picture."""
ANSWER_MANY = "Matched one to one over held-out texts, each head has its counterpart and a margin."
WITHIN = "This model's heads, compared with each other. Pin another checkpoint to match its heads."
MATCHES_NOT_MEASURED = (
    "Nothing is measured yet for these weights. The button below runs held-out texts and compares every head with "
    "every head."
)
KIND_LACKS = "{} has no attention that can be compared with this one on every text."
NO_NULL = "There are no other seeds of this recipe to show how close matches usually are."
ONE_HEAD = "The model has one head of this kind."
MATCHES_HELP = """**Distance.** The mean Jensen–Shannon divergence of rows in bits over texts that this model holds out from its training. Both
models read the same target. A run's edits and masks are ignored; its training step and
similarity are used.

**Match.** Heads are matched one to one, over all layers, at the least total distance (the Hungarian algorithm). The **margin** is
how much further the nearest other head is; below 0, another head is nearer and matched elsewhere.

**p** is (1 + k) / (1 + n): k of n matches between other seeds are at least as close. The match itself is counted.
It is small where the two models are more alike than two seeds usually are."""


def compared_by(way: str, kinds: Sequence[str]) -> str:
    """Say how heads are compared, and of which kinds of attention if it is not all."""
    note = COMPARED_BY_NOTE[way]
    return f"{', '.join(kinds)}: {words.lower_first(note)}" if kinds else note


def compared_head_name(site: AttentionSite, head: int) -> str:
    """Return the attention, the layer and the head, counted from 1."""
    layer = f"{words.kind_short(site)}, layer {site.layer + 1}"
    return layer if site.n_heads == 1 else f"{layer}, head {head + 1}"


def kind_label(site: AttentionSite) -> str:
    """Return the short name of a kind of attention."""
    return words.kind_short(site)


def matches_sentence(n: int, same: int, clear: int) -> str:
    """Say how many matches go to the head of the same number, and how many are also the nearest."""
    numbered = f"{same} of {n} heads are matched to the head of the same layer and number."
    return f"{numbered} In {clear} of {n} matches, the matched head is also the nearest one."


def seed_baseline_sentence(near: int, n: int, n_drawn: int, seeds: Sequence[str]) -> str:
    """Say how many matches are closer than those between other seeds, if these are enough."""
    if 1 / (1 + n_drawn) > 0.05:
        between = f"{n_drawn} matches between {len(seeds)} other seeds"
        return f"{between} are too few to compare with: none could be closer at p ≤ 0.05."
    return f"{near} of {n} are closer than 95 % of {n_drawn} matches between {len(seeds)} other seeds (p ≤ 0.05)."


def most_alike(first: str, second: str, distance: float) -> str:
    """Name the two heads of a model that are most alike."""
    return f"{first} and {second} are most alike: {distance_in_bits(distance)} apart."


def over_texts(n: int, advised: int) -> str:
    """Say over how many texts heads were compared, and how many are advised."""
    return f"Over {n} held-out texts{f'; {advised} or more are advised' if n < advised else ''}."


def furthest(place: str, distance: float, n: int) -> str:
    """Say which of n heads differs most."""
    if distance == 0:
        return (
            "Every head is the same in both runs."
            if n > 1
            else "The head is the same in both runs."
        )
    if n == 1:
        return f"{place} differs by {distance_in_bits(distance)}."
    return f"{place} differs most: {distance_in_bits(distance)}."


def nearest_head_text(reference: str, place: str, distance: float) -> str:
    """Say which head is nearest to a fixed one; `place` is "" if there is no other."""
    if not place:
        return f"{reference} is the only head of its kind."
    return f"Nearest to {reference}: {place}, {distance_in_bits(distance)} away."


def distance_in_bits(distance: float) -> str:
    """Return a distance with its unit."""
    return f"{distance:.3f} bits" if distance >= 0.0005 or not distance else "under 0.001 bits"


def partial(pair: KindPair) -> str:
    """Say what is compared if one run has layers or heads that the other lacks; else ""."""
    if not pair.is_partial:
        return ""
    layers, heads = how_many(pair.n_layers, "layer"), how_many(pair.n_heads, "head")
    return f"the {layers} of {heads} that both have"


def compared_answers(first: Sequence[str], second: Sequence[str], sides: Sides = PAGE) -> str:
    """Say where two answers diverge."""
    start = first_difference(first, second)
    if start < 0:
        return "The same answer."
    one, other = (
        _quoted(some[start]) if start < len(some) else "nothing" for some in (first, second)
    )
    return f"The answers diverge at word {start + 1}: {one} in {sides.first}, {other} in {sides.second}."


def _quoted(word: str) -> str:
    return f"“{shorten(word, MAX_WORD_IN_SENTENCE)}”"


def tasks_apart(first: str, second: str) -> str:
    """Say why the answers of models with these tasks are not compared; "" if they are."""
    if first == second:
        return ""
    return UNKNOWN_TASK if "unknown" in (first, second) else OTHER_TASK


def vectors_apart(first: Trace, second: Trace) -> str:
    """Say why the answers of two runs are not compared if one is vectors; "" if none is."""
    is_counted = any(isinstance(first_output(run), Numbers) for run in (first, second))
    return VECTORS_APART if is_counted else ""


def first_difference(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the index of the first word that differs; −1 if none does."""
    if first == second:
        return -1
    pairs = zip(first, second, strict=False)
    same = next((i for i, (one, other) in enumerate(pairs) if one != other), None)
    return min(len(first), len(second)) if same is None else same


def largest_difference_sentence(place: str, query: str, key: str, value: float, other: str) -> str:
    """Say in which cell a head's two maps differ most.

    `value` is the first run's weight minus the other's.
    """
    if not value:
        return "No weight differs."
    way = "more" if value > 0 else "less"
    return f"Largest difference: {query} attends {abs(value):.3f} {way} to {key} in {place} than in {other}."
