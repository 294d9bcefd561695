"""The waist: what a run leaves behind. `record()` collects it, a Trace holds it; nothing else leaves a model."""

from models.trace.recorder import Activation, AttentionSite, Recording, Trace, current, finish, record, tap

__all__ = ["Activation", "AttentionSite", "Recording", "Trace", "current", "finish", "record", "tap"]
