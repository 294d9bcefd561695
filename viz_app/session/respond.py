"""Running a model on the typed texts: the run, the notes below the boxes, and live answers."""

from collections.abc import Callable

import models
from models.architectures import Model
from models.architectures.base import FILE_FIELDS, TEXT_FIELD, Field
from models.checkpoint import CheckpointError
from models.images import PatchRow
from models.sounds import PatchedSound, SoundRow
from models.tokenizers.base import Encoding
from viz_app import checkpoints, words
from viz_app.drawing.notes import refusal, small_print, strip
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import LiveSession, Pictures
from viz_app.session.shortening import shortening_offer
from viz_app.session.url_state import parameter_of


def run_texts(session: LiveSession, *texts: str) -> tuple[CurrentRun | None, dict[str, dict]]:
    """Run the model on the texts of its fields and have the session show the run.

    Returns:
        the run, None if it failed, and the note below each box: its length in tokens, or the
            error.
    """
    scope = session.scope
    fields = boxes(scope.model)
    notes = {field.name: small_print("") for field in fields}
    try:
        trace = cache.trace(scope, texts, session.draft_tokens(scope), session.chosen)
    # CheckpointError: the checkpoint may have been replaced since it was opened
    except (models.InputError, CheckpointError) as error:
        message = checkpoints.error_message(error)
        cause = next((f for f in fields if f.name == getattr(error, "field", "")), fields[0])
        is_text = isinstance(error, models.InputError) and cause.kind == TEXT_FIELD
        offer = shortening_offer(scope, texts, cause) if is_text else {}
        notes[cause.name] = refusal(f"{message[:1].upper()}{message[1:]}.") | offer
        return None, notes
    for field in reversed(fields):  # a stream's length is shown below its first field
        if (row := trace.streams.get(field.stream)) is None:  # an optional field without a value
            continue
        notes[field.name] = small_print(_length(row, scope.model.stream_limit(field.stream)))
        notes |= {
            later.name: small_print("")
            for later in fields
            if later.stream == field.stream and later is not field
        }
    if scope.model.pair_output and scope.model.pair_output not in trace.outputs:
        empty = next(
            field.name
            for field, text in zip(scope.model.text_fields, texts, strict=True)
            if field.optional and not text.strip()
        )
        notes[empty] = small_print(words.ONE_TEXT)
    for name, warning in scope.warnings(*texts).items():
        notes[name] = small_print(words.with_warning(notes[name]["rows"][0][1], warning))
    run = CurrentRun(scope, trace)
    session.show(run)
    return run, notes


def boxes(model: Model) -> list[Field]:
    """Return the fields that have a box in the input bar: texts, images and sounds."""
    return [field for field in model.fields if field.kind in (TEXT_FIELD, *FILE_FIELDS)]


def _length(row: Encoding, n_ctx: int) -> str:
    """Return how long a stream is, in a sentence."""
    if isinstance(row, PatchRow):
        return words.grid(row.grid.rows, row.grid.columns, len(row.ids))
    if isinstance(row, PatchedSound):
        return words.patches_note(row)
    if isinstance(row, SoundRow):
        return words.frames_note(row.seconds, row.n_heard, len(row.ids), row.step)
    return words.length_note(row.tokens, n_ctx, row.unknown)


def note_key(field: Field) -> str:
    """Return the component key of the note below a field's box."""
    return f"note {parameter_of(field).name}"


def text_responder(
    session: LiveSession, pictures: Callable[[CurrentRun], Pictures]
) -> Callable[..., Pictures]:
    """Return the function that answers newly typed texts with the page's pictures.

    It answers only for the current model; after a change of model the next rerun replaces it.
    """
    scope, change = session.scope, session.change
    fields, n_texts = boxes(scope.model), len(scope.model.text_fields)

    def answer(*texts: str) -> Pictures:
        if session.scope is not scope or not _is_current(session) or len(texts) != n_texts:
            return {}
        unchanged, notes = run_texts(session, *texts)
        unchanged = unchanged or session.keep_last()
        if unchanged.scope is not scope:
            return {}
        below_boxes = {note_key(field): notes[field.name] for field in fields}
        try:
            run = change(unchanged)
            below_boxes["written"] = strip(run.trace, run.terms, run.stale)
            return {**below_boxes, **pictures(run)}
        # the rerun will show the error next to its cause
        except (models.InputError, CheckpointError):
            return below_boxes

    return answer


def _is_current(session: LiveSession) -> bool:
    """Return True if the checkpoint's files are still those of the page's model.

    If not, the rerun opens the new files or shows the error.
    """
    try:
        return cache.scope(session.name).fingerprint == session.scope.fingerprint
    except CheckpointError:
        return False
