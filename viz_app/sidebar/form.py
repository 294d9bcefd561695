"""The sidebar all pages share: which model, which text. It returns what there is to show, or why there is nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models import Scope
from models.architectures import family_of
from models.architectures.base import Field
from models.architectures.encoder_decoder import EncoderDecoder
from models.checkpoint import CheckpointError
from viz_app import checkpoints, words
from viz_app.components.catalogue import PLAIN
from viz_app.components.mounting import show
from viz_app.controls.text_box import text_box
from viz_app.drawing.notes import small_print
from viz_app.session import live, respond, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import LiveSession
from viz_app.session.opening import try_again
from viz_app.session.parameters import Text
from viz_app.session.url_state import CHECKPOINT, bound, parameter_of
from viz_app.sidebar.examples import examples, readable_examples
from viz_app.sidebar.menu import options
from viz_app.sidebar.opening_bar import bar, leave, open_scope
from viz_app.ui import note

LANDING = "eng-fra"  # the checkpoint a newcomer sees first
FIRST_TEXT = examples("translation")[0]  # while no model has been opened
BOX = 88  # px: three lines of a text; a longer one scrolls in it
SHOWN = "What it answers and can show: page Models."  # of a model that somebody else made
_EXAMPLE, _NAME = "example", "name"
_SUITED = "suited"  # first field of a model → the task that what stands in it is for, and the example that was put there
_TYPED = "typed"  # task → what stood in the fields of its model when one of another task was opened


def sidebar() -> CurrentRun | None:
    """Draw the shared sidebar; None if nothing has run in this session yet."""
    session = live.session()
    with st.sidebar:
        st.html(
            '<p class="brand">Attnscope</p><p class="motto">See attention work, live while you type.</p>'
        )
        session.name, session.scope = _checkpoint(session)
        read = _texts(session)
        _swap(session)
    if session.run and not read:
        session.run = replace(session.run, stale=True)
    return session.run


def _checkpoint(session: LiveSession) -> tuple[str, Scope | None]:
    """The picker of checkpoints, which takes a folder too where the app is not shared; what models.load takes for the choice,
    and the opened checkpoint, if it opens. While it is being opened, the one that stands; none where the URL asks for what is
    not there yet, because its texts are of the other."""
    lines = options()
    first = checkpoints.module() or (LANDING if LANDING in lines else next(iter(lines), LANDING))
    shared = checkpoints.is_shared()
    pick = "Pick a model" if shared else "Pick a model, or type the path of a checkpoint folder"
    name = st.selectbox(
        "Model",
        list(lines),
        accept_new_options=True,
        **bound(CHECKPOINT, url_state.get(CHECKPOINT) or first, _complete),
        format_func=lambda name: lines.get(name, name),
        placeholder="Pick a model" if shared else "Pick a model or type a folder",
        help="One of the models offered here."
        if shared
        else "A shipped model, or the path of a checkpoint folder of your own.",
    )
    st.session_state[_NAME] = name
    if not name:
        leave(session)
        note(_room(), f"{pick}.", bad=True, key=CHECKPOINT.name)
        return "", None
    try:
        folder = checkpoints.folder(name)
        scope = open_scope(session, folder)
    except CheckpointError as error:
        leave(session)
        note(_room(), checkpoints.error_message(error), bad=True, key=CHECKPOINT.name)
        return name, None
    if scope is None:
        stop = partial(_stop, session) if session.picked or name != first else None
        with _room().container():
            bar(session, session.opening, stop)
        return session.name, None if url_state.follows() else session.scope
    session.picked = name
    # how good it is, the page says of the weights it shows
    more = words.training_origin(scope.training) or (SHOWN if scope.model.what_it_answers else "")
    note(_room(), f"{words.sentence(family_of(scope.config).name)} {more}", key=CHECKPOINT.name)
    return folder, scope


def _room() -> DeltaGenerator:
    """Where the note or the bar of the model stands, asked for when that is known: emptied before, the page would jump."""
    return st.container(key="room-checkpoint").empty()


def _stop(session: LiveSession) -> None:
    """The model that stands is the chosen one again."""
    leave(session)
    url_state.keep(CHECKPOINT, session.picked or None)


def _complete() -> None:
    """Another model reads other tokens, and one that could not be opened may open now. Of a name that begins with the one that
    stands in the box, Streamlit's box hands over only the rest."""
    url_state.let_go()
    try_again()
    typed, previous = url_state.get(CHECKPOINT) or "", st.session_state.get(_NAME) or ""
    if (
        previous
        and typed
        and not checkpoints.is_there(typed)
        and checkpoints.is_there(previous + typed)
    ):
        url_state.keep(CHECKPOINT, previous + typed)


def _texts(session: LiveSession) -> bool:
    """A text box for each of the model's fields, live while typing, each with its note; and whether what stands in them has
    been run."""
    spoken = session.scope or (session.run.scope if session.run else None)
    fields = spoken.model.text_fields if spoken else EncoderDecoder.fields
    t = words.terms(spoken.task if spoken else "", spoken.name if spoken else "")
    choices = {" · ".join(texts): texts for texts in (readable_examples(spoken) if spoken else [])}
    if spoken:
        _suit(spoken, next(iter(choices.values())))
    st.selectbox(
        "Examples",
        list(choices),
        index=None,
        key=_EXAMPLE,
        placeholder="Pick an example …",
        label_visibility="collapsed",
        on_change=_take_example,
        args=(fields, choices),
        format_func=lambda text: " ↵ ".join(text.splitlines()),
    )
    texts, slots, cut = [], [], {}
    for field in fields:
        label = t.label(field.name) if field.optional else f"{t.label(field.name)} (type here)"
        help_ = _help(spoken, field) if field.optional else {}
        text, cut[field.name] = text_box(
            label, parameter_of(field), _text(field), height=BOX, **help_
        )
        texts.append(text)
        slots.append(st.container(key=f"room-{parameter_of(field).name}"))
    session.chosen = url_state.chosen(spoken.model.fields) if spoken else ()
    session.redraw(*texts)
    if not session.scope:
        return False
    trace, notes = respond.read(session, *texts)
    for field, slot in zip(fields, slots, strict=True):
        with slot:
            too_long = cut[field.name]
            said = small_print(too_long, bad=True) if too_long else notes[field.name]
            show(PLAIN, said, key=respond.note_key(field))
    return trace is not None


def _help(scope: Scope | None, field: Field) -> dict[str, str]:
    """The placeholder and the help of an optional text, by what the model does with it."""
    if scope is None or scope.model.translates:
        return {
            "placeholder": "empty: the model writes it",
            "help": "Leave it empty and the model writes it. Type, and the model reads your text instead (teacher forcing).",
        }
    if scope.model.continues and scope.model.can_write:
        return {
            "placeholder": "empty: the text ends here",
            "help": "Read directly after the text above, as if the model had written it (teacher forcing). Begin with a space "
            "where a new word begins.",
        }
    if field.stream != scope.model.fields[0].stream:
        return {"placeholder": "empty: one choice fewer"}
    return {
        "placeholder": "empty: one text alone",
        "help": "Leave it empty and the model reads one text. Type, and it reads both in one row and says of the second, too.",
    }


def _text(field: Field) -> str:
    text = url_state.get(parameter_of(field))
    return FIRST_TEXT if text is None else text


def _suit(scope: Scope, example: Sequence[str]) -> None:
    """Start where the URL names no text with an example of the model's own. With a model of another task, because a sentence is
    no date, put what was last typed for that task in the place of what stands, or an example; with one of the same task, put an
    example only in the place of another. A text that came by URL stays, and so does one in fields that only other models have."""
    fields = [parameter_of(field) for field in scope.model.text_fields]
    known, typed = st.session_state.setdefault(_SUITED, {}), st.session_state.setdefault(_TYPED, {})
    (task, put), known[fields[0].name] = (
        known.get(fields[0].name, (None, "")),
        (scope.task, example[0]),
    )
    text, start = url_state.get(fields[0]), dict(zip_longest(fields, example, fillvalue=""))
    _put({field: value for field, value in start.items() if url_state.get(field) is None})
    if text is None or task is None or url_state.follows():
        return
    if task != scope.task:
        typed[task] = {field: url_state.get(field) for field in start}
        _put(typed.get(scope.task, start))
    elif text == put != example[0]:
        _put(start)


def _put(texts: Mapping[Text, str]) -> None:
    for field, text in texts.items():
        url_state.keep(field, text)


def _swap(session: LiveSession) -> None:
    """One button: take over the model's text to edit it, or hand the writing back to the model. Not for a model that goes on with
    the very text that is typed."""
    spoken = session.scope or (session.run.scope if session.run else None)
    if spoken is None or not spoken.model.translates:
        return
    target = parameter_of(spoken.model.fields[-1])
    if url_state.get(target).strip():
        st.button(
            "Let the model write it",
            key="free",
            on_click=url_state.keep,
            args=(target, ""),
            width="stretch",
        )
        return

    def take() -> None:  # when it is clicked: more may have been typed since
        url_state.keep(target, session.run.trace.output)

    none = session.run is None or not session.run.trace.output
    st.button("Edit the model's text", key="edit", on_click=take, disabled=none, width="stretch")


def _take_example(fields: Sequence[Field], choices: Mapping[str, Sequence[str]]) -> None:
    if texts := choices.get(st.session_state[_EXAMPLE]):
        for field, text in zip_longest(fields, texts, fillvalue=""):
            url_state.keep(parameter_of(field), text)
        url_state.let_go()
        st.session_state[_EXAMPLE] = None
