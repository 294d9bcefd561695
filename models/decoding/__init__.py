"""Writing: one token after the other, by several ways of choosing, as step records."""

from models.decoding.search import (
    BeamStep,
    Hypothesis,
    Incremental,
    Step,
    beam,
    filtered,
    greedy,
    greedy_batch,
    length_penalty,
    sample,
    teacher_forced,
    written,
)

__all__ = [
    "BeamStep", "Hypothesis", "Incremental", "Step", "beam", "filtered", "greedy", "greedy_batch", "length_penalty",
    "sample", "teacher_forced", "written",
]
