"""Sentences on what the tokens of one attention may read, from the mask layers of the run."""

from models.analysis.checks import rounding_in
from models.layers.masks import LOOK_AHEAD, PADDING
from models.trace import AttentionSite, Trace
from models.trace.edits import opens_ahead

_WINDOW = "window of "  # how models.trace.edits.MaskChange names that layer


def blocking(site: AttentionSite) -> list[str]:
    """Return the names of the mask layers that block a cell of this run, except padding."""
    return [layer.name for layer in site.mask.layers if layer.name != PADDING and layer.blocks]


def reads_earlier_only(trace: Trace) -> bool:
    """Return True if no self-attention of a run lets a token attend to a later one.

    A run on a single token cannot show this; it counts if it has self-attention in a decoder.
    """
    sites = [site for site in trace.attention.values() if site.query_stream == site.key_stream]
    if not any(site.n_key > 1 for site in sites):
        return any(site.stack == "decoder" for site in sites)
    return not any(map(reads_later, sites))


def reads_later(site: AttentionSite) -> bool:
    """Return True if a query of this self-attention may attend to a key after it."""
    allowed = site.mask.allowed
    return site.n_key > 1 and (allowed is None or bool(allowed.triu(1).any()))


def predicts_seen_tokens(trace: Trace, stream: str) -> bool:
    """Return True if the mask lets tokens of this stream be attended to before they are predicted.

    Either its decoder was built without a look-ahead mask, or an edit opens it.
    """
    return any(
        reads_later(site) and (opens_ahead(trace.edits, site.kind) or not site.site_kind.is_causal)
        for site in _sites_on(trace, stream)
    )


def reads_all_earlier(trace: Trace, stream: str) -> bool:
    """Return True if no mask but a look-ahead one blocks a cell on this stream."""
    return all(set(blocking(site)) <= {LOOK_AHEAD} for site in _sites_on(trace, stream))


def _sites_on(trace: Trace, stream: str) -> list[AttentionSite]:
    sites = trace.attention.values()
    return [site for site in sites if site.query_stream == site.key_stream == stream]


def has_own_mask(site: AttentionSite) -> bool:
    """Return True if no edit changes the mask of a site."""
    return not any(edit.changes("mask") for edit in site.edits)


def hides_all_later(site: AttentionSite) -> bool:
    """Return True if a look-ahead layer blocks every later key, and at least one cell."""
    layers = [layer for layer in site.mask.layers if layer.name == LOOK_AHEAD and layer.blocks]
    ahead = 1 + site.n_key - site.n_query
    return any(not bool(layer.allowed.triu(ahead).any()) for layer in layers)


def may_read(site: AttentionSite, token: str) -> str:
    """Return what a token may read in self-attention, as the continuation of a clause.

    The clause ends by naming the text that the queries, keys and values come from.
    """
    names = blocking(site)
    if site.n_query == site.n_key == 1:
        return "."
    window = next((name.removeprefix(_WINDOW) for name in names if name.startswith(_WINDOW)), "")
    width = f"{window} token{'s' * (window != '1')}"
    if hides_all_later(site):
        why = ""
        if site.stack == "decoder":
            why = " (while the model writes, it does not exist yet)"
        others = [name for name in names if name not in (LOOK_AHEAD, f"{_WINDOW}{window}")]
        other_layers_note = f" Other cells are blocked too ({', '.join(others)})." if others else ""
        window_note = f" Nor may it attend further back than {width}." if window else ""
        return (
            f". No token may attend to what comes after it{why}. These cells are hatched and their weight is exactly "
            f"0.{window_note}{other_layers_note}"
        )
    if not names:
        return f". Each {token} may attend to every other, in both directions."
    if len(names) == 1 and window:
        return f". Each {token} may attend to those up to {width} away, in both directions."
    return f". Hatched cells are blocked ({', '.join(names)}) and their weight is exactly 0."


def count_empty_rows(site: AttentionSite) -> int:
    """Return the number of queries that may read nothing and therefore have only zero weights."""
    allowed = site.mask.allowed
    if allowed is None:
        return 0
    empty = ~allowed[0].any(0).any(-1)  # (query or 1,), blocked in every head
    return int(empty.expand(site.n_query).sum())


def leaves_a_part(site: AttentionSite) -> bool:
    """Return True if some rows sum to less than 1, as their library gives a part to no token.

    Rows that may attend to nothing do not count. Only weights whose causes are unknown can do this;
    all others come from a softmax.
    """
    if site.has_causes:
        return False
    sums = site.weights().sum(-1)[site.allowed(head=None).any(-1)]
    return bool((sums < 1 - rounding_in(site.dtype)).any())


def add_up(site: AttentionSite) -> str:
    """Return the sum of a row's weights in words, naming how many rows are all zeros."""
    if leaves_a_part(site):
        return "up to at most 1. Some rows leave part of their weight to no token"
    n = count_empty_rows(site)
    if not n:
        return "up to 1"
    rows, whose = ("the one row", "its") if n == 1 else (f"the {n} rows", "their")
    return f"up to 1, except in {rows} that may attend to nothing. All {whose} weights are 0"
