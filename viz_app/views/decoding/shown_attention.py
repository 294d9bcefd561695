"""Which attention of the decoder stands beside its steps."""

from dataclasses import dataclass

from models.trace import AttentionSite, Trace
from viz_app import words


@dataclass(frozen=True)
class ShownAttention:
    """Which attention is shown: the names of a cross- and a self-attention of the decoder (empty where there is none), and
    one head (from 0) or, with None, the mean over heads. `name` says it in words, `cross_name` what the first is called."""

    cross: str = ""
    own: str = ""
    head: int | None = None
    name: str = ""
    cross_name: str = ""


def writing_sites(trace: Trace) -> list[AttentionSite]:
    """The attentions of the decoder, by which the next token is found."""
    return [site for site in trace.attention.values() if site.stack == "decoder"]


def reading(trace: Trace, layer: int = 0, head: int | None = None) -> ShownAttention:
    """The attention of a decoder layer (from 0). A cross-attention that has no layers is shown with any of them."""
    sites = writing_sites(trace)
    crossing = {site.layer: site for site in sites if site.role != "self"}
    cross = crossing.get(layer) or next(iter(crossing.values()), None)
    own = next((site for site in sites if site.role == "self" and site.layer == layer), None)
    if cross is not None and words.is_alignment(cross):
        return ShownAttention(cross.name, "", 0, "weights α of the context", "Alignment")
    if not (one := cross or own):
        return ShownAttention()
    who = f"mean over its {one.n_heads} heads" if head is None else f"head {head + 1}"
    crosses = (cross.name, "Cross-attention") if cross else ("", "")
    return ShownAttention(
        crosses[0], own.name if own else "", head, f"decoder layer {layer + 1}, {who}", crosses[1]
    )
