"""The controls of the page Decoding: how the next token is chosen, and whose attention is shown."""

from dataclasses import replace

import streamlit as st

from models.architectures import Model
from models.decoding.runs import Method
from models.trace import Trace
from viz_app import words
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Choice, Number, Whole
from viz_app.views.decoding import state
from viz_app.views.decoding.payloads import Choices, given_ids, story
from viz_app.views.decoding.steps import Reading, reading, writing_sites

_HOW = {"greedy": "greedy", "sampling": "sample", "beam": "beam"}
HOW = Choice("decoding-how", "greedy", options=tuple(_HOW))
TEMPERATURE = Number("decoding-temperature", 1.0, low=0.1, high=5.0)
TOP_K, TOP_P = Whole("decoding-top-k", 0, high=100_000), Number("decoding-top-p", 1.0, low=0.05, high=1.0)
SEED, WIDTH = Whole("decoding-seed", 0, high=1_000_000), Whole("decoding-width", 4, low=1, high=12)
ALPHA = Number("decoding-alpha", 0.6, low=0.0, high=2.0)
MAX_NEW = Whole("decoding-tokens", 40, low=1, high=10_000)
_LAYER, _HEADS = "decoding-layer", "decoding-head"
_MEAN = "mean over heads"
_SLIM = 84  # px, the width of a number


def choose(run: CurrentRun) -> Choices:
    """Draw one row of controls, which wraps where the page is narrow; what they say, and where the reader stands."""
    given = given_ids(run)
    place = state.place(run.scope, given)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall", key="decoding-controls"):
        how = _HOW[st.segmented_control(
            "How inference takes the next token", list(_HOW), required=True, **url_state.bound(HOW, url_state.get(HOW)),
        )]
        settings = {"sample": _sampling, "beam": _beam}.get(how, dict)() | _length(run.scope.model)
        attention = _reading(run.trace, place.mean)
    method = Method(how, **settings, forced=place.forced)
    choices = Choices(method, attention, place, given, state.cleared())
    step = min(place.step, story(run, choices)[1].n_steps - 1)
    state.go(step)
    return replace(choices, place=replace(place, step=step))


def _number(label: str, parameter: Whole | Number, step: float, explanation: str) -> float:
    return st.number_input(
        label, parameter.low, parameter.high, step=step, help=explanation, width=max(_SLIM, 10 * len(label)),
        **url_state.bound(parameter, url_state.get(parameter)),
    )


def _sampling() -> dict:
    temperature = _number("Temperature", TEMPERATURE, 0.1, "Log-probabilities are divided by it: under 1 sharper, above 1 flatter.")
    top_k = _number("Top-k", TOP_K, 1, "Draw from the k most probable tokens only; 0 means all.")
    top_p = _number("Top-p", TOP_P, 0.05, "Draw from the smallest set whose probabilities reach p (nucleus sampling).")
    seed = _number("Seed", SEED, 1, "The same seed draws the same text.")
    return {"temperature": temperature, "top_k": top_k or None, "top_p": top_p if top_p < 1 else None, "seed": seed}


def _beam() -> dict:
    width = _number("Width", WIDTH, 1, "How many texts are kept at each step.")
    alpha = _number("Length α", ALPHA, 0.1, "Score = log-probability / ((5 + length) / 6)^α. 0 favours short texts.")
    return {"width": width, "alpha": alpha}


def _length(model: Model) -> dict:
    """Where it may stop: a translation has an end of its own, a text that goes on need not have one."""
    if not model.continues:
        return {}
    return {"max_new": _number("New tokens", MAX_NEW, 1, "It stops after so many, if it does not end before.")}


def _reading(trace: Trace, mean: bool) -> Reading:
    """The decoder layer and head whose attention is shown: those chosen on the other pages, or the mean over heads. There
    is nothing to choose in a model without attention, or with one alignment."""
    sites = writing_sites(trace)
    if not sites or words.is_alignment(sites[0]):
        return reading(trace)
    site, focus = url_state.focus(trace)
    layers = sorted({s.layer for s in sites})
    layer, n_heads = min(site.layer, max(layers)), sites[0].n_heads
    head = min(focus.head, n_heads - 1)
    role = site.role if site.stack == "decoder" else "cross"
    found = {n: next((s.name for s in sites if (s.layer, s.role) == (n, role)), sites[0].name) for n in layers}
    names = [_MEAN, *(f"head {h + 1}" for h in range(n_heads))]
    st.session_state[_LAYER], st.session_state[_HEADS] = layer + 1, _MEAN if mean else names[head + 1]
    st.selectbox(
        "Layer", [n + 1 for n in layers], key=_LAYER, on_change=_layer_chosen, args=(found, focus.head), width=100
    )
    st.selectbox(
        "Head", names, key=_HEADS, on_change=_head_chosen, args=(found[layer], tuple(names)), width=160, help=words.GLOSSARY["head"]
    )
    return reading(trace, layer, None if mean else head)


def _layer_chosen(sites: dict[int, str], head: int) -> None:
    url_state.pick(sites[st.session_state[_LAYER] - 1], head)


def _head_chosen(site: str, names: tuple[str, ...]) -> None:
    chosen = names.index(st.session_state[_HEADS])
    state.choose_mean(chosen == 0)
    if chosen:
        url_state.pick(site, chosen - 1)
