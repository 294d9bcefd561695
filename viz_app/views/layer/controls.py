"""The controls of the page "A layer, step by step": which stream and layer, and which token. Layer and token are those of the
other pages."""

from collections.abc import Callable

import streamlit as st

from models.layers.sublayers import Sublayer
from viz_app import which_head
from viz_app.session import live, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import HEAD, chosen_focus, lock_token, pick_head
from viz_app.views.layer import text
from viz_app.views.layer.token_view import Choices, chosen_position

_STREAM, _LAYER = "layer-stream", "layer-number"


def choose(run: CurrentRun) -> Choices:
    """Draw one row of controls; what they say."""
    site, focus = chosen_focus(run.trace)
    sublayers = run.scope.model.sublayers
    chosen = next(s for s in sublayers if s.path == site.name)
    with which_head.row():
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
            text.layer_name(s): _first(s, sublayers).path for s in sublayers if s.row == chosen.row
        }
        _control(
            "Layer",
            _LAYER,
            {name: name for name in firsts},
            text.layer_name(chosen),
            firsts.__getitem__,
        )
    return Choices(
        chosen.stream,
        chosen.layer,
        int(focus.lock[1:]) if focus.lock.startswith("q") else None,
        chosen.states,
    )


def _control(
    label: str, key: str, options: dict[str, str], value: str, site: Callable[[str], str]
) -> None:
    """One choice of several; `site` names the attention by which an option is kept."""
    which_head.one_of(
        label,
        key,
        list(options),
        value,
        lambda: choose_layer(site(st.session_state[key])),
        options.get,
    )


def _like(chosen: Sublayer, row: str, sublayers: tuple[Sublayer, ...]) -> str:
    """The first part of the same layer along another row of states, or of its last."""
    own = [s for s in sublayers if s.row == row]
    return next((s for s in own if s.layer == chosen.layer), _first(own[-1], sublayers)).path


def _first(sublayer: Sublayer, sublayers: tuple[Sublayer, ...]) -> Sublayer:
    """The part that a layer begins with, which is an attention."""
    return next(s for s in sublayers if (s.row, s.layer) == (sublayer.row, sublayer.layer))


def choose_layer(site: str) -> None:
    """Look at the layer of this attention."""
    trace = live.session().shown.trace
    pick_head(site, min(url_state.get(HEAD) or 0, trace.attention[site].n_heads - 1))


def choose_token(choices: Choices, position: int) -> None:
    """Look at this token of the run that stands on the page."""
    found = chosen_position(live.session().shown, choices, position)
    lock_token("" if found is None else f"q{found}")
