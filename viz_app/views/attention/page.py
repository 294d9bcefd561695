"""Attention: which token attends to which? All heads, then one head as a map and as lines."""

from collections.abc import Sequence
from dataclasses import replace

from models.analysis.joined_words import WordSite
from models.analysis.slices import slice_with
from models.trace import Trace
from viz_app import words
from viz_app.components.catalogue import HEAD, IMAGE_MAP, OVERVIEW, SOUND_MAP
from viz_app.controls import similarity_text
from viz_app.controls.similarity import choose_similarity
from viz_app.controls.tile import choose_tile, tile
from viz_app.controls.training_step import choose_step
from viz_app.drawing.labels import queries_are_written
from viz_app.drawing.scale import AUTO, SCALE_NAMES, Scale
from viz_app.drawing.weight_cell import chosen_cell
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import chosen_focus, lock_token, pick_head
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice, Switch
from viz_app.views.attention.files import attention_files, drawn_site, incomplete_files_note
from viz_app.views.attention.payloads import AttentionChoices, attention_payloads, words_joined
from viz_app.views.encoder_states import ENCODER_STATES
from viz_app.views.page import Columns, Foot, NextQuestion, Page, PageCell, ShownComponent, View

CHOSEN_SCALE, HIDES_SINKS = (
    Choice("strength", AUTO, is_step=False, options=(AUTO, *SCALE_NAMES)),
    Switch("hide-sinks", is_step=False),
)
JOINS_WORDS = Switch("words")  # sub-words joined


def chosen_scale() -> Scale:
    """Return the chosen colour scale."""
    return Scale(url_state.get(CHOSEN_SCALE), url_state.get(HIDES_SINKS))


def choose_scale(name: str, hides_sinks: bool) -> None:
    """Choose the scale of this name, with [start] and [end] or without."""
    url_state.set_value(CHOSEN_SCALE, CHOSEN_SCALE.from_url([name]))
    url_state.set_value(HIDES_SINKS, hides_sinks)


def joins() -> bool:
    """Return True if sub-words are joined to words."""
    return url_state.get(JOINS_WORDS)


def hold(token: str) -> None:
    """Hold a token of the chosen head, or a word where sub-words are joined; "" to release it."""
    lock_token(token, in_words=joins())


def choose_words(joins: bool) -> None:
    """Join sub-words to words, or show tokens.

    The held token and the shown part are reset, since they are counted in tokens or in words.
    """
    url_state.set_value(JOINS_WORDS, joins)
    lock_token("")
    choose_tile(None)


MAX_NARROW_HEADS = 16  # heads per layer up to which the overview has the narrower column
HEADS_HELP = (
    "Each small square is one head. The stronger the colour, the more one token attends to another."
)
NO_ATTENTION_HERE = "This model has no attention, so no token attends to another."


def _choose(run: CurrentRun) -> AttentionChoices:
    choose_step(run)
    if run.spec.model.similarity:  # it is chosen on the page Inside a head
        choose_similarity(run)
    focus = chosen_focus(run.trace, in_words=joins())[1]
    return AttentionChoices(focus, tile(), chosen_scale(), joins())


def _within(choices: AttentionChoices, run: CurrentRun, other: CurrentRun) -> AttentionChoices:
    return replace(choices, focus=choices.focus.within(other.trace))


def _layout(run: CurrentRun, choices: AttentionChoices, pictures: Pictures) -> Sequence[PageCell]:
    """Lay out all heads beside the chosen one, with its text, checks and files below.

    For an image or a sound, the matrix of the chosen head is in the drawer.
    """
    head = {"on_lock": hold, "on_look": choose_scale, "on_tile": choose_tile}
    overview = {"on_pick": pick_head, "on_join": choose_words}
    map_handlers = {"on_lock": hold, "on_pick": pick_head}
    maps = [ShownComponent(component, choose=map_handlers) for component in (IMAGE_MAP, SOUND_MAP)]
    over = [one for one in maps if one.picture in pictures]
    matrix = ShownComponent(HEAD, choose=head)
    beside = [*over, Foot(cells=[matrix])] if over else [matrix, Foot()]
    return [Columns(widths(run.trace), ([ShownComponent(OVERVIEW, choose=overview)], beside))]


def _text(run: CurrentRun, choices: AttentionChoices) -> str:
    """Return the text on the head: where it reads, how to read its picture, and departures."""
    site = drawn_site(run, choices)[1]
    place = words.head_place(site, choices.focus.head)
    parts = (
        f"**{place}.** {words.where_from(site, run.terms)}",
        words.how_to_read(site, queries_are_written(run.trace, site)),
        words.departures(run.scope.config),
        words.no_snapshots(run.scope.snapshots),
    )
    return "\n\n".join(part for part in parts if part)


def widths(trace: Trace) -> tuple[float, float]:
    """Return the relative widths of the columns of all heads and of the chosen head."""
    return (
        (1, 2.9)
        if max(site.n_heads for site in trace.attention.values()) <= MAX_NARROW_HEADS
        else (1.6, 2.3)
    )


ALL_HEADS = View(
    attention_payloads,
    _layout,
    choose=_choose,
    within=_within,
    text=_text,
    files=attention_files,
    files_note=incomplete_files_note,
    trained=similarity_text.trained,
)


def _held(run: CurrentRun, choices: AttentionChoices) -> tuple[int | None, int | None]:
    """Return the query and the key that are held, if any, as tokens: the first ones of a word."""
    trace = words_joined(run.trace, choices.joins_words)
    focus = choices.focus.within(trace)
    site, is_key = trace.attention[focus.site], focus.lock.startswith("k")
    held = int(focus.lock[1:]) if focus.lock else None
    if held is not None and isinstance(site, WordSite):
        held = (site.columns if is_key else site.rows)[held]
    return (None, held) if is_key else (held, None)


def _leads_to(run: CurrentRun, choices: AttentionChoices) -> NextQuestion:
    """Ask about the weight that Inside a head opens with: the held token's, or a typical one."""
    answer = NextQuestion("What does this model predict?", "task")
    if not run.trace.attention:
        return answer
    focus = choices.focus
    site = run.trace.attention[focus.site]
    if not site.has_causes:  # the origin of finished weights is not known
        return answer
    cell = chosen_cell(run.trace, site, focus.head, *_held(run, choices))
    rows, row = slice_with(site, cell.query)
    weight = words.percent(float(site.weights(cell.head, rows=rows)[row, cell.key]))
    question = f"Where does this head's {weight} come from?"
    return NextQuestion(
        question, "inside", {"inside-view": "", "inside-key": cell.key, "lock": f"q{cell.query}"}
    )


STATES_VIEW = replace(ENCODER_STATES, choose=choose_step)
ATTENTION_PAGE = Page(
    "Attention",
    "Attention: which token attends to which?",
    lambda run: HEADS_HELP if run.trace.attention else NO_ATTENTION_HERE,
    {"": lambda run: ALL_HEADS if run.trace.attention else STATES_VIEW},
    _leads_to,
)
