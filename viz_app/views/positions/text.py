"""The wording of the page Positions: formulas, measured tables, results of the shuffle test."""

from torch import Tensor

from models.analysis.shuffle import ShuffleTest
from models.architectures import Model
from models.architectures.base import (
    BY_MASK,
    BY_SCORES,
    BY_STATES,
    BY_TURNING,
    BY_VECTORS,
    UNSEEN,
)
from viz_app import words
from viz_app.views.positions.charts import NEVER

UNRELATED = 2**0.5  # the change at which a vector is at a right angle to its old self
SAME, SAME_FLOAT = (
    1e-6,
    1e-4,
)  # of a vector's length: no change, and no change but rounding through every layer

# what tells it the order → what a model without a table of position vectors does instead
NO_TABLE = {
    BY_MASK: "has no position vectors at all",
    BY_STATES: "has no position vectors: its states carry the order",
    BY_SCORES: "adds no position vectors: each score has a term for how far apart the two tokens are",
    BY_TURNING: "adds no position vectors: its queries and keys depend on where their tokens stand",
    BY_VECTORS: "adds its positions to the vectors of the tokens, but from no table that was seen",
    UNSEEN: "shows no position vectors, nor what else tells it the order",
}
RECURRENT = (
    "**This model has no position vectors, and needs none.** It is an RNN: each state is made from the one read before and a "
    "token, so the order is in the recurrence itself. "
)

_RELATIVE = (
    "**This model adds no position vectors: its positions are relative.** Each score has a term of its own that says how far apart "
    "the two tokens stand, by a vector r of sines and cosines of that distance: the page **Inside a head** shows it, stage "
    "“position”. The order in which the tokens are predicted is a different matter, which can be changed on the page **Task**. "
    "Open **eng-fra** or **dates** for a shuffle test; the sections beside it show the vectors that other models add."
)
_NOT_SHUFFLED = (
    "**There is no shuffle test for this model.** The test asks what a model that reads a text all at once makes of its "
    "tokens in another order. Here every token reads only those before it: the look-ahead mask alone tells the first from the "
    "last, and a text in another order is another text. Open **eng-fra** or **dates** for the test; "
)
_NOT_OURS = (
    "**There is no shuffle test for a model that somebody else made.** The test asks a copy of it without position vectors, which "
    "cannot be made here. Open **eng-fra** or **dates** for the test; "
)
_NOT_ATTENDING = (
    "**There is no shuffle test for this model.** The test follows the vector of each token through the layers. Here the tokens "
    "of the text do not attend to each other, so no layer changes their vectors. Open **eng-fra** or **dates** for the test; "
)
_OWN_VECTORS = "the sections beside it show this model's own position vectors."
_NO_VECTORS = "the sections beside it show the vectors that other models add. This one {}."
_TURNED = (
    "this model looks up no vectors of places: it turns its queries and keys, which the sections **Rotation** and **Score by "
    "distance** show."
)


OWN = "model"  # picked beside the formulas: the table of the loaded checkpoint
NAMES = {
    "paper": "The paper's",
    "2^i": "Misprint 2ⁱ",
    "sin-sin": "Misprint sin, sin",
    OWN: "This model's own",
}
LATEX = {
    "paper": r"\sin\frac{pos}{10000^{2i/d}},\;\;\cos\frac{pos}{10000^{2i/d}}",
    "2^i": r"\sin\frac{pos}{10000^{\mathbf{2^i}/d}},\;\;\cos\frac{pos}{10000^{\mathbf{2^i}/d}}",
    "sin-sin": r"\sin\frac{pos}{10000^{2i/d}},\;\;\mathbf{\sin}\frac{pos}{10000^{(\mathbf{2i+1})/d}}",
}
WHOSE = {
    "paper": "the paper's formula",
    "2^i": "the misprint 2ⁱ",
    "sin-sin": "the misprint with sine twice",
}
WHAT = {
    "paper": "Dimensions come in pairs, a sine and a cosine of one wavelength. From pair to pair the wavelength grows "
    "by the same factor, from 2π towards 10000·2π positions.",
    "2^i": "2ⁱ printed where 2i should stand. The exponent doubles from pair to pair, so that from the "
    "pair log₂ d on (counted from 0) no wavelength is under 60,000 positions.",
    "sin-sin": "Sine printed in both places, the second time with 2i+1. No dimension has a cosine partner of its own "
    "wavelength.",
}


NO_WAVES = (
    "**Learned vectors have no wavelength.** They are trained like every other weight, and no formula says "
    "how. Look at the map: are neighbouring places alike?"
)
BAND = "Line: mean over all pairs at this distance. Band: least to largest; where there is none, only the distance counts."
SHIFT_HELP = "Is PE(pos+k) one fixed matrix times PE(pos), wherever pos is?"
PICTURES = "Each picture has its own download in its upper right corner, when the pointer is on it."
TABLES_ONLY = RECURRENT + (
    "The tables below are those that are added for attention: without them, and without a mask, it cannot tell one order "
    "of tokens from another."
)

NOTHING_ASKED = "What becomes of its answer is shown as soon as it has one: hide a token on the page Task, type [MASK], or type a second text."


def not_shuffled(model: Model) -> str:
    """Explain why a model has no shuffle test."""
    vectors = (
        _OWN_VECTORS
        if model.positions is not None
        else _TURNED
        if model.rotation(2) is not None
        else _NO_VECTORS.format(NO_TABLE[model.order_from])
    )
    if model.stack == "decoder":
        return _NOT_SHUFFLED + vectors
    if not model.positions_can_go:
        return _NOT_OURS + vectors
    return _RELATIVE if model.reads_itself else _NOT_ATTENDING + vectors


def order_help(model: Model) -> str:
    """Say which tokens keep their places, beside the choice of an order."""
    if model.translates:
        return "The end mark keeps its place: it marks where the text ends and is no word."
    return "Special tokens keep their places: they are no words. No token leaves its text."


def answer_sentence(where: str, what: str, label: str, answer: str) -> str:
    """Say what a model answers to a row, with or without positions, as typed or reordered."""
    return f"{where[:1].upper()}{where[1:]}, {what}: {label}: {answer}."


def recurrent(test: ShuffleTest) -> str:
    """Explain the result of the shuffle test in an RNN's encoder."""
    if test.order == tuple(range(len(test.order))):
        return (
            RECURRENT
            + "Nothing can change places here: besides the end mark there is only one token. Type more words."
        )
    moved = ", ".join(
        f"{name} {words.percent(float(mean))}"
        for name, mean in zip(test.stages, test.mean, strict=True)
    )
    same = ", ".join(
        f"{name} {int((change < SAME).sum())}"
        for name, change in zip(test.stages, test.change, strict=True)
    )
    ways = "Reading forwards, a state can only change from the first moved place on" + (
        "; reading backwards, only up to the last one" if len(test.stages) > 1 else ""
    )
    return (
        f"{RECURRENT}Put the same tokens in another order, and each token's state moves on average by this share of its length: "
        f"{moved} ({100 * UNRELATED:.0f} % would be a right angle, at equal lengths). {ways}: of {len(test.order)} states these "
        f"are the same as before: {same}. There is nothing to switch off, as there is in a Transformer."
    )


def shuffled(
    positioned: ShuffleTest, bare: ShuffleTest, kind: str, fixed: str = "the end mark"
) -> str:
    """Explain the result of the shuffle test; `fixed` keeps its place."""
    n = len(positioned.order)
    if positioned.order == tuple(range(n)):
        return f"Nothing can change places here: besides {fixed} there is only one token. Type more words above."
    last, place = float(positioned.mean[-1]), positioned.stages[-1]
    exact = change_text(float(bare.largest.max()))
    rounding = (
        "" if exact == "0" else " That is rounding, because sums are added up in another order."
    )
    where = "as it enters the model" if place == "input" else f"after {place}"
    same = float(bare.largest.max()) < SAME_FLOAT
    if kind == "none":
        return (
            "This model has no position vectors. Its encoder cannot know the order of the source: reordering the tokens only "
            f"reorders its vectors (largest change {exact} of their length).{rounding}"
            if same
            else f"This model has no position vectors; yet a vector changed by {exact} of its length."
        )
    without = (
        f"every vector is the same as before, only in another place: the largest change anywhere is {exact} of a vector's length."
        f"{rounding}"
        if same
        else f"a vector still changed by {exact} of its length: more than rounding explains."
    )
    return (
        f"With positions, a token's vector {where} is on average {words.percent(last)} of its length away from what it was "
        f"({100 * UNRELATED:.0f} % would be a right angle, at equal lengths). With positions switched off, {without}"
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


def own_help(kind: str, order_from: str) -> str:
    """Name the loaded model's positions, beside the picker."""
    if kind == "none":
        return f"This model {NO_TABLE[order_from]}."
    return f"This model's positions are {kind}."


def explanation(formula: str, kind: str, order_from: str) -> str:
    """Explain the table on the screen in words and symbols.

    `kind` is the loaded model's, `order_from` what tells it the order.
    """
    if formula != OWN:
        text = f"**{NAMES[formula]}.** PE(pos, 2i) and PE(pos, 2i+1) are\n\n$${LATEX[formula]}$$\n\n{WHAT[formula]}"
        if kind == "learned":
            text += (
                f" The loaded model learned its vectors instead: pick “{NAMES[OWN]}” to see them."
            )
        return text + (f" The loaded model {NO_TABLE[order_from]}." if kind == "none" else "")
    if kind == "learned":
        return (
            "**Learned positions.** One vector for each place, trained like every other weight. Nothing in them is "
            "prescribed, and past the last place there is none."
        )
    return f"**Sinusoidal positions**, by the paper's formula, computed and not learned:\n\n$${LATEX['paper']}$$"


def dimension(formula: str, dim: int, wavelength: float | None) -> str:
    """Name a dimension in a legend, by its function and its wavelength."""
    if wavelength is None:
        return f"dimension {dim}"
    function = "cos" if dim % 2 and formula != "sin-sin" else "sin"
    return f"dimension {dim}: {function}, wavelength {length(wavelength)}"


def length(wavelength: float) -> str:
    """Write a wavelength in positions."""
    return (
        "endless"
        if wavelength >= NEVER
        else f"{wavelength:,.1f}"
        if wavelength < 100
        else f"{wavelength:,.0f}"
    )


def turns(waves: Tensor, n: int) -> str:
    """Compare the wavelengths with the length shown."""
    full, endless = int((waves <= n).sum()), int((waves >= NEVER).sum())
    rest = f" {endless} dimensions have a wavelength over 10⁹ and are not drawn." if endless else ""
    return (
        f"{full} of {len(waves)} dimensions come round at least once in {n} positions and tell near places apart; the slower ones "
        f"tell far places apart.{rest}"
    )
