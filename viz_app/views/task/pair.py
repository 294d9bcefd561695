"""The picture of class probabilities of one or two texts, and attention between them."""

from typing import Any

import numpy as np

from models.analysis.checks import Check
from models.analysis.distributions import check_softmax
from models.trace.outputs import ChoiceProbabilities, ClassProbabilities
from viz_app.drawing.labels import labels
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts, saving
from viz_app.session.current_run import CurrentRun
from viz_app.views.task import text
from viz_app.views.task.reading import (
    DrawnOutput,
    TaskChoices,
    attention_row_payload,
    check_row,
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


def _drawn(
    run: CurrentRun,
    output: ClassProbabilities,
    choices: TaskChoices,
    title: str,
    fact: str,
    blocks: tuple[str, str],
    has_bars: bool = True,
) -> DrawnOutput:
    site, head = reading_site(run.trace, output.stream, choices.focus)
    row, p = run.trace.streams[output.stream], output.probabilities
    attention_row, arrays = attention_row_payload(run, site, head, output.position)
    keys = row if site is None else run.trace.streams[site.key_stream]
    segments = keys.segments or (0,) * len(keys.ids)
    shares = np.bincount(segments, weights=arrays["weights"]) if site is not None else np.zeros(0)
    header: dict[str, Any] = {
        "title": title,
        **saving(file_name(run.trace, "classes"), facts(run.trace)),
        "rows": [
            [i, [name, "", False], "most probable" * (name == output.predicted)]
            for i, name in enumerate(output.names if has_bars else ())
        ],
        "fact": fact,
        "reading": attention_row,
        "segments": list(segments),
        "blocks": [
            text.text_share(name, float(shares[i]) if len(shares) else None)
            for i, name in enumerate(blocks[: max(segments) + 1])
        ],
        "token": labels(row)[output.position].text,
    }
    ranks = 1 + (p[None] > p[:, None]).sum(-1)
    checks = check_softmax(output.logits[None], output.logits[None].float().log_softmax(-1))
    if site is not None:
        checks += [
            check_row(site, head, output.position),
            check_shares(shares, float(arrays["weights"].sum())),
        ]
    return {
        "pair": pack(header, p=p.numpy(), ranks=ranks.numpy().astype(np.int32), **arrays)
    }, checks


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
