"""What the app says about texts and weights: how long a text is, how weights came about, how good they are; and small sentences."""

from collections.abc import Mapping, Sequence

from models.layers.similarity import SIMILARITIES


def length(tokens: Sequence[str], n_ctx: int, unknown: Sequence[str]) -> str:
    """How long a text is, and which pieces of it the model has no token for."""
    missing = f" Not in the vocabulary: {' '.join(unknown)[:40]}" if unknown else ""
    return f"{len(tokens)} of at most {n_ctx} tokens.{missing}"


def with_warning(note: str, warning: str) -> str:
    """A note on a text, with what a person should know of it."""
    return f"{note} {warning}.".strip()


def after_steps(step: int) -> str:
    """Whose answer stands in the headline while the page stands at an earlier step of training."""
    return f"the weights after {step:,} step{'s' * (step != 1)}"


def no_snapshots(snapshots: Sequence[int]) -> str:
    """Why there is no slider over the training of a model of which no `snapshots` were kept; empty where there are some."""
    if snapshots:
        return ""
    return (
        "**Where is its training?** A model whose weights were kept at earlier steps of its training has a slider over them here "
        "(**dates**, for example). Of this one only the finished weights were kept."
    )


def at_step(step: int, scores: dict) -> str:
    """What the page shows while it stands at an earlier step of training, and how good those weights were."""
    return (
        f"The line above and all pictures below are of {after_steps(step)}, reading the same text as the finished model. "
        f"Of these weights: {score_summary(scores) or 'no score was measured'}."
    )


def score(metric: str, value: float) -> str:
    """A score to at most two decimals, with its unit if its name does not say it."""
    return f"{round(value, 2):g}{' %' if metric.endswith(('exact match', 'accuracy')) else ''}"


def unequal_training(steps: Mapping[str, int]) -> str:
    """That models which are compared were trained for different numbers of steps, and for how many each, longest first; empty
    where they were trained alike."""
    if len(set(steps.values())) < 2:
        return ""
    said = [
        f"{listed([name for name, own in steps.items() if own == n])} for {n:,} step{'s' * (n != 1)}"
        for n in sorted(set(steps.values()), reverse=True)
    ]
    return f"Not trained alike: {'; '.join(said)}. What differs may come from that too."


def sentence(text: str) -> str:
    """The text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: a, b and c."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def score_summary(scores: dict) -> str:
    """Scores, and over how many cases; empty if there is none."""
    said = [
        f"{name} {score(name, v)}"
        for name, v in scores.items()
        if name != "cases" and isinstance(v, int | float)
    ]
    over = f" over {scores['cases']:,} cases" if isinstance(scores.get("cases"), int) else ""
    return "; ".join(said) + over if said else ""


def training_origin(training: dict) -> str:
    """How these weights came about, in one sentence; empty if their record does not say."""
    if not training.get("step"):
        return ""
    data = part if isinstance(part := training.get("data"), dict) else {}
    on = (
        f" on {data['file']}"
        if "file" in data
        else " on generated examples"
        if "generator" in data
        else ""
    )
    return f"Trained for {training['step']:,} steps{on}."


def training_summary(training: dict) -> str:
    """How these weights came about and how good they are, in one line; empty if their record does not say."""
    said = score_summary(scores) if isinstance(scores := training.get("scores"), dict) else ""
    return " ".join(
        filter(None, [training_origin(training), said and f"{said[:1].upper()}{said[1:]}."])
    )


def training_brief(name: str, training: dict) -> str:
    """Whose weights these are and their score, where there is little room."""
    said = score_summary(scores) if isinstance(scores := training.get("scores"), dict) else ""
    return ", ".join(filter(None, [name, steps(training) or untrained(training), said]))


def steps(training: dict) -> str:
    """For how many steps these weights were trained; empty if for none, or if their record does not say."""
    return f"{training['step']:,} steps" if training.get("step") else ""


def untrained(training: dict) -> str:
    """What is said where there are no `steps`: a record of none is not the same as no record."""
    return "not trained" if training.get("step") == 0 else "training not recorded"


def training_of_swapped(training: dict, own: str, name: str) -> str:
    """The same of weights that are scored by another similarity than they were trained with."""
    said = f"{training_origin(training)} That was with the {own} similarity: scored by {name}, as here, nothing was measured."
    return f"{said}{_untrained(name)}"


def _untrained(name: str) -> str:
    """That a similarity which was swapped in has numbers of its own that nobody trained; empty where it has none."""
    begins = SIMILARITIES[name].initialisation
    return (
        f" What {name} learns besides was never trained with these weights and is as in a new model: {begins}."
        if begins
        else ""
    )
