"""The controls of the page Masks: the batch, the painted mask, and the shown head."""

from functools import partial

from models.layers.masks import PADDING, SiteKind
from models.runs.scope import Scope
from models.trace.edits import READY_MADE, MaskChange, mask_change
from viz_app.controls import pick, which_head
from viz_app.controls.text_box import text_box
from viz_app.controls.tile import tile
from viz_app.drawing.sites import by_kind
from viz_app.input_bar.examples import example_choices
from viz_app.session import mask_notation as notation
from viz_app.session import run_changes, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.remembered import recall, remember
from viz_app.views.masks import state, text
from viz_app.views.masks.mask_view import kind_names, own_layers
from viz_app.views.masks.payloads import MaskChoices, second_text_error
from viz_app.views.masks.state import SECOND_MASKED_TEXT, SHOWN_TEXT

_TASK = "masks task"
_READY, _K, _PADDED = "masks-ready-{}", "masks-k-{}", "masks-padding-{}"


def choose_masks(run: CurrentRun) -> MaskChoices:
    """Draw two rows of controls and return the choices."""
    trace, changes = run.unchanged.trace, run.spec.edits
    kind, site, head = state.view(trace)
    painted = state.kinds_by_name(trace)[kind]
    with which_head.head_row():
        which_head.which_head(dict(by_kind(trace)), site, head, partial(state.look_at, kind))
        _ready_controls(
            painted,
            kind_names(trace)[painted],
            mask_change(changes, kind),
            own_layers(trace, kind),
        )
    with pick.control_row("masks-batch", "small"):
        second, problem, row = _batch(run)
        _padding_control(painted, mask_change(changes, kind))
        undo = partial(run_changes.undo_change, "masks", tuple(state.kinds_by_name(trace)))
        pick.button(
            "Undo all changes", "masks-undo", undo, disabled=run.spec.without("masks") == run.spec
        )
    return MaskChoices(second, problem, row, kind, site.name, head, tile())


def _batch(run: CurrentRun) -> tuple[str, str, int]:
    """Return the second text of the batch, or "" and an error, and the number of the shown text.

    A model that reads a single row at a time has no second text.
    """
    scope = run.scope
    if not scope.model.pads:
        return "", "", 0
    if recall(_TASK, scope.task) != scope.task and not url_state.is_url_driven():
        url_state.set_value(SECOND_MASKED_TEXT, None)
    remember(_TASK, scope.task)
    chosen = url_state.get(SECOND_MASKED_TEXT)
    second, cut = text_box(
        "Second text of the batch",
        SECOND_MASKED_TEXT,
        default_second(scope) if chosen is None else chosen,
        height=68,
        width=430,
        help=text.second_help(scope.model),
    )
    which = pick.pick_few("Shown", SHOWN_TEXT, SHOWN_TEXT.options)
    problem = cut or second_text_error(run, second)
    if problem or not second.strip():
        return "", problem, 0
    return second, "", SHOWN_TEXT.options.index(which)


def default_second(scope: Scope) -> str:
    """Return the shortest example longer than the first, so that the first one is padded."""
    readable = example_choices(scope)
    lengths = {text: len(scope.input_ids(text)) for text in readable}
    longer = [text for text in readable if lengths[text] > lengths[readable[0]]]
    return min(longer, key=lengths.get) if longer else readable[-1]


def _ready_controls(kind: SiteKind, name: str, change: MaskChange, own_layers: list[str]) -> None:
    """Draw the choice of the ready-made mask and its k.

    `own_layers` are the layers of the model's mask.
    """
    own_choice = notation.own_choice(kind)
    ready, k = (name.format(kind.name) for name in (_READY, _K))

    def take() -> None:
        state.choose_preset(kind, recall(ready), recall(k), own_layers)

    pick.from_list(
        f"Preset mask, {name.lower()}",
        ready,
        READY_MADE,
        notation.preset_of(kind, change),
        take,
        lambda name: text.ready_label(kind, name, own_choice, own_layers),
        width=380,
    )
    fixed = change.preset not in ("window", "block-diagonal")
    least = 0 if change.preset == "window" else 1
    pick.pick_number("k", k, least, 512, change.k, take, disabled=fixed, width=60)


def _padding_control(kind: SiteKind, change: MaskChange) -> None:
    """Draw the switch that masks padding."""
    padded = _PADDED.format(kind.name)
    pick.pick_switch(
        "Mask padding",
        padded,
        PADDING not in change.removed_layers,
        lambda: state.choose_padding(kind.name, recall(padded)),
    )
