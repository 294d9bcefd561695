"""The row of attention that is shown beside an answer: what the token whose vector answers reads, in the head in focus."""

from typing import Any

import numpy as np

from models.analysis.checks import Check
from models.trace import AttentionSite, Trace
from viz_app.drawing.labels import labels
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.live import Pictures
from viz_app.views.task import text

Drawn = tuple[
    Pictures, list[Check]
]  # what the page's components show of one output, and what must hold of it


def answering_sites(trace: Trace, stream: str) -> dict[str, AttentionSite]:
    """The attentions in which the tokens of this stream read, by name; of a model with two streams of states on it those of the
    query stream, from which it answers."""
    sites = {name: site for name, site in trace.attention.items() if site.query_stream == stream}
    return {name: site for name, site in sites.items() if site.role == "query"} or sites


def answering(trace: Trace, stream: str, focus: Focus) -> tuple[AttentionSite | None, int]:
    """The site and head in focus if the tokens of this stream read there; else, of the same layer, the site where they read
    another stream, or themselves. None where they read nowhere."""
    sites = answering_sites(trace, stream)
    if not sites:
        return None, 0
    found = focus.within(trace)
    if found.site not in sites:
        others = {name: s for name, s in sites.items() if s.key_stream != stream} or sites
        layer = min(trace.attention[found.site].layer, max(s.layer for s in others.values()))
        found = Focus(next(name for name, s in others.items() if s.layer == layer), found.head)
    site = sites[found.site]
    return site, min(found.head, site.n_heads - 1)


def reading(
    run: CurrentRun, site: AttentionSite | None, head: int, position: int, prefix: str = ""
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The attention row of the token at this position: what is said of it, and its arrays under names that begin with `prefix`."""
    if site is None:
        empty = {"title": "", "note": text.NO_ATTENTION, "keys": [], "blocked": [], "own": -1}
        return empty, {
            f"{prefix}weights": np.zeros(0, np.float32),
            f"{prefix}allowed": np.zeros(0, np.uint8),
        }
    row = slice(position, position + 1)
    allowed = site.allowed(0, head, row)[0]
    keys = labels(run.trace.streams[site.key_stream])
    own = site.key_stream == site.query_stream
    token = labels(run.trace.streams[site.query_stream])[position]
    header = {
        "title": text.reading_title(site, head, run.terms, token.text, token.special),
        "note": text.READING,
        "keys": [label.as_json() for label in keys],
        "own": position if own else -1,
        "blocked": [
            [] if is_open else site.blocked_by(position, k, head=head)
            for k, is_open in enumerate(allowed.tolist())
        ],
    }
    arrays = {
        "weights": site.weights(head, rows=row)[0].numpy(),
        "allowed": allowed.numpy().astype(np.uint8),
    }
    return header, {f"{prefix}{name}": array for name, array in arrays.items()}


def check_row(site: AttentionSite, head: int, *positions: int) -> Check:
    """The attention rows that are shown each divide 1 among their keys."""
    worst = 0.0
    for position in positions:
        row = slice(position, position + 1)
        total = float(site.weights(head, rows=row).sum()) - float(site.allowed(0, head, row).any())
        worst = max(worst, abs(total)) if total == total else total
    if len(positions) == 1:
        return Check(
            "the attention row sums to 1", worst, 1e-5, "Difference of the row's weights from 1"
        )
    return Check(
        "the attention rows sum to 1", worst, 1e-5, "Largest difference of a row's weights from 1"
    )
