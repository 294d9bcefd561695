"""Two texts read by a checkpoint: the run, what is said under their boxes, and the answer of a page while one types."""

from collections.abc import Callable
from dataclasses import replace

import models
from models import Trace
from models.checkpoint import CheckpointError
from viz_app import checkpoints, words
from viz_app.drawing.notes import small_print, strip
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import LiveSession, Pictures
from viz_app.session.url_state import SOURCE, TARGET


def read(session: LiveSession, source: str, target: str) -> tuple[Trace | None, dict[str, dict]]:
    """The run, None if there is none of these texts, and the small print under the box of each: how long its text is, or
    what is wrong with it. The session then shows it."""
    scope, notes = session.scope, {SOURCE.name: small_print(""), TARGET.name: small_print("")}
    try:
        trace = cache.trace(scope, source, target if target.strip() else None, session.drafts(scope))
    except (models.InputError, CheckpointError) as error:       # a checkpoint may have been replaced since it was opened
        said = checkpoints.told(error)
        notes[getattr(error, "field", SOURCE.name)] = small_print(f"{said[:1].upper()}{said[1:]}.", bad=True)
        return None, notes
    for field, row in ((SOURCE, trace.streams["source"]), (TARGET, trace.streams["target"])):
        notes[field.name] = small_print(words.length(row.tokens, scope.n_ctx, row.unknown))
    session.show(CurrentRun(scope, trace))
    return trace, notes


def answering(session: LiveSession, pictures: Callable[[CurrentRun], Pictures]) -> Callable[[str, str], Pictures]:
    """How the page that stands answers newly typed texts, given how it makes its own pictures of a run."""

    def answer(source: str, target: str) -> Pictures:
        if not _stands(session):
            return {}
        trace, notes = read(session, source, target)
        if not trace:
            session.shown = replace(session.shown, stale=True)
        shown, under = session.shown, {f"note {field}": said for field, said in notes.items()}
        under["written"] = strip(shown.trace, shown.terms, shown.stale)
        try:
            return {**under, **pictures(shown)}
        except (models.InputError, CheckpointError):        # the rerun will say so where it belongs
            return under

    return answer


def _stands(session: LiveSession) -> bool:
    """Whether the page's model is still the one its files hold. If not, the rerun will open that, or say what is wrong."""
    try:
        return cache.scope(session.name).fingerprint == session.scope.fingerprint
    except CheckpointError:
        return False
