"""Buttons that open a model a page can show, where it can show nothing of the current one."""

import functools
from collections.abc import Callable
from itertools import islice

import streamlit as st

import models
from models import Scope
from models.architectures.base import FILE_FIELDS
from viz_app.checkpoints import LANDING_CHECKPOINT
from viz_app.input_bar import menu
from viz_app.input_bar.examples import readable_examples
from viz_app.session import cache, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import noted
from viz_app.session.url_state import CHECKPOINT

MAX_OTHER_MODELS = 2  # models that are offered
FindOtherView = Callable[
    [CurrentRun], object
]  # a view of a run, or a sentence that explains why there is none


def offer_models(find: FindOtherView, run: CurrentRun) -> None:
    """Draw a button for each of a few shipped models that `find` has a view of.

    Draws nothing if it has a view of this model's own example: then the text is the cause, not the
    model.
    """
    scope = run.unchanged.scope
    reads_file = any(field.kind in FILE_FIELDS for field in scope.model.fields)
    is_shown = not isinstance(find(run), str) if reads_file else shows(find, scope)
    if is_shown:
        return
    with st.container(horizontal=True, gap="small", key="other-models"):
        for name in models_with_view(find):
            st.button(f"Open {name}", key=f"open-{name}", on_click=noted(_open), args=(name,))


def _open(name: str) -> None:
    url_state.reset_untyped()
    url_state.set_value(CHECKPOINT, name)


@functools.cache
def models_with_view(find: FindOtherView) -> tuple[str, ...]:
    """Return shipped models that `find` has a view of, of several families, by name.

    The model that a newcomer sees goes first, then those of the newest families.
    """
    by_family: dict[object, str] = {}  # the first of each
    for name in (one.name for one in menu.menu_entries()):
        if name in models.shipped() and (description := menu.menu_description(name)):
            by_family.setdefault(description.family, name)
    order = sorted(reversed(by_family.values()), key=lambda name: name != LANDING_CHECKPOINT)
    return tuple(
        islice((name for name in order if shows(find, cache.scope(name))), MAX_OTHER_MODELS)
    )


def shows(find: FindOtherView, scope: Scope) -> bool:
    """Return True if `find` has a view of this model's run on its first example."""
    example = readable_examples(scope)[0]
    texts = (*example, *[""] * (len(scope.model.text_fields) - len(example)))
    return not isinstance(find(CurrentRun(scope, cache.trace(scope, texts))), str)
