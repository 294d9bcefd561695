"""The wording of the page Interventions."""

from models.architectures import Model
from models.architectures.base import FILE_FIELDS, TEXT_FIELD
from models.number_text import decimal

INTERVENTIONS_QUESTION = "Interventions: what happens if…?"
HEADS_ANSWER = "Click a head to switch it off. Drag it sideways (or press ← →) to scale it. The answer changes beside it."
NO_HEADS_TO_CHANGE = "This run has no attention head whose output can be changed."
NO_HELD_OUT_TEXT = (
    "**This model reads no text**, and only held-out texts are measured here. The section **Heads** switches heads off "
    "for the {noun} that is shown. Choose another {noun} above to see whether the same heads matter there."
)
HEADS_TOO_LONG = (
    "This {} has too many tokens to try every head at once. Click a head to see what it does."
)
PASSES_ON = "a head that is off passes on"
BASELINE_NAMES = {
    "zero": "nothing",
    "uniform": "equal weights",
    "offset": "the best fixed offset",
    "mean": "its mean",
    "resample": "another text's",
}
METRIC_NAMES = {"log-probability": "Log-probability", "divergence": "KL divergence"}
BASELINE_HELP = (
    "What a head passes on while it is off. Nothing: zeros, which later layers have never seen. Equal weights: the average of "
    "all tokens that it may attend to. Its best fixed offset: the token at the distance where it usually looks. Its mean: its "
    "mean output over held-out texts. Another text's: its output in another held-out text."
)
BOARD_LEGEND = {
    "log-probability": "change when the head is off. Below 0: the head makes the {} more likely.",
    "divergence": "KL divergence from the distribution before, never below 0",
}
NO_HEAD_CHANGES = "No head changes it by {:g} nats or more when it is switched off."
NO_HEAD_CHANGED = "No head is changed yet: click one."
FOLLOWED = "Followed {}: change of its log-probability, nats"
METRIC_HELP = (
    "The log-probability of the chosen {} says which way a head pushes. The KL divergence of the two distributions says "
    "how much the head matters, not which way."
)
HEADS_EXPLANATION = """Each cell is one run of the model in which **that head alone** is replaced. What is already off stays off.
Log-probability: the cell is the chosen {noun}'s log-probability after minus before, in nats. Below 0 the head had raised its
probability; above 0 it had lowered it. KL divergence: the cell is how far the two distributions are apart.

A head that can be removed without effect may still matter: later heads can replace it (Michel et al. 2019). Heimersheim and
Nanda (2024) discuss why. This is one run: the same head may matter in another."""


def noun_of(model: Model) -> str:
    """Return the kind of input of this model: "text", "image" or "sound"."""
    kind = model.fields[0].kind
    return kind if kind in FILE_FIELDS else TEXT_FIELD


def no_answer(model: Model) -> str:
    """Say that a run of this model has no probabilities."""
    noun = noun_of(model)
    has_files = any(field.kind in FILE_FIELDS for field in model.fields)
    remedy = "" if has_files else " A model that fills in words needs a masked token in its text."
    return f"This model gives no probabilities for this {noun}, so there is nothing to compare.{remedy}"


def board_title(metric: str, token: str) -> str:
    """Return the title of the board."""
    what = f"log p({token})" if metric == "log-probability" else f"the distribution at {token}"
    return f"What switching off each head does to {what}"


def effect_size(value: float, *, signed: bool = False) -> str:
    """Return an effect with two decimals, or four if it is small."""
    return decimal(value, 2 if abs(value) >= 0.1 else 4, signed=signed)


def strongest_head_sentence(
    strongest: str, effect: str, n_raise: int, n: int, value: float, signed: bool
) -> str:
    """Say which head matters most, and how many of n raise the log-probability when off."""
    if not signed:
        return f"{strongest} changes it most when off: {effect} nats."
    way = "lowers" if value < 0 else "raises"
    most = f"{strongest} {way} it most when off: {effect} nats."
    others = f"{n_raise} of {n} heads {'raises' if n_raise == 1 else 'raise'} it when off."
    return most if n == 1 else f"{most} {others}"


def distribution_title(token: str, row: int) -> str:
    """Return the title of the distribution."""
    return f"Probabilities at “{token}”, decision {row + 1}"


def followed_token_line(token: str, before: float, after: float) -> str:
    """Give the followed token's log-probability before and after."""
    first, last, change = decimal(before, 3), decimal(after, 3), after - before
    changed = decimal(change, 3, signed=True) if change else "0"
    return f"log p({token}): {first} before, {last} after, {changed} nats"


def changed_answer(before: list[str], after: list[str], first: int) -> str:
    """Say where two answers first differ."""
    if first < 0:
        return "The same answer."
    was, now = (
        f"“{words[first]}”" if first < len(words) else "nothing" for words in (before, after)
    )
    return f"First difference: word {first + 1}, {was} became {now}."
