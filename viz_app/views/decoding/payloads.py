"""What the page Decoding shows of a run: both runs step by step, the beam as a tree, the checks."""

from dataclasses import dataclass, replace

from models.decoding.incremental import sees_ahead
from models.decoding.run_checks import check_runs
from models.decoding.runs import Autoregression, Method, Run, of_trace
from models.runs.scope import Scope
from viz_app.drawing.labels import token_label
from viz_app.drawing.notes import check_rows, rows, small_print, strip
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.decoding import beam, text
from viz_app.views.decoding.shown_attention import ShownAttention
from viz_app.views.decoding.steps import stepper
from viz_app.views.decoding.story import Story


@dataclass(frozen=True)
class Place:
    """The step; the forced (position, token) pairs in order; the node of the beam as (step, rank); all heads or one."""

    step: int = 0
    forced: tuple[tuple[int, int], ...] = ()
    node: tuple[int, int] | None = None
    mean: bool = False

    def within(self, scope: Scope) -> "Place":
        """Without forced tokens that this model does not have, or may not write."""
        never = scope.config.pad_id, scope.config.start_id
        legal = tuple(
            (p, t)
            for p, t in self.forced
            if p < scope.n_ctx and t < scope.config.vocab_size and t not in never
        )
        return replace(self, forced=legal)


@dataclass(frozen=True)
class Choices:
    """What is chosen on the page. The place belongs to the `given` tokens, a source or a prompt; `cleared` says that tokens
    forced on others were let go."""

    method: Method
    reading: ShownAttention
    place: Place
    given: tuple[int, ...]
    cleared: bool = False

    def of(self, given: tuple[int, ...]) -> "Choices":
        """The same for these tokens: for others nothing is forced any more, and they are read from the first step."""
        if given == self.given:
            return self
        method, place = replace(self.method, forced=()), Place(mean=self.place.mean)
        return replace(
            self, method=method, place=place, given=given, cleared=bool(self.place.forced)
        )


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """All that the page's components show of a run; the note alone where a prompt leaves no room to go on."""
    if not has_room(run):
        return {"note decoding": small_print(text.no_room(run.scope.n_ctx))}
    choices = choices.of(given_ids(run))
    written, both = story(run, choices)
    step = min(choices.place.step, both.n_steps - 1)
    drawn = {
        "written": _written(run, both),
        "stepper": stepper(
            both, run.scope, choices.reading, run.terms, step, _note(run, both, choices)
        ),
        "checks": check_rows(
            check_runs(
                both.parallel,
                both.serial,
                _uncached(run, both),
                from_cache=run.scope.model.can_cache,
                sees_ahead=sees_ahead(run.scope.model, run.spec.edits),
            )
        ),
    }
    if run.scope.model.continues:
        drawn["note decoding"] = rows("explained")  # nothing to say, and no room kept for it
    return drawn | ({"beam_tree": _beam_tree(run, written, both, choices)} if written.beam else {})


def _written(run: CurrentRun, both: Story) -> dict:
    """The headline: what was read and, where tokens are forced, where they lead."""
    forced = (text.FORCED, run.scope.tokenizer.decode(both.serial.taken)) if both.free else None
    return strip(run.trace, run.terms, run.stale, forced)


def story(run: CurrentRun, choices: Choices) -> tuple[Autoregression, Story]:
    """What inference writes, and the whole of what the page tells."""
    given, n_opening = given_ids(run), _n_opening(run)
    method = choices.of(given).method
    written = cache.autoregression(run, given, method)
    free: Run | None = None
    if method.forced:
        free = cache.autoregression(run, given, replace(method, forced=())).run
    return written, Story(
        run.trace,
        _teacher_forced(run, method),
        written.run,
        written.method,
        free,
        n_opening,
        run.own.trace if run.own else None,
    )


def given_ids(run: CurrentRun) -> tuple[int, ...]:
    """The tokens that writing goes on from: a source, or a prompt without what follows it."""
    first = run.scope.model.fields[0]
    ids = run.trace.streams[first.stream].ids
    return (
        ids[: len(run.scope.given_ids(run.trace.fields[first.name]))]
        if run.scope.model.continues
        else ids
    )


def has_room(run: CurrentRun) -> bool:
    """Return True if what is given leaves the model room to write."""
    return run.scope.model.longest(len(given_ids(run))) > 0


def _n_opening(run: CurrentRun) -> int:
    """How many tokens stand on the written stream before the first that is written: <s>, or the prompt."""
    return len(given_ids(run)) if run.scope.model.continues else 1


def _teacher_forced(run: CurrentRun, method: Method) -> Run:
    """The given text, read at once; where a prompt stands alone, what the model itself goes on with, greedily."""
    n_opening, stream = _n_opening(run), run.trace.next_token.stream
    if len(run.trace.streams[stream].ids) > n_opening or not run.scope.model.continues:
        return of_trace(run.trace, n_opening - 1)
    return single_pass(
        run,
        cache.autoregression(run, given_ids(run), Method(max_new=method.max_new)).run.taken,
    )


def _uncached(run: CurrentRun, both: Story) -> Run:
    """The written tokens read at once, without a cache: the given text's own run, where it is of the same tokens."""
    if both.parallel.taken == both.serial.taken:
        return both.parallel
    return single_pass(run, both.serial.taken)


def single_pass(run: CurrentRun, tokens: tuple[int, ...]) -> Run:
    """One pass without a cache over tokens that are already there."""
    return cache.single_pass(run, given_ids(run), tokens)


def _note(run: CurrentRun, both: Story, choices: Choices) -> str:
    """What is forced, and what has become of it."""
    lines, forced = [], choices.place.forced
    if choices.cleared:
        given = run.scope.model.fields[0].name
        lines.append(f"The forced tokens belonged to another {given} and were let go.")
    reached = [(p, t) for p, t in forced if p < len(both.serial)]
    for position, token in reached:
        name = token_label(run.scope.tokenizer, token, first=position + both.n_text == 0).text
        ends = ", which ends the text" * (token in run.scope.model.end_ids)
        lines.append(f"Forced at position {position + 1}: {name}{ends}.")
    if len(reached) < len(forced):
        lines.append("Tokens forced beyond the end of this run are waiting.")
    return " ".join(lines)


def _beam_tree(run: CurrentRun, written: Autoregression, both: Story, choices: Choices) -> bytes:
    node = beam.nearest(written.beam, choices.place.node)
    node_run = single_pass(run, written.beam[node[0]].hypotheses[node[1]].tokens)
    return beam.beam_tree(
        written.beam,
        node,
        node_run,
        both,
        run.scope,
        choices.reading,
        run.terms,
        written.method.alpha,
    )
