"""The input bar above every page: the choice of a model and its text boxes."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import zip_longest

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models import Scope
from models.architectures import family_of
from models.architectures.base import FILE_FIELDS, Field
from models.architectures.encoder_decoder import EncoderDecoder
from models.checkpoint import CheckpointError
from viz_app import checkpoints, words
from viz_app.components.catalogue import PICKER, PLAIN
from viz_app.components.mounting import show
from viz_app.controls.file_box import file_box, file_upload
from viz_app.controls.text_box import text_box
from viz_app.drawing.notes import refusal, small_print
from viz_app.input_bar.examples import FieldTexts, examples, readable_examples, reads_text
from viz_app.input_bar.menu import groups
from viz_app.input_bar.opening_bar import bar, open_with_progress, stop_waiting
from viz_app.session import live, own_files, respond, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import LiveSession, noted, noted_value
from viz_app.session.opening import try_again
from viz_app.session.parameters import Parameter, Text
from viz_app.session.url_state import CHECKPOINT, parameter_of
from viz_app.ui import show_note

FIRST_TEXT = examples("translation")[0]  # while no model has been opened
BOX = 68  # px: two lines of text; longer texts scroll
SEE_MODELS = "The page Models lists what it can show."  # for third-party models
_EXAMPLE = "example"
_SUITED = "suited"  # first field of a model → (task of its current text, example put there)
_TYPED = "typed"  # task → its texts when a model of another task was opened


def input_bar(opens_on: Mapping[str, str]) -> CurrentRun | None:
    """Draw the bar and return the run to show; None if nothing has run in this session yet.

    `opens_on` maps a task to the page's own first example.
    """
    session = live.live_session()
    with st.container(horizontal=True, gap="small", key="input-bar"):
        with st.container(key="bar-model"):
            session.name, session.scope = _checkpoint(session)
        scope = session.scope or (session.run.scope if session.run else None)
        ready = readable_examples(scope) if scope else []
        if scope and (opening_text := opens_on.get(scope.task)) and reads_text(scope, opening_text):
            ready = [(opening_text,), *(texts for texts in ready if texts != (opening_text,))]
        has_run = _texts(session, scope, ready)
        with st.container(key="bar-example"):
            if files := [field for field in _fields(scope) if field.kind in FILE_FIELDS]:
                file_upload(session, files[0])
            if any(ready):  # the examples of a file are in its own box
                _pick_example(_fields(scope), ready)
    return session.run if has_run else session.keep_last()


def _checkpoint(session: LiveSession) -> tuple[str, Scope | None]:
    """Draw the model picker; return the name for models.load and the opened checkpoint.

    Unless the app is shared, the picker also takes a folder. While a checkpoint is being opened,
    the result is the current one, or None if the run follows the URL, since its texts belong to the
    new one.
    """
    first = checkpoints.module() or checkpoints.LANDING_CHECKPOINT
    name = url_state.get(CHECKPOINT) or first
    if name != first and url_state.is_url_driven() and (missing := checkpoints.why_refused(name)):
        url_state.use_fallback(CHECKPOINT, None, missing)
        name = first
    menu_groups = groups()
    menu = {"value": name, "groups": menu_groups, "takesPaths": not checkpoints.is_shared()}
    show(PICKER, menu, on_pick=pick_model)
    try:
        folder = checkpoints.folder(name)
        scope = open_with_progress(session, folder)
    except CheckpointError as error:
        stop_waiting(session)
        with _note_slot():
            show(PLAIN, refusal(checkpoints.error_message(error)), key=f"note {CHECKPOINT.name}")
        return name, None
    if scope is None:
        stop = partial(_stop, session) if session.picked or name != first else None
        with _note_slot():
            bar(session, session.opening, stop)
        return session.name, None if url_state.is_url_driven() else session.scope
    session.picked = name
    family = words.as_sentence(family_of(scope.config).name)
    options = (option for group in menu_groups for option in group["options"])
    is_described = any(option["name"] == name and option["detail"] for option in options)
    about = "" if is_described or not scope.model.answer_description else f"{family} {SEE_MODELS}"
    show_note(_note_slot(), about, key=CHECKPOINT.name)
    return folder, scope


def _note_slot() -> DeltaGenerator:
    """Return the place for the model's note or progress bar.

    It is not emptied first: if a browser painted it empty for a frame, everything below would move.
    """
    return st.container(key="room-checkpoint")


def _stop(session: LiveSession) -> None:
    """Stop opening a model and choose the current one again."""
    stop_waiting(session)
    url_state.set_value(CHECKPOINT, session.picked or None)


def pick_model(name: str) -> None:
    """Choose a model: reset choices that belong to other tokens, and retry failed openings."""
    url_state.reset_untyped()
    try_again()
    url_state.set_value(CHECKPOINT, name)


def _fields(scope: Scope | None) -> Sequence[Field]:
    """Return the fields with a box, before the first model those of an encoder-decoder."""
    return respond.boxes(scope.model) if scope else EncoderDecoder.fields


def _texts(session: LiveSession, scope: Scope | None, ready: Sequence[FieldTexts]) -> bool:
    """Draw a text box with a note for each field; return True if the texts were run."""
    fields = _fields(scope)
    terms = (
        words.terms(scope.task, scope.training.get("languages", ())) if scope else words.terms("")
    )
    if scope and ready[0]:
        _suit(scope, ready[0])
    texts, slots, cut, swap_place = [], [], {}, None
    for field in fields:
        label = terms.label(field.name)
        if not field.optional and "(" not in label:
            label += " (type here)"
        help_ = _help(scope, field) if field.optional else {}
        parameter = parameter_of(field)
        with st.container(key=f"bar-{parameter.name}"):
            if field.kind in FILE_FIELDS:
                file_box(session, field, terms.label(field.name))
                slots.append(st.container(key=f"room-{parameter.name}"))
                continue
            text, cut[field.name] = text_box(label, parameter, _text(field), height=BOX, **help_)
            slots.append(st.container(key=f"room-{parameter.name}"))
            if field is fields[-1] and scope and scope.model.translates:
                swap_place = st.container(key="swap")
        texts.append(text)
    untyped = url_state.untyped_choices(scope.model.fields) if scope else ()
    session.chosen = own_files.with_files(session, scope.model.fields if scope else (), untyped)
    session.redraw(*texts)
    if not session.scope:
        return False
    run, notes = respond.run_texts(session, *texts)
    for field, slot in zip(fields, slots, strict=True):
        with slot:
            too_long = cut.get(field.name)
            content = notes[field.name] | (small_print(too_long, bad=True) if too_long else {})
            show(PLAIN, content, key=respond.note_key(field))
    if swap_place and scope:
        with swap_place:
            _swap(session, scope)
    return run is not None


def _help(scope: Scope | None, field: Field) -> dict[str, str]:
    """Return the placeholder and the help of an optional text, by how the model uses it."""
    if scope and not scope.model.reads_text:
        return {
            "placeholder": "Leave empty: the model writes",
            "help": (
                "Leave empty: the model writes what it hears. Type a text and the model reads yours instead (teacher "
                "forcing)."
            ),
        }
    if scope is None or scope.model.translates:
        return {
            "placeholder": "Leave empty: the model writes",
            "help": (
                "Leave empty: the model writes this text. Type a text and the model reads yours instead (teacher "
                "forcing)."
            ),
        }
    if scope.model.continues and scope.model.can_write:
        return {
            "placeholder": "Leave empty: the text ends here",
            "help": "Read directly after the text above, as if the model had written it (teacher forcing). Begin with"
            " a space to begin a new word.",
        }
    if field.stream != scope.model.fields[0].stream:
        return {"placeholder": "Leave empty: one choice fewer"}
    return {
        "placeholder": "Leave empty: one text alone",
        "help": (
            "Leave it empty and the model reads one text. Type a second, and it reads both in one row and predicts "
            "the second, too."
        ),
    }


def _text(field: Field) -> str:
    text = url_state.get(parameter_of(field))
    return FIRST_TEXT if text is None else text


def _suit(scope: Scope, example: Sequence[str]) -> None:
    """Put texts into the boxes that suit the opened model.

    Without a text in the URL, start with an example. A typed text follows to a model of another
    task if both only read a text; else restore the texts last typed for that task, or use an
    example. For a model of the same task, only replace an unedited example. Texts from the URL or a
    lesson are kept, as are those in fields that only other models have.
    """
    fields = [parameter_of(field) for field in scope.model.text_fields]
    suited, texts_by_task = (
        st.session_state.setdefault(_SUITED, {}),
        st.session_state.setdefault(_TYPED, {}),
    )
    (task, placed), suited[fields[0].name] = (
        suited.get(fields[0].name, (None, "")),
        (scope.task, example[0]),
    )
    text, start = url_state.get(fields[0]), dict(zip_longest(fields, example, fillvalue=""))
    _set_texts({field: value for field, value in start.items() if url_state.get(field) is None})
    session = live.live_session()
    are_set, session.texts_are_set = session.texts_are_set, session.opening is not None
    if text is None or task is None or url_state.is_url_driven() or are_set:
        return
    if task != scope.task and not (text != placed and _follows(scope, text)):
        texts_by_task[task] = {field: url_state.get(field) for field in start}
        _set_texts(texts_by_task.get(scope.task, start))
    elif text == placed != example[0]:
        _set_texts(start)


def placed_example(field: Parameter) -> str | None:
    """Return the example that an empty box of the model's first text begins with."""
    return st.session_state.get(_SUITED, {}).get(field.name, (None, None))[1]


def _follows(scope: Scope, text: str) -> bool:
    """Return True if a text typed for another model also makes sense to this one."""
    model = scope.model
    if model.translates or len([field for field in model.text_fields if not field.optional]) > 1:
        return False
    return reads_text(scope, text) and not scope.warnings(text)


def _set_texts(texts: Mapping[Text, str]) -> None:
    for field, text in texts.items():
        url_state.set_value(field, text)


def _swap(session: LiveSession, scope: Scope) -> None:
    """Draw the button that copies the output for editing, or that clears an edited one."""
    target = parameter_of(scope.model.fields[-1])
    if url_state.get(target).strip():
        st.button(
            "Clear",
            key="free",
            help="Clear this text: the model writes it again.",
            on_click=noted(url_state.set_value),
            args=(target, ""),
            type="tertiary",
        )
        return

    def take() -> None:  # reads the output on click, since more may have been typed by then
        url_state.set_value(target, session.run.trace.output)

    has_no_output = session.run is None or not session.run.trace.output
    st.button(
        "Edit the output",
        key="edit",
        help="Copy the model's text here, to edit it.",
        on_click=noted(take),
        disabled=has_no_output,
        type="tertiary",
    )


def _pick_example(fields: Sequence[Field], ready: Sequence[FieldTexts]) -> None:
    choices = {" · ".join(texts): texts for texts in ready}
    st.selectbox(
        "Examples",
        list(choices),
        index=None,
        key=_EXAMPLE,
        placeholder="Pick an example …",
        on_change=noted_value(_EXAMPLE, _take_example),
        args=(fields, choices),
        format_func=lambda text: " ↵ ".join(text.splitlines()),
    )


def _take_example(
    picked: str | None, fields: Sequence[Field], choices: Mapping[str, Sequence[str]]
) -> None:
    if picked is not None and (texts := choices.get(picked)):
        for field, text in zip_longest(fields, texts, fillvalue=""):
            url_state.set_value(parameter_of(field), text)
        url_state.reset_untyped()
        st.session_state[_EXAMPLE] = None
