"""The payloads of the page Decoding: both runs step by step, the beam as a tree, the checks."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import partial

import torch

from models import InputError
from models.decoding.incremental import limit_of, sees_ahead
from models.decoding.run_checks import check_runs
from models.decoding.runs import Autoregression, Method, Run, of_trace
from models.runs.scope import Scope
from models.trace import AttentionSite
from viz_app import words
from viz_app.drawing.extent import Scaled
from viz_app.drawing.labels import Label, labels, token_label
from viz_app.drawing.notes import check_rows, rows, small_print, strip
from viz_app.drawing.provenance import site_name
from viz_app.drawing.stamp import Facts
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.decoding import beam, text
from viz_app.views.decoding.decoding_facts import decoding_facts
from viz_app.views.decoding.decoding_runs import (
    DecodingRuns,
    ShownAttention,
    decoder_attention,
    writing_sites,
)
from viz_app.views.decoding.steps import stepper, unforceable
from viz_app.views.run_difference import Quantity, Vocabulary

MAX_DIFFERENCE_TOKENS = 24  # of a difference: the most probable ones of both runs


@dataclass(frozen=True)
class DecodingPosition:
    """The place on the page: step, forced (position, token) pairs, beam node, and mean.

    A beam node is (step, rank). `mean` shows the mean over heads instead of one head.
    """

    step: int = 0
    forced: tuple[tuple[int, int], ...] = ()
    node: tuple[int, int] | None = None
    mean: bool = False

    def within(self, scope: Scope) -> "DecodingPosition":
        """Return the place without forced tokens that this model lacks or may not generate."""
        never = unforceable(scope)
        legal = tuple(
            (p, t)
            for p, t in self.forced
            if p < scope.model.stream_limit(scope.model.writes)
            and t < scope.config.vocab_size
            and t not in never
        )
        return replace(self, forced=legal)


@dataclass(frozen=True)
class DecodingChoices:
    """The choices on the page.

    The place belongs to the `inputs` tokens, a source or a prompt; `cleared` is True if tokens
    forced on others were discarded. `is_tree` is True if a beam is shown as a tree, and not its
    best text step by step.
    """

    method: Method
    reading: ShownAttention
    place: DecodingPosition
    inputs: tuple[int, ...]
    cleared: bool = False
    is_tree: bool = False

    def of(self, inputs: tuple[int, ...]) -> "DecodingChoices":
        """Return the choices for these tokens; for other tokens the place is reset."""
        if inputs == self.inputs:
            return self
        method, place = replace(self.method, forced=()), DecodingPosition(mean=self.place.mean)
        return replace(
            self, method=method, place=place, inputs=inputs, cleared=bool(self.place.forced)
        )


def decoding_payloads(run: CurrentRun, choices: DecodingChoices) -> Pictures:
    """Return the payloads of all components; only a note if the prompt leaves no room to write."""
    if not has_room(run):
        return {"note decoding": small_print(text.no_room(run.scope.n_ctx))}
    choices = choices.of(run.input_ids)
    autoregression, runs = compare_decoding(run, choices)
    step = min(choices.place.step, runs.n_steps - 1)
    note = _note(run, runs, choices)
    if autoregression.beam and choices.is_tree:
        picture = {"beam_tree": _beam_tree(run, autoregression, runs, choices)}
    else:
        make = partial(stepper, runs, run.scope, choices.reading, run.terms, step, note)
        picture = {"stepper": Scaled(make)}
    pictures = {
        **picture,
        "checks": check_rows(
            check_runs(
                runs.teacher_forced,
                runs.autoregressive,
                _uncached(run, runs),
                from_cache=run.scope.model.can_cache,
                sees_ahead=runs.sees_ahead,
            )
        ),
    }
    if run.scope.model.continues:
        pictures["note decoding"] = rows("explained")  # an empty note that takes no space
    return pictures


def decoding_quantities(run: CurrentRun, choices: DecodingChoices) -> list[Quantity]:
    """Return each step's distribution over what is written, and its weights over a source.

    Raises:
        InputError: the prompt leaves no room to generate.
    """
    if not has_room(run):
        raise InputError(text.no_room(run.scope.n_ctx), run.scope.model.fields[0].name)
    choices = choices.of(run.input_ids)
    runs, tokenizer = compare_decoding(run, choices)[1], run.scope.tokenizer
    serial, about = runs.autoregressive, decoding_facts(runs, tokenizer)
    steps = [token_label(tokenizer, token) for token in serial.taken]
    shared: dict[str, Hashable] = {"number of steps": len(serial)}
    quantities = [
        Quantity(
            "the probabilities of the next token",
            "probability",
            serial.log_probs.exp(),
            steps,
            "step",
            columns=lambda token: token_label(tokenizer, token),
            of_columns="token",
            same=shared | {"tokens to write": Vocabulary(tokenizer)},
            max_columns=MAX_DIFFERENCE_TOKENS,
            file="decoding.next-token",
            about=about,
        )
    ]
    if choices.reading.cross:
        quantities.append(_cross_quantity(run, choices.reading, serial, steps, shared, about))
    return quantities


def _cross_quantity(
    run: CurrentRun,
    reading: ShownAttention,
    serial: Run,
    steps: list[Label],
    shared: dict[str, Hashable],
    about: Facts,
) -> Quantity:
    """Return the weights of each step over a source."""
    site, head = run.trace.attention[reading.cross], reading.head
    keys = labels(run.trace.streams[site.key_stream])
    of_head = "mean" if head is None else f"head{head + 1}"
    return Quantity(
        f"the weights over the source, {_head_name(site, head)}",
        "weight",
        serial.weights(site.name, head),
        steps,
        "step",
        columns=keys.__getitem__,
        of_columns="key",
        same=shared | {f"number of {site.key_stream} tokens": len(keys)},
        file=f"decoding.{site_name(site)}.{of_head}",
        about=about,
    )


def _head_name(site: AttentionSite, head: int | None) -> str:
    """Name a head, or with None the mean over all of a layer: "decoder layer 2, head 3"."""
    if head is None:
        place = f"{words.layer_place(site)}, mean over its heads"
    else:
        place = words.head_place(site, head)
    return words.lower_first(place)


def decoding_choices_within(
    choices: DecodingChoices, run: CurrentRun, other: CurrentRun
) -> DecodingChoices:
    """Return these choices for another run: its forced tokens, and an attention of its decoder."""
    shown, head = {choices.reading.cross, choices.reading.self_attention}, choices.reading.head
    sites = [site for site in writing_sites(other.trace) if site.name in shown]
    layer, name = max(((site.layer, site.name) for site in sites), default=(0, ""))
    reading = decoder_attention(other.trace, layer, head, name=name)
    place = DecodingPosition(choices.place.step, other.spec.forced, mean=choices.place.mean)
    place = place.within(other.scope)
    method = replace(choices.method, forced=place.forced)
    return DecodingChoices(method, reading, place, other.input_ids, is_tree=choices.is_tree)


def decoding_strip(run: CurrentRun, choices: DecodingChoices) -> dict:
    """Return the line above the page: what was read, and where forced tokens lead."""
    forced = None
    if has_room(run) and (runs := compare_decoding(run, choices)[1]).unforced:
        forced = text.FORCED_CONTINUATION, run.scope.tokenizer.decode(runs.autoregressive.taken)
    return strip(run.trace, run.terms, run.stale, forced)


def compare_decoding(
    run: CurrentRun, choices: DecodingChoices
) -> tuple[Autoregression, DecodingRuns]:
    """Return the tokens that inference generates, and both runs."""
    inputs, n_opening = run.input_ids, _n_opening(run)
    method = choices.of(inputs).method
    autoregression = cache.autoregression(run, inputs, method)
    free: Run | None = None
    if method.forced:
        free = cache.autoregression(run, inputs, replace(method, forced=())).run
    return autoregression, DecodingRuns(
        run.trace,
        _teacher_forced(run, method),
        autoregression.run,
        autoregression.method,
        free,
        n_opening,
        run.original.trace if run.original and not _continues_a_prompt(run) else None,
        sees_ahead(run.scope.model, run.spec.edits),
    )


def has_room(run: CurrentRun) -> bool:
    """Return True if the given tokens leave the model room to write."""
    return run.scope.model.max_new_tokens(len(run.input_ids)) > 0


def _n_opening(run: CurrentRun) -> int:
    """Return the number of tokens before the first generated one.

    It is 1 for <s>, or the prompt's length.
    """
    return len(run.input_ids) if run.scope.model.continues else 1


def _teacher_forced(run: CurrentRun, method: Method) -> Run:
    """Return the teacher-forced run over the given text.

    Without a text after the prompt, it reads the model's own greedy continuation.
    """
    if not _continues_a_prompt(run):
        return of_trace(run.trace, _n_opening(run) - 1)
    return checked_pass(
        run,
        cache.autoregression(run, run.input_ids, Method(max_new=method.max_new)).run.taken,
    )


def _continues_a_prompt(run: CurrentRun) -> bool:
    """Return True if only a prompt is given, so that the text after it is this model's own."""
    n_given = len(run.trace.streams[run.trace.next_token.stream].ids)
    return run.scope.model.continues and n_given <= _n_opening(run)


def _uncached(run: CurrentRun, runs: DecodingRuns) -> Run:
    """Return an uncached pass over the generated tokens, reusing a run of the same tokens."""
    if runs.teacher_forced.taken == runs.autoregressive.taken:
        return runs.teacher_forced
    return checked_pass(run, runs.autoregressive.taken)


def checked_pass(run: CurrentRun, tokens: tuple[int, ...]) -> Run:
    """Return an uncached pass over given tokens."""
    return cache.cached_single_pass(run, run.input_ids, tokens)


def _note(run: CurrentRun, runs: DecodingRuns, choices: DecodingChoices) -> str:
    """Return the sentences on forced tokens."""
    lines, forced = [], choices.place.forced
    if choices.cleared:
        field = run.scope.model.fields[0].name
        lines.append(f"The forced tokens belonged to another {field} and were removed.")
    reached = [(p, t) for p, t in forced if p < len(runs.autoregressive)]
    for position, token in reached:
        name = token_label(run.scope.tokenizer, token, first=position + runs.n_text == 0).text
        ends = ", which ends the text" * (token in run.scope.model.end_ids)
        lines.append(f"Forced at position {position + 1}: {name}{ends}.")
    if len(reached) < len(forced):
        lines.append("Tokens forced beyond the end of this run are waiting.")
    if positions := _passed_over(run, runs):
        lines.append(text.passed_over(positions))
    return " ".join(lines)


def _passed_over(run: CurrentRun, runs: DecodingRuns) -> list[int]:
    """Return the positions where greedy decoding did not choose the most probable token."""
    serial = runs.autoregressive
    if runs.method.strategy != "greedy" or serial.scores is None:
        return []
    model = run.scope.model
    limit = limit_of(model, run.input_ids, runs.method.max_new)
    forced = model.forced_by_position(limit) | dict(runs.method.forced)
    best = serial.log_probs.amax(-1)
    log_p = serial.log_probs[torch.arange(len(serial)), torch.tensor(serial.taken)]
    return [i for i, is_less in enumerate((log_p < best).tolist()) if is_less and i not in forced]


def _beam_tree(
    run: CurrentRun, autoregression: Autoregression, runs: DecodingRuns, choices: DecodingChoices
) -> bytes:
    node = beam.nearest_node(autoregression.beam, choices.place.node)
    node_run = checked_pass(run, autoregression.beam[node[0]].hypotheses[node[1]].tokens)
    return beam.beam_tree(
        autoregression.beam,
        node,
        node_run,
        runs,
        run.scope,
        choices.reading,
        run.terms,
        autoregression.method.alpha,
    )
