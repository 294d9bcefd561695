"""Mounting of browser components on a Streamlit page."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import streamlit as st

from viz_app.components import Component, stamp_payload
from viz_app.session.actions import Actions
from viz_app.session.live import live_session


def show(component: Component, data: bytes | dict, key: str = "", **handlers: Callable) -> None:
    """Show `data` in a component, with the component's name as the default key.

    `handlers` are called with the arguments of the component's events, one handler for each event.

    Raises:
        TypeError: they are not the handlers of this component.
    """
    if handlers.keys() != component.events.keys():
        raise TypeError(
            f"{component.name} has the events {sorted(component.events)}, not {sorted(handlers)}"
        )
    key = key or component.name
    session = live_session()
    answers = {
        f"on_{trigger}_change": partial(_handle, session.actions, component, key, trigger, handlers)
        for trigger in {event.trigger for event in component.events.values()}
    }
    _registered(component)(key=key, data=stamp_payload(data, key, session.edition), **answers)


def _handle(
    actions: Actions, component: Component, key: str, trigger: str, handlers: dict[str, Callable]
) -> None:
    """Note the calls of the handlers of the events in a trigger's message.

    A browser can send anything: a malformed message has no effect, nor has one of a component that
    has left the page meanwhile.
    """
    # read as a whole: asking for one value may end this callback (session/actions.py)
    message = st.session_state.to_dict().get(key, {}).get(trigger)
    if message is None:
        return
    for name, event in component.events.items():
        if event.trigger == trigger and event.is_in(message):
            try:
                arguments = event.arguments(message)
            except (KeyError, TypeError, ValueError):
                continue
            actions.note(partial(handlers[name], *arguments))


@cache
def _registered(component: Component) -> Callable[..., Any]:
    """Return the Streamlit component, registered on first use."""
    return st.components.v2.component(f"attnscope_{component.name}", **component.files)
