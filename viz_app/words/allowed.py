"""What the tokens of one attention may read, in words made from the layers of its mask in the run."""

from models.layers.masks import PADDING
from models.trace import AttentionSite

_WINDOW = "window of "  # how models.trace.edits.MaskChange names that layer


def blocking(site: AttentionSite) -> list[str]:
    """Names of the mask layers that block a cell of this run, padding left out."""
    return [layer.name for layer in site.mask.layers if layer.name != PADDING and layer.blocks]


def may_read(site: AttentionSite, token: str) -> str:
    """What a token may read in an attention of a text to itself; continues a clause that names the text."""
    names = blocking(site)
    far = next((name.removeprefix(_WINDOW) for name in names if name.startswith(_WINDOW)), "")
    if site.stack == "decoder":
        near = f" Nor may it read what is more than {far} tokens back." if far else ""
        return (
            ". Nothing may read what comes after it, because a model that writes from left to right does not have that yet: these "
            f"cells are hatched and their weight is exactly 0.{near}"
        )
    if not names:
        return f": each {token} may read every other, in both directions."
    if len(names) == 1 and far:
        return f": each {token} may read those up to {far} tokens away, in both directions."
    return f". Hatched cells are blocked ({', '.join(names)}) and their weight is exactly 0."


def empty_rows(site: AttentionSite) -> int:
    """How many queries may read nothing, so that all their weights are 0."""
    allowed = site.mask.allowed
    if allowed is None:
        return 0
    empty = ~allowed[0].any(0).any(-1)  # (query or 1,), blocked in every head
    return int(empty.expand(site.n_query).sum())


def add_up(site: AttentionSite) -> str:
    """What the weights of a row add up to."""
    n = empty_rows(site)
    if not n:
        return "up to 1"
    rows = "the one row that" if n == 1 else f"the {n} rows that"
    return f"up to 1, but for {rows} may read nothing, where all are 0"
