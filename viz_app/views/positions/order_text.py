"""What the Positions page says of a text: what the shuffle test found, and what adding a position to a token comes to."""

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
from viz_app.views.positions.shuffle import UNRELATED, change_text

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
NOT_ADDED = RECURRENT + (
    "So there is nothing to add and nothing to concatenate. Choose a Transformer on the left to see how a position vector is "
    "added to a token's."
)
RELATIVE_ONLY = (
    "**This model adds no position vector to a token**: how far apart two tokens stand is a term of their score, which the page "
    "**Inside a head** shows. Choose a Transformer on the left to see how a position vector is added."
)
_UNKNOWN = (
    "**This section is not shown for this model**: {}. Open **eng-fra** or **dates** to see how a position vector is added to a "
    "token's."
)
_NO_SUM = "nothing says that its first W reads the sum of token and position and nothing else"
NOT_ATTENDED = (
    "**In this model the tokens of the text do not attend to each other**, so no W_Q reads the sum of token and position here. "
    "Choose a Transformer on the left."
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


def not_added(model: Model, attends: bool) -> str:
    """Why no sum of token and position is shown; `attends` where tokens of what it reads attend to each other."""
    if model.is_recurrent:
        return NOT_ADDED
    if model.order_from == BY_SCORES:
        return RELATIVE_ONLY
    if not attends:
        return NOT_ATTENDED
    has_table = model.positions is not None
    return _UNKNOWN.format(_NO_SUM if has_table else f"it {NO_TABLE[model.order_from]}")


def order_help(model: Model) -> str:
    """What does not change places, beside the choice of an order."""
    if model.translates:
        return "The end mark keeps its place: it marks where the text ends and is no word."
    return "Special tokens keep their places: they are no words. No token leaves its text."


def answer_sentence(where: str, what: str, label: str, answer: str) -> str:
    """What a model says of a row, with or without positions, as typed or reordered."""
    return f"{where[:1].upper()}{where[1:]}, {what}: {label}: {answer}."


def recurrent(test: ShuffleTest) -> str:
    """What the shuffle test found in an RNN's encoder, in words."""
    if test.order == tuple(range(len(test.order))):
        return (
            RECURRENT
            + "Nothing can change places here: besides the end mark there is only one token. Type more words."
        )
    found = ", ".join(
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
        f"{found} ({100 * UNRELATED:.0f} % would be a right angle, at equal lengths). {ways}: of {len(test.order)} states these "
        f"are the same as before: {same}. There is nothing to switch off, as there is in a Transformer."
    )


def shuffled(
    positioned: ShuffleTest, bare: ShuffleTest, kind: str, fixed: str = "the end mark"
) -> str:
    """What the shuffle test found, in words; `fixed` is what keeps its place."""
    n = len(positioned.order)
    if positioned.order == tuple(range(n)):
        return f"Nothing can change places here: besides {fixed} there is only one token. Type more words on the left."
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


def through(config: object, head: str) -> str:
    """Over the products of both with W_Q of this head, and whether they are the model's own."""
    title = f"Both through W_Q of {head[:1].lower()}{head[1:]}, without its bias: the same numbers"
    if config.positions == "none":
        return f"{title} (this model itself adds no p)"
    return (
        f"{title} (in this model LayerNorm comes between)"
        if getattr(config, "norm", "post") == "pre"
        else title
    )


def adding(x: Tensor, p: Tensor, kind: str) -> str:
    """Why adding is a projection of concatenating, for vectors of these sizes."""
    d = x.shape[1]
    lent = (
        " This model adds no positions; p here is the paper's table, which it does not use."
        if kind == "none"
        else ""
    )
    return (
        f"**Adding is concatenating, then projecting.** Write x and p one after the other, {2 * d} numbers, and "
        f"multiply by [I; I], two unit matrices one above the other: that gives x + p, {d} numbers. So whatever W "
        "follows,\n\n"
        r"$$\begin{bmatrix}x & p\end{bmatrix}\begin{bmatrix}W\\W\end{bmatrix}=(x+p)\,W.$$"
        "\n\nConcatenating could do a little more: p might have a matrix of its own below W, at the price of "
        f"{d} × {d} more weights in each projection. Adding shares one matrix; keeping the two apart is left to "
        f"training. Here token vectors have a length of {float(x.norm(dim=1).mean()):.2f} on average and position vectors "
        f"{float(p.norm(dim=1).mean()):.2f}.{lent}"
    )
