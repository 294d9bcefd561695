"""Text of a model card: what the model is and does, its scores, notes, data and training."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from models.architectures import family_of
from models.number_text import how_many
from models.runs.scope import Scope
from models.tasks.purpose import task_purpose


def card_sections(scope: Scope) -> Iterator[list[str]]:
    """Yield the sections of the text, each as its lines; an empty one is left out."""
    record = scope.training
    does, n = task_purpose(record, scope.config), sum(p.numel() for p in scope.model.parameters())
    family = family_of(scope.config).name
    yield [f"# {scope.name}"]
    yield [
        f"{does[:1].upper()}{does[1:]}. " * bool(does) + f"{_capital(family)}, {n:,} parameters."
    ]
    yield ["```python", "import models", f'scope = models.load("{scope.name}")', "```"]
    yield ["## Scores", "", *_scores(scope)]
    yield _by_length(record)
    yield _runs(record.get("runs", []))
    yield _snapshots(record.get("snapshot_scores", {}))
    if notes := record.get("notes", []):
        yield ["## Notes", "", "\n\n".join(notes)]
    yield ["## Data", "", *_data(record)]
    yield ["## Training", "", *_training(scope)]
    sizes = ((key, f"`{value}`") for key, value in asdict(scope.config).items() if value != "")
    yield ["## Configuration", "", *_table(("setting", "value"), sizes)]


def _scores(scope: Scope) -> list[str]:
    scores = scope.training.get("scores", {})
    if not scores:
        return ["No score was measured on these weights."]
    rows = ((name, number_text(value)) for name, value in scores.items() if name != "cases")
    files = " --data FILE …" if "file" in scope.training.get("data", {}) else ""
    over = f" over {how_many(scores['cases'], 'held-out case')}" if "cases" in scores else ""
    lines = [f"`attnscope evaluate {scope.name}{files}` measures them{over}.", ""]
    if signature := scope.training.get("signature"):
        lines[:0] = [f"BLEU is sacrebleu's, `{signature}`.", ""]
    return [*lines, *_table(("measure", "value"), rows)]


def _by_length(record: Mapping[str, Any]) -> list[str]:
    if not (groups := record.get("by_length", [])):
        return []
    lengths = [
        f"{g['least']}–{g['most']}" if g["least"] < g["most"] else str(g["most"]) for g in groups
    ]
    rows = [
        ("score", *(number_text(group["score"]) for group in groups)),
        ("cases", *(f"{group['cases']:,}" for group in groups)),
    ]
    return ["By source length (`--by-length`):", "", *_table(("words", *lengths), rows)]


def _runs(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of variants of this training, each trained once for each fold."""
    if not runs:
        return []
    n = max(len(run["accuracy"]) for run in runs)
    rows = [
        (
            run["name"],
            *(f"{one:.2f}" for one in run["accuracy"]),
            _mean(run["accuracy"]),
            " to ".join(f"{end(run['text perplexity']):,.0f}" for end in (min, max))
            if "text perplexity" in run
            else "–",
        )
        for run in runs
    ]
    header = ("accuracy, %", *(f"fold {i}" for i in range(n)), "mean ± deviation", "perplexity")
    commands = [f"- {run['name']}: `{run['command']}`" for run in runs if run["command"]]
    return ["### Variants of this training", "", *_table(header, rows), "", *commands]


def _mean(values: Sequence[float]) -> str:
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation}"


def _snapshots(entries: Mapping[str, Any]) -> list[str]:
    if not entries:
        return []
    names = [name for name in next(iter(entries.values()))["scores"] if name != "cases"]
    rows = (
        (f"{int(step):,}", *(number_text(entry["scores"][name]) for name in names))
        for step, entry in entries.items()
    )
    return ["At earlier steps (`--snapshots`):", "", *_table(("step", *names), rows)]


def _data(record: Mapping[str, Any]) -> Iterator[str]:
    for name, value in record.get("data", {}).items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        listed = (f"{key}: {_count(n)}" if key else _count(n) for key, n in parts)
        yield f"- {name}{' – ' if isinstance(value, dict) else ': '}{', '.join(listed)}"
    yield f"- licence of the data: {record.get('licence', 'not recorded')}"


def _training(scope: Scope) -> Iterator[str]:
    record = scope.training
    if command := record.get("command"):
        yield from ("```sh", command, "```", "")
    if start := record.get("start"):
        yield f"- started from: `{start['name']}`, weights {start['weights']}"
    for name in ("step", "averaged_steps", "training_seconds", "device", "torch"):
        if name in record:
            yield f"- {name.replace('_', ' ')}: {_count(record[name])}"
    settings = ", ".join(f"{key} {value}" for key, value in record.get("recipe", {}).items())
    yield f"- recipe: {settings or 'not recorded'}"


def number_text(value: Any) -> str:
    """Return a number with thousands separators and two decimals; leave anything else unchanged.

    A number that would be rounded to 0 or to 100, as a share must not be, keeps its digits.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if value != round(value, 2) in (0, 100) else f"{value:,.2f}"


def _count(value: Any) -> str:
    return f"{value:,}" if type(value) is int else str(value)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    ]


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
