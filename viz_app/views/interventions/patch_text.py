"""The wording of the section Patch."""

import math

from models.number_text import decimal
from viz_app import words
from viz_app.views.interventions.text import effect_size

FEED_FORWARD_PART, GRADIENT_PART = "feed-forward", "gradient"
INPUT, LAST = "Input", "End"
PATCH_ANSWER = "Click a part to take it from a second run, or drag it onto the other grid. Which part makes the difference?"
NOTHING_TO_PATCH = "Nothing inside this model can be taken from another run."
EMPTY = "Type a second text: its parts are put into this run, one at a time."
NO_DECISION = "The two runs have no answer in common that could be compared."
NO_COUNTERPART = (
    "This text's answer is at tokens that have no counterpart in the second text. Change fewer words of it, or give both "
    "texts the same number of tokens."
)
LABEL_HELP = (
    "A text that differs in one word shows most. With the same number of tokens every position has its counterpart. "
    "Otherwise the common beginning and the common end are aligned. Parts already taken still come from the text they were taken from."
)
FILE_HELP = "Choose the {noun} of the other run. Parts already taken still come from the {noun} they were taken from."
PART_TITLES = {
    "residual": "Residual stream",
    FEED_FORWARD_PART: "Feed-forward",
    GRADIENT_PART: "Heads by gradient",
}
STATES_TITLE = "States"  # of a model whose layers add nothing to a stream
OUTPUTS_TITLE = "Attention outputs"  # of a model whose layers are not known
_GRADIENT_HELP = "A gradient guesses what each head would do (attribution patching): the scatter shows how far to trust it."
_STREAM_HELP = (
    "The residual stream after each layer holds all that a token has gathered so far. The output of a feed-forward is what "
    "that sublayer alone adds."
)
_OUTPUTS_HELP = "The output of an attention is what that sublayer alone adds."
_STATES_HELP = "A state holds all that a layer passes on to the next."
_RECURRENT_HELP = "A state holds all that the model passes on from one token to the next."
STATES_GO_ON = "A replaced state is what the next step starts from, so the states of tokens read later change too."
EXACT_EFFECT, GUESSED_EFFECT = "effect of the patch (exact)", "gradient estimate"
SCATTER_HINT = "On the line the guess is exact. Click a head to take it from the other {noun}."
SLOPE_NAME = "the largest guess by a finite difference"
SLOPE_OF_PATCH = "{}: {:.4f} by the gradient, {:.4f} by going 1 % of the way in each direction ({})"
SLOPE_ROUNDED = " In {}, a small step is lost in rounding, so no estimate is checked."
EFFECT_UNITS = {"difference": "Difference", "share": "Share of gap"}
UNIT_HELP = (
    "The change itself, or its share of the gap between the two runs: (patched − corrupt)/(clean − corrupt). 0: the patch "
    "does nothing; 1: it makes the whole difference."
)
TITLES = {
    "needed": "Needed? This {noun}, with one part of the other",
    "enough": "Enough? The other {noun}, with one part of this",
}
MEANINGS = {
    "needed": "A part is needed if the answer is lost without it.",
    "enough": "A part is enough if it restores the answer on its own.",
}
HINT = "Click a cell or a head to take it from the other {noun}, or drag it onto the other grid."
NOTHING_PATCHED = "Nothing is patched yet: click a cell or a head."
PATCH_EXPLANATION = """Each cell is one run of the model in which **that part alone** comes from the other run. This is activation
patching (Zhang and Nanda 2024). Its number is the change of what is measured: after minus before.

**Needed** (noising) puts a part of the other {noun} into this run. If the answer is lost, the run needs that part.
**Enough** (denoising) puts a part of this {noun} into the other run. If the answer comes, that part alone is enough. A part
can be enough and not needed, when another part does the same work. It can be needed and not enough, when others must help.

**Heads by gradient** compares that number of each head with ∂f/∂z · (z of the other run − z). Here z is the head's output and
f is what is measured. This is attribution patching (Nanda 2023): one gradient for all heads. It is exact where the model is
linear on the way from one run to the other.

A model that writes another text reads the same target in both runs, so that only the {source} differs. The numbers are those
of the two runs without other edits. Masks and switched-off heads change only the answer beside the grids. This is one pair
of {noun}s: the same part may do something else elsewhere."""


def patch_explanation(noun: str, is_recurrent: bool) -> str:
    """Explain the numbers of the section."""
    source = "source" if noun == "text" else noun
    explanation = PATCH_EXPLANATION.format(noun=noun, source=source)
    return f"{explanation}\n\n{STATES_GO_ON}" if is_recurrent else explanation


def same_inputs(noun: str) -> str:
    """Say that both runs read the same."""
    remedy = "Change a word of the second text." if noun == "text" else "Choose another one."
    return f"Both {noun}s are the same, so nothing would change. {remedy}"


def too_long(noun: str) -> str:
    """Say that no part can be tried."""
    if noun == "text":
        return "These texts are too long to try every part at once. Shorten them."
    return f"These {noun}s have too many tokens to try every part at once."


def part_title(part: str, has_stream: bool, has_states: bool = True) -> str:
    """Return the name of a part; `has_stream` is True if the layers add to a residual stream.

    `has_states` is False for a model of which only the outputs of attentions are known.
    """
    if has_stream or part != "residual":
        return PART_TITLES[part]
    return STATES_TITLE if has_states else OUTPUTS_TITLE


def part_help(has_stream: bool, is_recurrent: bool, has_states: bool = True) -> str:
    """Explain the parts."""
    if not has_states:
        return f"{_OUTPUTS_HELP} {_GRADIENT_HELP}"
    states = f"{_RECURRENT_HELP} {STATES_GO_ON}" if is_recurrent else _STATES_HELP
    return f"{_STREAM_HELP if has_stream else states} {_GRADIENT_HELP}"


def layer_row_label(number: int) -> str:
    """Return the label of a layer's row."""
    return f"Layer {number + 1}"


def stream_title(stack: str, states: str = "") -> str:
    """Return the name of a row of states."""
    return f"{states.capitalize()} stream" if states else stack.capitalize()


def recurrent_label(name: str) -> str:
    """Return the label of an intermediate of a model without layers: the last part of its name."""
    return name.rpartition(".")[2].replace("_", " ").capitalize()


def unreadable_second(why: str) -> str:
    """Say why the second text cannot be read."""
    return f"{why[:1].upper()}{why[1:]}."


def counts(n: int, m: int, noun: str) -> str:
    """Say that two inputs cannot be aligned."""
    return f"This {noun} has {n} tokens and the second {m}, and they cannot be aligned. Give both the same number."


def alignment_sentence(n: int, m: int, n_aligned: int, noun: str) -> str:
    """Say how the positions of two inputs correspond."""
    length = f"{m} token{'s' * (m != 1)}"
    if n == m:
        return f"{length}, as many as this {noun}, so the positions match."
    how = "in time" if noun == "sound" else "at the common beginning and end"
    return (
        f"{length}; this {noun} has {n}. Aligned {how}: {n_aligned}. The hatched "
        "ones have no counterpart."
    )


def tried_positions(n_tried: int, n: int, noun: str, reads_one: bool) -> str:
    """Say which positions of a long input are tried.

    With `reads_one` the answer is read from one position of a file, which is among them.
    """
    extent = f"{n_tried} of {n} positions are tried"
    if noun == "text":
        return f"Long text: {extent}, the first that differ and the last."
    return f"{extent}: where the inputs differ most{' and the answer is read' * reads_one}."


def heads_not_tried(noun: str) -> str:
    """Say that the heads of a long input are not tried."""
    why = f"this {noun} has too many tokens"
    return f"The heads are not tried: {'shorten the text to see them' if noun == 'text' else why}."


def measure(token: str, rival: str) -> str:
    """Name what is measured."""
    return f"logit({token}) − logit({rival})" if rival else f"log p({token})"


def metric_values(
    measured: str, row: int, this: float, other_row: int, other: float, noun: str
) -> str:
    """Name what is measured, with its value in both runs."""
    there = "" if other_row == row else f" at decision {other_row + 1}"
    return (
        f"Measured: {measured} at decision {row + 1}: {decimal(this, 2)} in this {noun}, "
        f"{decimal(other, 2)} in the other{there}"
    )


def no_change(part: str, least: float, unit: str) -> str:
    """Say that no cell or no head has an effect of this size."""
    return f"No {part} changes it by {least:g} {unit} or more."


def strongest_part_sentence(place: str, value: float, unit: str) -> str:
    """Say what the strongest part does."""
    if unit == "share":
        return _of_gap(place, "takes away", value)
    return f"{place} {'raises' if value > 0 else 'lowers'} it by {effect_size(abs(value))} {unit}."


def gap_share_sentence(place: str, value: float) -> str:
    """Say which share of the gap the strongest part brings."""
    return _of_gap(place, "closes", value)


def _of_gap(place: str, what: str, value: float) -> str:
    share = words.percent(abs(value)) if abs(value) < 1 else f"{100 * abs(value):.0f} %"
    return (
        f"{place} {what} {share} of the gap."
        if value > 0
        else f"{place} widens the gap by {share}."
    )


def patch_reach_text(
    n: int, n_cells: int, earlier_layers: int | None, earlier_tokens: int, later_tokens: int
) -> str:
    """Say which cells the patches change, besides those that were put in.

    Patched tokens are not counted; `earlier_layers` is None if the rows of the grid are not layers.
    """
    if not n:
        return "The patch changes no other cell of this grid."
    where = []
    if earlier_layers is not None:
        where.append("earlier layers too" if earlier_layers else "only deeper layers")
    if earlier_tokens and later_tokens:
        where.append("tokens on both sides")
    elif later_tokens:
        where.append("only the same and later tokens")
    elif earlier_tokens:
        where.append("only the same and earlier tokens")
    else:
        where.append("no other token")
    return f"Framed: the patch reaches {n} of {n_cells} other cells, {', '.join(where)}."


def correlation(r: float) -> str:
    """Return two decimals, or more if they would round to 1."""
    digits = next((d for d in (2, 3, 4) if abs(float(f"{r:.{d}f}")) < 1), 2)
    return decimal(r, digits)


def agreement(r: float, n: int, place: str, guess: float, exact: float) -> str:
    """Say how the guesses correlate with the effects, and which is furthest off."""
    if n == 1:
        how = "1 head, so no correlation"
    elif math.isnan(r):
        how = f"{n} heads, no correlation: estimate or effect never changes"
    else:
        how = f"{n} heads, r = {correlation(r)}"
    return f"{how}. Largest error: {place} (estimate {effect_size(guess)}, exact {effect_size(exact)})."


def no_share(gap: float) -> str:
    """Say why the effects are not given as shares."""
    return f"The gap between the runs ({decimal(gap, 2)}) is too small for shares."


def reach_of_heads(n: int, n_cells: int) -> str:
    """Say how many cells patched heads change."""
    return f"Framed: the patch reaches {n} of {n_cells} cells of this grid."
