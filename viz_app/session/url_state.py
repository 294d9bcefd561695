"""The choices of a session, read from and written to the URL, so that a link shows the same view.

Every choice is a typed parameter (parameters.py). A run follows the URL if it is the session's
first, or if the browser's Back or Forward button led to it; any other run follows the session and
updates the URL. The component `live` writes the URL: a deliberate step becomes a new entry of the
browser's history, any other change replaces the current entry.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from models.architectures import ARCHITECTURES
from models.architectures.base import (
    IMAGE_FIELD,
    ORDER_FIELD,
    POSITIONS_FIELD,
    SOUND_FIELD,
    TEXT_FIELD,
    Field,
)
from models.images import EXAMPLES
from models.sounds import SOUND_EXAMPLES
from viz_app.session.live import noted_value
from viz_app.session.parameters import Choice, Order, Parameter, Several, Text

UrlValue = TypeVar("UrlValue")

CHECKPOINT = Text("checkpoint", is_step=True)
MAX_POSITIONS = 512
MAX_QUOTED_VALUE = 40  # characters of an invalid value that are quoted in its message
# an example, or a file that a session keeps (own_files.py)
_OWN = "own-[0-9a-f]{12}"
_IMAGES, _SOUNDS = (
    {"pattern": "|".join((*names, _OWN)), "form": f"{', '.join(names)} or a file of this session"}
    for names in (EXAMPLES, SOUND_EXAMPLES)
)
# kind of field → factory of its parameter, from name and default; other kinds have no parameter
_PARAMETERS: dict[str, Callable[[str, str | None], Parameter]] = {
    TEXT_FIELD: lambda name, default: Text(name, default=default),
    POSITIONS_FIELD: lambda name, default: Several(name, is_step=True, max_items=MAX_POSITIONS),
    ORDER_FIELD: lambda name, default: Order(name, is_step=True),
    IMAGE_FIELD: lambda name, default: Text(name, default=None, is_step=True, **_IMAGES),
    SOUND_FIELD: lambda name, default: Text(name, default=None, is_step=True, **_SOUNDS),
}


def _parameter(field: Field, name: str) -> Parameter:
    return _PARAMETERS[field.kind](name, "" if field.optional else None)


def _known_fields() -> list[Field]:
    """Return the fields of all registered architectures that have a parameter."""
    fields = [field for model, _ in ARCHITECTURES.values() for field in model.possible_fields()]
    return [field for field in fields if field.kind in _PARAMETERS]


# (kind, optional, name) of a shipped model's field → its parameter; models share them
_SHIPPED = {(f.kind, f.optional, f.name): _parameter(f, f.name) for f in _known_fields()}
_SESSION = "url"


@dataclass
class _Session:
    """The choices of one session.

    `unread` holds URL texts of parameters not yet read; `resolved` the parameters read or
    chosen since the URL was followed; `used` those of this run, which the URL holds after it.
    `linked` are the parameters whose value this run read from the URL; `invalid` holds the message
    for each invalid URL text, until the parameter changes.
    """

    unread: dict[str, list[str]] = field(default_factory=dict)
    linked: set[str] = field(default_factory=set)
    invalid: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    resolved: set[str] = field(default_factory=set)
    used: dict[str, Parameter] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)  # name → length of the text that was cut
    arrived: bool = False
    # while the URL is followed, parameters missing from it have their default
    follows: bool = False
    page: object = None
    query_at_start: str = ""  # the browser's query string at the start of this run
    # `unread`, `values` and `resolved` at the start of this run
    before: tuple[dict[str, list[str]], dict[str, Any], set[str]] = ({}, {}, set())
    steps: int = 0
    # after the last run: its page, and the URL texts of its step parameters
    last_published: tuple[object, dict[str, list[str]]] | None = None


@dataclass(frozen=True)
class Address:
    """A query string, the deliberate steps within pages so far, and the run's initial query."""

    query: str
    steps: int
    query_at_start: str


def _session() -> _Session:
    return st.session_state.setdefault(_SESSION, _Session())


def begin_page(page: object = None) -> None:
    """Begin a run of this page."""
    session = _session()
    session.used, session.page = {}, page
    session.query_at_start = run.query_string if (run := get_script_run_ctx()) else ""
    if _is_history_navigation() or not session.arrived:
        session.arrived = session.follows = True
        session.unread, session.resolved = _in_address(), set()
        session.linked, session.invalid = set(), {}
    session.before = dict(session.unread), dict(session.values), set(session.resolved)


def parameter_of(field: Field) -> Parameter:
    """Return the parameter of a field.

    A field that no shipped model has carries its kind before its name in the URL ("text-sentence"),
    so that it clashes with no other parameter.
    """
    if shipped := _SHIPPED.get((field.kind, field.optional, field.name)):
        return shipped
    kind = "optional" if field.kind == TEXT_FIELD and field.optional else field.kind
    return _parameter(field, f"{kind}-{field.name}")


def file_parameter(kind: str, name: str) -> Parameter:
    """Return a parameter that holds a choice among the files of a kind of field."""
    return _PARAMETERS[kind](name, None)


def shipped_fields() -> list[Parameter]:
    """Return the parameters of all fields of shipped models."""
    return list(_SHIPPED.values())


def shipped_text_fields() -> list[Parameter]:
    """Return the parameters of the texts that shipped models read."""
    return [parameter for (kind, *_), parameter in _SHIPPED.items() if kind == TEXT_FIELD]


def _in_address() -> dict[str, list[str]]:
    return {name: st.query_params.get_all(name) for name in st.query_params}


def is_plain() -> bool:
    """Return True if the address makes no choice."""
    return not st.query_params


def leave_for(page: Any) -> None:
    """Open another of Streamlit's pages with the same query.

    Without it the history would get an entry that has none.
    """
    st.switch_page(page, query_params=_in_address())


def _is_history_navigation() -> bool:
    """Return True if the browser's Back or Forward button led to this run."""
    run = get_script_run_ctx()
    return run is not None and run.is_history_navigation


def drop_missing(prefix: str) -> None:
    """While the URL is followed, reset the parameters with this prefix that are missing from it.

    For parameters that this run may not read although the URL decides them.
    """
    session = _session()
    if session.follows:
        decided = session.resolved | session.unread.keys()
        missing = {name for name in session.values if name.startswith(prefix)} - decided
        session.values = {name: v for name, v in session.values.items() if name not in missing}


def is_url_driven() -> bool:
    """Return True if the current run follows the URL."""
    return _session().follows


def get(parameter: Parameter[UrlValue]) -> UrlValue:
    """Return the chosen value, and include the parameter in the URL from now on."""
    session, name = _session(), parameter.name
    if name in session.unread:
        texts = session.unread.pop(name)
        session.values[name], message = parameter.from_url(texts), parameter.why_invalid(texts)
        session.linked |= set() if message else {name}
        if message := message or parameter.left_out(texts):
            session.invalid[name] = message
    elif session.follows and name not in session.resolved:
        session.values.pop(name, None)
    session.resolved.add(name)
    session.used[name] = parameter
    return session.values.get(name, parameter.default)


def untyped_choices(fields: Sequence[Field]) -> tuple[Any, ...]:
    """Return the choices for the fields that are not typed, in order; None for no choice."""
    return tuple(
        get(parameter_of(field)) or None if field.kind in _PARAMETERS else None
        for field in fields
        if field.kind != TEXT_FIELD
    )


def reset_untyped() -> None:
    """Reset all fields that are not typed, since their values belonged to another row of tokens."""
    for parameter in (parameter_of(one) for one in _known_fields() if one.kind != TEXT_FIELD):
        if get(parameter) is not None:
            set_value(parameter, None)


def set_value(parameter: Parameter[UrlValue], value: UrlValue) -> None:
    """Choose this value."""
    session = _session()
    session.unread.pop(parameter.name, None)
    if value != session.values.get(parameter.name, parameter.default):
        session.invalid.pop(parameter.name, None)
    session.resolved.add(parameter.name)
    session.used[parameter.name] = parameter
    session.values[parameter.name] = value


def correct_value(parameter: Parameter[UrlValue], value: UrlValue) -> None:
    """Replace a value that no longer fits the other choices, without counting it as a step."""
    session, differs = _session(), value != get(parameter)
    if session.last_published and differs:
        page, texts = session.last_published  # replaced, so that preview_choices can undo it
        session.last_published = page, {n: text for n, text in texts.items() if n != parameter.name}
    use_fallback(
        parameter, value, f"{parameter.name} does not fit this model and text" if differs else ""
    )


def chosen_option(choice: Choice, options: Sequence[UrlValue], default: UrlValue) -> UrlValue:
    """Return the chosen option, or `default` if the choice is not among the options.

    In that case the choice is reset.
    """
    chosen = get(choice)
    matches = [option for option in options if str(option) == str(chosen)]
    if not matches:
        listed = ", ".join(map(str, options))
        use_fallback(
            choice,
            choice.default,
            f"{choice.name} must be one of {listed} here, not {str(chosen)[:MAX_QUOTED_VALUE]}",
        )
    return matches[0] if matches else default


def use_fallback(parameter: Parameter[UrlValue], value: UrlValue, why: str) -> None:
    """Replace a value that does not exist in the shown run; note `why` if it came from the URL."""
    set_value(parameter, value)
    if why:
        note_unfit(parameter, why)


def note_unfit(parameter: Parameter, why: str) -> None:
    """Note why a value does not fit the shown run if it came from the URL; it stays chosen."""
    session, name = _session(), parameter.name
    session.invalid |= {name: why} if name in session.linked else {}


def invalid_messages(*parameters: Parameter) -> list[str]:
    """Return the messages on invalid URL values of these parameters, by default all of this run."""
    session = _session()
    names = [parameter.name for parameter in parameters] or list(session.used)
    return [session.invalid[name] for name in names if name in session.invalid]


def bound(parameter: Parameter[UrlValue], value: UrlValue) -> dict[str, Any]:
    """Return the settings of a Streamlit widget bound to the parameter: key and callback."""
    key = parameter.name
    # Only if needed: it would overwrite text being typed. While the URL is followed it is needed,
    # since a previous run may have been interrupted before the browser saw its value.
    if _session().follows or key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value

    def changed(entered: Any) -> None:
        value = parameter.limited(entered)
        _session().cut.pop(key, None)
        if value != entered:
            st.session_state[key] = value
            _session().cut[key] = len(entered)
        set_value(parameter, value)

    return {"key": key, "on_change": noted_value(key, changed)}


def uncut_length(parameter: Parameter) -> int:
    """Return the full length of the last text entered in this widget if it was cut, else 0."""
    return _session().cut.get(parameter.name, 0)


def publish() -> Address:
    """End the run: return the address for the browser to show."""
    session = _session()
    texts = {name: parameter.in_url(get(parameter)) for name, parameter in session.used.items()}
    step_texts = {name: text for name, text in texts.items() if session.used[name].is_step}
    page, before = session.last_published or (None, {})
    if page == session.page and not session.follows:
        session.steps += any(
            before[name] != step_texts[name] for name in before.keys() & step_texts.keys()
        )
    session.follows, session.last_published, session.linked = (
        False,
        (session.page, step_texts),
        set(),
    )
    query = urlencode(texts, doseq=True)
    if run := get_script_run_ctx():
        run.query_string = query  # for a rerun requested from Python
    return Address(query, session.steps, session.query_at_start)


@contextmanager
def preview_choices() -> Iterator[None]:
    """Undo the choices made in the block, in which `publish` returns the address they lead to."""
    session = _session()
    before = {n: copy(v) if isinstance(v, dict | set) else v for n, v in vars(session).items()}
    try:
        yield
    finally:
        vars(session).update(before)


def postpone() -> Address:
    """End a run whose requested model is not open yet: the browser's address is unchanged.

    If the run followed the URL, it is followed again by the next run, as the page drawn meanwhile
    belongs to another model.
    """
    session = _session()
    if session.follows:
        session.unread, session.values, session.resolved = session.before
    return Address(urlencode(_in_address(), doseq=True), session.steps, session.query_at_start)
