"""The payloads of the page Compare: distances, two maps with their difference, both answers."""

from dataclasses import dataclass
from typing import Any

from models import CheckpointError, InputError
from models.analysis.comparison import compare
from models.trace import Trace
from viz_app import checkpoints, words
from viz_app.drawing.notes import answer_line, check_rows
from viz_app.drawing.provenance import file_name, name_of_two
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.live import Pictures
from viz_app.session.pinned import Pinned
from viz_app.views.compare import text
from viz_app.views.compare.checks import distance_checks
from viz_app.views.compare.compared import (
    Compared,
    ComparedHead,
    check_size,
    compare_heads,
    head_within,
    of_one_run,
)
from viz_app.views.compare.difference import difference, of_both
from viz_app.views.compare.grid import distances

MAX_COMPARED_TOKENS = 40  # tokens that a model generates to continue a text


@dataclass(frozen=True)
class CompareChoices:
    """The pinned run (None: this run itself), the head in focus, and the head compared with it.

    Without a pinned run the focus is the head that all others are compared with.
    """

    pinned: Pinned | None
    focus: Focus
    other: ComparedHead | None


def compare_payloads(run: CurrentRun, choices: CompareChoices) -> Pictures:
    """Return the payloads of all components, or a note on why two runs cannot be compared."""
    try:
        second = _second(run, choices)
    except (InputError, CheckpointError) as error:
        return _unable(checkpoints.error_message(error), is_error=True)
    try:
        what = _compared(run, second, choices)
    except ValueError as error:
        return _unable(_other_lengths(run, second) or str(error))
    return {
        "distances": distances(what),
        "difference": difference(what, _answers(run, second)),
        "checks": check_rows(distance_checks(what)),
    }


def _unable(message: str, is_error: bool = False) -> Pictures:
    """Return the note on runs that cannot be compared; pictures of an earlier text stay."""
    why = f"{message[:1].upper()}{message[1:].rstrip('.')}."
    return {"distances": {"why": why, "isError": is_error, "kinds": []}}


def _other_lengths(run: CurrentRun, second: CurrentRun) -> str:
    """Say that the two runs read texts of other lengths, and what to do; "" if they do not."""
    if not all(one.scope.model.reads_text for one in (run, second)):
        return ""
    ours, theirs = (one.trace.streams[one.scope.model.fields[0].stream] for one in (run, second))
    if ours.text == theirs.text or len(ours.ids) == len(theirs.ids):
        return ""
    return text.OTHER_LENGTHS.format(len(ours.ids), len(theirs.ids))


def current_comparison(run: CurrentRun, choices: CompareChoices) -> Compared:
    """Return the comparison of this run with the pinned one, or with itself.

    Raises:
        InputError, CheckpointError: the pinned run cannot be made.
        ValueError: the runs cannot be compared.
    """
    return _compared(run, _second(run, choices), choices)


def _second(run: CurrentRun, choices: CompareChoices) -> CurrentRun:
    return run if choices.pinned is None else choices.pinned.beside(run)


def _compared(run: CurrentRun, second: CurrentRun, choices: CompareChoices) -> Compared:
    for one in (run, second):
        check_size(one.trace)
    trace, is_reread = _read_alike(run, second)
    comparison = compare(run.trace, trace)
    other = head_within(comparison.second, choices.other)
    if choices.pinned is None:
        focus = choices.focus.within(run.trace)
        return of_one_run(comparison, (focus.site, focus.head), other)
    return compare_heads(comparison, (choices.focus.site, choices.focus.head), other, is_reread)


def _read_alike(first: CurrentRun, second: CurrentRun) -> tuple[Trace, bool]:
    """Return the second run, repeated on the first one's answer if their answers to a text differ.

    The flag is True if it was repeated.
    """
    ours, theirs = first.scope.model, second.scope.model
    if not (ours.translates and theirs.translates) or second.trace.teacher_forced:
        return second.trace, False
    sources = [run.trace.streams[run.scope.model.fields[0].stream] for run in (first, second)]
    answers = [run.trace.streams[run.scope.model.writes] for run in (first, second)]
    if sources[0].text != sources[1].text or answers[0].tokens == answers[1].tokens:
        return second.trace, False
    try:
        return cache.reread(second, (sources[0].text, answers[0].text)), True
    except InputError:
        return second.trace, False


def _answers(run: CurrentRun, second: CurrentRun) -> dict[str, Any]:
    """Return both answers and where they diverge; for a run beside itself, its only one."""
    if run is second:
        only = {"whose": text.PAGE.captions[0], "words": _answer(run), "from": -1}
        return {"answers": [only], "verdict": ""}
    tasks_apart = text.tasks_apart(run.scope.task, second.scope.task)
    apart = tasks_apart or text.vectors_apart(run.trace, second.trace)
    return of_both(_answer(run), _answer(second), text.PAGE, apart)


def _answer(run: CurrentRun) -> list[str]:
    """Return the words of the model's answer under the run's changes."""
    if not run.scope.model.can_write:
        return answer_line(run.trace)[1].split(" ")
    most = None if run.scope.model.translates else MAX_COMPARED_TOKENS
    answer = (cache.unmasked_run(run.scope, run.trace, most).output or "").strip()
    return (answer or text.NOTHING_LABEL).split(" ")


def file_of_distances(run: CurrentRun, choices: CompareChoices) -> str:
    """Return the file name of the table of all distances, without its extension."""
    if choices.pinned is None:
        return file_name(run.trace, "head-distances")
    return name_of_two(run.trace, _second(run, choices).trace, "head-distances")


def distance_table(run: CurrentRun, choices: CompareChoices) -> list[list[object]]:
    """Return the rows of the table of all distances, with its head.

    Raises:
        InputError: the runs cannot be compared.
    """
    rows: list[list[object]] = [["attention", "layer", "head", "distance in bits"]]
    try:
        what = current_comparison(run, choices)
    except ValueError as error:
        field = run.scope.model.fields[0].name
        raise InputError(checkpoints.error_message(error), field) from error
    for pair in what.comparison.kinds:
        for layer, values in enumerate(what.grids.get(pair.kind, ())):
            site = pair.first[layer]
            title = words.kind_title(site)
            rows += [
                [title, site.layer + 1, head + 1, float(v)]
                for head, v in enumerate(values)
                if v.isfinite()
            ]
    return rows
