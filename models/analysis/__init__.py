"""Analyses of a run and of a model's weights: measures, comparisons and checks."""

from models.analysis.attribution import (
    attention_gradients,
    attribution_patching,
    integrated_gradients,
    positive_mean,
)
from models.analysis.best_offset import best_offset
from models.analysis.cells import cell_effects
from models.analysis.direct_logits import logit_parts
from models.analysis.effects import HeadEffects, effects_of, head_effects
from models.analysis.metrics import Divergence, LogitDifference, LogProbability, Loss, Metric
from models.analysis.mixing import flow, rollout, value_zeroing

__all__ = [
    "Divergence", "HeadEffects", "LogProbability", "LogitDifference", "Loss", "Metric", "attention_gradients", "attribution_patching",
    "best_offset", "cell_effects", "effects_of", "flow", "head_effects", "integrated_gradients", "logit_parts", "positive_mean", "rollout",
    "value_zeroing",
]  # fmt: skip
