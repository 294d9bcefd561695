"""What the page Attention shows of a run: all heads, one head, the notes on training and similarity, and the checks."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from models.analysis.checks import check_site
from models.analysis.fixed_vector import check_fixed_vector
from models.trace import Trace
from viz_app import words
from viz_app.drawing.head import LARGEST_WHOLE, head
from viz_app.drawing.notes import answered, checked, small_print, strip
from viz_app.drawing.overview import all_codes, overview
from viz_app.drawing.scale import Scale
from viz_app.drawing.states import encoder_states
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.url_state import Focus
from viz_app.views.attention.controls import Tile
from viz_app.views.inside import similarity

Value = TypeVar("Value")


@dataclass(frozen=True)
class Choices:
    """What is chosen on the page: a step of the training, None for the last; a similarity instead of the model's own, or "";
    the head and its locked token; the part of a long text, None for all of it; how strongly weights are drawn."""

    step: int | None
    similarity: str
    focus: Focus
    tile: Tile = None
    scale: Scale = field(default_factory=Scale)


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """All that the page's components show of a run."""
    own, run_shown = at_step(run, choices.step), compared(run, choices.step, choices.similarity)
    trace, focus = run_shown.trace, choices.focus.within(run_shown.trace)
    site = trace.attention[focus.site]
    return {
        **_of_step(run, own, trace, choices.step), **similarity.note(own, run_shown, focus.site, focus.head, choices.similarity),
        "overview": overview(trace, run.terms, focus.site, focus.head, _once(trace, "overview", lambda: all_codes(trace))),
        "head": head(trace, site, focus.head, run.terms, focus.lock, choices.tile, choices.scale),
        "checks": checked(_once(trace, ("checks", site.name), lambda: check_site(site))),
    }


def without_attention(run: CurrentRun, step: int | None) -> Pictures:
    """The same of a run of a model that has no attention: the states of its encoder instead."""
    own = at_step(run, step)
    title = f"The encoder's states; framed: h(m), all that the decoder is given of {run.terms.source}"
    return {
        **_of_step(run, own, own.trace, step),
        "states": encoder_states(own.trace, own.scope.config, title),
        "checks": checked(check_fixed_vector(own.scope.model, own.trace)),
    }


def _of_step(run: CurrentRun, own: CurrentRun, trace: Trace, step: int | None) -> Pictures:
    """What was read and written, and, under the weights of a step of the training, whose that is and how good they are."""
    label, output = answered(trace)
    whose = "" if step is None else f"{words.after_steps(step)}: "
    learned = {} if step is None else {"note growth": small_print(learned_line(step, own))}
    return {"written": strip(trace, run.terms, run.stale, (f"{whose}{label}", output)), **learned}


def _once(trace: Trace, what: Hashable, make: Callable[[], Value]) -> Value:
    """What `make` gives; of a long text, of which it takes seconds, once."""
    long = max(len(row.ids) for row in trace.streams.values()) > LARGEST_WHOLE
    return cache.drawn(trace, what, make) if long else make()


def at_step(run: CurrentRun, step: int | None) -> CurrentRun:
    """The same texts under the weights of this step. Raises models.CheckpointError."""
    if step is None:
        return run
    return replace(run, scope=cache.snapshot(run.scope, step), trace=cache.snapshot_trace(run.scope, step, run.trace))


def compared(run: CurrentRun, step: int | None, name: str) -> CurrentRun:
    """The same under the similarity of this name, "" for the model's own."""
    return similarity.under(at_step(run, step), name)


def learned_line(step: int, run: CurrentRun) -> str:
    """Whose the pictures are, and how good these weights are."""
    return words.at_step(step, run.scope.training["scores"])
