"""Header of a model card: metadata under the Hugging Face hub's keys, as YAML."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from models.architectures import architecture_name
from models.runs.scope import Scope
from models.tasks import TASKS
from models.tasks.forms import FORMS

LIBRARY = "attnscope"
# ending of a measure's name → the hub's name for the metric; other measures keep their names
_METRICS = {
    "bleu": "bleu",
    "exact match": "exact_match",
    "accuracy": "accuracy",
    "perplexity": "perplexity",
}


def metadata(scope: Scope) -> dict[str, Any]:
    """Return the header of the card, under the hub's keys.

    The result is the held-out score of these weights; the text has all measures, and those of
    baselines.
    """
    record, task = scope.training, TASKS.get(scope.task)
    data = record.get("data", {})
    form = FORMS.get(data.get("form", ""))  # of a generated task, which several families learn
    tag = form.pipeline_tag if form else task.pipeline_tag if task else "other"
    results = {
        "task": {"type": tag, "name": scope.task},
        "dataset": {
            "type": scope.task,
            "name": f"held-out cases of {data.get('file') or data.get('generator', 'its data')}",
            "split": "test",
        },
        "metrics": [
            {"type": metric_type(name), "value": value, "name": name}
            for name, value in record.get("scores", {}).items()
            if name.startswith("held-out ")
        ],
    }
    header = {
        "language": record.get("languages", []),
        "library_name": LIBRARY,
        "pipeline_tag": tag if task else "",
        "tags": [architecture_name(scope.config).replace(" ", "-"), "attention", "visualization"],
        "metrics": list(dict.fromkeys(metric["type"] for metric in results["metrics"])),
        "model-index": [{"name": scope.name, "results": [results]}] if results["metrics"] else [],
    }
    return {key: value for key, value in header.items() if value}


def metric_type(name: str) -> str:
    """Return the hub's name for the metric of a score."""
    kinds = [kind for ending, kind in _METRICS.items() if name.lower().endswith(ending)]
    return kinds[0] if kinds else re.sub(r"\W+", "_", name.removeprefix("held-out "))


def yaml(value: Any, indent: str = "") -> Iterator[str]:
    """Yield the lines of a nonempty object or list as YAML, with strings quoted as in JSON."""
    pairs = value.items() if isinstance(value, Mapping) else ((None, item) for item in value)
    for key, item in pairs:
        begin = f"{indent}- " if key is None else f"{indent}{key}:"
        if not isinstance(item, Mapping | list):
            yield f"{begin}{'' if key is None else ' '}{json.dumps(item, ensure_ascii=False)}"
        elif key is None:
            first, *others = yaml(item, f"{indent}  ")
            yield from (f"{begin}{first.lstrip()}", *others)
        else:
            yield from (begin, *yaml(item, f"{indent}  "))
