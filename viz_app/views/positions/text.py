"""The wording of the page Positions: formulas, measured tables, results of the shuffle test."""

from torch import Tensor

from models.analysis.shuffle import ShuffleTest
from models.architectures import Model
from models.architectures.base import (
    BY_MASK,
    BY_ROTATION,
    BY_SCORES,
    BY_STATES,
    BY_VECTORS,
    UNSEEN,
)
from viz_app import words
from viz_app.views.positions.charts import NEVER

UNRELATED = 2**0.5  # the change at which a vector is at a right angle to its old self
SAME_VECTOR, SAME_VECTOR_FLOAT = (
    1e-6,
    1e-4,
)  # of a vector's length: no change, and no change but rounding through every layer

# source of word order → what a model without a table of position vectors does instead
NO_TABLE_REASONS = {
    BY_MASK: "has no position vectors at all",
    BY_STATES: "has no position vectors: its states carry the order",
    BY_SCORES: "adds no position vectors: each score has a term for the distance between the two tokens",
    BY_ROTATION: "adds no position vectors: its queries and keys depend on the positions of their tokens",
    BY_VECTORS: "adds positions to the token vectors, but no table of them was found",
    UNSEEN: "shows no position vectors and no other source of word order",
}
RECURRENT = (
    "**This model has no position vectors, and needs none.** It is an RNN: each state is made from the previous one "
    "and a token. So the order is in the recurrence itself. "
)

_RELATIVE = (
    "**This model adds no position vectors: its positions are relative.** Each score has a term for the distance between "
    "the two tokens, from a vector r of sines and cosines. The page **Inside a head** shows it, stage “position”. The "
    "order in which tokens are predicted is a different matter; the page **Task** changes it. Open **eng-fra** or "
    "**bert** for a shuffle test. The other sections show the vectors that other models add."
)
_NOT_SHUFFLED = (
    "**There is no shuffle test for this model.** The test needs a model that reads a text all at once, in any order."
    " Here every token attends only to those before it, so a text in another order is another text. Open **eng-fra** "
    "or **bert** for the test; "
)
_NOT_OURS = (
    "**There is no shuffle test for this kind of model.** The test runs a copy of it without position vectors, which "
    "cannot be made here. Open **eng-fra** or **bert** for the test; "
)
_NOT_ATTENDING = (
    "**There is no shuffle test for this model.** The test follows the vector of each token through the layers. Here "
    "the tokens of the text do not attend to each other, so no layer changes their vectors. Open **eng-fra** or "
    "**bert** for the test; "
)
_OWN_VECTORS = "the other sections show this model's own position vectors."
_NO_VECTORS = "the other sections show the vectors that other models add. This one {}."
_TURNED = (
    "this model looks up no position vectors. It rotates its queries and keys, as the sections **Rotation** and **Score"
    " by distance** show."
)


NO_OWN_TABLE = "{} has no position table of its own."
OWN_TABLE = "model"  # picked beside the formulas: the table of the loaded checkpoint
TABLE_NAMES = {
    "paper": "The paper's",
    "2^i": "Misprint 2ⁱ",
    "sin-sin": "Misprint sin, sin",
    OWN_TABLE: "This model's own",
}
LATEX = {
    "paper": r"\sin\frac{pos}{10000^{2i/d}},\;\;\cos\frac{pos}{10000^{2i/d}}",
    "2^i": r"\sin\frac{pos}{10000^{\mathbf{2^i}/d}},\;\;\cos\frac{pos}{10000^{\mathbf{2^i}/d}}",
    "sin-sin": r"\sin\frac{pos}{10000^{2i/d}},\;\;\mathbf{\sin}\frac{pos}{10000^{(\mathbf{2i+1})/d}}",
}
TABLE_SOURCES = {
    "paper": "the paper's formula",
    "2^i": "the misprint 2ⁱ",
    "sin-sin": "the misprint with sine twice",
}
WHAT = {
    "paper": "Dimensions come in pairs, a sine and a cosine of one wavelength. From pair to pair the wavelength grows"
    " by the same factor, from 2π to 10000·2π positions.",
    "2^i": "2ⁱ is printed instead of 2i. The exponent doubles from pair to pair. From pair log₂ d on (counted from "
    "0), no wavelength is under 60,000 positions.",
    "sin-sin": "Sine is printed twice, the second time with 2i+1. No dimension has a cosine partner of its own "
    "wavelength.",
}


NO_WAVES = (
    "**Learned vectors have no wavelength.** They are trained like every other weight, and no formula determines "
    "them. Look at the map: are neighbouring positions alike?"
)
BAND_OF_DISTANCE = "Line: mean over all pairs at this distance; band: min–max. No band: similarity depends on distance alone."
SHIFT_HELP = "Is PE(pos+k) one fixed matrix times PE(pos), wherever pos is?"
PICTURES_NOTE = (
    "Each picture has its own download in its upper right corner, when the pointer is on it."
)
TABLES_ONLY = "This model needs no such table: each state is made from the one before it. Models with attention add one."

EDITS_POSITIONS = (
    "**There is no shuffle test under this edit.** It depends on positions of the text, and in another order other "
    "tokens are there. Undo the edit to see the test."
)
NOT_TRANSLATED = "Not translated: an edit of the decoder depends on positions of the source."
NOTHING_ASKED = (
    "The change of the prediction is shown as soon as there is one. Hide a token on the page Task, type "
    "{}, or type a second text."
)


def not_shuffled(model: Model) -> str:
    """Explain why a model has no shuffle test."""
    vectors = (
        _OWN_VECTORS
        if model.positions is not None
        else _TURNED
        if model.rotation(2) is not None
        else _NO_VECTORS.format(NO_TABLE_REASONS[model.order_source])
    )
    if model.stack == "decoder":
        return _NOT_SHUFFLED + vectors
    if not model.can_drop_positions:
        return _NOT_OURS + vectors
    return _RELATIVE if model.reads_itself else _NOT_ATTENDING + vectors


def order_help(model: Model) -> str:
    """Say which tokens keep their places, beside the choice of an order."""
    if model.translates:
        return "The end mark keeps its position: it marks where the text ends and is not a word."
    return "Special tokens keep their positions: they are not words. No token leaves its text."


def answer_sentence(where: str, original: tuple[str, str], reordered: tuple[str, str]) -> str:
    """Say what a model answers to a row as typed and reordered, with or without positions.

    Each answer is its label and itself.
    """
    (label, answer), (other_label, other) = original, reordered
    label_prefix = "" if other_label == label else f"{other_label}: "
    first = f"{where[:1].upper()}{where[1:]}, {label}: {answer} as typed"
    return f"{first}; {label_prefix}{other} if reordered."


def explain_recurrent_shuffle(test: ShuffleTest) -> str:
    """Explain the result of the shuffle test in an RNN's encoder."""
    if test.order == tuple(range(len(test.order))):
        return (
            RECURRENT
            + "Nothing can be reordered here: besides the end mark there is only one token. Type more words."
        )
    changes = ", ".join(
        f"{name} {words.percent(float(mean))}"
        for name, mean in zip(test.stages, test.mean, strict=True)
    )
    same = ", ".join(
        f"{name} {int((change < SAME_VECTOR).sum())}"
        for name, change in zip(test.stages, test.change, strict=True)
    )
    ways = "Reading forwards, a state can only change from the first moved position on" + (
        ". Reading backwards, it can change only up to the last one" if len(test.stages) > 1 else ""
    )
    return (
        f"{RECURRENT}Reordered, each token's state moves on average by this share of "
        f"its length: {changes}. ({100 * UNRELATED:.0f} % would be a right angle, at equal lengths.) {ways}. Of "
        f"{len(test.order)} states these are the same as before: {same}. A recurrence cannot be switched off, as position vectors "
        "can."
    )


def explain_shuffle(
    positioned: ShuffleTest, bare: ShuffleTest, kind: str, fixed: str = "the end mark"
) -> str:
    """Explain the result of the shuffle test; `fixed` keeps its place."""
    n = len(positioned.order)
    if positioned.order == tuple(range(n)):
        return f"Nothing can be reordered here: besides {fixed} there is only one token. Type more words above."
    last, place = float(positioned.mean[-1]), positioned.stages[-1]
    exact = change_text(float(bare.largest.max()))
    rounding = "" if exact == "0" else " That is rounding: sums are added in another order."
    where = "as it enters the model" if place == "input" else f"after {place}"
    same = float(bare.largest.max()) < SAME_VECTOR_FLOAT
    if kind == "none":
        return (
            "This model has no position vectors. Its encoder cannot know the order of the source: reordering the "
            f"tokens only reorders its vectors. Largest change: {exact} of their length.{rounding}"
            if same
            else f"This model has no position vectors; yet a vector changed by {exact} of its length."
        )
    without = (
        f"each vector stays the same and only changes its position. The largest change is {exact} of a "
        f"vector's length.{rounding}"
        if same
        else f"a vector still changed by {exact} of its length: more than rounding explains."
    )
    return (
        f"With positions, a token's vector {where} changes on average by {words.percent(last)} of its length. ("
        f"{100 * UNRELATED:.0f} % would be a right angle, at equal lengths.) With positions switched off, {without}"
    )


def change_text(value: float) -> str:
    """Return a change in two decimals, or its order of magnitude where it is only rounding."""
    return (
        "0"
        if value == 0
        else f"{value:.2f}"
        if value >= 0.005
        else f"{value:.0e}".replace("e-0", "e-")
    )


def size(n: int, d_model: int) -> str:
    """Return the size of a table of positions."""
    return f"{n} positions × {d_model} dimensions"


def own_help(kind: str, order_source: str) -> str:
    """Name the loaded model's positions, beside the picker."""
    if kind == "none":
        return f"This model {NO_TABLE_REASONS[order_source]}."
    return f"This model's positions are {kind}."


def explain_table(formula: str, kind: str, order_source: str) -> str:
    """Explain the table on the screen in words and symbols.

    `kind` is that of the loaded model, `order_source` its source of word order.
    """
    if formula != OWN_TABLE:
        text = f"**{TABLE_NAMES[formula]}.** PE(pos, 2i) and PE(pos, 2i+1) are\n\n$${LATEX[formula]}$$\n\n{WHAT[formula]}"
        if kind == "learned":
            text += f" The loaded model learned its vectors instead: pick “{TABLE_NAMES[OWN_TABLE]}” to see them."
        return text + (
            f" The loaded model {NO_TABLE_REASONS[order_source]}." if kind == "none" else ""
        )
    if kind == "learned":
        return (
            "**Learned positions.** One vector for each position, trained like every other weight. No formula "
            "determines them, and past the last position there is none."
        )
    if kind == "fixed":
        return (
            "**Sinusoidal positions**, not learned. Each row is pairs of a sine and a cosine of one angle, as in the "
            f"paper's formula:\n\n$${LATEX['paper']}$$\n\nThis model's pairs may be in another order, and its "
            "wavelengths may differ."
        )
    return f"**Sinusoidal positions**, computed by the paper's formula, not learned:\n\n$${LATEX['paper']}$$"


def dimension(formula: str, dim: int, wavelength: float | None) -> str:
    """Name a dimension in a legend, by its function and its wavelength."""
    if wavelength is None:
        return f"dimension {dim}"
    function = "cos" if dim % 2 and formula != "sin-sin" else "sin"
    return f"dimension {dim}: {function}, wavelength {wavelength_text(wavelength)}"


def wavelength_text(wavelength: float) -> str:
    """Write a wavelength in positions."""
    return (
        "infinite"
        if wavelength >= NEVER
        else f"{wavelength:,.1f}"
        if wavelength < 100
        else f"{wavelength:,.0f}"
    )


def wavelengths_sentence(waves: Tensor, n: int) -> str:
    """Compare the wavelengths with the length shown."""
    full, infinite = int((waves <= n).sum()), int((waves >= NEVER).sum())
    rest = (
        f" {infinite} dimensions have a wavelength over 10⁹ and are not drawn." if infinite else ""
    )
    return (
        f"{full} of {len(waves)} dimensions complete a turn within {n} positions and tell near positions apart. The "
        f"slower ones tell distant positions apart.{rest}"
    )
