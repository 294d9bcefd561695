"""The chosen attention site, head and held token, in the URL and within a run."""

import re
from dataclasses import dataclass, replace

from models.analysis.joined_words import knows_words, recounted
from models.trace import AttentionSite, Trace
from viz_app.drawing.sites import sharpest_head
from viz_app.session.parameters import Text, Whole
from viz_app.session.remembered import recall, remember
from viz_app.session.url_state import (
    MAX_QUOTED_VALUE,
    get,
    is_url_driven,
    set_value,
    use_fallback,
)

FOCUS_SITE, FOCUS_HEAD = Text("site", is_step=True), Whole("head", is_step=True)
FOCUS_LOCK = Text("lock", pattern=r"[qk][0-9]{1,5}|", form="like q3 (query) or k0 (key)")
_PICKED = "picked-head"  # the site and head that were picked last
_HELD_WORD = "held-word"  # the held token, if it is counted in words


@dataclass(frozen=True)
class Focus:
    """The chosen attention site and head, and the held token: "q3" (query), "k0" (key) or ""."""

    site: str = ""
    head: int = 0
    lock: str = ""

    def within(self, trace: Trace) -> "Focus":
        """Return the nearest focus in this trace; the sharpest head if the site is missing."""
        if self.site not in trace.attention:
            return Focus(*sharpest_head(trace))
        site = trace.attention[self.site]
        length = site.n_query if self.lock.startswith("q") else site.n_key
        lock = self.lock if self.lock and int(self.lock[1:]) < length else ""
        return replace(self, head=min(self.head, site.n_heads - 1), lock=lock)

    def followed(self, trace: Trace) -> "Focus | None":
        """Return the same layer and head of another model's trace; None if it lacks them.

        Of several attentions of that layer it is the one of the same name, else the first.
        """
        layer = re.search(r"\.layers\.\d+\.", self.site)
        names = [name for name in trace.attention if layer and layer[0] in name]
        kind = self.site.rpartition(".")[2]
        names.sort(key=lambda name: name.rpartition(".")[2] != kind)
        if not names or self.head >= trace.attention[names[0]].n_heads:
            return None
        return Focus(names[0], self.head)


def chosen_focus(trace: Trace, *, in_words: bool = False) -> tuple[AttentionSite, Focus]:
    """Return the chosen site of this trace and the focus on it; note what the URL got wrong.

    A picked head is kept when the model changes; a default head is not. On a page that is
    `in_words`, the held token is counted in words where the tokenizer knows them.
    """
    _count_held(trace, in_words and knows_words(trace))
    requested = _focus()
    focus = requested.within(trace)
    is_picked = recall(_PICKED) == (requested.site, requested.head)
    if requested.site not in trace.attention and is_picked:
        focus = requested.followed(trace) or focus
        remember(_PICKED, (focus.site, focus.head))
    site, is_present = trace.attention[focus.site], requested.site in trace.attention
    unknown_site = (
        f"site must be an attention of this model, not {requested.site[:MAX_QUOTED_VALUE]}"
    )
    use_fallback(FOCUS_SITE, focus.site, "" if is_present or not requested.site else unknown_site)
    use_fallback(
        FOCUS_HEAD,
        focus.head,
        ""
        if focus.head == requested.head or not is_present
        else f"head must be below {site.n_heads} here",
    )
    use_fallback(
        FOCUS_LOCK,
        focus.lock,
        ""
        if focus.lock == requested.lock or not is_present
        else "lock names a token beyond the last one",
    )
    return site, focus


def pick_head(site: str, head: int) -> None:
    """Choose a head, and keep the held token if the new head has the same rows."""
    previous = _focus()
    same_rows = re.sub(r"\d", "", previous.site) == re.sub(r"\d", "", site)
    remember(_PICKED, (site, head))
    _choose(Focus(site, head, previous.lock if same_rows else ""))


def lock_token(token: str, *, in_words: bool = False) -> None:
    """Hold a token of the chosen head, or a word of a page `in_words`; "" to release it."""
    remember(_HELD_WORD, token if in_words else None)
    set_value(FOCUS_LOCK, FOCUS_LOCK.from_url([token]))


def _count_held(trace: Trace, in_words: bool) -> None:
    """Count the held token in words or in tokens, as the page does; a link already does so."""
    focus = _focus()
    was_in_words = in_words if is_url_driven() else recall(_HELD_WORD) == focus.lock
    site = trace.attention.get(focus.site)
    if focus.lock and site and was_in_words != in_words and knows_words(trace):
        stream = site.query_stream if focus.lock.startswith("q") else site.key_stream
        index = recounted(trace, stream, int(focus.lock[1:]), in_words)
        focus = replace(focus, lock="" if index is None else f"{focus.lock[0]}{index}")
        set_value(FOCUS_LOCK, focus.lock)
    remember(_HELD_WORD, focus.lock if in_words else None)


def _focus() -> Focus:
    return Focus(get(FOCUS_SITE), get(FOCUS_HEAD) or 0, get(FOCUS_LOCK))


def _choose(focus: Focus) -> None:
    set_value(FOCUS_SITE, focus.site)
    set_value(FOCUS_HEAD, focus.head)
    set_value(FOCUS_LOCK, focus.lock)
