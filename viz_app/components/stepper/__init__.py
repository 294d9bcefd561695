"""Two decoding runs beside each other, walked by a slider or a play button; a click on a candidate forces it."""

from collections.abc import Callable

import streamlit as st

from viz_app.components import register

SCRIPTS = (
    "wording.js", "../walk/signed.js", "chips.js", "vectors.js", "bars.js", "fork.js", "lanes.js", "cost.js", "panel.js",
    "stepper.js",
)  # fmt: skip

_mount = register("stepper", *SCRIPTS, styles=("parts.css",))


def stepper(
    payload: bytes,
    on_step: Callable[[int], None],
    on_force: Callable[[int, int], None],
    on_free: Callable[[], None],
    key: str = "stepper",
) -> None:
    """Show views.decoding.steps.stepper's payload. `on_step(position)` when the slider is let go or it has played;
    `on_force(position, token id)` when a candidate is clicked, `on_free()` to undo forcing. Positions start at 0."""

    def stepped() -> None:
        if (step := st.session_state[key].get("step")) is not None:
            on_step(int(step["position"]))

    def forced() -> None:
        if (choice := st.session_state[key].get("force")) is not None:
            on_force(int(choice["position"]), int(choice["id"]))

    def freed() -> None:
        if st.session_state[key].get("free"):
            on_free()

    _mount(
        key=key, data=payload, on_step_change=stepped, on_force_change=forced, on_free_change=freed
    )
