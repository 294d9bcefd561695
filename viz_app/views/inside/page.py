"""Inside a head: how is one attention weight computed? From two tokens' vectors to the number."""

from collections.abc import Callable, Sequence
from functools import partial

from models.analysis.head_measures import MEASURES
from models.trace import Trace
from viz_app import words
from viz_app.components.catalogue import CHOICE, HEADS, MATRICES, SEVERAL, WALK
from viz_app.controls import pick, similarity_text, which_head
from viz_app.controls.similarity import choose_similarity
from viz_app.drawing import provenance
from viz_app.drawing.sites import by_kind
from viz_app.drawing.stamp import FileContent
from viz_app.drawing.weight_cell import WeightCell
from viz_app.session import live, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import chosen_focus, lock_token, pick_head
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice, Several, Whole
from viz_app.views import onward, page
from viz_app.views.encoder_states import ENCODER_STATES
from viz_app.views.inside import files, scaling, text
from viz_app.views.inside.cell import heads_file
from viz_app.views.inside.payloads import (
    DRAWN_BY_STREAMLIT,
    HeadWalkChoices,
    head_group,
    selection,
    walk_choices_within,
    walk_payloads,
)
from viz_app.views.inside.several import FIRST_MEASURE, MAX_SHOWN_HEADS, head_measures_csv, toggle
from viz_app.views.page import (
    Columns,
    File,
    Foot,
    NextQuestion,
    Page,
    Plot,
    Prose,
    Row,
    ShownComponent,
    View,
    Widget,
)

VIEW, CONVENTION = Choice("inside-view"), Choice("inside-convention")
WALK_KEY, WALK_STAGE = Whole("inside-key"), Whole("inside-stage", 0)
DRAWN_HEADS, MEASURE = (
    Several("inside-heads", max_items=MAX_SHOWN_HEADS),
    Choice("inside-measure", FIRST_MEASURE, options=tuple(MEASURES)),
)
WIDER = 290  # width in px of a control beside the tokens


def choose_walk(run: CurrentRun) -> HeadWalkChoices:
    """Draw the row of controls and return the choices of this page and of those it shares."""
    several = url_state.get(VIEW) == "several"
    site, focus = chosen_focus(run.trace)
    kinds = dict(by_kind(run.trace))
    with which_head.head_row():
        which_head.which_head(
            kinds,
            run.trace.attention[focus.site],
            focus.head,
            partial(_move, site.kind),
            heads=not several,
        )
        view = _pick(
            "Show", VIEW, text.views_of_site(site, sum(s.n_heads for s in kinds[site.kind]))
        )
        if view == "several":  # no tokens to choose, so there is no row beside them
            choose_similarity(run)
    conventions = list(text.conventions(site))
    lock = int(focus.lock[1:]) if focus.lock else None
    query, key = (None, lock) if focus.lock.startswith("k") else (lock, url_state.get(WALK_KEY))
    return HeadWalkChoices(
        view,
        url_state.chosen_option(CONVENTION, conventions, conventions[0])
        if view == "matrices"
        else conventions[0],
        site.name,
        focus.head,
        query,
        key,
        url_state.get(WALK_STAGE) if view == "walk" else 0,
        *((url_state.get(DRAWN_HEADS), url_state.get(MEASURE)) if view == "several" else ()),
    )


def choose_method(run: CurrentRun, choices: HeadWalkChoices) -> None:
    """Draw the less frequent choices: the similarity, and the convention of the matrices."""
    choose_similarity(run)
    if choices.view == "matrices":
        conventions = text.conventions(run.trace.attention[choices.site])
        name_of, chosen = conventions.__getitem__, choices.convention
        pick.one_of_many("Convention", CONVENTION, conventions, chosen, name_of, width=WIDER)


def _move(kind: str, site: str, head: int) -> None:
    """Choose a head. The key and the drawn heads are reset for a head of another `kind`."""
    if live.live_session().shown.trace.attention[site].kind != kind:
        url_state.set_value(WALK_KEY, None)
        url_state.set_value(DRAWN_HEADS, None)
    pick_head(site, head)


def _pick(label: str, choice: Choice, names: dict[str, str]) -> str:
    """Choose one option by its id, which is stored in the URL; initially the first."""
    return pick.pick_few(label, choice, list(names), names.__getitem__)


def choose_weight(query: int, key: int) -> None:
    """Choose another weight; a negative key means the strongest."""
    lock_token(f"q{query}")
    url_state.set_value(WALK_KEY, key if key >= 0 else None)


def choose_head(choices: HeadWalkChoices, number: int) -> None:
    """Add a head's lines, or remove them if they are drawn."""
    url_state.set_value(
        DRAWN_HEADS, toggle(head_group(live.live_session().shown, choices).drawn_heads, number)
    )


def choose_measure(name: str) -> None:
    """Order the heads by this measure."""
    url_state.set_value(MEASURE, name)


def hold_query(query: int) -> None:
    """Draw the lines of this token only, or with a negative number of all tokens."""
    lock_token(f"q{query}" if query >= 0 else "")


def keep_stage(stage: int) -> None:
    """Store the stage at which the walk rests."""
    url_state.set_value(WALK_STAGE, stage)


def _find(run: CurrentRun) -> View | str:
    """Return the view of this run, or why its attention cannot be explained."""
    if not run.trace.attention:
        return ENCODER_STATES
    return text.not_walked(run.trace) or ONE_WEIGHT


def _layout(
    run: CurrentRun, choices: HeadWalkChoices, pictures: Pictures
) -> Sequence[page.PageCell]:
    """Lay out the tokens, the less frequent choices beside them, and the chosen view."""
    weight = {"on_choose": choose_weight}
    several = {
        "on_head": partial(choose_head, choices),
        "on_measure": choose_measure,
        "on_query": hold_query,
    }
    method = Widget(partial(choose_method, run, choices))
    tokens = (
        []
        if choices.view == "several"
        else [Row("inside-tokens", [ShownComponent(CHOICE, choose=weight), method])]
    )
    return [
        *tokens,
        ShownComponent(WALK, choose={**weight, "on_stage": keep_stage}),
        ShownComponent(MATRICES, choose=weight),
        ShownComponent(SEVERAL, choose=several),
        ShownComponent(HEADS, choose={"on_pick": lambda head: pick_head(choices.site, head)}),
        *(
            _scaling(selection(run, choices))
            if choices.view == DRAWN_BY_STREAMLIT
            else [Foot((1, 1))]
        ),
    ]


def _scaling(cell: WeightCell) -> list[page.PageCell]:
    curves = ([Plot(f"inside-{field}")] for field in scaling.SCALING_FIELDS)
    numbers = [Prose(scaling.consequence(cell)), Prose(scaling.scaling_table(cell))]
    charts = Columns((1.25, 1, 1), ([Plot("inside-bars")], *curves))
    return [Prose(scaling.division_effect(cell)), charts, Foot((1, 1), cells=numbers)]


def _text(run: CurrentRun, choices: HeadWalkChoices) -> str:
    site = run.trace.attention[choices.site]
    several = choices.view == "several"
    place = words.kind_title(site) if several else words.head_place(site, choices.head)
    explanation = f"**{place}.** {text.explain_view(choices.view, site, run.terms)}"
    departures = words.departures(run.scope.config) if choices.view == "walk" else ""
    return "\n\n".join(part for part in (explanation, text.missing_parts(site), departures) if part)


def _files(run: CurrentRun, choices: HeadWalkChoices) -> Sequence[File]:
    """Return the downloads of the view's numbers; pictures have their own button."""
    if choices.view == "several":
        kind = run.trace.attention[choices.site].kind
        name = f"{provenance.file_name(run.trace, kind, 'measures')}.csv"
        return [
            File("All measures, CSV", lambda now: head_measures_csv(head_group(now, choices)), name)
        ]

    def of_cell(
        make: Callable[[Trace, WeightCell], FileContent],
    ) -> Callable[[CurrentRun], FileContent]:
        return lambda now: make(now.trace, selection(now, choices))

    cell = selection(run, choices)
    head = provenance.head_name(run.trace, cell.site, cell.head)
    name = f"{head}.query{cell.query + 1}"
    matrices = of_cell(lambda _, cell: files.matrices_npz(cell))
    return {
        "walk": [
            File("This walk, CSV", of_cell(files.walk_csv), f"{name}.csv"),
            File("This walk, npz", of_cell(files.walk_npz), f"{name}.npz"),
        ],
        "matrices": [File("The matrices, npz", matrices, f"{head}.matrices.npz")],
        "scaling": [File("These numbers, CSV", of_cell(files.scaling_csv), f"{name}.scaling.csv")],
        "heads": [
            File(
                "The heads, CSV",
                of_cell(files.heads_csv),
                f"{heads_file(run.trace, cell)}.csv",
            )
        ],
    }[choices.view]


def _leads_to(run: CurrentRun, choices: HeadWalkChoices | None) -> NextQuestion:
    if choices is None or not run.scope.model.sublayers:
        return onward.how_it_orders()
    query = selection(run, choices).query
    question = "What does the whole layer do to this token?"
    return NextQuestion(question, "layer", {"lock": f"q{query}"})


ONE_WEIGHT = View(
    walk_payloads,
    _layout,
    choose=choose_walk,
    within=walk_choices_within,
    text=_text,
    files=_files,
    trained=similarity_text.trained,
    is_live=lambda choices: choices.view != DRAWN_BY_STREAMLIT,
)
INSIDE_PAGE = Page(
    "Inside a head",
    "Inside a head: how is one attention weight computed?",
    lambda run: "Step by step from two token vectors to one weight, with the real numbers.",
    {"": _find},
    _leads_to,
)
