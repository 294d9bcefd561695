"""The wording of the page A layer, with layers, tokens and feed-forward units counted from 1."""

import math
from collections.abc import Sequence

from models.architectures.base import MASKED_OUTPUT, NEXT_TOKEN, Architecture
from models.layers.blocks import lowest
from models.layers.sublayers import FEED_FORWARD, MIXER, Sublayer, norm_name, norm_name_of
from models.number_text import decimal
from viz_app import words
from viz_app.drawing.labels import Label, quote

LAYER_QUESTION = "A layer, step by step: what does each part add?"
UNNUMBERED = "cross"  # the label of a layer without a number
STREAM_BEFORE, STREAM_SUM, STREAM = "stream before", "= sum", "= stream"
SET_STREAM = "stream, set by an edit"
BEFORE_LAYERS = "before all layers"
_ROLES = {
    "self": "self-attention",
    "cross": "cross-attention",
    FEED_FORWARD: "feed-forward",
    MIXER: "mixer",
}
_FUNCTIONS = {"relu": "ReLU", "gelu": "GELU", "gelu tanh": "GELU", "silu": "SiLU"}

_ADDING = (
    "**The residual stream** of a token is one vector. {each} reads it and adds to it. **Adds** is the length of what"
    " is added, **cosine** its direction. A cosine of 1 is more of what is there, 0 something new, −1 its opposite. "
)
_REPLACING = (
    "**The stream** of a token is one vector. {each} reads it and replaces it. **Makes** is the length of the new "
    "vector, **cosine** its direction. A cosine of 1 is the same as before, 0 a right angle, −1 the opposite. "
)
_NUMBERS = "**Mean** and **spread** (standard deviation) are those of the vector's numbers."
_FORMULAS = {
    "LayerNorm": "(x − mean) / spread · gain + bias",
    "RMSNorm": "x / √(mean of x²) · gain",
}
_NORMS = {
    "post": "**{norm}** comes after each sum here (post-LN, as in the paper): {formula}. It resets the stream's size,"
    " however much was added.",
    "pre": "**{norm}** comes before each part here (pre-LN): {parts} read {formula}. The stream itself is only "
    "ever added to. One last {norm} comes before the output.",
    "parallel": "**{norm}** comes before each part here (pre-LN): {parts} both read {formula} of the stream that "
    "enters the layer. Both are added to it at once. One last {norm} comes before the output.",
    "both": "**{norm}** comes before and after each part here: {parts} read {formula} of the stream. What they make goes "
    "through a second {norm} before it is added. The stream itself is only ever added to.",
    "after": "**{norm}** comes after each part here, before the sum: {parts} read the stream itself. What is added "
    "is {formula} of their output. The stream itself is only ever added to.",
    "mixed": "**{norm}** is not at the same point in all layers here: the rows of each layer name where it is. The stream "
    "itself is only ever added to.",
    "none": "**This model has no residual connections and no LayerNorm**: attention replaces the vector instead of "
    "adding to it. So information is lost unless attention copies it.",
}
_SCALED = "What a part makes is **multiplied by {factor}** before it is added."
_MIXED = (
    "A **mixer** carries tokens forward without a weight for each pair. Linear attention, a state space and a convolution "
    "do so. Its inside is not recorded, and a layer with one cannot be opened."
)
_LENS = (
    "**Logit lens** (nostalgebraist 2020): the stream after each part. It is read by the model's own output path{read}, "
    "with no later layer. Early layers were not trained to be read this way, so their predictions are only a rough sketch."
)
_READ = {
    NEXT_TOKEN: " to the next token",
    MASKED_OUTPUT: " to the token hidden by a mask",
}
_READ_CLASSES = " to its classes, predicted from this token"
NO_LENS_OF_ANSWER = (
    "No logit lens is drawn for this answer. It needs a next token, a masked one or a class of the whole input, read in "
    "a known way."
)
INSIDE_UNKNOWN = "What happens inside this feed-forward is not recorded."
ROUTER_UNKNOWN = "This feed-forward is a mixture of experts. Which experts a token goes to could not be confirmed, so none is shown."
# beside the classes of a model that writes
_BESIDE = " (Radford et al. 2018, eq. 4; at any other token, the next is predicted)"


def layer_answer(sublayers: Sequence[Sublayer]) -> str:
    """Return what the parts of this model's layers do; if it has no such layers, in general."""
    if not sublayers:
        return "In a Transformer, attention and feed-forward each add a vector to the token's own."
    parts = _parts(sublayers).capitalize()
    if not all(sublayer.adds for sublayer in sublayers):
        each = "each replace" if " and " in parts else "replaces"
        return f"{parts} {each} the token's vector; nothing is added to it."
    each = "each add" if " and " in parts else "adds"
    return f"{parts} {each} a vector to the token's own."


def _parts(sublayers: Sequence[Sublayer]) -> str:
    roles = {sublayer.role for sublayer in sublayers}
    reading = "attention or mixer" if MIXER in roles else "attention"
    return f"{reading} and feed-forward" if FEED_FORWARD in roles else reading


def role(sublayer: Sublayer) -> str:
    """Name a part of a layer; an attention of any other role is "attention"."""
    return _ROLES.get(sublayer.role, "attention")


def row_name(model: Architecture, sublayer: Sublayer) -> str:
    """Return the name of a row of states: its own if its stream has several, else its stack's."""
    if sublayer.states:
        return f"{sublayer.states.capitalize()} stream"
    return next(
        other.stack for other in model.sublayers if other.stream == sublayer.stream
    ).capitalize()


def layer_name(sublayer: Sublayer) -> str:
    """Return a layer's number from 1, or its label if it has none."""
    return UNNUMBERED if sublayer.layer is None else str(sublayer.layer + 1)


def is_class(output: str) -> bool:
    """Return True if an output names a class and not a token; False for ""."""
    return output not in ("", NEXT_TOKEN, MASKED_OUTPUT)


def no_lens(
    sublayer: Sublayer, reader: str, answering: Sequence[Label] = (), guesses_masks: bool = False
) -> str:
    """Explain why no prediction is read at a token.

    Either only others are `answering`, the text has no mask to guess, another stack reads the
    stream, or the answer is of another kind.
    """
    if guesses_masks:
        mask_only = f"A prediction is read only at a mask{', ' if answering else '.'}"
        instead = f"here at {quote(answering[0])}." if answering else " This text has none."
        return mask_only + instead
    if answering:
        return f"The prediction is read only from the vector of the token {quote(answering[0])}."
    if sublayer.states:
        return f"No logit lens is drawn for the {sublayer.states} stream: no next token is read from it."
    if reader:
        return (
            f"No prediction is read from the {sublayer.stack}. Its stream ends in vectors for the {reader}, and no "
            "next token is written from it."
        )
    return NO_LENS_OF_ANSWER


def layer_title(
    terms: words.Terms,
    sublayer: Sublayer,
    token: Label,
    answer: Label | None,
    output: str = NEXT_TOKEN,
) -> str:
    """Return the title: the token whose stream is shown, and the model's answer at its end."""
    subject = f"the {terms.of(sublayer.stream).token} {quote(token)}"
    if answer is None:
        row_note = f" in the {sublayer.states} stream" if sublayer.states else ""
        return f"{subject[:1].upper()}{subject[1:]} through the {sublayer.stack}{row_note}"
    outcomes = {NEXT_TOKEN: "what follows it", MASKED_OUTPUT: "the guess for it"}
    return f"From {subject} to {outcomes.get(output, 'the class')}, {quote(answer)}"


def all_title(sublayer: Sublayer, token: Label, output: str) -> str:
    """Return the title of the overview of all layers."""
    if not output:
        return f"All layers of the {sublayer.stack}"
    if output == MASKED_OUTPUT:
        return f"Logit lens: the guess for {quote(token)} after each part"
    if is_class(output):
        return f"Logit lens: the class by {quote(token)} after each part"
    return f"Logit lens: the prediction after {quote(token)}, part by part"


def one_title(sublayer: Sublayer) -> str:
    return f"{sublayer.stack.capitalize()} {words_of_layer(sublayer)}, in full"


def words_of_layer(sublayer: Sublayer) -> str:
    """Return a layer's name for a sentence."""
    return "cross-attention" if sublayer.layer is None else f"layer {sublayer.layer + 1}"


def added_name(sublayer: Sublayer) -> str:
    """Return the name of a part's output in the full layer."""
    if not sublayer.adds:
        return made_name(sublayer)
    factor = "" if sublayer.scale == 1 else f"{_factor(sublayer)} · "
    name = role(sublayer)
    return (
        f"+ {factor}{name}"
        if sublayer.out_norm is None
        else f"+ {factor}{norm_name(sublayer.out_norm)}({name})"
    )


def made_name(sublayer: Sublayer) -> str:
    """Return the name of a part's own output."""
    return f"{role(sublayer)} makes"


def _factor(sublayer: Sublayer) -> str:
    return f"{sublayer.scale:.4g}"


def read_name(sublayer: Sublayer) -> str:
    """Return the name of a part's normalised input under pre-LN."""
    return f"{sublayer.norm_name}({'before' if sublayer.reads else 'stream'}), read"


def normed_name(sublayer: Sublayer) -> str:
    """Return the name of the stream after a part under post-LN."""
    return f"{sublayer.norm_name}(sum) = stream"


def firing_name(sublayer: Sublayer) -> str:
    """Return the formula of a feed-forward's hidden units."""
    function, bias = (
        _FUNCTIONS.get(sublayer.activation, "activation"),
        " + b₁" if sublayer.biased else "",
    )
    return f"{function}(x·W_gate) ⊙ (x·W_up)" if sublayer.gated else f"{function}(x·W₁{bias})"


def firing_units(
    sublayer: Sublayer, n: int, d_ff: int, strongest: Sequence[tuple[int, float]]
) -> str:
    """Return how many units of a feed-forward fire, and the strongest ones."""
    strongest_named = ", ".join(f"{number} ({decimal(value, 2)})" for number, value in strongest)
    rest = f"; {_bound_of_others(sublayer.activation)}" if sublayer.activation in _FUNCTIONS else ""
    active = "gates are open" if sublayer.gated else "neurons are active"
    return f"{n} of {d_ff} {active} (above 0{rest}). Strongest: {strongest_named}."


def routing(n: int, n_experts: int, weights: float, beside: float, total: float) -> str:
    """Say to how many experts a token goes, and what else is added.

    `weights` is the sum of their weights, `beside` the length of what else is added, `total` that
    of their sum.
    """
    whose = "its weight is" if n == 1 else "their weights sum to"
    sentence = f"The router sends this token to {n} of {n_experts} experts; {whose} {weights:.3g}."
    if beside > 1e-4 * max(1.0, total):
        sentence += (
            f" Besides, the layer adds a vector of length {beside:.3g} that no router chooses."
        )
    return sentence


def _bound_of_others(activation: str) -> str:
    """Return the range of an activation's values for inputs up to 0.

    Its lower bound is rounded down.
    """
    name, lowest_value = _FUNCTIONS[activation], lowest(activation)
    if lowest_value == 0:
        return f"{name} sets the others to 0"
    bound = decimal(math.floor(10_000 * lowest_value) / 10_000, 4)
    return f"{name} leaves the others between {bound} and 0"


def explain_stream(sublayers: Sequence[Sublayer], output: str, writes: bool = True) -> str:
    """Explain the picture of a stream's `sublayers`.

    `output` is the output that is read from the stream, "" for none; `writes` is True if the model
    writes.
    """
    parts, norm_type = _parts(sublayers), norm_name_of(sublayers)
    stream = (_ADDING if sublayers[0].adds else _REPLACING).format(
        each=f"Each {parts.replace(' and ', ' and each ')}"
    ) + _NUMBERS
    norm = _NORMS[_place_of_norms(sublayers)].format(
        norm=norm_type, formula=_FORMULAS[norm_type], parts=parts
    )
    factors = sorted({_factor(s) for s in sublayers if s.scale != 1})
    more = [_SCALED.format(factor=" or ".join(factors))] if factors else []
    more += [_MIXED] if any(s.role == MIXER for s in sublayers) else []
    sentence = _READ_CLASSES + _BESIDE * writes if is_class(output) else _READ.get(output, "")
    lens = [_LENS.format(read=sentence)] if output else []
    return "\n\n".join((stream, norm, *more, *lens))


def _place_of_norms(sublayers: Sequence[Sublayer]) -> str:
    """Return where the norms of these sublayers are, as a key of _NORMS."""
    if any(sublayer.reads for sublayer in sublayers):
        return "parallel"
    normed = [s for s in sublayers if s.norm != "none" or s.out_norm is not None]
    places = {(s.norm, s.out_norm is not None) for s in normed}
    if len(places) > 1:
        return "mixed"
    place, has_out_norm = places.pop() if places else ("none", False)
    return {"pre": "both", "none": "after"}[place] if has_out_norm else place


def recording_too_long(n: int, most: int) -> str:
    """Return the error for a run too long to be recorded, for a third-party model."""
    return f"The inside of this model's layers is kept for up to {most} tokens; this run has {n}."


def no_layers(is_recurrent: bool, instead: str) -> str:
    """Return why a model has nothing to show here, and a model that does."""
    other = f" Open **{instead}**, a model of the same task that has them." if instead else ""
    why = (
        "This model has no layers of this kind. One recurrent step after the other makes a new state out of the old "
        "one and the next token. Nothing is added to a stream."
        if is_recurrent
        else (
            "This model does not reveal what its layers add to a stream. The app could not tell which modules its "
            "residual stream passes through."
        )
    )
    return why + other
