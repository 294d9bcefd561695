"""What the page Task says of a class for each token."""

from collections import Counter
from collections.abc import Sequence

from viz_app import words

TITLE = "The most probable class of each token"
SCALE = ["0", "1  probability of the class", "Click a token to see all its classes."]
LISTED = 4  # classes that the summary counts


def summary(predicted: Sequence[str]) -> str:
    """How many tokens have each class, special tokens counted."""
    counted = Counter(predicted).most_common()
    each = [f"{name} {n}" for name, n in counted[:LISTED]]
    more = len(counted) - LISTED
    other = f" and {more} other class{'es' * (more > 1)}" * (more > 0)
    return f"{len(predicted)} tokens: {', '.join(each)}{other}."


def answer_title(token: str, special: bool) -> str:
    """Whose class is shown."""
    return f"The class of {token if special else f'“{token}”'}"


def fact(name: str, probability: float) -> str:
    """The most probable class of the chosen token."""
    return f"Most probable: {name}, {words.percent(probability, 1)}."


def rest(n_shown: int, n_classes: int, mass: float) -> str:
    """How much of the probability the listed classes hold; "" if they are all there are."""
    if n_shown == n_classes:
        return ""
    return (
        f"These {n_shown} of {n_classes} classes hold {words.percent(mass, 1)} of the probability."
    )
