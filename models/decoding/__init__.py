"""Writing: one token after the other, by several ways of choosing, as step records."""

from models.decoding.beam_search import BeamStep, Hypothesis, beam, length_penalty
from models.decoding.greedy_sample import (
    Step,
    filtered,
    greedy,
    greedy_batch,
    sample,
    teacher_forced,
    written,
)
from models.decoding.incremental import Incremental

__all__ = [
    "BeamStep",
    "Hypothesis",
    "Incremental",
    "Step",
    "beam",
    "filtered",
    "greedy",
    "greedy_batch",
    "length_penalty",
    "sample",
    "teacher_forced",
    "written",
]
