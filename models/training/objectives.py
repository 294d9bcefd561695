"""Training objectives."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from models.tokenizers.base import PAD


def label_smoothed_loss(
    logits: Float[Tensor, "batch m vocab"], labels: Int[Tensor, "batch m"], smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Cross-entropy summed over all real tokens, in nats, with label smoothing ε (Szegedy et al. 2016; Vaswani §5.4)."""
    return F.cross_entropy(
        logits.flatten(0, 1).float(), labels.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )
