"""The payloads of the page Attention: all heads, the chosen head, notes and checks."""

from dataclasses import dataclass, field

from models.analysis.checks import Check, check_site, check_used
from models.analysis.joined_words import join_words, knows_words
from models.trace import AttentionSite, Trace
from viz_app.controls import similarity_text
from viz_app.controls.step_payloads import step_notes
from viz_app.drawing.cells import Tile
from viz_app.drawing.head import head_payload
from viz_app.drawing.notes import check_rows, rows
from viz_app.drawing.over_file import over_file
from viz_app.drawing.overview import all_codes, overview
from viz_app.drawing.scale import Scale
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.live import Pictures


@dataclass(frozen=True)
class AttentionChoices:
    """The choices on the page.

    They are the head and its held token, the part of a long text (None: the whole text), the colour
    scale, and whether sub-words are joined to words where the tokenizer knows them.
    """

    focus: Focus
    tile: Tile = None
    scale: Scale = field(default_factory=Scale)
    joins_words: bool = False


def attention_payloads(run: CurrentRun, choices: AttentionChoices) -> Pictures:
    """Return the payloads of all components of the page."""
    trace, token_trace = words_joined(run.trace, choices.joins_words), run.trace
    focus = choices.focus.within(token_trace).within(trace)
    site, token_site = trace.attention[focus.site], token_trace.attention[focus.site]
    codes = cache.trace_finding(
        token_trace, ("overview", choices.joins_words), lambda: all_codes(trace)
    )
    return {
        **step_notes(run),
        **similarity_text.similarity_note(run, focus.site, focus.head),
        **unrecorded_note(run.trace),
        "overview": overview(trace, run.terms, focus.site, focus.head, codes, switches=True),
        **over_file(trace, site, focus.head, focus.lock, choices.scale)[0],
        "head": head_payload(
            trace, site, focus.head, run.terms, focus.lock, choices.tile, choices.scale
        ),
        "checks": check_rows(
            cache.trace_finding(
                token_trace,
                ("checks", site.name, choices.joins_words),
                lambda: _checks(site, token_site),
            )
        ),
    }


def unrecorded_note(trace: Trace) -> Pictures:
    """Return the note on attentions that cannot be shown, with reasons; empty if none."""
    lines = [("line", f"Not shown: {name}, {why}.") for name, why in trace.unrecorded.items()]
    return {"unrecorded": rows("note", *lines)} if lines else {}


def words_joined(trace: Trace, joins: bool) -> Trace:
    """Return the trace with sub-words joined to words, if chosen and known to its tokenizer."""
    return join_words(trace) if joins and knows_words(trace) else trace


def _checks(site: AttentionSite, token_site: AttentionSite) -> list[Check]:
    """Return the checks of the drawn weights and, for words, of the tokens' weights behind them."""
    return [
        *check_site(site),
        *([check_used(token_site)] if site is not token_site and token_site.has_causes else []),
    ]
