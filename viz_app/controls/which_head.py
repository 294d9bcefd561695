"""The choice of attention kind, layer and head: one control, placed alike on all pages."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models.trace import AttentionSite
from viz_app import words
from viz_app.controls.drawn import DrawnChoice, note_choice
from viz_app.session.focus import pick_head
from viz_app.session.live import noted

FEW = 8  # options shown side by side; more than that become a list
MEAN_OPTION = "mean"  # the option for the mean over all heads
_KIND, _LAYER, _HEAD = "which-kind", "which-layer", "which-head"

Kinds = Mapping[str, Sequence[AttentionSite]]  # as drawing.sites.by_kind has them
Pick = Callable[[str, int | None], None]  # a site and a head, None for the mean


def head_row() -> DeltaGenerator:
    """Return the row that begins with this control; a page may add others. It wraps if narrow."""
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
    """Draw the choices that exist: the kind of attention, the layer and the head, counted from 1.

    `mean` adds the mean over heads to the heads; without `heads` only the kind is offered. `pick`
    is called with the chosen site and head.
    """
    names = [layer.name for layer in kinds[site.kind]]

    def move(changes: Mapping[str, Any] = MappingProxyType({})) -> None:
        state = {**st.session_state.to_dict(), **changes}
        sites = kinds[state.get(_KIND, site.kind)]
        picked = sites[min(state.get(_LAYER, names.index(site.name) + 1), len(sites)) - 1]
        number = state.get(_HEAD, head if head is None else head + 1)
        pick(
            picked.name, None if number in (MEAN_OPTION, None) else min(number, picked.n_heads) - 1
        )

    parts = [_kind_part(kinds, site)]
    if heads:
        parts += [_layer_part(kinds[site.kind], site), _head_part(site, head, mean)]
    for part in parts:
        if len(part.options) > 1:
            note_choice(
                DrawnChoice(
                    part.key,
                    part.label,
                    words.GLOSSARY.get(part.label.lower(), ""),
                    tuple(map(part.named, part.options)),
                    part.options.index(part.value),
                    lambda i, part=part: move({part.key: part.options[i]}),
                )
            )
            pick_one(part.label, part.key, part.options, part.value, move, part.named)
        else:
            st.session_state.pop(part.key, None)


class _Part(NamedTuple):
    """One part of the choice: its options, the chosen one, and how an option is displayed."""

    label: str
    key: str
    options: Sequence[Any]
    value: object
    named: Callable[[Any], str]


def _kind_part(kinds: Kinds, site: AttentionSite) -> _Part:
    def named(kind: str) -> str:
        return words.kind_short(kinds[kind][0])

    return _Part("Attention", _KIND, list(kinds), site.kind, named)


def _layer_part(sites: Sequence[AttentionSite], site: AttentionSite) -> _Part:
    numbers, names = range(1, len(sites) + 1), _layer_names(sites)
    chosen = [one.name for one in sites].index(site.name) + 1
    return _Part("Layer", _LAYER, numbers, chosen, lambda number: names[number - 1])


def _head_part(site: AttentionSite, head: int | None, mean: bool) -> _Part:
    options = [*[MEAN_OPTION] * mean, *range(1, site.n_heads + 1)]
    return _Part("Head", _HEAD, options, MEAN_OPTION if head is None else head + 1, str)


def _layer_names(sites: Sequence[AttentionSite]) -> list[str]:
    """Return the layers by the numbers in titles, or counted if these do not tell them apart."""
    names = [f"{site.layer + 1}{words.call_number(site)}" for site in sites]
    return names if len(set(names)) == len(names) else [str(i + 1) for i in range(len(names))]


def pick_one(
    label: str,
    key: str,
    options: Sequence[Any],
    value: object,
    move: Callable[[], None],
    named: Callable[[Any], str] = str,
    **settings: Any,
) -> None:
    """Draw one choice, side by side for few options, else as a list.

    `move` is called when `st.session_state[key]` becomes another option than `value`.
    """
    st.session_state[key] = value
    settings = {
        "help": words.GLOSSARY.get(label.lower()),
        **settings,
        "key": key,
        "on_change": noted(move),
        "format_func": named,
    }
    if len(options) <= FEW:
        st.segmented_control(label, list(options), required=True, **settings)
    else:
        st.selectbox(label, list(options), width=110, **settings)
