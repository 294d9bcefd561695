"""Texts read by a checkpoint: the run, what is said under their boxes, and the answer of a page while one types."""

from collections.abc import Callable
from dataclasses import replace

import models
from models import Trace
from models.architectures.base import Field
from models.checkpoint import CheckpointError
from viz_app import checkpoints, words
from viz_app.drawing.notes import small_print, strip
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import LiveSession, Pictures
from viz_app.session.url_state import parameter_of


def read(session: LiveSession, *texts: str) -> tuple[Trace | None, dict[str, dict]]:
    """The run of what stands in the boxes of the model's fields, None if there is none, and the small print under each box: how
    long its row of tokens is, or what is wrong with it. The session then shows it."""
    scope, fields = session.scope, session.scope.model.text_fields
    notes = {field.name: small_print("") for field in fields}
    try:
        trace = cache.trace(scope, texts, session.drafts(scope), session.chosen)
    except (
        models.InputError,
        CheckpointError,
    ) as error:  # a checkpoint may have been replaced since it was opened
        message = checkpoints.error_message(error)
        notes[getattr(error, "field", fields[0].name)] = small_print(
            f"{message[:1].upper()}{message[1:]}.", bad=True
        )
        return None, notes
    for field in reversed(fields):  # a stream's length stands under its first field
        if (row := trace.streams.get(field.stream)) is None:  # of a choice that was left out
            continue
        notes[field.name] = small_print(words.length(row.tokens, scope.n_ctx, row.unknown))
        notes |= {
            later.name: small_print("")
            for later in fields
            if later.stream == field.stream and later is not field
        }
    if scope.model.of_two and scope.model.of_two not in trace.outputs:
        empty = next(
            field.name
            for field, text in zip(fields, texts, strict=True)
            if field.optional and not text.strip()
        )
        notes[empty] = small_print(words.ONE_TEXT)
    for name, warning in scope.warnings(*texts).items():
        notes[name] = small_print(words.with_warning(notes[name]["rows"][0][1], warning))
    session.show(CurrentRun(scope, trace))
    return trace, notes


def note_key(field: Field) -> str:
    """Return the key of the small print under the box of a field."""
    return f"note {parameter_of(field).name}"


def answering(
    session: LiveSession, pictures: Callable[[CurrentRun], Pictures]
) -> Callable[..., Pictures]:
    """How the page that stands answers newly typed texts, given how it makes its own pictures of a run."""

    def answer(*texts: str) -> Pictures:
        if not _stands(session) or len(texts) != len(session.scope.model.text_fields):
            return {}
        trace, notes = read(session, *texts)
        if not trace:
            session.run = replace(session.run, stale=True)
        under = {note_key(field): notes[field.name] for field in session.scope.model.text_fields}
        try:
            run = session.shown
            under["written"] = strip(run.trace, run.terms, run.stale)
            return {**under, **pictures(run)}
        except (models.InputError, CheckpointError):  # the rerun will say so where it belongs
            return under

    return answer


def _stands(session: LiveSession) -> bool:
    """Return True if the page's model is still the one its files hold. If not, the rerun will open that, or say what is wrong."""
    try:
        return cache.scope(session.name).fingerprint == session.scope.fingerprint
    except CheckpointError:
        return False
