"""The choices of the page Compare, kept in the session and in the URL."""

import re

from viz_app.session import pinned, url_state
from viz_app.session.focus import pick_head
from viz_app.session.parameters import Text
from viz_app.views.compare.compared import ComparedHead

REFERENCE_HEAD = Text(
    "compare-head",
    is_step=True,
    pattern=r"[^:]{0,200}:[0-9]{1,5}|",
    form="an attention and a head, such as decoder.layers.0.self_attn:3",
)


def other_head() -> ComparedHead | None:
    """Return the head compared with the focus: the pinned run's, or this run's without one."""
    return head_from_url(url_state.get(REFERENCE_HEAD) or "")


def head_from_url(value: str) -> ComparedHead | None:
    """Return the head of this value of REFERENCE_HEAD; None for the same head."""
    match = re.fullmatch(r"([^:]*):([0-9]+)", value)
    return (match[1], int(match[2])) if match else None


def url_of_head(head: ComparedHead) -> str:
    """Return the value of REFERENCE_HEAD for a head."""
    return f"{head[0]}:{head[1]}"


def choose_other(head: ComparedHead | None) -> None:
    """Compare with this head; None for the same head."""
    url_state.set_value(REFERENCE_HEAD, url_of_head(head) if head else REFERENCE_HEAD.default)


def pick_reference_head(site: str, head: int) -> None:
    """Handle a click on a head of the grid."""
    if pinned.checkpoint():
        pick_head(site, head)
    else:
        choose_other((site, head))
