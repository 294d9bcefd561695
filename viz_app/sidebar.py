"""The sidebar all pages share: which model, which text. It returns what there is to show, or why there is nothing."""

from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import models
from models import Scope, Trace
from models.checkpoint import CheckpointError
from viz_app import cache, words
from viz_app.examples import examples, suited
from viz_app.parts import note
from viz_app.state import CHECKPOINT, SOURCE, TARGET

LANDING = "eng-fra"     # the checkpoint a newcomer sees first
FIRST_TEXT = examples("translation")[0]     # the text box's default: what a URL without a source means
_LAST_GOOD, _OFFERED, _EXAMPLE, _NAME = "last good", "offered", "example", "name"


@dataclass(frozen=True)
class Shown:
    """A run to show. `stale` is set while what stands in the sidebar cannot be run and the last good run stays."""

    scope: Scope
    trace: Trace
    stale: bool = False

    @property
    def terms(self) -> words.Terms:
        return words.terms(self.scope.task, self.scope.name)


def sidebar() -> Shown | None:
    """Draw the shared sidebar; None if nothing has run in this session yet."""
    last: Shown | None = st.session_state.get(_LAST_GOOD)
    with st.sidebar:
        st.html('<p class="brand">Attnscope</p><p class="motto">See attention work, live while you type.</p>')
        name, scope = _checkpoint()
        source, source_note, target, target_note = _texts(scope or (last.scope if last else None))
        trace = _run(name, scope, source, target, source_note, target_note) if scope else None
        _swap(trace, target)
    if scope and trace:
        st.session_state[_LAST_GOOD] = Shown(scope, trace, stale=True)
        return Shown(scope, trace)
    return last


def _checkpoint() -> tuple[str, Scope | None]:
    """The picker of shipped checkpoints, which takes a folder too; and the opened checkpoint, if it opens."""
    names = sorted(models.shipped(), key=lambda name: name != LANDING)
    name = st.selectbox(
        "Model", names, key=CHECKPOINT, accept_new_options=True, bind="query-params", on_change=_completed,
        placeholder="Pick a model or type a folder", help="A shipped model, or the path of a checkpoint folder of your own.",
    )
    slot = st.empty()
    st.session_state[_NAME] = name
    if not name:
        note(slot, "Pick a model, or type the path of a checkpoint folder.", bad=True, key=CHECKPOINT)
        return "", None
    try:
        scope = cache.scope(name)
    except CheckpointError as error:
        note(slot, str(error), bad=True, key=CHECKPOINT)
        return name, None
    note(slot, words.trained(scope.training), key=CHECKPOINT)
    return name, scope


def _completed() -> None:
    """Of a name that begins with the one that stands in the box, Streamlit's box hands over only the rest."""
    typed, stood = st.session_state[CHECKPOINT] or "", st.session_state.get(_NAME) or ""
    if stood and typed and not _is_there(typed) and _is_there(stood + typed):
        st.session_state[CHECKPOINT] = stood + typed


def _is_there(name: str) -> bool:
    return name in models.shipped() or Path(name).expanduser().is_dir()


def _texts(scope: Scope | None) -> tuple[str, DeltaGenerator, str, DeltaGenerator]:
    """The two text boxes, live while typing, each with a place for its note."""
    t, offered = words.terms(scope.task if scope else "", scope.name if scope else ""), suited(scope) if scope else []
    if scope:
        _suit(scope, offered[0])
    st.selectbox(
        "Examples", offered, index=None, key=_EXAMPLE, placeholder="Pick an example …",
        label_visibility="collapsed", on_change=_take_example,
    )
    source = st.text_input(f"{t.source_label} (type here)", FIRST_TEXT, key=SOURCE, live="0ms", bind="query-params")
    source_note = st.empty()
    target = st.text_input(
        t.target_label, key=TARGET, live="0ms", bind="query-params", placeholder="empty: the model writes it",
        help="Leave it empty and the model writes it. Type, and the model reads your text instead (teacher forcing).",
    )
    return source, source_note, target, st.empty()


def _suit(scope: Scope, example: str) -> None:
    """Start a model of another task or language with an example of its own, because a sentence is no date; a text that
    came by URL stays."""
    known, now = st.session_state.get(_OFFERED), (scope.task, scope.examples)
    st.session_state[_OFFERED] = now
    if known is None and example != FIRST_TEXT and SOURCE not in st.query_params:
        st.session_state[SOURCE] = example
    elif known is not None and known != now:
        st.session_state[SOURCE], st.session_state[TARGET] = example, ""


def _run(
    name: str, scope: Scope, source: str, target: str, source_note: DeltaGenerator, target_note: DeltaGenerator
) -> Trace | None:
    """Run the texts, and say under each box how long its text is, or what is wrong with it."""
    try:
        trace = cache.trace(name, source, target if target.strip() else None, _draft(scope))
    except models.InputError as error:
        for field, slot in ((SOURCE, source_note), (TARGET, target_note)):
            note(slot, _sentence(str(error)) if error.field == field else "", bad=error.field == field, key=field)
        return None
    except CheckpointError as error:       # replaced on disk since it was opened
        note(source_note, _sentence(str(error)), bad=True, key=SOURCE)
        return None
    note(source_note, words.length(trace.source.tokens, scope.n_ctx, trace.source.unknown), key=SOURCE)
    note(target_note, words.length(trace.target.tokens, scope.n_ctx, trace.target.unknown), key=TARGET)
    return trace


def _draft(scope: Scope) -> tuple[int, ...]:
    """What this model wrote for the text before the edit: much of it will be written again."""
    last: Shown | None = st.session_state.get(_LAST_GOOD)
    return last.trace.target.ids[1:] if last and last.scope is scope and not last.trace.teacher_forced else ()


def _sentence(message: str) -> str:
    return message[:1].upper() + message[1:] + "."


def _swap(trace: Trace | None, target: str) -> None:
    """One button: take over the model's text to edit it, or hand the writing back to the model."""
    if target.strip():
        st.button("Let the model write it", key="free", on_click=_set_target, args=("",), width="stretch")
        return
    own = trace.output if trace else ""
    st.button("Edit the model's text", key="edit", on_click=_set_target, args=(own,), disabled=not own, width="stretch")


def _set_target(text: str) -> None:
    st.session_state[TARGET] = text


def _take_example() -> None:
    if st.session_state[_EXAMPLE]:
        st.session_state[SOURCE], st.session_state[TARGET] = st.session_state[_EXAMPLE], ""
        st.session_state[_EXAMPLE] = None
