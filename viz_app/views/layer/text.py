"""What the page "A layer, step by step" says. Layers, tokens and the numbers of a feed-forward are counted from 1 here."""

from collections.abc import Sequence

from models.architectures.base import Architecture
from models.layers.sublayers import FEED_FORWARD, Sublayer
from viz_app import words
from viz_app.drawing.labels import Label
from viz_app.views.inside.text import quoted

QUESTION = "A layer, step by step: what does each part of it add?"
ANSWER = "Attention and feed-forward each add a vector to the token's own."
BEHIND = "cross"        # how a layer that has no number is called among those that have one
BEFORE, READ, SUM = "stream before", "LayerNorm(stream), read", "= sum"
NORMED, STREAM = "LayerNorm(sum) = stream", "= stream"
START = "before all layers"
_ROLES = {
    "self": "self-attention", "cross": "cross-attention", "content": "attention", "query": "attention",
    FEED_FORWARD: "feed-forward",
}  # fmt: skip
_GELU = "GELU leaves the others between −0.17 and 0"
_FIRES = {"relu": "ReLU makes 0 of the others", "gelu": _GELU, "gelu tanh": _GELU}

EXPLANATION = """
**The residual stream** of a token is one vector, which each attention and each feed-forward reads and adds to. **Adds** is the
length of what is added, **cosine** its direction: 1 is more of what is there, 0 something new, −1 its opposite. **Mean** and
**spread** (standard deviation) are those of the vector's numbers.
"""
_NORMS = {
    "post": "**LayerNorm** stands behind each sum here (post-LN, as in the paper): (x − mean) / spread · gain + bias. It "
    "resets the stream's size, however much was added.",
    "pre": "**LayerNorm** stands before each part here (pre-LN): attention and feed-forward read (x − mean) / spread · gain + "
    "bias, and the stream itself is only ever added to. One last LayerNorm stands before the output.",
    "none": "**This model has no residual connections and no LayerNorm**: what attention makes takes the stream's place, and what "
    "a token was is lost where attention does not carry it on.",
}
_LENS = (
    "**If the model stopped here**: the stream behind each part, read by the model's own output path, as if no layer followed (the "
    "“logit lens”, nostalgebraist 2020). Early layers were not trained to be read so; what they seem to say is a sketch."
)


def role(sublayer: Sublayer) -> str:
    """What a part of a layer is called."""
    return _ROLES[sublayer.role]


def row_name(model: Architecture, sublayer: Sublayer) -> str:
    """What a row of states is called: by itself where the stream has several, else by the stack whose stream it is."""
    if sublayer.states:
        return f"{sublayer.states.capitalize()} stream"
    return next(other.stack for other in model.sublayers if other.stream == sublayer.stream).capitalize()


def layer_name(sublayer: Sublayer) -> str:
    """A layer's number, from 1."""
    return BEHIND if sublayer.layer is None else str(sublayer.layer + 1)


def no_lens(stack: str, reader: str, states: str = "") -> str:
    """Why the model cannot be asked what it would say along a stream: another stack reads what it ends in, or nobody does and no
    next token is written from it."""
    if states:
        return f"What the model would say is not asked of the {states} stream here: no next token is ever written from it."
    ends = f"its stream ends in vectors that the {reader} reads" if reader else "its stream ends in what the answer is read from"
    return f"The {stack} cannot be asked what the model would say: {ends}, and no next token is ever written from it."


def title(terms: words.Terms, sublayer: Sublayer, token: Label, answer: Label | None) -> str:
    """Whose way through the model is shown, and what the model expects behind it."""
    who = f"the {terms.of(sublayer.stream).token} {quoted(token)}"
    if answer is None:
        along = f" in the {sublayer.states} stream" if sublayer.states else ""
        return f"The way of {who} through the {sublayer.stack}{along}"
    return f"From {who} to what follows it, {quoted(answer)}"


def all_title(sublayer: Sublayer, token: Label, writes: bool) -> str:
    """What stands over all the layers."""
    if not writes:
        return f"All layers of the {sublayer.stack}"
    return f"All layers, and what would follow {quoted(token)} if the model stopped there"


def one_title(sublayer: Sublayer) -> str:
    return f"{sublayer.stack.capitalize()} {words_of_layer(sublayer)}, in full"


def words_of_layer(sublayer: Sublayer) -> str:
    """A layer in a sentence."""
    return "cross-attention" if sublayer.layer is None else f"layer {sublayer.layer + 1}"


def added_name(sublayer: Sublayer) -> str:
    """A part's output in the layer in full."""
    return f"+ {role(sublayer)}" if sublayer.adds else f"{role(sublayer)} makes"


def firing_name(sublayer: Sublayer) -> str:
    """What stands inside a feed-forward."""
    return "GELU(x·W₁ + b₁)" if sublayer.activation.startswith("gelu") else "ReLU(x·W₁ + b₁)"


def firing(activation: str, n: int, d_ff: int, strongest: Sequence[tuple[int, float]]) -> str:
    """How many numbers inside a feed-forward fire, what that means, and which are strongest."""
    named = ", ".join(f"{number} ({value:.2f})".replace("-", "−") for number, value in strongest)
    return f"{n} of {d_ff} fire: they are above 0 ({_FIRES[activation]}). Strongest: numbers {named}."


def explain(sublayer: Sublayer, writes: bool) -> str:
    """What stands under the picture."""
    return "\n\n".join((EXPLANATION.strip(), _NORMS[sublayer.norm], *([_LENS] if writes else [])))


def no_layers(is_recurrent: bool, instead: str) -> str:
    """Why a model has nothing to show here, and which one has."""
    other = f" Open **{instead}**, a model of the same task that has them." if instead else ""
    why = (
        "This model has no layers of this kind: one recurrent step after the other makes a new state out of the old one and the "
        "next token, and nothing is added to a stream." if is_recurrent else
        "This model does not lay open what its layers add to a stream."
    )
    return why + other
