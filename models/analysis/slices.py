"""Slices of an attention's rows, so that the weights of a long text are never all in memory."""

from models.trace import AttentionSite

WEIGHTS_PER_SLICE = 2**20  # weights computed together


def row_slices(site: AttentionSite, heads: int = 1) -> list[slice]:
    """Return slices of the queries, each of at most WEIGHTS_PER_SLICE weights of `heads` heads."""
    step = max(1, WEIGHTS_PER_SLICE // (site.n_key * heads))
    return [slice(start, min(start + step, site.n_query)) for start in range(0, site.n_query, step)]


def slice_with(site: AttentionSite, query: int, heads: int = 1) -> tuple[slice, int]:
    """Return the slice with a query, and the query's index in it.

    A row that is always computed with the same others has the same last digit.
    """
    rows = next(rows for rows in row_slices(site, heads=heads) if query < rows.stop)
    return rows, query - rows.start
