"""What a session has chosen, and the one way of it into the URL and out of it, so that a pasted link shows the same view.

Every choice is a typed parameter (parameters.py). A run follows the URL if it is the session's first, or if the browser's Back
or Forward has led to it; any other run is the session's own and says what the URL becomes. The component `live` writes that
into the browser's address: a deliberate step as an entry of its history, all else over the entry that stands.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlencode

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from models.architectures import ARCHITECTURES
from models.architectures.base import ORDER, POSITIONS, TEXT, Field
from models.trace import AttentionSite, Trace
from viz_app.drawing.sites import sharpest_head
from viz_app.session.parameters import Choice, Order, Parameter, Several, Text, Whole

Value = TypeVar("Value")

CHECKPOINT = Text("checkpoint", is_step=True)
# field of a model → the text typed for it; models with fields of one name share it
FIELDS = {
    field.name: Text(field.name, default="" if field.optional else None)
    for model, _ in ARCHITECTURES.values() for field in model.possible_fields() if field.kind == TEXT
}
MOST_POSITIONS = 512
# field that is chosen on a page and not typed → its parameter
_PARAMETERS: dict[str, Callable[[str], Parameter]] = {
    POSITIONS: lambda name: Several(name, is_step=True, most=MOST_POSITIONS), ORDER: lambda name: Order(name, is_step=True),
}  # fmt: skip
CHOSEN = {
    field.name: _PARAMETERS[field.kind](field.name)
    for model, _ in ARCHITECTURES.values() for field in model.possible_fields() if field.kind in _PARAMETERS
}
SITE, HEAD = Text("site", is_step=True), Whole("head", is_step=True)
LOCK = Text("lock", pattern=r"[qk][0-9]{1,5}|")
_SESSION = "url"


@dataclass
class _Session:
    """The choices of one session. `unread` is what the URL says of parameters that nothing has asked for yet; `settled` are those
    asked for or chosen since the URL was followed; `used` are those of this run, which is what stands in the URL after it."""

    unread: dict[str, list[str]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    used: dict[str, Parameter] = field(default_factory=dict)
    arrived: bool = False
    follows: bool = False       # from when the URL is followed until a run has ended: what it does not say is the default
    page: object = None
    steps: int = 0
    standing: tuple[object, dict[str, list[str]]] | None = None      # after the last run: the page, and where its steps stood


@dataclass(frozen=True)
class Address:
    """What stands in the URL, as a query string, and how many deliberate steps have led there within pages."""

    query: str
    steps: int


def _session() -> _Session:
    return st.session_state.setdefault(_SESSION, _Session())


def arrive(page: object = None) -> None:
    """A run of this page begins."""
    session = _session()
    session.used, session.page = {}, page
    if _is_history_navigation() or not session.arrived:
        session.arrived = session.follows = True
        session.unread, session.settled = {name: st.query_params.get_all(name) for name in st.query_params}, set()


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
        session.values[name] = parameter.from_url(session.unread.pop(name))
    elif session.follows and name not in session.settled:
        session.values.pop(name, None)
    session.settled.add(name)
    session.used[name] = parameter
    return session.values.get(name, parameter.default)


def chosen(fields: Sequence[Field]) -> tuple[Any, ...]:
    """What is chosen for those of a model's fields that are not typed, in their order; None for nothing."""
    return tuple(get(CHOSEN[field.name]) or None if field.name in CHOSEN else None for field in fields if field.kind != TEXT)


def let_go() -> None:
    """Choose nothing for any field that is not typed: what was chosen was said of another row of tokens."""
    for parameter in CHOSEN.values():
        if get(parameter) is not None:
            keep(parameter, None)


def keep(parameter: Parameter[Value], value: Value) -> None:
    """Choose this value."""
    session = _session()
    session.unread.pop(parameter.name, None)
    session.settled.add(parameter.name)
    session.used[parameter.name] = parameter
    session.values[parameter.name] = value


def put_right(parameter: Parameter[Value], value: Value) -> None:
    """Have this value in the place of one that no longer suits what else is chosen: no deliberate step, whatever led to it."""
    session = _session()
    if session.standing and value != get(parameter):
        session.standing[1].pop(parameter.name, None)
    keep(parameter, value)


def one_of(choice: Choice, options: Sequence[Value], default: Value) -> Value:
    """The chosen one of these options. If it is none of them, nothing is chosen, and it is the `default`."""
    found = [option for option in options if str(option) == str(get(choice))]
    if not found:
        keep(choice, choice.default)
    return found[0] if found else default


def bound(parameter: Parameter[Value], value: Value, then: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Settings of the Streamlit widget that shows this value of the parameter: its key, and that its changes are kept.
    `then` is called after a change."""
    key = parameter.name
    if key not in st.session_state or st.session_state[key] != value:     # set needlessly, it would overwrite what is being typed
        st.session_state[key] = value

    def changed() -> None:
        keep(parameter, st.session_state[key])
        then()

    return {"key": key, "on_change": changed}


def publish() -> Address:
    """The run ends: what stands in the URL now, if the browser writes it there."""
    session = _session()
    texts = {name: parameter.in_url(get(parameter)) for name, parameter in session.used.items()}
    places = {name: text for name, text in texts.items() if session.used[name].is_step}
    page, before = session.standing or (None, {})
    if page == session.page and not session.follows:
        session.steps += any(before[name] != places[name] for name in before.keys() & places.keys())
    session.follows, session.standing = False, (session.page, places)
    query = urlencode(texts, doseq=True)
    if run := get_script_run_ctx():
        run.query_string = query        # of a rerun that Python asks for itself
    return Address(query, session.steps)


@dataclass(frozen=True)
class Focus:
    """The chosen attention site and head, and the locked token: "q3" (query), "k0" (key) or ""."""

    site: str = ""
    head: int = 0
    lock: str = ""

    def within(self, trace: Trace) -> "Focus":
        """The nearest focus that exists in this trace; the sharpest head where the site does not."""
        if self.site not in trace.attention:
            return Focus(*sharpest_head(trace))
        site = trace.attention[self.site]
        length = site.n_query if self.lock.startswith("q") else site.n_key
        lock = self.lock if self.lock and int(self.lock[1:]) < length else ""
        return replace(self, head=min(self.head, site.n_heads - 1), lock=lock)


def focus(trace: Trace) -> tuple[AttentionSite, Focus]:
    """The chosen site of this trace and the focus on it."""
    found = _focus().within(trace)
    _choose(found)
    return trace.attention[found.site], found


def pick(site: str, head: int) -> None:
    """Choose a head. The locked token stays where the new head reads the same tokens."""
    old = _focus()
    same_rows = re.sub(r"\d", "", old.site) == re.sub(r"\d", "", site)
    _choose(Focus(site, head, old.lock if same_rows else ""))


def lock(token: str) -> None:
    """Hold a token of the chosen head, or let go with ""."""
    keep(LOCK, LOCK.from_url([token]))


def _focus() -> Focus:
    return Focus(get(SITE), get(HEAD) or 0, get(LOCK))


def _choose(found: Focus) -> None:
    keep(SITE, found.site)
    keep(HEAD, found.head)
    keep(LOCK, found.lock)
