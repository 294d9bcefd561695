"""Controls for single values, each bound to a URL parameter, and rows to place them in."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz_app.controls.drawn import DrawnChoice, note_choice
from viz_app.session.live import noted
from viz_app.session.parameters import Choice, Number, Parameter, Several, Switch, Whole
from viz_app.session.remembered import remember
from viz_app.session.url_state import bound, chosen_option, get, set_value

Picked = TypeVar("Picked")


def control_row(
    key: str | None = None, gap: Literal["small", "medium"] = "medium"
) -> DeltaGenerator:
    """Return a row of controls, each as wide as it needs; it wraps where the page is narrow.

    `key` names it in the style sheet.
    """
    return st.container(horizontal=True, vertical_alignment="bottom", gap=gap, key=key)


def write_words(text: str) -> None:
    """Write a few words into a row of controls."""
    st.text(text)


def columns(*widths: float) -> list[DeltaGenerator]:
    """Return columns of these relative widths, for a control each."""
    return st.columns(widths, gap="medium")


def pick_few(
    label: str,
    choice: Choice,
    options: Sequence[Picked],
    named: Callable[[Picked], str] = str,
    **settings: Any,
) -> Picked:
    """Choose one of a few options, shown side by side.

    The initial one is the parameter's default or the first.
    """
    default = choice.default if choice.default in options else options[0]
    chosen = chosen_option(choice, options, default)
    note_choice(
        DrawnChoice(
            choice.name,
            label,
            settings.get("help") or "",
            tuple(map(named, options)),
            options.index(chosen),
            lambda i: set_value(choice, options[i]),
        )
    )
    return st.segmented_control(
        label,
        list(options),
        required=True,
        format_func=named,
        **settings,
        **bound(choice, chosen),
    )


def one_of_many(
    label: str,
    parameter: Parameter[Picked],
    options: Sequence[Picked],
    value: Picked,
    named: Callable[[Picked], str] = str,
    **settings: Any,
) -> Picked:
    """Choose one of many options from a list; `value` is the current one."""
    return st.selectbox(
        label, list(options), format_func=named, **settings, **bound(parameter, value)
    )


def pick_several(
    label: str, parameter: Several, options: Sequence[int], value: Sequence[int], **settings: Any
) -> list[int]:
    """Choose several options, up to the parameter's limit; `value` holds the current ones."""
    return st.multiselect(
        label,
        list(options),
        max_selections=parameter.max_items,
        **settings,
        **bound(parameter, list(value)),
    )


def step(
    label: str,
    parameter: Parameter[Picked],
    options: Sequence[Picked],
    value: Picked,
    **settings: Any,
) -> Picked:
    """Choose one of several ordered options with a slider; `value` is the current one."""
    return st.select_slider(label, list(options), **settings, **bound(parameter, value))


def pick_whole(label: str, parameter: Whole, **settings: Any) -> int:
    """Choose an integer with a slider."""
    low, high = parameter.low, parameter.high
    return st.slider(label, low, high, **settings, **bound(parameter, get(parameter)))


def pick_typed(label: str, parameter: Whole | Number, **settings: Any) -> Any:
    """Enter a number."""
    low, high = parameter.low, parameter.high
    return st.number_input(label, low, high, **settings, **bound(parameter, get(parameter)))


def show_fixed(label: str, key: str, value: int) -> int:
    """Show a number where other models have a control for it."""
    return st.number_input(label, value=value, key=key, disabled=True)


def pick_setting(label: str, switch: Switch, **settings: Any) -> bool:
    """Switch a setting on or off."""
    return st.toggle(label, **settings, **bound(switch, get(switch)))


# Controls of no URL parameter: each has a key, shows `value`, and calls `take` after a change


def from_list(
    label: str,
    key: str,
    options: Sequence[Picked],
    value: Picked,
    take: Callable[[], None],
    named: Callable[[Picked], str] = str,
    **settings: Any,
) -> None:
    """Choose one of many options from a list."""
    remember(key, value)
    st.selectbox(label, options, key=key, on_change=noted(take), format_func=named, **settings)


def pick_number(
    label: str, key: str, low: int, high: int, value: int, take: Callable[[], None], **settings: Any
) -> None:
    """Enter an integer."""
    remember(key, value)
    st.number_input(label, low, high, key=key, on_change=noted(take), **settings)


def pick_switch(label: str, key: str, value: bool, take: Callable[[], None]) -> None:
    """Switch a setting on or off."""
    remember(key, value)
    st.toggle(label, key=key, on_change=noted(take))


def pick_text(label: str, key: str, take: Callable[[], None], **settings: Any) -> None:
    """Enter a line; the box shows the text that is remembered under its key."""
    st.text_input(label, key=key, on_change=noted(take), **settings)


def button(label: str, key: str, action: Callable[[], None], **settings: Any) -> None:
    """Draw a button for an action."""
    st.button(label, key=key, on_click=noted(action), **settings)
