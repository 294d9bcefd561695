"""Which attention, layer and head is shown: one control, the same on all pages, at the beginning of the row under the texts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models.trace import AttentionSite
from viz_app import words
from viz_app.session.focus import pick_head

FEW = 8  # options that stand side by side; more are a list
MEAN = "mean"  # stands among the heads for the mean over all of them
_KIND, _LAYER, _HEAD = "which-kind", "which-layer", "which-head"

Kinds = Mapping[str, Sequence[AttentionSite]]  # as drawing.sites.by_kind has them
Pick = Callable[[str, int | None], None]  # a site and a head, None for the mean


def row() -> DeltaGenerator:
    """The row that the control begins; what else a page lets choose stands behind it. It wraps where the page is narrow."""
    return st.container(horizontal=True, gap="small", key="which", vertical_alignment="bottom")


def which_head(
    kinds: Kinds,
    site: AttentionSite,
    head: int | None,
    pick: Pick = pick_head,
    *,
    mean: bool = False,
    heads: bool = True,
) -> None:
    """Draw what there is to choose between: the kind of attention, its layer, its head, from 1; among them the `mean`; without
    `heads` the kind alone. `pick` is called with what is chosen."""
    own = [one.name for one in kinds[site.kind]]

    def move() -> None:
        chosen, state = kinds[st.session_state.get(_KIND, site.kind)], st.session_state
        one = chosen[min(state.get(_LAYER, own.index(site.name) + 1), len(chosen)) - 1]
        number = state.get(_HEAD, head if head is None else head + 1)
        pick(one.name, None if number in (MEAN, None) else min(number, one.n_heads) - 1)

    for label, key, options, value, named in (
        ("Attention", _KIND, list(kinds), site.kind, lambda kind: words.kind_short(kinds[kind][0])),
        ("Layer", _LAYER, list(range(1, len(own) + 1)), own.index(site.name) + 1, str),
        (
            "Head",
            _HEAD,
            [*[MEAN] * mean, *range(1, site.n_heads + 1)],
            MEAN if head is None else head + 1,
            str,
        ),
    )[: 3 if heads else 1]:
        if len(options) > 1:
            one_of(label, key, options, value, move, named)
        else:
            st.session_state.pop(key, None)


def one_of(
    label: str,
    key: str,
    options: Sequence[Any],
    value: object,
    move: Callable[[], None],
    named: Callable[[Any], str] = str,
    **settings: Any,
) -> None:
    """Draw one choice: side by side where the options are few, else a list. `move` is called when another one than `value` stands
    in `st.session_state[key]`."""
    st.session_state[key] = value
    settings = {
        "help": words.GLOSSARY.get(label.lower()),
        **settings,
        "key": key,
        "on_change": move,
        "format_func": named,
    }
    if len(options) <= FEW:
        st.segmented_control(label, list(options), required=True, **settings)
    else:
        st.selectbox(label, list(options), width=110, **settings)
