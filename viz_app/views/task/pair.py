"""The picture of class probabilities of one or two texts, and attention between them."""

from typing import Any

import numpy as np

from models.analysis.checks import Check
from models.trace.outputs import ChoiceProbabilities, ClassProbabilities, MultiLabelProbabilities
from viz_app.drawing.labels import labels
from viz_app.drawing.over_file import reads_file
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts, saving
from viz_app.session.current_run import CurrentRun
from viz_app.views.task import text
from viz_app.views.task.image import file_answer
from viz_app.views.task.reading import (
    DrawnOutput,
    TaskChoices,
    answer_bars,
    attention_row_payload,
    check_answer,
    check_row,
    no_row,
    reading_site,
)


def pair(
    run: CurrentRun, output: ClassProbabilities, choices: TaskChoices, has_bars: bool = True
) -> DrawnOutput:
    """Draw the row's class probabilities, unless drawn elsewhere, and return their checks."""
    is_of_two = run.trace.outputs.get(run.scope.model.pair_output) is output
    title = text.PAIR_TITLE if is_of_two else text.CLASS_TITLE
    return _drawn(run, output, choices, title, text.class_fact(output), text.TEXT_TITLES, has_bars)


def draw_choices(run: CurrentRun, output: ChoiceProbabilities, choices: TaskChoices) -> DrawnOutput:
    """Draw the choices and the attention in the best choice's row, and return their checks."""
    fact = text.choice_fact(output)
    return _drawn(run, output, choices, text.CHOICE_TITLE, fact, text.CHOICE_BLOCKS)


def draw_labels(
    run: CurrentRun, output: MultiLabelProbabilities, choices: TaskChoices
) -> DrawnOutput:
    """Draw the row's labels, each judged on its own, and return their checks."""
    if reads_file(run.trace, output.stream):
        return file_answer(run, output, choices)
    fact = text.labels_fact(output)
    return _drawn(run, output, choices, text.LABELS_TITLE, fact, text.TEXT_TITLES)


def _drawn(
    run: CurrentRun,
    output: ClassProbabilities | MultiLabelProbabilities,
    choices: TaskChoices,
    title: str,
    fact: str,
    blocks: tuple[str, str],
    has_bars: bool = True,
) -> DrawnOutput:
    bars, checks = answer_bars(output), check_answer(output)
    header: dict[str, Any] = {
        "title": title,
        **saving(file_name(run.trace, "classes"), facts(run.trace)),
        "rows": bars.rows if has_bars else [],
        "fact": fact,
    }
    if output.position is None:  # read from several tokens
        attention_row, arrays = no_row()
        header |= {"reading": attention_row, "segments": [], "blocks": [], "token": ""}
        return {"pair": pack(header, **bars.arrays, **arrays)}, checks
    site, head = reading_site(run.trace, output.stream, choices.focus)
    row = run.trace.streams[output.stream]
    attention_row, arrays = attention_row_payload(run, site, head, output.position)
    keys = row if site is None else run.trace.streams[site.key_stream]
    segments = keys.segments or (0,) * len(keys.ids)
    shares = np.bincount(segments, weights=arrays["weights"]) if site is not None else np.zeros(0)
    header |= {
        "reading": attention_row,
        "segments": list(segments),
        "blocks": [
            text.text_share(name, float(shares[i]) if len(shares) else None)
            for i, name in enumerate(blocks[: max(segments) + 1])
        ],
        "token": labels(row)[output.position].text,
    }
    if site is not None:
        checks += [
            check_row(site, head, output.position),
            check_shares(shares, float(arrays["weights"].sum())),
        ]
    return {"pair": pack(header, **bars.arrays, **arrays)}, checks


def check_shares(shares: np.ndarray, whole: float) -> Check:
    """Check that the texts' shares of the attention row sum to the whole row."""
    return Check(
        "the texts share the whole row",
        abs(float(shares.sum()) - whole),
        1e-5,
        "Difference of their shares' sum from the row's",
    )


def second_text_missing() -> bytes:
    """Return the payload shown while there is no second text."""
    header: dict[str, Any] = {"title": text.PAIR_TITLE, "waiting": text.ONE_TEXT_NOTE}
    return pack(header)
