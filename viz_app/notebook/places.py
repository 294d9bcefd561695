"""Lookup of a run's heads by kind, layer and head as shown on the screen, counted from 1."""

from models.trace import AttentionSite, Trace
from viz_app.drawing.cells import MAX_WHOLE_TOKENS, has_many_cells
from viz_app.drawing.sites import by_kind


def sites_of(run: Trace, kind: str = "") -> list[AttentionSite]:
    """Return the sites of a kind of attention in layer order.

    Without a kind, those of the cross-attention, or of the first kind if there is none.

    Raises:
        ValueError: the run has no such kind; the message lists its kinds.
    """
    kinds = dict(by_kind(run))
    if not kinds:
        raise ValueError(f"{run.model.name} has no attention: there are no heads to draw")
    if kind and kind not in kinds:
        raise ValueError(f"kind must be {range_text([repr(name) for name in kinds])}, not {kind!r}")
    return kinds[kind or ("cross" if "cross" in kinds else next(iter(kinds)))]


def place_of(run: Trace, layer: int | str, head: int, kind: str = "") -> tuple[AttentionSite, int]:
    """Return the site of a layer and the head's number from 0.

    The layer is a number from 1, or the name of a site, which a layer with several needs.

    Raises:
        ValueError: there is no such layer or head, or several; the message lists the valid ones.
    """
    sites = sites_of(run, kind)
    among = run.attention.values() if isinstance(layer, str) and not kind else sites
    places = [site for site in among if layer in (site.name, site.layer + 1)]
    if len(places) != 1:
        valid = [layer_text(run, site) for site in places or sites]
        raise ValueError(f"layer must be {range_text(valid)} of {sites[0].kind!r}, not {layer!r}")
    (site,) = places
    if head not in range(1, site.n_heads + 1):
        raise ValueError(
            f"head must be {range_text([str(n + 1) for n in range(site.n_heads)])}, not {head!r}"
        )
    return site, head - 1


def layer_text(run: Trace, site: AttentionSite) -> str:
    """Return the layer that a call gives for a site: its number from 1, or else its quoted name.

    The name is needed where a layer has several attentions of a kind.
    """
    layers = [other.layer for other in run.attention.values() if other.kind == site.kind]
    return str(site.layer + 1) if layers.count(site.layer) == 1 else repr(site.name)


def check_length(run: Trace, kind: str, what: str) -> None:
    """Check that a text is short enough for a picture without blocks.

    Raises:
        ValueError: it is too long.
    """
    site = sites_of(run, kind)[0]
    if has_many_cells(site):
        longest = max(site.n_query, site.n_key)
        raise ValueError(
            f"{what}: at most {MAX_WHOLE_TOKENS} tokens, not {longest}; head(run) shows a long text in blocks"
        )


def range_text(names: list[str]) -> str:
    """Join numbers as a range, "1", "1 or 2", "1 to 8", and names as a list, "'a', 'b' or 'c'"."""
    if len(names) > 2 and all(name.isdigit() for name in names):
        return f"{names[0]} to {names[-1]}"
    return " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
