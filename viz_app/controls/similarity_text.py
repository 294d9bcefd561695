"""The effect of another similarity on the run shown, in words."""

from models.analysis.slices import row_slices
from models.trace import AttentionSite, Trace
from models.trace.outputs import NextToken
from viz_app import words
from viz_app.drawing.notes import first_output, small_print
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures

NOTE = "note swapped"


def note(own: CurrentRun, swapped_run: CurrentRun, site: str, head: int, name: str) -> Pictures:
    """What the exchange has done to this head and to what the model says; nothing if there was none."""
    if not name:
        return {}
    trained_with = own.scope.config.similarity
    text = swapped(
        own.trace, swapped_run.trace, swapped_run.trace.attention[site], head, name, trained_with
    )
    return {NOTE: small_print(text)}


def trained(run: CurrentRun, name: str) -> str:
    """How the weights came about, and how good they are under the similarity of this name, "" for the model's own."""
    record = run.scope.training
    return (
        words.training_of_swapped(record, run.scope.config.similarity, name)
        if name
        else words.training_summary(record)
    )


def swapped(
    own: Trace, other: Trace, site: AttentionSite, head: int, name: str, trained: str
) -> str:
    """How far this head's weights have moved, and how many next tokens the model would still say."""
    before = own.attention[site.name]
    moved = sum(
        float((before.weights(head, rows=rows) - site.weights(head, rows=rows)).abs().sum())
        for rows in row_slices(site)
    )
    apart = moved / site.n_query / 2
    return (
        f"{words.place(site, head)} of a model trained with the {trained} similarity, here scored by {name}: on average "
        f"{words.percent(apart)} of a row's attention goes elsewhere. {_answers(own, other)}: {other.output or '(nothing)'}"
    )


def _answers(own: Trace, other: Trace) -> str:
    """How much of the answer is as before."""
    first, second = first_output(own), first_output(other)
    if not isinstance(first, NextToken):
        return f"The answer {'is as before' if own.output == other.output else 'is now'}"
    same = sum(a == b for a, b in zip(first.predicted, second.predicted, strict=True))
    return f"Given the same text, {same} of {len(first.predicted)} next tokens are as before"
