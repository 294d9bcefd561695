"""Sentences on the effect of an exchanged similarity."""

from models.analysis.slices import row_slices
from models.trace import AttentionSite, Trace
from models.trace.outputs import NextToken
from viz_app import words
from viz_app.drawing.notes import first_output, small_print
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures

SIMILARITY_NOTE = "note swapped"


def similarity_note(run: CurrentRun, site: str, head: int) -> Pictures:
    """Return the note on how the exchanged similarity changes this head and the output.

    Empty if the similarity is the model's own.
    """
    name = run.spec.model.similarity
    if not name:
        return {}
    before = cache.changed_run(run.unchanged, run.spec.without("similarity"))
    trained_with = before.scope.config.similarity
    changed_site = run.trace.attention[site]
    return {
        SIMILARITY_NOTE: small_print(
            swap_effect(before.trace, run.trace, changed_site, head, name, trained_with)
        )
    }


def trained(run: CurrentRun) -> str:
    """Return how the weights were trained, and their scores if they apply to this similarity."""
    record, name = run.scope.training, run.spec.model.similarity
    if not name:
        return words.training_summary(record)
    return words.training_of_swapped(record, run.unchanged.scope.config.similarity, name)


def swap_effect(
    original: Trace, other: Trace, site: AttentionSite, head: int, name: str, trained_with: str
) -> str:
    """Describe how much of a head's attention moved, and how many next tokens are unchanged."""
    before = original.attention[site.name]
    change = sum(
        float((before.weights(head, rows=rows) - site.weights(head, rows=rows)).abs().sum())
        for rows in row_slices(site)
    )
    apart = change / site.n_query / 2
    return (
        f"{words.head_place(site, head)}, trained with the {trained_with} similarity, here scored by {name}: on average "
        f"{words.percent(apart)} of a row's attention goes elsewhere. {_answers(original, other)}: "
        f"{other.output or '(nothing)'}"
    )


def _answers(original: Trace, other: Trace) -> str:
    """Describe how much of the answer is unchanged."""
    first, second = first_output(original), first_output(other)
    if not isinstance(first, NextToken):
        return f"The answer {'is as before' if original.output == other.output else 'is now'}"
    same = sum(a == b for a, b in zip(first.predicted, second.predicted, strict=True))
    return f"Given the same text, {same} of {len(first.predicted)} next tokens are as before"
