"""What the page Attention shows of a run: all heads, one head, the notes on training and similarity, and the checks."""

from dataclasses import dataclass, field, replace

from models.analysis.checks import Check, check_site, check_used
from models.analysis.fixed_vector import check_fixed_vector
from models.analysis.joined_words import join_words, knows_words
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.cells import Tile
from viz_app.drawing.head import head
from viz_app.drawing.notes import answer_line, check_rows, small_print, strip
from viz_app.drawing.overview import all_codes, overview
from viz_app.drawing.scale import Scale
from viz_app.drawing.states import encoder_states
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.live import Pictures
from viz_app.views.inside import similarity


@dataclass(frozen=True)
class Choices:
    """What is chosen on the page: a step of the training, None for the last; a similarity instead of the model's own, or "";
    the head and its locked token; the part of a long text, None for all of it; how strongly weights are drawn;
    whether sub-words are joined to words, where the tokenizer knows them."""

    step: int | None
    similarity: str
    focus: Focus
    tile: Tile = None
    scale: Scale = field(default_factory=Scale)
    words: bool = False


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """All that the page's components show of a run."""
    own, run_shown = at_step(run, choices.step), compared(run, choices.step, choices.similarity)
    trace, whole = words_joined(run_shown.trace, choices.words), run_shown.trace
    focus = choices.focus.within(whole).within(trace)
    site, of_tokens = trace.attention[focus.site], whole.attention[focus.site]
    made = cache.trace_finding(whole, ("overview", choices.words), lambda: all_codes(trace))
    return {
        **_of_step(run, own, whole, choices.step),
        **similarity.note(own, run_shown, focus.site, focus.head, choices.similarity),
        "overview": overview(trace, run.terms, focus.site, focus.head, made, switches=True),
        "head": head(trace, site, focus.head, run.terms, focus.lock, choices.tile, choices.scale),
        "checks": check_rows(
            cache.trace_finding(
                whole, ("checks", site.name, choices.words), lambda: _checks(site, of_tokens)
            )
        ),
    }


def words_joined(trace: Trace, joins: bool) -> Trace:
    """The run with its sub-words joined to words, if that is chosen and its tokenizer knows them."""
    return join_words(trace) if joins and knows_words(trace) else trace


def _checks(site: AttentionSite, of_tokens: AttentionSite) -> list[Check]:
    """Of words what must hold of their weights, and that the tokens' weights are what the model used."""
    return [
        *check_site(site),
        *([check_used(of_tokens)] if site is not of_tokens and of_tokens.has_causes else []),
    ]


def without_attention(run: CurrentRun, step: int | None) -> Pictures:
    """The same of a run of a model that has no attention: the states of its encoder instead."""
    own = at_step(run, step)
    title = (
        f"The encoder's states; framed: h(m), all that the decoder is given of {run.terms.source}"
    )
    return {
        **_of_step(run, own, own.trace, step),
        "states": encoder_states(own.trace, own.scope.config, title),
        "checks": check_rows(check_fixed_vector(own.scope.model, own.trace)),
    }


def _of_step(run: CurrentRun, own: CurrentRun, trace: Trace, step: int | None) -> Pictures:
    """What was read and written, and, under the weights of a step of the training, whose that is and how good they are."""
    label, output = answer_line(trace)
    whose = "" if step is None else f"{words.after_steps(step)}: "
    learned = {} if step is None else {"note growth": small_print(learned_line(step, own))}
    return {"written": strip(trace, run.terms, run.stale, (f"{whose}{label}", output)), **learned}


def at_step(run: CurrentRun, step: int | None) -> CurrentRun:
    """The same texts under the weights of this step. Raises models.CheckpointError."""
    if step is None:
        return run
    return replace(
        run,
        scope=cache.snapshot(run.scope, step),
        trace=cache.snapshot_trace(run.scope, step, run.trace),
    )


def compared(run: CurrentRun, step: int | None, name: str) -> CurrentRun:
    """The same under the similarity of this name, "" for the model's own."""
    return similarity.under(at_step(run, step), name)


def learned_line(step: int, run: CurrentRun) -> str:
    """Whose the pictures are, and how good these weights are."""
    return words.at_step(step, run.scope.training["scores"])
