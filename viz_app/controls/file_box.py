"""The control of a field whose value is a file: the examples, and the user's own file."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from models.architectures.base import Field
from viz_app.components.catalogue import OWN_FILE
from viz_app.components.mounting import show
from viz_app.session import own_files, url_state
from viz_app.session.live import LiveSession
from viz_app.session.parameters import Parameter


def file_box(session: LiveSession, field: Field, label: str) -> None:
    """Draw the choice of a file: an example, or a file of the session."""
    parameter = url_state.parameter_of(field)
    names = own_files.file_choices(session, field.kind)
    own_files.with_files(session, (field,), (url_state.get(parameter),))  # resets a choice of none
    if (value := url_state.get(parameter)) is None:
        value = next(iter(names))
        if not url_state.invalid_messages(parameter):  # named in the URL, so that it can be pinned
            url_state.set_value(parameter, value)
    pick_file(names, label, parameter, value)


def pick_file(
    names: Mapping[str, str], label: str, parameter: Parameter, value: str, **settings: Any
) -> None:
    """Draw the list of the session's files (own_files.file_choices)."""
    st.selectbox(
        label,
        list(names),
        format_func=lambda name: names[name],
        **settings,
        **url_state.bound(parameter, value),
    )


def file_upload(session: LiveSession, field: Field, chosen: Parameter | None = None) -> None:
    """Draw the button that uploads a file, for the field or for the parameter `chosen`."""
    parameter, kind = chosen or url_state.parameter_of(field), own_files.FILE_KINDS[field.kind]

    def take(reference: str) -> None:
        if reference in session.files:
            url_state.set_value(parameter, reference)

    data = {
        "path": own_files.own_files_path(),
        "kind": kind.name,
        "token": session.token,
        "most": kind.largest,
        "formats": kind.formats,
        "accept": kind.accept,
    }
    key = chosen.name if chosen else field.name
    show(OWN_FILE, data, f"own-file-{key}", on_kept=take)
