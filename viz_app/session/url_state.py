"""What a session has chosen, and the one way of it into the URL and out of it, so that a pasted link shows the same view.

Every choice is a typed parameter (parameters.py). A run follows the URL if it is the session's first, or if the browser's Back
or Forward has led to it; any other run is the session's own and says what the URL becomes. The component `live` writes that
into the browser's address: a deliberate step as an entry of its history, all else over the entry that stands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from models.architectures import ARCHITECTURES
from models.architectures.base import ORDER, POSITIONS, TEXT, Field
from viz_app.session.parameters import Choice, Order, Parameter, Several, Text

Value = TypeVar("Value")

CHECKPOINT = Text("checkpoint", is_step=True)
MOST_POSITIONS = 512
SHORT = 40  # characters of what an address says that are said again
# kind of field → how its parameter is made of its name and default; a field of another kind is chosen nowhere
_PARAMETERS: dict[str, Callable[[str, str | None], Parameter]] = {
    TEXT: lambda name, default: Text(name, default=default),
    POSITIONS: lambda name, default: Several(name, is_step=True, most=MOST_POSITIONS),
    ORDER: lambda name, default: Order(name, is_step=True),
}


def _made(field: Field, name: str) -> Parameter:
    return _PARAMETERS[field.kind](name, "" if field.optional else None)


def _known_fields() -> list[Field]:
    """List the fields of all registered architectures that the app has parameters for."""
    fields = [field for model, _ in ARCHITECTURES.values() for field in model.possible_fields()]
    return [field for field in fields if field.kind in _PARAMETERS]


# (kind, optional, name) of a shipped model's field → its parameter, which models with the same field share
_SHIPPED = {(f.kind, f.optional, f.name): _made(f, f.name) for f in _known_fields()}
_SESSION = "url"


@dataclass
class _Session:
    """The choices of one session. `unread` is what the URL says of parameters that nothing has asked for yet; `settled` are those
    asked for or chosen since the URL was followed; `used` are those of this run, which is what stands in the URL after it.
    `linked` are those whose value this run has read from the URL, and `unfit` says why what it said is not, of parameters whose
    value has not changed since."""

    unread: dict[str, list[str]] = field(default_factory=dict)
    linked: set[str] = field(default_factory=set)
    unfit: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    used: dict[str, Parameter] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)  # name → length of the text that was cut
    arrived: bool = False
    follows: bool = False  # from when the URL is followed until a run has ended: what it does not say is the default
    page: object = None
    found: str = ""  # the browser's query string as this run found it
    before: tuple[dict[str, list[str]], dict[str, Any], set[str]] = (
        {},
        {},
        set(),
    )  # the first three as this run found them
    steps: int = 0
    standing: tuple[object, dict[str, list[str]]] | None = (
        None  # after the last run: the page, and where its steps stood
    )


@dataclass(frozen=True)
class Address:
    """What stands in the URL, as a query string, how many deliberate steps have led there within pages, and what the run that says
    so found in the URL."""

    query: str
    steps: int
    found: str


def _session() -> _Session:
    return st.session_state.setdefault(_SESSION, _Session())


def arrive(page: object = None) -> None:
    """A run of this page begins."""
    session = _session()
    session.used, session.page = {}, page
    session.found = run.query_string if (run := get_script_run_ctx()) else ""
    if _is_history_navigation() or not session.arrived:
        session.arrived = session.follows = True
        session.unread, session.settled = _in_address(), set()
        session.linked, session.unfit = set(), {}
    session.before = dict(session.unread), dict(session.values), set(session.settled)


def parameter_of(field: Field) -> Parameter:
    """Return the parameter of a field. One that no shipped model has carries its kind before its name in the URL
    ("text-sentence"), and so clashes with no other parameter."""
    if shipped := _SHIPPED.get((field.kind, field.optional, field.name)):
        return shipped
    kind = "optional" if field.kind == TEXT and field.optional else field.kind
    return _made(field, f"{kind}-{field.name}")


def _in_address() -> dict[str, list[str]]:
    return {name: st.query_params.get_all(name) for name in st.query_params}


def _is_history_navigation() -> bool:
    """Has the browser's Back or Forward led to this run?"""
    run = get_script_run_ctx()
    return run is not None and run.is_history_navigation


def follows() -> bool:
    """Does the run under way follow the URL?"""
    return _session().follows


def get(parameter: Parameter[Value]) -> Value:
    """What is chosen, which from now on stands in the URL."""
    session, name = _session(), parameter.name
    if name in session.unread:
        texts = session.unread.pop(name)
        session.values[name], why = parameter.from_url(texts), parameter.unfit(texts)
        session.linked |= set() if why else {name}
        session.unfit |= {name: why} if why else {}
    elif session.follows and name not in session.settled:
        session.values.pop(name, None)
    session.settled.add(name)
    session.used[name] = parameter
    return session.values.get(name, parameter.default)


def chosen(fields: Sequence[Field]) -> tuple[Any, ...]:
    """Return the choices for those of a model's fields that are not typed, in their order; None for no choice."""
    return tuple(
        get(parameter_of(field)) or None if field.kind in _PARAMETERS else None
        for field in fields
        if field.kind != TEXT
    )


def let_go() -> None:
    """Choose nothing for any field that is not typed: what was chosen was said of another row of tokens."""
    for parameter in (parameter_of(known) for known in _known_fields() if known.kind != TEXT):
        if get(parameter) is not None:
            keep(parameter, None)


def keep(parameter: Parameter[Value], value: Value) -> None:
    """Choose this value."""
    session = _session()
    session.unread.pop(parameter.name, None)
    if value != session.values.get(parameter.name, parameter.default):
        session.unfit.pop(parameter.name, None)
    session.settled.add(parameter.name)
    session.used[parameter.name] = parameter
    session.values[parameter.name] = value


def put_right(parameter: Parameter[Value], value: Value) -> None:
    """Have this value in the place of one that no longer suits what else is chosen: no deliberate step, whatever led to it."""
    session, is_other = _session(), value != get(parameter)
    if session.standing and is_other:
        session.standing[1].pop(parameter.name, None)
    stand_in(
        parameter, value, f"{parameter.name} must be one that this run has" if is_other else ""
    )


def one_of(choice: Choice, options: Sequence[Value], default: Value) -> Value:
    """The chosen one of these options. If it is none of them, nothing is chosen, and it is the `default`."""
    chosen = get(choice)
    found = [option for option in options if str(option) == str(chosen)]
    if not found:
        there = ", ".join(map(str, options))
        stand_in(
            choice,
            choice.default,
            f"{choice.name} must be one of {there} here, not {str(chosen)[:SHORT]}",
        )
    return found[0] if found else default


def stand_in(parameter: Parameter[Value], value: Value, why: str) -> None:
    """Choose this in the place of a value that what is shown has not, and remember why if the URL asked for that."""
    session, name = _session(), parameter.name
    keep(parameter, value)
    session.unfit |= {name: why} if why and name in session.linked else {}


def unfit(*parameters: Parameter) -> list[str]:
    """Why what the URL said of these parameters, or of all that this run makes use of, is not what is shown."""
    session = _session()
    names = [parameter.name for parameter in parameters] or list(session.used)
    return [session.unfit[name] for name in names if name in session.unfit]


def bound(
    parameter: Parameter[Value], value: Value, callback: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Settings of the Streamlit widget that shows this value of the parameter: its key, and that its changes are kept.
    `callback` is called after a change."""
    key = parameter.name
    # Set needlessly, it would overwrite what is being typed; while the URL is followed, a run before may have been cut off unseen.
    if _session().follows or key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value

    def changed() -> None:
        put_in = st.session_state[key]
        value = parameter.limited(put_in)
        _session().cut.pop(key, None)
        if value != put_in:
            st.session_state[key] = value
            _session().cut[key] = len(put_in)
        keep(parameter, value)
        callback()

    return {"key": key, "on_change": changed}


def cut(parameter: Parameter) -> int:
    """Return the length of the text that was put into this parameter's widget last, if it was cut; else 0."""
    return _session().cut.get(parameter.name, 0)


def publish() -> Address:
    """The run ends: what stands in the URL now, if the browser writes it there."""
    session = _session()
    texts = {name: parameter.in_url(get(parameter)) for name, parameter in session.used.items()}
    places = {name: text for name, text in texts.items() if session.used[name].is_step}
    page, before = session.standing or (None, {})
    if page == session.page and not session.follows:
        session.steps += any(before[name] != places[name] for name in before.keys() & places.keys())
    session.follows, session.standing, session.linked = False, (session.page, places), set()
    query = urlencode(texts, doseq=True)
    if run := get_script_run_ctx():
        run.query_string = query  # of a rerun that Python asks for itself
    return Address(query, session.steps, session.found)


def postpone() -> Address:
    """The run ends, and what the URL or the session asks for is not there yet: the browser's address stays as it is. Where the run
    followed the URL, it has said what stands to a page that it does not speak of, and is followed anew."""
    session = _session()
    if session.follows:
        session.unread, session.values, session.settled = session.before
    return Address(urlencode(_in_address(), doseq=True), session.steps, session.found)
