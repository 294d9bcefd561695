"""A layer, step by step: one token's residual stream before and after every part of every layer."""

from collections.abc import Callable, Sequence
from functools import partial

from models.layers.sublayers import Sublayer
from models.trace import AttentionSite
from viz_app.components.catalogue import LAYER as PICTURE
from viz_app.controls import which_head
from viz_app.drawing.stamp import Facts, FileContent, facts
from viz_app.session import live, reference_models, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import FOCUS_HEAD, chosen_focus, lock_token, pick_head
from viz_app.session.live import Pictures
from viz_app.session.remembered import recall
from viz_app.views import onward
from viz_app.views.layer import files, text
from viz_app.views.layer.payloads import layer_payloads, layer_quantities, recording_error
from viz_app.views.layer.token_view import (
    LayerChoices,
    TokenView,
    clicked_token,
    layer_choices_within,
    token_view,
)
from viz_app.views.page import File, Page, PageCell, ShownComponent, View

_STREAM, _LAYER = "layer-stream", "layer-number"


def choose_layer_view(run: CurrentRun) -> LayerChoices:
    """Draw the row of controls and return the choices."""
    site, focus = chosen_focus(run.trace)
    sublayers = run.scope.model.sublayers
    chosen = _sublayer_of(site, sublayers)
    with which_head.head_row():
        names = {s.row: text.row_name(run.scope.model, s) for s in sublayers}
        if len(names) > 1:
            _control(
                "Part of the model",
                _STREAM,
                names,
                chosen.row,
                lambda row: _like(chosen, row, sublayers),
            )
        firsts = {
            text.layer_name(s): _first(s, sublayers).path
            for s in sublayers
            if s.row == chosen.row and s.attends
        }
        _control(
            "Layer",
            _LAYER,
            {name: name for name in firsts},
            text.layer_name(chosen),
            firsts.__getitem__,
        )
    return LayerChoices(
        chosen.stream,
        chosen.layer,
        int(focus.lock[1:]) if focus.lock.startswith("q") else None,
        chosen.states,
    )


def _control(
    label: str, key: str, options: dict[str, str], value: str, site: Callable[[str], str]
) -> None:
    """Draw one choice; `site` maps an option to the attention site that is kept for it."""
    which_head.pick_one(
        label,
        key,
        list(options),
        value,
        lambda: choose_layer(site(recall(key))),
        options.get,
    )


def _like(sublayer: Sublayer, row: str, sublayers: tuple[Sublayer, ...]) -> str:
    """Return the first part of the same layer in another row of states, or of its last layer."""
    candidates = [s for s in sublayers if s.row == row and s.attends]
    return next(
        (s for s in candidates if s.layer == sublayer.layer), _first(candidates[-1], sublayers)
    ).path


def _sublayer_of(site: AttentionSite, sublayers: tuple[Sublayer, ...]) -> Sublayer:
    """Return the sublayer of an attention, or else one of the nearest layer.

    If a model reads several choices, the stream of only one text is shown.
    """
    attending = [s for s in sublayers if s.attends]
    return min(attending, key=lambda s: (s.path != site.name, abs((s.layer or 0) - site.layer)))


def _first(sublayer: Sublayer, sublayers: tuple[Sublayer, ...]) -> Sublayer:
    """Return the first attention of a layer."""
    place = sublayer.row, sublayer.layer
    return next(s for s in sublayers if s.attends and (s.row, s.layer) == place)


def choose_layer(site: str) -> None:
    """Choose the layer of this attention."""
    trace = live.live_session().shown.trace
    pick_head(site, min(url_state.get(FOCUS_HEAD) or 0, trace.attention[site].n_heads - 1))


def choose_token(choices: LayerChoices, position: int) -> None:
    """Choose this token of the shown run."""
    chosen = clicked_token(live.live_session().shown, choices, position)
    lock_token("" if chosen is None else f"q{chosen}")


def _find(run: CurrentRun) -> View[LayerChoices] | str:
    """Return the view of this run, or why its layers cannot be shown."""
    if not run.scope.model.sublayers:
        instead = reference_models.suitable_scope(run, lambda scope: bool(scope.model.sublayers))
        return text.no_layers(run.scope.model.is_recurrent, instead.name if instead else "")
    return recording_error(run) or ONE_TOKEN


def _layout(run: CurrentRun, choices: LayerChoices, pictures: Pictures) -> Sequence[PageCell]:
    handlers = {"on_layer": choose_layer, "on_token": partial(choose_token, choices)}
    return [ShownComponent(PICTURE, choose=handlers)]


def _text(run: CurrentRun, choices: LayerChoices) -> str:
    view = token_view(run, choices)
    sublayers = [part.sublayer for part in view.parts]
    return text.explain_stream(sublayers, view.output, run.scope.model.can_write)


def _files(run: CurrentRun, choices: LayerChoices) -> Sequence[File]:
    view = token_view(run, choices)

    def of(make: Callable[[TokenView], FileContent]) -> Callable[[CurrentRun], FileContent]:
        return lambda now: make(token_view(now, choices))

    def about(now: CurrentRun) -> Facts:
        return facts(now.trace)

    csv, npz = of(files.layers_csv), of(files.layers_npz)
    return [
        File("This token, CSV", csv, files.layer_file_name(view, "csv"), about),
        File("Its vectors, npz", npz, files.layer_file_name(view, "npz"), about=about),
    ]


ONE_TOKEN = View(
    layer_payloads,
    _layout,
    choose=choose_layer_view,
    within=layer_choices_within,
    text=_text,
    files=_files,
    quantities=layer_quantities,
)
LAYER_PAGE = Page(
    "A layer",
    text.LAYER_QUESTION,
    lambda run: text.layer_answer(run.scope.model.sublayers),
    {"": _find},
    lambda run, choices: onward.how_it_orders(),
)
