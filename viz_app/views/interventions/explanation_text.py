"""The wording of the section "Is attention explanation?"."""

from models.runs.explanation import EPSILON, LN_2

EXPLANATION_ANSWER = "If very different weights give the same answer, can the weights explain it?"
NO_ROW = (
    "No single row of this model's attention leads to its answer, so no row can be tried with other weights. "
    "Open a model that predicts one token at each query."
)
EXPLANATION_TOO_LONG = "This {noun} has too many tokens to try other weights; the limit is {most}."
OWN_MODEL = "This model"
NOW = "This model, edited"
OTHER_COLUMNS, WITHOUT_EDITS = "other columns", "without these edits, under the same masks"
EXPLANATION_NAMES = {
    "uniform": "Equal",
    "permuted": "Permuted",
    "adversary": "Adversary",
    "other": "Other model",
}
WEIGHTS_HELP = {
    "own": "The weights of this row. Drag a bar, or focus it and press ← or →: the rest of the row is rescaled to sum to 1.",
    "uniform": "The same weight on every token that the mask allows.",
    "permuted": "The same weights, dealt out to the allowed tokens at random. Shown is the permutation with the median change.",
    "adversary": (
        "The weights furthest from the model's own that a search found, by Jensen-Shannon distance (Jain and Wallace 2019). They "
        f"keep the predicted token, and the distribution within a total variation of {EPSILON:g}."
    ),
    "other": "What another model that reads the same tokens attends to here (Wiegreffe and Pinter 2019).",
}
SEARCH, SEARCHING = "Search", "Searching…"
OWN_MARK = "│ = own weight"
APPLY, APPLIED, UNDO = "Use these weights", "In use", "Undo"
NOT_SEARCHED = "How far can the weights move while the answer stays? A search takes about a second."
NO_OTHER = "There is no other model of this task in the list."
ONE_KEY = "This row may attend to one token only, so its weights cannot differ."
NO_WEIGHT_CHANGED = (
    "No weight is changed yet: drag a bar of the first column, or use other weights."
)
ROW_EXPLANATION = f"""A row of attention weights is often read as an explanation: *the model predicted this because it looked
there*. Jain and Wallace (2019) object: if quite different weights lead to the same answer, the weights do not explain it.
Each column puts other weights into **this one row** and runs the rest of the model as it is.

**JS** is the Jensen-Shannon divergence of the weights from the model's own, in nats. It is 0 for the same weights, and at
most ln 2 ≈ {LN_2:.3f}. **TV** is the total variation of the predicted distribution from the model's own. It is 0 for the same
distribution, and at most 1.

Wiegreffe and Pinter (2019) answer that an adversary for one row of one text proves little. Weights can be one of several
possible explanations, and another model must be able to use them. This is one row of one run: elsewhere the weights
may matter more, or less."""


def explanation_title(token: str, query: str) -> str:
    """Return the title of the table."""
    return f"Other weights where it predicts “{token}” (query: {query})"


def predicts(token: str, p: float) -> str:
    """Say what the model predicts."""
    return f"Predicts “{token}” (p {probability_text(p)})."


def probability_text(p: float) -> str:
    """Return three decimals, or a bound if they would round to 0 or 1."""
    if 0 < p < 0.0005:
        return "<0.001"
    return ">0.999" if 0.9995 <= p < 1 else f"{p:.3f}"


def outcome_sentence(before: str, after: str, p_before: float, p_after: float) -> str:
    """Say what the model predicts with other weights, with the probabilities of its own token."""
    way = f"p {probability_text(p_before)} → {probability_text(p_after)}"
    return (
        f"Still “{before}” ({way})."
        if before == after
        else f"“{before}” becomes “{after}” ({way})."
    )


def uniform_outcome(n_kept: int, n: int) -> str:
    """Say how many predictions stay with equal weights in all rows of the attention."""
    return f"With equal weights in every row of this kind, {_stay(n_kept, n)}."


def permutations(n_kept: int, n: int, low: float, median: float, high: float) -> str:
    """Say how many permutations keep the prediction, and how far they move the distribution."""
    number = f"All {n}" if n_kept == n else f"{n_kept or 'None'} of {n}"
    verb = "keeps" if n_kept == 1 else "keep"
    return f"{number} permutations {verb} it. TV median {median:.3f}; 95 % lie between {low:.3f} and {high:.3f}."


def adversary_outcome(
    divergence: float, variation: float, corners: int, n_tried: int, n_keys: int
) -> str:
    """Say how far an adversary came, and which of the tokens tried can hold all the weight."""
    far = f"Moved by JS {divergence:.3f} nats (at most {LN_2:.3f}); TV {variation:.3f}."
    tokens_tried = f"{n_tried} tokens" if n_tried == n_keys else f"the {n_tried} tokens tried"
    if corners:
        return f"{far} {corners} of {tokens_tried} can each take all the weight."
    if n_tried < n_keys:
        return f"{far} None of {tokens_tried} can take all the weight alone."
    return f"{far} No token alone can take all the weight."


def transplant_outcome(name: str, n_kept: int, n: int, is_by_head: bool) -> str:
    """Say what another model predicts with this run's weights."""
    how = "weights" if is_by_head else "mean weights in every head"
    return f"With this run's {how}, {_stay(n_kept, n)} in {name}."


def seeds(n: int, low: float, high: float, n_same: int) -> str:
    """Say how far the rows of other seeds are from this model's, and how many predict the same."""
    far = f"JS {low:.3f}" if low == high else f"JS {low:.3f} to {high:.3f}"
    which = "1 other seed" if n == 1 else f"{n} other seeds"
    return f"{which}: {far}; {n_same} of {n} predict the same."


def _stay(n_kept: int, n: int) -> str:
    """Say how many of n predictions stay."""
    if n == 1:
        return "the prediction stays" if n_kept else "the prediction changes"
    if n_kept in (0, n):
        return f"{'all' if n_kept else 'none of'} {n} predictions stay"
    return f"{n_kept} of {n} predictions {'stays' if n_kept == 1 else 'stay'}"
