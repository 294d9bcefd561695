"""What the page Attention shows of a run: all heads, one head, the notes on training and similarity, and the checks."""

from dataclasses import dataclass, field

from models.analysis.checks import Check, check_site, check_used
from models.analysis.joined_words import join_words, knows_words
from models.trace import AttentionSite, Trace
from viz_app.controls import similarity_text
from viz_app.controls.step_payloads import step_notes
from viz_app.drawing.cells import Tile
from viz_app.drawing.head import head
from viz_app.drawing.notes import check_rows, rows
from viz_app.drawing.overview import all_codes, overview
from viz_app.drawing.scale import Scale
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.live import Pictures


@dataclass(frozen=True)
class Choices:
    """The choices on the page: the head and its locked token; the part of a long text, None for all of it; the colour scale;
    whether sub-words are merged into words, if the tokenizer knows them."""

    focus: Focus
    tile: Tile = None
    scale: Scale = field(default_factory=Scale)
    words: bool = False


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """All that the page's components show of a run."""
    trace, whole = words_joined(run.trace, choices.words), run.trace
    focus = choices.focus.within(whole).within(trace)
    site, of_tokens = trace.attention[focus.site], whole.attention[focus.site]
    made = cache.trace_finding(whole, ("overview", choices.words), lambda: all_codes(trace))
    return {
        **step_notes(run),
        **similarity_text.note(run, focus.site, focus.head),
        **unrecorded(run.trace),
        "overview": overview(trace, run.terms, focus.site, focus.head, made, switches=True),
        "head": head(trace, site, focus.head, run.terms, focus.lock, choices.tile, choices.scale),
        "checks": check_rows(
            cache.trace_finding(
                whole, ("checks", site.name, choices.words), lambda: _checks(site, of_tokens)
            )
        ),
    }


def unrecorded(trace: Trace) -> Pictures:
    """Return the note on the attentions of the run that are not shown, each with the reason; nothing if all are."""
    lines = [("line", f"Not shown: {name}, {why}.") for name, why in trace.unrecorded.items()]
    return {"unrecorded": rows("note", *lines)} if lines else {}


def words_joined(trace: Trace, joins: bool) -> Trace:
    """The run with its sub-words joined to words, if that is chosen and its tokenizer knows them."""
    return join_words(trace) if joins and knows_words(trace) else trace


def _checks(site: AttentionSite, of_tokens: AttentionSite) -> list[Check]:
    """Of words what must hold of their weights, and that the tokens' weights are what the model used."""
    return [
        *check_site(site),
        *([check_used(of_tokens)] if site is not of_tokens and of_tokens.has_causes else []),
    ]
