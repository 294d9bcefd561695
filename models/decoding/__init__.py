"""Text generation, one token at a time, by several methods, as step records."""

from models.decoding.beam_search import BeamStep, Hypothesis, beam, length_penalty
from models.decoding.greedy_sample import (
    Step,
    filtered,
    generate,
    greedy,
    greedy_batch,
    sample,
    teacher_forced,
)
from models.decoding.incremental import Incremental

__all__ = [
    "BeamStep",
    "Hypothesis",
    "Incremental",
    "Step",
    "beam",
    "filtered",
    "generate",
    "greedy",
    "greedy_batch",
    "length_penalty",
    "sample",
    "teacher_forced",
]
