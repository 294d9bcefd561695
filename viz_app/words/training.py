"""Sentences on text length, training and scores, and helpers that join sentences."""

from collections.abc import Mapping, Sequence

from models.layers.similarity import SIMILARITIES
from models.number_text import how_many, percent
from models.sounds import PatchedSound
from models.training_record import NOT_PERCENT


def length_note(tokens: Sequence[str], n_ctx: int, unknown: Sequence[str]) -> str:
    """Return a text's length against the context, with pieces missing from the vocabulary."""
    missing = f" Not in the vocabulary: {' '.join(unknown)[:40]}" if unknown else ""
    return f"{len(tokens)} of at most {n_ctx} tokens.{missing}"


def grid(rows: int, columns: int, n_tokens: int) -> str:
    """Return an image's length: its patches, and its tokens including the special ones."""
    return f"{rows} × {columns} patches, {n_tokens} tokens."


def frames_note(seconds: float, n_heard: int, n_frames: int, step: float) -> str:
    """Return a sound's length: its frames, and the frames of silence added after it."""
    silent = n_frames - n_heard
    after = f", then {silent:,} of silence" if silent else ""
    frames = f"{n_heard:,} frame{'s' * (n_heard != 1)}"
    return f"{duration(seconds)}: {frames} of {1000 * step:g} ms{after}."


def patches_note(row: PatchedSound) -> str:
    """Return a sound's length: the patches that hold some of it, and those of padding."""
    grid, read = row.grid, row.grid.extent[1] * row.grid.seconds
    length = duration(row.seconds)
    if row.n_heard == grid.columns and row.seconds > read:
        length = f"The first {read:.4g} s of {row.seconds:.4g} s are read"
    padding = grid.columns - row.n_heard
    after = f", then {grid.rows:,} × {padding:,} of padding" if padding else ""
    return f"{length}: {grid.rows:,} × {row.n_heard:,} patches{after}; {len(row.ids):,} tokens."


def duration(seconds: float) -> str:
    """Name a length of time, to a tenth of a second, or a hundredth below one second."""
    return f"{round(seconds, 2):g} s" if seconds < 1 else f"{seconds:.1f} s"


def with_warning(note: str, warning: str) -> str:
    """Append a warning to a note on a text."""
    return f"{note} {warning}.".strip()


def after_steps(step: int) -> str:
    """Name the weights of an earlier training step: "the weights after 400 steps"."""
    return f"the weights after {step:,} step{'s' * (step != 1)}"


def no_snapshots(snapshots: Sequence[int]) -> str:
    """Explain, in Markdown, why there is no training slider; "" if there are `snapshots`."""
    if snapshots:
        return ""
    return "**Want to watch training?** Open **dates**; this model kept only its final weights."


def at_step(step: int, scores: dict) -> str:
    """Describe the page at an earlier training step: which weights it shows, and their scores."""
    return (
        f"Shown: {after_steps(step)}, on the same text as the finished model. "
        f"Score of these weights: {score_summary(scores) or 'not measured'}."
    )


def score_unit(metric: str) -> str:
    """Return the unit of a measure, with a space before it; "" for BLEU and for likelihoods."""
    return "" if metric.endswith((*NOT_PERCENT, "BLEU")) else " %"


def format_score(metric: str, value: float) -> str:
    """Format a score to at most two decimals, with its unit; "0" and "100 %" are exact.

    A likelihood below 0.005 keeps two digits.
    """
    rounded, unit = round(value, 2), score_unit(metric)
    if unit and rounded != value and rounded in (0, 100):
        return percent(value / 100)
    if rounded == 0:
        return f"{value:.2g}{unit}"
    return f"{rounded:g}{unit}"


def unequal_training(steps: Mapping[str, int]) -> str:
    """Note that compared models were trained for different numbers of steps, longest first.

    Empty if all were trained for the same number.
    """
    if len(set(steps.values())) < 2:
        return ""
    groups = [
        f"{join_names([name for name, trained_steps in steps.items() if trained_steps == n])} for {n:,} step{'s' * (n != 1)}"
        for n in sorted(set(steps.values()), reverse=True)
    ]
    return (
        f"Caution: training length differs ({'; '.join(groups)}). This may explain part of the gap."
    )


def as_sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def lower_first(text: str) -> str:
    """Return the text with a small first letter, for the middle of a sentence."""
    return f"{text[:1].lower()}{text[1:]}"


def join_names(names: Sequence[str]) -> str:
    """Join names for a sentence: "a, b and c"."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def score_summary(scores: dict) -> str:
    """List the scores and the number of cases they were measured on; "" if there are no scores."""
    scored = [
        f"{name} {format_score(name, value)}"
        for name, value in scores.items()
        if name != "cases" and isinstance(value, int | float)
    ]
    over = (
        f" over {how_many(scores['cases'], 'case')}" if isinstance(scores.get("cases"), int) else ""
    )
    return "; ".join(scored) + over if scored else ""


def training_origin(training: dict) -> str:
    """Return the number of training steps and the size of the data in a sentence, or ""."""
    if not training.get("step"):
        return ""
    return f"Trained for {trained_steps(training)}{_data(training.get('data'))}."


def held_out_source(training: dict) -> str:
    """Return ", from the file" or program that held-out texts come from; "" if not recorded."""
    data = training.get("data")
    if not isinstance(data, dict):
        return ""
    source = data.get("generator") or data.get("file")
    return f", from {source}" if isinstance(source, str) else ""


def _data(data: object) -> str:
    """Return " on 138,751 pairs" or " on generated examples"; "" if not recorded."""
    if not isinstance(data, dict):
        return ""
    if "generator" in data:
        return " on generated examples"
    for noun in ("pairs", "documents", "texts", "questions"):
        sets = data.get(noun)
        if isinstance(sets, dict) and isinstance(n := sets.get("train"), int):
            return f" on {n:,} {noun if n != 1 else noun[:-1]}"
    return ""


def training_summary(training: dict) -> str:
    """Return the origin of the weights and their scores in one line; "" if not recorded."""
    summary = score_summary(scores) if isinstance(scores := training.get("scores"), dict) else ""
    return " ".join(
        filter(
            None, [training_origin(training), summary and f"{summary[:1].upper()}{summary[1:]}."]
        )
    )


def training_brief(name: str, training: dict) -> str:
    """Return name, training steps and scores of a model, for narrow places."""
    summary = score_summary(scores) if isinstance(scores := training.get("scores"), dict) else ""
    return ", ".join(
        filter(None, [name, trained_steps(training) or training_state(training), summary])
    )


def trained_steps(training: dict) -> str:
    """Return the number of training steps with its unit; "" if there are none or no record."""
    if not (n := training.get("step")):
        return ""
    return f"{n:,} step{'s' * (n != 1)}"


def training_state(training: dict) -> str:
    """Return "not trained" for a record of 0 steps, otherwise "training not recorded"."""
    return "not trained" if training.get("step") == 0 else "training not recorded"


def training_of_swapped(training: dict, trained_with: str, name: str) -> str:
    """Return the training origin of weights that are shown with a swapped similarity."""
    origin = (
        f"{training_origin(training)} That was with the {trained_with} similarity. "
        f"No score was measured with {name}, which is used here."
    )
    return f"{origin}{_untrained(name)}"


def _untrained(name: str) -> str:
    """Note that a swapped-in similarity has untrained parameters; "" if it has no parameters."""
    initial_values = SIMILARITIES[name].initialisation
    return (
        f" The {name} similarity's own parameters are untrained: {initial_values}."
        if initial_values
        else ""
    )
