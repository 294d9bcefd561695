"""Recordings of a run and changes to it.

`record()` collects what a model computes and a Trace holds it; no intermediate leaves a model in
any other way.
"""

from models.trace.activation import Activation
from models.trace.recorder import Recording, TracedModule, current, record, tap
from models.trace.run import RunModel, Trace, finish, in_float32
from models.trace.site import AttentionSite
from models.trace.terms import DistanceTerm, RelativePositionTerm, ScoreTerm, SegmentTerm

__all__ = [
    "Activation",
    "AttentionSite",
    "DistanceTerm",
    "Recording",
    "RelativePositionTerm",
    "RunModel",
    "ScoreTerm",
    "SegmentTerm",
    "Trace",
    "TracedModule",
    "current",
    "finish",
    "in_float32",
    "record",
    "tap",
]  # fmt: skip
