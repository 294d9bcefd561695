"""The control of an image field: the examples, and a file of one's own."""

import streamlit as st

from models.architectures.base import Field
from models.images.file import MAX_IMAGE_BYTES
from viz_app.components.catalogue import OWN_IMAGE
from viz_app.components.mounting import show
from viz_app.session import own_images, url_state
from viz_app.session.live import LiveSession


def image_box(session: LiveSession, field: Field, label: str) -> None:
    """Draw the choice of an image: an example, or a file that was brought along."""
    parameter = url_state.parameter_of(field)
    names = own_images.image_choices(session)
    own_images.with_files(session, (field,), (url_state.get(parameter),))  # resets a choice of none
    if (value := url_state.get(parameter)) is None:
        value = next(iter(names))
        if not url_state.invalid_messages(parameter):  # named in the URL, so that it can be pinned
            url_state.set_value(parameter, value)
    st.selectbox(
        label,
        list(names),
        format_func=lambda name: names[name],
        **url_state.bound(parameter, value),
    )


def image_upload(session: LiveSession, field: Field) -> None:
    """Draw the button that brings a file along."""
    parameter = url_state.parameter_of(field)

    def take(reference: str) -> None:
        if reference in session.images:
            url_state.set_value(parameter, reference)

    data = {"path": own_images.own_images_path(), "token": session.token, "most": MAX_IMAGE_BYTES}
    show(OWN_IMAGE, data, f"own-image-{field.name}", on_kept=take)
