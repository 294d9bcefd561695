"""Two models on one pair: which can be compared, which head is nearest, and whether both rows are what they claim to be."""

from collections.abc import Sequence

import torch
from torch import Tensor

from models import Scope
from models.analysis.checks import Check
from models.analysis.divergence import jensen_shannon
from models.trace import AttentionSite, Trace
from viz_app.views.from_rnn.maps import AlignmentMap


def has_alignment(scope: Scope) -> bool:
    """Return True if it is recurrent with Bahdanau's alignment."""
    return any(kind.role == "alignment" for kind in scope.model.kinds)


def has_heads(scope: Scope) -> bool:
    """Return True if it is a Transformer with cross-attention."""
    roles = [(kind.stack, kind.role) for kind in scope.model.kinds]
    return not scope.model.is_recurrent and {("decoder", "self"), ("decoder", "cross")} <= set(
        roles
    )


def cross(trace: Trace) -> list[AttentionSite]:
    """Its cross-attentions, first layer first."""
    return sorted(
        (site for site in trace.attention.values() if site.role != "self"),
        key=lambda site: site.layer,
    )


def same_rows(first: Trace, second: Trace) -> bool:
    """Return True if both runs stand on the same tokens, source and target."""
    return all(
        first.streams[name].tokens == second.streams[name].tokens for name in ("source", "target")
    )


def nearest(alignment: Tensor, sites: Sequence[AttentionSite]) -> tuple[int, int]:
    """(place in sites, head) with the least mean divergence from the alignment over all steps."""
    each = [
        [jensen_shannon(site.weights(head), alignment).mean() for head in range(site.n_heads)]
        for site in sites
    ]
    apart = torch.tensor(each)  # (site, head)
    return tuple(divmod(int(apart.argmin()), apart.shape[1]))


def checks(
    traces: Sequence[Trace], pair: Sequence[AlignmentMap], divergence: Tensor
) -> list[Check]:
    """Rows sum to 1; and the divergence again by its other definition, through the Kullback–Leibler divergence.

    Float32: log-ratios of small weights cost some digits."""
    rows = max(float((one.weights.sum(-1) - 1).abs().max()) for one in pair)
    p, q = (one.weights.double() for one in pair)
    half = (p + q) / 2
    again = (
        sum((torch.xlogy(one, one) - torch.xlogy(one, half)).sum(-1) for one in (p, q))
        / 2
        / torch.log(torch.tensor(2.0))
    )
    gap = float((divergence - again).abs().max())
    same = sum(
        a != b
        for a, b in zip(
            traces[0].streams["target"].ids, traces[1].streams["target"].ids, strict=True
        )
    )
    return [
        Check(
            "rows sum to 1",
            rows,
            1e-5,
            "Each row of weights sums to 1; largest difference in both pictures",
        ),
        Check(
            "both read the same target",
            float(same),
            0.0,
            "Target tokens that differ between the two runs",
        ),
        Check(
            "the divergence, by its other definition",
            gap,
            1e-5,
            "½·KL(p‖m) + ½·KL(q‖m), m = (p + q)/2; largest gap in bits",
        ),
    ]
