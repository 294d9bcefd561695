"""The answers of one forward pass over the rows of a batch, under edits."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from jaxtyping import Float
from torch import Tensor

from models.architectures import Model
from models.architectures.base import NEXT_TOKEN, Answers
from models.errors import IndistinctRowsError
from models.runs.edit_checks import check_activations, check_reached
from models.tokenizers.base import Encoding
from models.trace.edits import Edits, editing

Rows = Sequence[Mapping[str, Encoding]]  # of a batch, each with its streams
Result = TypeVar("Result")


def edited_answers(model: Model, rows: Rows, edits: Edits) -> Answers:
    """Return the logits of these rows under edits that have their material."""
    with editing(edits) as in_force:
        answers = answers_by_output(model(*model.inputs(rows)))
    check_activations(edits, in_force.offered if in_force else ())
    check_reached(edits, in_force.reached if in_force else ())
    return answers


def answers_by_output(answers: Float[Tensor, "batch *position vocab"] | Answers) -> Answers:
    """Return the logits of each output of a forward pass."""
    return {NEXT_TOKEN: answers} if isinstance(answers, Tensor) else answers


def run_in_one_batch(run: Callable[[Rows], Result], rows: Rows, edits: Edits) -> Result | None:
    """Return `run(rows)`, with one extra row if an attention has as many heads as there are rows.

    Ignore the answer of the extra row. None if the rows have to run one at a time.

    Raises:
        IndistinctRowsError: a single row cannot be told apart from the heads.
    """
    try:
        return run(rows)
    except IndistinctRowsError:
        pass
    try:
        for edit in edits:
            edit.forget()
        return run([*rows, rows[-1]])
    except IndistinctRowsError:
        if len(rows) == 1:
            raise
        return None
