"""Analyses of a run and of a model's weights: measures, comparisons and checks."""

from models.analysis.best_offset import best_offset
from models.analysis.effects import HeadEffects, cell_effects, effects_of, head_effects
from models.analysis.metrics import Divergence, LogitDifference, LogProbability, Loss, Metric

__all__ = [
    "Divergence", "HeadEffects", "LogProbability", "LogitDifference", "Loss", "Metric", "best_offset", "cell_effects", "effects_of",
    "head_effects",
]  # fmt: skip
