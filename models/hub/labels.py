"""Three kinds of classifier: classes under softmax, labels judged one by one, and plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from jaxtyping import Float
from torch import Tensor

from models.trace.outputs import (
    ClassProbabilities,
    MultiLabelProbabilities,
    Output,
    RegressionValues,
)

MULTI_LABEL, REGRESSION = "multi_label_classification", "regression"  # in transformers' configs


def compares_labels(module: Any, names: Sequence[str]) -> bool:
    """Return True if a classifier was trained by softmax over its labels.

    As in the library's loss, a single number is a regression, whatever its config says.
    """
    problem = getattr(module.config, "problem_type", None)
    return problem not in (MULTI_LABEL, REGRESSION) and len(names) > 1


def label_output(
    module: Any,
    stream: str,
    position: int | None,
    names: tuple[str, ...],
    logits: Float[Tensor, " label"],
) -> ClassProbabilities | MultiLabelProbabilities | RegressionValues:
    """Return the classes of a row, or its labels if no softmax compares them."""
    if compares_labels(module, names):
        return ClassProbabilities(stream, position, names, logits)
    if _is_multi_label(module):
        return MultiLabelProbabilities(stream, position, names, logits)
    return RegressionValues(stream, names, logits)


def label_names(config: Any) -> list[str]:
    """Return the name of each label by its index; LABEL_i where it has none, as in transformers."""
    names = [str(config.id2label.get(i, "")) for i in range(len(config.id2label))]
    return [name if name.strip() else f"LABEL_{i}" for i, name in enumerate(names)]


def labels_in_words(output: Output) -> str:
    """Return the name of the class, the labels that hold, or the values of labels."""
    if isinstance(output, MultiLabelProbabilities | RegressionValues):
        return output.in_words
    return cast(ClassProbabilities, output).predicted


def describe_labels(module: Any, names: Sequence[str], what: str) -> str:
    """Describe a classifier's output for a text, an image or a sound."""
    if compares_labels(module, names):
        return f"a class of the {what}"
    if _is_multi_label(module):
        return f"which labels the {what} has, each judged on its own"
    return f"a number for the {what}" if len(names) == 1 else f"{len(names)} numbers for the {what}"


def _is_multi_label(module: Any) -> bool:
    return getattr(module.config, "problem_type", None) == MULTI_LABEL
