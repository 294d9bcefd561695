"""What the Positions page says: names of the formulas, and what the measurements mean."""

from torch import Tensor

from models.architectures import Model
from models.architectures.base import BY_MASK, BY_SCORES, BY_STATES, BY_TURNING, UNSEEN
from viz_app.views.positions.charts import NEVER
from viz_app.views.positions.order_text import NO_TABLE, RECURRENT

QUESTION = "Positions: how does it know the order?"
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


def answer(model: Model) -> str:
    """How this model knows the order of what it reads, in one or two sentences."""
    if model.order_from == BY_STATES:
        return "This model reads one token after the other, so the order is in its states: it has no position vectors."
    if model.order_from == BY_SCORES:
        return "Each score gets a term of its own for how far apart the two tokens are; no vector is added to a token."
    if model.rotation(2) is not None:
        return (
            "It turns each query and each key by angles that grow with its place, so that a score depends on how far apart two "
            "tokens stand. No vector is added to a token."
        )
    if model.order_from in (BY_TURNING, UNSEEN):
        return f"This model {NO_TABLE[model.order_from]}."
    alone = "Attention without a mask does not: reorder its tokens, and it only reorders what it makes of them."
    if model.stack == "decoder":
        alone = (
            "The look-ahead mask tells a little: each token sees as many others as stand before it."
        )
    added = "every place has a vector of its own, added to the token that stands there."
    without = "This model has no position vectors. In others, "
    return f"{alone} {without if model.order_from == BY_MASK else 'So '}{added}"


def size(n: int, d_model: int) -> str:
    """How large a table of positions is."""
    return f"{n} positions × {d_model} dimensions"


def own_help(kind: str, order_from: str) -> str:
    """What the loaded model's positions are, beside the picker."""
    if kind == "none":
        return f"This model {NO_TABLE[order_from]}."
    return f"This model's positions are {kind}."


def explanation(formula: str, kind: str, order_from: str) -> str:
    """The table on the screen in words and symbols; `kind` is the loaded model's, `order_from` what tells it the order."""
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
    """A dimension's name in a legend: which function, which wavelength."""
    if wavelength is None:
        return f"dimension {dim}"
    function = "cos" if dim % 2 and formula != "sin-sin" else "sin"
    return f"dimension {dim}: {function}, wavelength {length(wavelength)}"


def length(wavelength: float) -> str:
    """A wavelength in positions."""
    return (
        "endless"
        if wavelength >= NEVER
        else f"{wavelength:,.1f}"
        if wavelength < 100
        else f"{wavelength:,.0f}"
    )


def turns(waves: Tensor, n: int) -> str:
    """How the wavelengths lie against the length shown."""
    full, endless = int((waves <= n).sum()), int((waves >= NEVER).sum())
    rest = f" {endless} dimensions have a wavelength over 10⁹ and are not drawn." if endless else ""
    return (
        f"{full} of {len(waves)} dimensions come round at least once in {n} positions and tell near places apart; the slower ones "
        f"tell far places apart.{rest}"
    )
