"""The chosen attention site, head and locked token, as the URL says them and as a run has them."""

import re
from dataclasses import dataclass, replace

from models.trace import AttentionSite, Trace
from viz_app.drawing.sites import sharpest_head
from viz_app.session.parameters import Text, Whole
from viz_app.session.url_state import SHORT, get, keep, stand_in

SITE, HEAD = Text("site", is_step=True), Whole("head", is_step=True)
LOCK = Text("lock", pattern=r"[qk][0-9]{1,5}|")


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


def chosen_focus(trace: Trace) -> tuple[AttentionSite, Focus]:
    """The chosen site of this trace and the focus on it."""
    asked = _focus()
    found = asked.within(trace)
    site, known = trace.attention[found.site], asked.site in trace.attention
    none = f"site must be an attention of this model, not {asked.site[:SHORT]}"
    stand_in(SITE, found.site, "" if known or not asked.site else none)
    stand_in(
        HEAD,
        found.head,
        "" if found.head == asked.head or not known else f"head must be below {site.n_heads} here",
    )
    stand_in(
        LOCK,
        found.lock,
        "" if found.lock == asked.lock or not known else "lock must be a token that is there",
    )
    return site, found


def pick_head(site: str, head: int) -> None:
    """Choose a head. The locked token stays where the new head reads the same tokens."""
    old = _focus()
    same_rows = re.sub(r"\d", "", old.site) == re.sub(r"\d", "", site)
    _choose(Focus(site, head, old.lock if same_rows else ""))


def lock_token(token: str) -> None:
    """Hold a token of the chosen head, or let go with ""."""
    keep(LOCK, LOCK.from_url([token]))


def _focus() -> Focus:
    return Focus(get(SITE), get(HEAD) or 0, get(LOCK))


def _choose(found: Focus) -> None:
    keep(SITE, found.site)
    keep(HEAD, found.head)
    keep(LOCK, found.lock)
