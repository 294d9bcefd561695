"""The waist: what a run leaves behind, and what was changed in it. `record()` collects it, a Trace holds it; nothing else leaves
a model."""

from models.trace.activation import Activation
from models.trace.recorder import Recording, current, record, tap
from models.trace.run import RunModel, Trace, finish
from models.trace.site import AttentionSite, ScoreTerm

__all__ = ["Activation", "AttentionSite", "Recording", "RunModel", "ScoreTerm", "Trace", "current", "finish", "record", "tap"]
