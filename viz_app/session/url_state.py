"""What a session looks at, typed, and its place in the URL, so that a pasted link shows the same view.

The sidebar's texts are widgets bound to the URL under the keys named here; the chosen head and the locked token are
kept in the session and written to the URL by `publish`.
"""

import re
from dataclasses import dataclass, replace

import streamlit as st

from models.trace import AttentionSite, Trace
from viz_app.drawing.sites import sharpest_head
from viz_app.session.arrival import whole

CHECKPOINT, SOURCE, TARGET = "checkpoint", "source", "target"
_FOCUS, _PUBLISHED = "focus", "published"
_LOCK = re.compile(r"[qk]\d{1,5}")


@dataclass(frozen=True)
class Focus:
    """The chosen attention site and head, and the locked token: "q3" (query), "k0" (key) or ""."""

    site: str = ""
    head: int = 0
    lock: str = ""

    def as_params(self) -> dict[str, str]:
        params = {"site": self.site, "head": str(self.head), "lock": self.lock}
        return {name: value for name, value in params.items() if value}

    @classmethod
    def from_params(cls, params: dict[str, str]) -> "Focus":
        """What a URL asks for; anything unreadable in it is left out."""
        head, lock = params.get("head", ""), params.get("lock", "")
        return cls(
            params.get("site", ""), int(head) if re.fullmatch(r"\d{1,4}", head) else 0,
            lock if _LOCK.fullmatch(lock) else "",
        )

    def within(self, trace: Trace) -> "Focus":
        """The nearest focus that exists in this trace; the sharpest head where the site does not."""
        if self.site not in trace.attention:
            return Focus(*sharpest_head(trace))
        site = trace.attention[self.site]
        length = site.n_query if self.lock.startswith("q") else site.n_key
        lock = self.lock if self.lock and int(self.lock[1:]) < length else ""
        return replace(self, head=min(self.head, site.n_heads - 1), lock=lock)


def arrive() -> None:
    """At a full run: follow the URL if it was pasted, or reached by the browser's back and forward buttons."""
    params = {name: st.query_params[name] for name in ("site", "head", "lock") if name in st.query_params}
    if params and params != st.session_state.get(_PUBLISHED):
        st.session_state[_FOCUS] = Focus.from_params(params)


def focus(trace: Trace) -> tuple[AttentionSite, Focus]:
    """The chosen site of this trace and the focus on it, now also in the URL."""
    found = st.session_state.get(_FOCUS, Focus()).within(trace)
    st.session_state[_FOCUS] = found
    _publish(found.as_params())
    return trace.attention[found.site], found


def pick(site: str, head: int) -> None:
    """Choose a head. The locked token stays where the new head reads the same tokens."""
    old = st.session_state.get(_FOCUS, Focus())
    same_rows = re.sub(r"\d", "", old.site) == re.sub(r"\d", "", site)
    st.session_state[_FOCUS] = Focus(site, head, old.lock if same_rows else "")


def lock(token: str) -> None:
    """Hold a token of the chosen head, or let go with ""."""
    held = token if _LOCK.fullmatch(token) else ""
    st.session_state[_FOCUS] = replace(st.session_state.get(_FOCUS, Focus()), lock=held)


def keep(name: str, value: str | int | None) -> None:
    """Put a choice of a page into the session and into the URL, or take it out of both."""
    text = value if value is None else whole(str(value))
    st.session_state[f"{name} kept"] = text
    if text is None:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = text


def kept(name: str) -> str | None:
    """What the URL says, else what the session remembers, which is then in the URL again."""
    asked = st.query_params.get(name)
    remembered = st.session_state.get(f"{name} kept")
    if asked is None and remembered is not None:
        keep(name, remembered)
    st.session_state[f"{name} kept"] = asked or remembered
    return asked or remembered


def _publish(params: dict[str, str]) -> None:
    standing = all(st.query_params.get(name) == value for name, value in params.items())    # a change of page empties the URL
    if standing and params == st.session_state.get(_PUBLISHED):
        return
    st.session_state[_PUBLISHED] = params
    if "lock" not in params and "lock" in st.query_params:
        del st.query_params["lock"]
    st.query_params.update(params)
