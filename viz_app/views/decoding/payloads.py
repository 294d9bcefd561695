"""What the page Decoding shows of a run: both runs step by step, the beam as a tree, the checks."""

from dataclasses import dataclass, replace

from models.decoding.runs import Autoregression, Method, Run, check_runs, of_trace
from models.scope import Scope
from models.tokenizers.base import END, PAD, START
from viz_app.drawing.notes import checked
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.decoding import beam
from viz_app.views.decoding.steps import Reading, Story, stepper, token_label


@dataclass(frozen=True)
class Place:
    """The step; the forced (position, token) pairs in order; the node of the beam as (step, rank); all heads or one."""

    step: int = 0
    forced: tuple[tuple[int, int], ...] = ()
    node: tuple[int, int] | None = None
    mean: bool = False

    def within(self, scope: Scope) -> "Place":
        """Without forced tokens that this model does not have, or may not write."""
        legal = tuple(
            (p, t) for p, t in self.forced if p < scope.n_ctx and t < scope.config.vocab_size and t not in (PAD, START)
        )
        return replace(self, forced=legal)


@dataclass(frozen=True)
class Choices:
    """What is chosen on the page. The place belongs to one source; `cleared` says that tokens forced on another were let go."""

    method: Method
    reading: Reading
    place: Place
    source: tuple[int, ...]
    cleared: bool = False

    def of(self, source: tuple[int, ...]) -> "Choices":
        """The same for this source: for another one nothing is forced any more, and it is read from its first step."""
        if source == self.source:
            return self
        method, place = replace(self.method, forced=()), Place(mean=self.place.mean)
        return replace(self, method=method, place=place, source=source, cleared=bool(self.place.forced))


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """All that the page's components show of a run."""
    choices = choices.of(run.trace.streams["source"].ids)
    written, both = story(run, choices)
    step = min(choices.place.step, both.n_steps - 1)
    drawn = {
        "stepper": stepper(both, run.scope, choices.reading, run.terms, step, _note(run, both, choices)),
        "checks": checked(check_runs(both.parallel, both.serial, along(run, both.serial.taken))),
    }
    return drawn | ({"beam_tree": _beam_tree(run, written, choices)} if written.beam else {})


def story(run: CurrentRun, choices: Choices) -> tuple[Autoregression, Story]:
    """What inference writes, and the whole of what the page tells."""
    method = choices.of(run.trace.streams["source"].ids).method
    written = cache.decoded(run.scope, run.trace.streams["source"].ids, method)
    free: Run | None = None
    if method.forced:
        free = cache.decoded(run.scope, run.trace.streams["source"].ids, replace(method, forced=())).run
    return written, Story(run.trace, of_trace(run.trace), written.run, written.method, free)


def along(run: CurrentRun, tokens: tuple[int, ...]) -> Run:
    """One pass without a cache over tokens that are already there."""
    return cache.along(run.scope, run.trace.streams["source"].ids, tokens)


def _note(run: CurrentRun, both: Story, choices: Choices) -> str:
    """What is forced, and what has become of it."""
    lines, forced = [], choices.place.forced
    if choices.cleared:
        lines.append("The forced tokens belonged to another source and were let go.")
    reached = [(p, t) for p, t in forced if p < len(both.serial)]
    for position, token in reached:
        name = token_label(run.scope.tokenizer, token, first=position == 0).text
        lines.append(f"Forced at position {position + 1}: {name}{', which ends the text' if token == END else ''}.")
    if len(reached) < len(forced):
        lines.append("Tokens forced beyond the end of this run are waiting.")
    return " ".join(lines)


def _beam_tree(run: CurrentRun, written: Autoregression, choices: Choices) -> bytes:
    node = beam.nearest(written.beam, choices.place.node)
    node_run = along(run, written.beam[node[0]].kept[node[1]].tokens)
    return beam.beam_tree(
        written.beam, node, node_run, run.trace, run.scope, choices.reading, run.terms, written.method.alpha
    )
