"""Some rows of an attention's weights at a time, so that a long text's are never all there."""

from models.trace import AttentionSite

CELLS = 2**20  # weights worked out together


def row_slices(site: AttentionSite, heads: int = 1) -> list[slice]:
    """The queries, as many at a time as CELLS weights of so many heads allow."""
    step = max(1, CELLS // (site.n_key * heads))
    return [slice(start, min(start + step, site.n_query)) for start in range(0, site.n_query, step)]


def slice_with(site: AttentionSite, query: int, heads: int = 1) -> tuple[slice, int]:
    """The slice that a query is in, and its place there: worked out with the same others it has the same last digit."""
    rows = next(rows for rows in row_slices(site, heads=heads) if query < rows.stop)
    return rows, query - rows.start
