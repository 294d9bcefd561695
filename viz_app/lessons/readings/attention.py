"""Readings of weights, masks and heads."""

from functools import partial

import torch

from models.analysis.shuffle import edits_positions, without_positions
from models.runs.explanation import js_divergence
from models.trace import AttentionSite, Trace
from models.trace.edits import HeadOff
from viz_app.lessons.lesson import CELLS_STEP, TOKEN_STEP
from viz_app.lessons.readings.registry import (
    count_value,
    number_value,
    plain_token,
    reading,
    share_value,
    without_changes,
)
from viz_app.lessons.sentence import ReadingValue
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun

MAX_BACKWARDS_TOKENS = 512  # tokens of a text that is also read backwards


@reading
def weight(run: CurrentRun, site: str, head: int, query: int, key: int) -> ReadingValue:
    """Return one attention weight."""
    row = _row(run.trace, site, head, query)
    if key >= len(row):
        raise ValueError(f"{site} reads {len(row)} tokens; there is no token {key}")
    return share_value(row[key])


@partial(reading, predicted_as=TOKEN_STEP)
def most_read(run: CurrentRun, site: str, head: int, query: int) -> ReadingValue:
    """Return the token with the largest weight in a row."""
    row = _row(run.trace, site, head, query)
    key = max(range(len(row)), key=row.__getitem__)
    attention = run.trace.attention[site]
    token = plain_token(attention.key_tokens[key])
    return ReadingValue(key, token, stream=attention.key_stream)


@reading
def largest_weight(run: CurrentRun, site: str, head: int, query: int) -> ReadingValue:
    """Return the largest weight of a row."""
    return share_value(max(_row(run.trace, site, head, query)))


@reading
def divergence(run: CurrentRun, site: str, head: int, query: int) -> ReadingValue:
    """Return the Jensen–Shannon divergence in nats of a row from the unchanged run's."""
    theirs = _row(without_changes(run).trace, site, head, query)
    ours = _row(run.trace, site, head, query)
    if len(theirs) != len(ours):
        raise ValueError("the two rows have different keys")
    pair = torch.tensor([ours, theirs]).double()
    return number_value(float(js_divergence(pair[0], pair[1])), 2)


@partial(reading, predicted_as=CELLS_STEP)
def allowed(run: CurrentRun, site: str) -> ReadingValue:
    """Return the cells that an attention's masks leave open, a row for each query."""
    attention = _site(run.trace, site)
    open_cells = attention.allowed(0, 0, slice(0, attention.n_query))
    cells = tuple(tuple(map(bool, row)) for row in open_cells.tolist())
    count = sum(map(sum, cells))
    return ReadingValue(cells, f"{count:,} of {attention.n_query * attention.n_key:,} cells")


@reading
def cells_ahead(run: CurrentRun, site: str) -> ReadingValue:
    """Return the number of open cells whose key comes after their query."""
    attention = _site(run.trace, site)
    return count_value(int(attention.allowed(0, 0, slice(0, attention.n_query)).triu(1).sum()))


@reading
def heads_off(run: CurrentRun) -> ReadingValue:
    """Return the number of heads that are switched off."""
    off = {
        (name, head)
        for name, site in run.trace.attention.items()
        for edit in site.edits
        if isinstance(edit, HeadOff)
        for head in (edit.where.heads or range(site.n_heads))
    }
    return count_value(len(off))


@reading
def heads(run: CurrentRun) -> ReadingValue:
    """Return the number of heads of the model."""
    return count_value(sum(site.n_heads for site in run.trace.attention.values()))


@reading
def change_backwards(run: CurrentRun, positions: str) -> ReadingValue:
    """Return the largest relative change of an encoder vector when the tokens are reversed.

    The model is run "with" or "without" positions.
    """
    model, row = run.scope.model, run.trace.streams.get("source")
    if row is None or not model.translates or model.is_recurrent or not model.can_drop_positions:
        raise ValueError("this model has no encoder whose tokens can be put in another order")
    if len(row.ids) > MAX_BACKWARDS_TOKENS:
        raise ValueError(f"the text is longer than {MAX_BACKWARDS_TOKENS} tokens")
    if edits_positions(run.trace, "source"):
        raise ValueError("an edit depends on positions of the source")
    order = (*reversed(range(len(row.ids) - 1)), len(row.ids) - 1)
    encoder = model if positions == "with" else without_positions(model)
    test = cache.cached_shuffle(run, f"a lesson {positions} positions", encoder, row, order)
    return number_value(float(test.largest[-1]), 2)


def _site(trace: Trace, name: str) -> AttentionSite:
    if name not in trace.attention:
        raise ValueError(f"the run has no attention {name[:60]}")
    return trace.attention[name]


def _row(trace: Trace, name: str, head: int, query: int) -> list[float]:
    site = _site(trace, name)
    if head >= site.n_heads or query >= site.n_query:
        raise ValueError(f"{name} has {site.n_heads} heads and {site.n_query} rows")
    return site.weights(head, 0, slice(query, query + 1))[0].float().tolist()
