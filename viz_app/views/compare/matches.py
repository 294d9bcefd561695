"""The section Many texts: which head of one model corresponds to which head of another?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import altair as alt
import pandas as pd

from models import Scope
from models.analysis.head_matching import ADVISED, HeadIndex, KindDistances, Match, match_heads
from viz_app import words
from viz_app.controls import matching, pick
from viz_app.controls.matching import MatchedHeads
from viz_app.controls.pin_bar import name_pinned, open_pinned
from viz_app.drawing.frame import LINE_COLOURS, with_title
from viz_app.drawing.sites import by_kind
from viz_app.drawing.stamp import Facts, merge_facts, of_model
from viz_app.session import live
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice
from viz_app.views.compare import text
from viz_app.views.page import Columns, File, PageCell, Plot, Prose, Table, View, Widget, csv_file

KIND = Choice("compare-kind", "", is_step=False)
MATCH_CHART_KEY, MATCHES_KEY, MATCH_SENTENCE_KEY = "head-matches", "matches", "matching"
CHART_SIZE, TABLE_HEIGHT = (360, 310), 318  # px
MATCH_COLUMNS = ("head", "matched to", "bits", "margin", "p")
WITHIN_COLUMNS = ("head", "nearest", "bits")


@dataclass(frozen=True)
class MatchChoices:
    """The other model (this one: head by head within it), and a kind of attention of this one."""

    second: Scope
    kind: str
    about_second: Facts  # the facts of the other model, for files


def choose_matches(run: CurrentRun) -> MatchChoices:
    """Draw what the model is compared with, and the choice of a kind."""
    settings, other = open_pinned(live.live_session(), run)
    second = run.scope if other is None else other.scope
    kinds = {kind: text.kind_label(sites[0]) for kind, sites in by_kind(run.trace)}
    with pick.control_row("matched", "small"):
        if settings is not None and other is not None:
            name_pinned(live.live_session(), run, settings, other)
        else:
            pick.write_words(text.WITHIN)
        kind = pick.pick_few(
            "Attention", KIND, list(kinds), kinds.__getitem__, label_visibility="collapsed"
        )
    return MatchChoices(second, kind, of_model((other or run).trace, "counting"))


def match_payloads(run: CurrentRun, choices: MatchChoices) -> Pictures:
    """Return the chart of all distances and the table of matches, if they are measured."""
    matched = matching.matched_heads(run.scope, choices.second)
    if matched is None:
        return {}
    kind = next((one for one in matched.kinds if one.kind == choices.kind), None)
    if kind is None:
        return {MATCH_SENTENCE_KEY: text.KIND_LACKS.format(choices.second.name)}
    is_within = run.scope is choices.second
    matches = [] if is_within else match_heads(kind, matched.null.get(kind.kind, ()))
    rows = nearest_rows(kind) if is_within else match_rows(matches)
    names = WITHIN_COLUMNS if is_within else MATCH_COLUMNS
    if not is_within and not matched.null:
        names = names[:-1]
    table = pd.DataFrame([row[: len(names)] for row in rows], columns=list(names))
    sentence = within_sentence(kind) if is_within else matched_sentence(matched, kind, matches)
    return {
        MATCH_SENTENCE_KEY: f"{sentence} {text.over_texts(matched.n_texts, ADVISED)}",
        MATCH_CHART_KEY: match_chart(kind, matches, run.scope.name, choices.second.name),
        MATCHES_KEY: table,
    }


def short_name(place: HeadIndex) -> str:
    """Return a layer and a head in short, counted from 1."""
    return f"L{place[0] + 1} H{place[1] + 1}"


def match_rows(matches: Sequence[Match]) -> list[tuple[object, ...]]:
    """Return the rows of the table of matches: heads, distance, margin and p."""
    return [
        (
            short_name(one.first),
            short_name(one.second),
            round(one.distance, 3),
            None if one.margin is None else round(one.margin, 3),
            None if one.p is None else round(one.p, 3),
        )
        for one in matches
    ]


def nearest_rows(kind: KindDistances) -> list[tuple[object, ...]]:
    """Return for each head of a model the nearest other, and its distance."""
    if len(kind.first) < 2:
        return [(short_name(kind.first[0]), "", None)]
    mean = kind.mean.clone().fill_diagonal_(float("inf"))
    least = mean.min(-1)
    return [
        (short_name(place), short_name(kind.second[int(at)]), round(float(bits), 3))
        for place, bits, at in zip(kind.first, least.values, least.indices, strict=True)
    ]


def matched_sentence(measured: MatchedHeads, kind: KindDistances, matches: Sequence[Match]) -> str:
    """Say how many heads match the head of the same number, and how certain the matches are."""
    same = sum(one.first == one.second for one in matches)
    clear = sum(one.margin is None or one.margin > 0 for one in matches)
    sentence = text.matches_sentence(len(matches), same, clear)
    if not measured.null:
        return f"{sentence} {text.NO_NULL}"
    near = sum(one.p is not None and one.p <= 0.05 for one in matches)
    n = len(measured.null.get(kind.kind, ()))
    return f"{sentence} {text.seed_baseline_sentence(near, len(matches), n, measured.seeds)}"


def within_sentence(kind: KindDistances) -> str:
    """Say which two heads of a model are most alike."""
    if len(kind.first) < 2:
        return text.ONE_HEAD
    mean = kind.mean.clone().fill_diagonal_(float("inf"))
    first, second = divmod(int(mean.argmin()), len(kind.second))
    names = short_name(kind.first[first]), short_name(kind.second[second])
    return text.most_alike(*names, float(mean[first, second]))


def match_chart(
    kind: KindDistances, matches: Sequence[Match], first: str, second: str
) -> alt.LayerChart:
    """Return the chart of every head of one model by every head of another; matches are framed."""
    values = [
        {"first": short_name(a), "second": short_name(b), "bits": float(kind.mean[i, j])}
        for i, a in enumerate(kind.first)
        for j, b in enumerate(kind.second)
    ]
    ours, theirs = ([short_name(place) for place in places] for places in (kind.first, kind.second))
    x = alt.X("second:N", title=f"heads of {second}", sort=theirs)
    y = alt.Y("first:N", title=f"heads of {first}", sort=ours)
    tip = [alt.Tooltip("first:N"), alt.Tooltip("second:N"), alt.Tooltip("bits:Q", format=".3f")]
    scale = alt.Scale(domain=[0, 1], range=[0, 1])
    legend = alt.Legend(title="bits", gradientLength=110)
    cells = (
        alt.Chart(alt.Data(values=values))
        .mark_rect(color=LINE_COLOURS[0])
        .encode(x=x, y=y, opacity=alt.Opacity("bits:Q", scale=scale, legend=legend), tooltip=tip)
    )
    marks = [{"first": short_name(one.first), "second": short_name(one.second)} for one in matches]
    framed = (
        alt.Chart(alt.Data(values=marks))
        .mark_point(shape="square", size=70, color=LINE_COLOURS[5], strokeWidth=2, filled=False)
        .encode(x=x, y=y)
    )
    whole = alt.layer(cells, framed).properties(width=CHART_SIZE[0], height=CHART_SIZE[1])
    return with_title(
        whole, "Distance of every head from every head" + (" (square: match)" if marks else "")
    )


def layout(run: CurrentRun, choices: MatchChoices, pictures: Pictures) -> Sequence[PageCell]:
    """Place the chart beside the table; before a measurement, a note and the button."""
    measure = Widget(partial(matching.matching, run.scope, choices.second))
    if MATCH_SENTENCE_KEY not in pictures:
        return [Prose(text.MATCHES_NOT_MEASURED), measure]
    sentence = Prose(pictures[MATCH_SENTENCE_KEY], is_small=True)
    if MATCH_CHART_KEY not in pictures:
        return [sentence]
    return [
        sentence,
        Columns(
            (1.1, 1),
            ([Plot(MATCH_CHART_KEY, fits=False)], [Table(MATCHES_KEY, height=TABLE_HEIGHT)]),
        ),
    ]


def match_files(run: CurrentRun, choices: MatchChoices) -> Sequence[File]:
    """Offer the distances of all kinds."""
    matched = matching.matched_heads(run.scope, choices.second)
    if matched is None:
        return ()
    head = ["attention", "head", "other head", "mean distance in bits"]
    name = f"{run.scope.name}.{choices.second.name}.heads-over-texts"
    file = csv_file("All distances, CSV", name, lambda now: [head, *match_table(matched)])
    return [replace(file, about=lambda now: about_matches(now, choices, matched))]


def about_matches(run: CurrentRun, choices: MatchChoices, matched: MatchedHeads) -> Facts:
    """Return the facts of both models, and over which texts their heads were compared."""
    texts = f"{matched.n_texts} held out{words.held_out_source(run.scope.training)}"
    return {**merge_facts(of_model(run.trace, "counting"), choices.about_second), "texts": texts}


def match_table(measured: MatchedHeads) -> list[list[object]]:
    """Return the rows of the file: every head by every head."""
    return [
        [kind.title, short_name(a), short_name(b), float(kind.mean[i, j])]
        for kind in measured.kinds
        for i, a in enumerate(kind.first)
        for j, b in enumerate(kind.second)
    ]


MATCHES = View(
    match_payloads,
    layout,
    choose=choose_matches,
    text=lambda run, choices: text.MATCHES_HELP,
    files=match_files,
    is_live=lambda choices: False,
    has_strip=False,
    is_of_run=False,
)
