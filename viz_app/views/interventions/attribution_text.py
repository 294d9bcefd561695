"""The wording of the section Attribution."""

from models.number_text import decimal

DIRECT_AXES = ("layer (rows)", "head (columns)")
DIRECT_METHOD, GRADIENT_METHOD, INTEGRATED_METHOD, ROLLOUT_METHOD, FLOW_METHOD = (
    "direct",
    "gradient",
    "integrated",
    "rollout",
    "flow",
)
METHOD_TITLES = {
    DIRECT_METHOD: "direct to the logits",
    GRADIENT_METHOD: "gradient × attention",
    INTEGRATED_METHOD: "integrated gradients",
    ROLLOUT_METHOD: "rollout",
    FLOW_METHOD: "flow",
}
METHOD_HELP = (
    "The direct part is what each head itself adds to the logits. Gradients say how much each weight of a head contributes to the "
    "chosen answer. Rollout and flow follow the tokens through all layers of a self-attention, whatever the answer is."
)
TOWARDS = "Blue pushes towards the chosen answer, orange away from it. A check, where there is one, shows how far to trust this."
MIXED = (
    "How much of each token ends up in every other after the last layer, whatever the answer is."
)
METHOD_UNITS = {
    DIRECT_METHOD: "logits",
    GRADIENT_METHOD: "nats",
    INTEGRATED_METHOD: "nats",
    ROLLOUT_METHOD: "share",
    FLOW_METHOD: "flow",
}
NO_SUM = (
    "With this change, the logits of this token are not a sum of what heads and other parts add."
)
SUM_IS_ROUNDED = "Rounding is too coarse here to split the logits of this token into parts."
AS_IT_IS = "No intervention yet: choose the {} to follow."
ROW_SUM_CHECK = "Largest distance of a row's sum from 1"
SAME_CELLS = "Cells in which only one of flow and rollout is 0"
NO_LESS = "Largest amount by which rollout exceeds flow in a cell"
PARTS_SUM = "the parts add up"
COMPLETE = "Sum of all heads of this layer: {:.4f} nats; the run minus the run without them: {:.4f}"
SUM_OF_PARTS = "Sum of all heads, feed-forwards, biases and the embedding: {:.4f}; the difference of the logits: {:.4f}"
HEAD_LABEL = "head {}"
SLOPE_OF_WEIGHT = "Largest cell: {:.4f} nats by the gradient; {:.4f} by making this weight {:g} % larger and smaller"
NOT_CHECKED = (
    "This model runs in {}: a small change of one weight is lost in rounding, so no check is made."
)
ATTRIBUTION_EXPLANATION = """**Direct to the logits**: what each head adds to the logit of the chosen answer, minus the next best.
The scale of every later norm is held as it was in the run. What a head does by way of later layers
is not included (Elhage et al. 2021).

**Gradient × attention**: a(i,j) · ∂f/∂a(i,j), where f is the log-probability of the chosen answer. It is what a small change
of the weight does, in proportion. A weight may matter even if its gradient is 0.

**Integrated gradients** grow all weights of the layer from 0 to what they are: ∫₀¹ a · ∂f(α·a)/∂a dα. All its heads together
give what the layer's attention adds to f. See Sundararajan et al. (2017) and Hao et al. (2021).

**Rollout** multiplies ½ · mean over heads + ½ · identity over the layers. **Flow** lets as much pass as the narrowest weight of
each path allows (Abnar and Zuidema 2020). Both say where information may come from, not whether the answer uses it."""


def attribution_answer(method: str) -> str:
    """Return what the picture of a method shows."""
    return MIXED if method in (ROLLOUT_METHOD, FLOW_METHOD) else TOWARDS


def too_many_tokens(noun: str, n: int, most: int) -> str:
    """Say that a method has no numbers for a run of n tokens."""
    remedy = "Choose another or a shorter text." if noun == "text" else "Choose another."
    return f"This {noun} has too many tokens for this attribution: {n}, and at most {most} are followed. {remedy}"


def row_label(layer: int, kind: str) -> str:
    """Return the label of the row of an attention."""
    return f"{kind} {layer + 1}"


def attribution_title(method: str, place: str, token: str, than: str) -> str:
    """Return the title of the picture."""
    if method == DIRECT_METHOD:
        return f"What each head adds to the logit of “{token}” minus that of “{than}”"
    about = f": for and against “{token}”" if method in (GRADIENT_METHOD, INTEGRATED_METHOD) else ""
    return f"{METHOD_TITLES[method].capitalize()}, {place}{about}"


def direct(head: str, value: float, heads: float, rest: float, token: str, than: str) -> str:
    """Return the sentence on the strongest head, and on what all heads and all other parts add."""
    favoured, against = (token, than) if value > 0 else (than, token)
    of_heads, of_rest, of_all = (
        decimal(one, 2, signed=True) for one in (heads, rest, heads + rest)
    )
    strongest = f"The strongest: {head}, {abs(value):.2g} for “{favoured}” against “{against}”."
    return (
        f"{strongest if value else 'No head adds anything.'} All heads together add {of_heads}, "
        f"everything else {of_rest}: {of_all} in all."
    )


def strongest_cell_sentence(method: str, query: str, key: str, value: float, token: str) -> str:
    """Return the sentence on the strongest cell."""
    if value == 0:
        return "No cell counts here."
    size = f"{abs(value):.2g}"
    if method in (GRADIENT_METHOD, INTEGRATED_METHOD):
        way = "towards" if value > 0 else "away from"
        return f"The strongest: {query} reading {key}, {size} nats {way} “{token}”."
    return f"The most between two tokens: {size} from {key} to {query}."
