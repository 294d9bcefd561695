"""The app's pictures in a notebook or as a saved page, drawn without a server or a network.

    import models
    from models import edits
    from viz_app.notebook import compare, head, heads, lines, mask
    scope = models.load("eng-fra")
    run = scope.run("We like him.")
    heads(run)                                  # the last line of a cell
    head(run, layer=3, head=5).save("head.html")
    other = scope.run("We like him.", edits=[edits.HeadOff("decoder.layers.0.cross_attn", head=2)])
    compare(run, other)                         # distances of all heads, two maps, their difference

Layers and heads are counted from 1, as on the screen, tokens from 0. `kind` is the name of a kind
of attention ("encoder_self", "decoder_self", "cross", "self" …); by default the cross-attention, or
the first kind if there is none. Where a layer has several attentions of a kind, `layer` is the name
of one in `run.attention`. A kind, layer or head that does not exist raises a ValueError that lists
the valid ones.

The names of BertViz, and what takes their place:

    head_view                       lines(run, [(layer, head), ...]), up to four heads of any layers
    model_view                      heads(run); a click opens a head with its exact weights
    attention, encoder_attention,   the run itself; kind="self", "encoder_self", "decoder_self" or
      decoder_attention,            "cross" chooses among its attentions
      cross_attention
    tokens, encoder_tokens, ...     those of the run, from the model's own tokenizer
    sentence_b_start                scope.run(text, second_text), for a model of two texts
    prettify_tokens                 always: a space is "·", special tokens are in brackets
    layer, heads (from 0)           the list of (layer, head), from 1
    include_layers, include_heads   not needed: long texts open one head at a time
    display_mode                    theme="dark" or "light"; by default the notebook's own
    html_action                     the picture shows itself; .html, .save(path)
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from models.analysis.head_measures import MEASURES
from models.analysis.joined_words import WordSite, is_joined, join_words
from models.trace import AttentionSite, Trace
from viz_app.components import catalogue
from viz_app.drawing import head as drawn_head
from viz_app.drawing.cells import has_many_cells
from viz_app.drawing.overview import overview
from viz_app.drawing.scale import SCALE_NAMES as STRENGTHS
from viz_app.drawing.scale import Scale
from viz_app.drawing.sites import sharpest_head
from viz_app.drawing.stamp import caption, facts
from viz_app.notebook.comparison import compare
from viz_app.notebook.mask import mask
from viz_app.notebook.picture import Answer, Mounted, Picture
from viz_app.notebook.places import check_length, layer_text, place_of, range_text, sites_of
from viz_app.views.inside.several import (
    FIRST_MEASURE,
    MAX_SHOWN_HEADS,
    HeadGroup,
    several_payload,
    toggle,
)
from viz_app.words import Terms, head_title, terms

__all__ = ["Picture", "compare", "head", "heads", "lines", "mask"]

MAX_EMBEDDED = 2**17  # weights embedded in a picture so that a click opens a head: half a megabyte
GLANCE_HEIGHT, HEAD_HEIGHT, LINES_HEIGHT = 560, 620, 560  # heights of wide frames in CSS pixels


def heads(run: Trace, *, kind: str = "", words: bool = False, theme: str = "") -> Picture:
    """Draw all heads at a glance.

    A click opens a head beside them; for a long text it shows the call that draws it. With `words`,
    sub-words are joined to words: a word's row is the mean of its tokens' rows, its column the sum
    of their columns.
    """
    run = _joined(run, words)
    sites = sites_of(run, kind)
    kind = kind or sites[0].kind
    terms = _terms(run)
    site_name, number = sharpest_head(run, kind)
    glance = Mounted(catalogue.OVERVIEW, overview(run, terms, site_name, number))
    title, about = f"All heads of {run.model.name}", caption(facts(run))
    all_heads = [(site, n) for site in run.attention.values() for n in range(site.n_heads)]
    if sum(site.n_query * site.n_key for site, _ in all_heads) > MAX_EMBEDDED:
        answers = [
            Answer(
                "pick", _pick_of(site, n), says="This head is drawn by", code=_call(run, site, n)
            )
            for site, n in all_heads
        ]
        return Picture(title, about, [glance], answers, theme, GLANCE_HEIGHT)
    answers = [
        Answer(
            "pick", _pick_of(site, n), shows=1, payload=drawn_head.head_payload(run, site, n, terms)
        )
        for site, n in all_heads
    ]
    first = Mounted(
        catalogue.HEAD, drawn_head.head_payload(run, run.attention[site_name], number, terms)
    )
    return Picture(title, about, [glance, first], answers, theme, HEAD_HEIGHT)


def head(
    run: Trace, layer: int | str = 1, head: int = 1, *, kind: str = "", around: tuple[int, int] | None = None, hide_sinks: bool = False,
    strength: str = "weight", lock: str = "", words: bool = False, theme: str = "",
) -> Picture:  # fmt: skip
    """Draw one head as a heatmap with exact weights and as lines from token to token.

    It is head 1 of layer 1 unless `layer` and `head` name another; the title says which.

    A text of more than 512 tokens is drawn in blocks, each coloured by its largest weight; `around`
    (query, key) draws the exact weights around that cell instead.

    `hide_sinks` leaves [start] and [end] out, `strength` is "weight", "row" (shares of a row's
    largest) or "root", and `lock` holds a token from the start: "q3" a query, "k0" a key. `words`
    joins sub-words to words; `around` and `lock` then count words.
    """
    run = _joined(run, words)
    site, number = place_of(run, layer, head, kind)
    _check_name("strength", strength, STRENGTHS)
    _check_tokens(site, around, lock)

    def drawn(hides: bool) -> bytes:
        return drawn_head.head_payload(
            run, site, number, _terms(run), lock, around, Scale(strength, hides)
        )

    answers = []
    if has_many_cells(site):  # the page cannot compute maxima of weights that are not embedded
        answers = [
            *(Answer("look", {"hides": hides}, payload=drawn(hides)) for hides in (False, True)),
            Answer(
                "tile",
                says="These weights are drawn by",
                code=_call(run, site, number, ", around=({query}, {key})"),
            ),
            Answer("tile", says="The whole text is drawn by", code=_call(run, site, number)),
        ]
    title = head_title(site, number, _terms(run))
    return Picture(
        title,
        caption(facts(run)),
        [Mounted(catalogue.HEAD, drawn(hide_sinks))],
        answers,
        theme,
        HEAD_HEIGHT,
    )


def lines(
    run: Trace, heads: Sequence[tuple[int | str, int]] | None = None, *, kind: str = "", measure: str = FIRST_MEASURE, words: bool = False,
    theme: str = "",
) -> Picture:  # fmt: skip
    """Draw the attention lines of several heads of one kind, each in its own colour.

    `heads` are given as (layer, head); by default they are the leading ones by `measure`
    (models.analysis.head_measures.MEASURES), which also orders the list of all heads beside the
    lines. `words` joins sub-words to words; measures then refer to words.
    """
    run = _joined(run, words)
    kind = sites_of(run, kind)[0].kind
    check_length(run, kind, "lines")
    _check_name("measure", measure, MEASURES)
    group = HeadGroup(run, kind, measure, None)
    if heads is not None:
        group = replace(group, chosen=_chosen_heads(group, heads))
    orders = {name: replace(group, measure=name).order for name in MEASURES}
    answers = [
        *(
            Answer("news", {"measure": name}, fields={"measure": name, "order": order})
            for name, order in orders.items()
        ),
        *(
            Answer("news", {"head": n}, says="These lines are drawn by", code=_lines_call(group, n))
            for n in range(len(group.heads))
        ),
        Answer("news", takes=("query",)),
    ]
    part = Mounted(catalogue.SEVERAL, several_payload(group, _terms(run), None))
    return Picture(
        f"Lines of several heads of {run.model.name}",
        caption(facts(run)),
        [part],
        answers,
        theme,
        LINES_HEIGHT,
    )


def _check_name(what: str, name: str, names: Collection[str]) -> None:
    """Check an argument that takes one of these names.

    Raises:
        ValueError: It is none of them.
    """
    if name not in names:
        raise ValueError(f"{what} must be {range_text([repr(one) for one in names])}, not {name!r}")


def _check_tokens(site: AttentionSite, around: tuple[int, int] | None, lock: str) -> None:
    """Check the cell to draw around, and the token to hold.

    Raises:
        ValueError: The site has no such query or key.
    """
    if around is not None and not (0 <= around[0] < site.n_query and 0 <= around[1] < site.n_key):
        raise ValueError(
            f"around must be a query below {site.n_query} and a key below {site.n_key}, not {around!r}"
        )
    held = re.fullmatch("([qk])([0-9]+)", lock)
    if lock and not (held and int(held[2]) < (site.n_query if held[1] == "q" else site.n_key)):
        raise ValueError(
            f'lock must be "q" and a query below {site.n_query}, or "k" and a key below {site.n_key}, '
            f"not {lock!r}"
        )


def _chosen_heads(group: HeadGroup, heads: Sequence[tuple[int | str, int]]) -> tuple[int, ...]:
    """Return the numbers of these (layer, head) in the group.

    Raises:
        ValueError: One of them does not exist, or there are too many.
    """
    if len(heads) > MAX_SHOWN_HEADS:
        raise ValueError(
            f"lines of at most {MAX_SHOWN_HEADS} heads can be told apart, not of {len(heads)}"
        )
    numbers = {(site.name, head): n for n, (site, head) in enumerate(group.heads)}
    places = [place_of(group.trace, *place, group.kind) for place in heads]
    return tuple(sorted(numbers[site.name, head] for site, head in places))


def _joined(run: Trace, words: bool) -> Trace:
    return join_words(run) if words and not is_joined(run) else run


def _terms(run: Trace) -> Terms:
    return terms(run.model.training.get("task", "unknown"), run.model.training.get("languages", ()))


def _pick_of(site: AttentionSite, head: int) -> dict[str, str | int]:
    """Return the event value with which the overview reports a click on this head."""
    return {"site": site.name, "head": head}


def _call(run: Trace, site: AttentionSite, head: int, more: str = "") -> str:
    layer = layer_text(run, site)
    return f'head(run, layer={layer}, head={head + 1}, kind="{site.kind}"{more}{_as_words(site)})'


def _as_words(site: AttentionSite) -> str:
    return ", words=True" * isinstance(site, WordSite)


def _lines_call(group: HeadGroup, number: int) -> str:
    """Return the call that draws the heads chosen after a click on one."""
    chosen = (group.heads[n] for n in toggle(group.drawn_heads, number))
    places = ", ".join(f"({layer_text(group.trace, site)}, {head + 1})" for site, head in chosen)
    return f'lines(run, [{places}], kind="{group.kind}"{_as_words(group.sites[0])})'
