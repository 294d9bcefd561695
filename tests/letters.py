"""A Transformer with random weights that reads letters, made once: the model behind the tests of drawings."""

import functools
import tempfile
from pathlib import Path

from small import random_model

import models
from models.checkpoint import save_checkpoint
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from models.trace import Trace
from viz_app import words

SOURCE, TARGET = "abcdeab", "edcba"
CROSS, SELF = "decoder.layers.1.cross_attn", "decoder.layers.1.self_attn"
TERMS = words.terms("reversal")


@functools.cache
def scope() -> Scope:
    tokenizer = Tokenizer.characters("abcde")
    model = random_model(vocab_size=tokenizer.vocab_size, n_ctx=41)
    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(Path(folder) / "letters", model, tokenizer, {"step": 0, "task": "letters"})
        return models.load(Path(folder) / "letters", device="cpu")


@functools.cache
def trace(source: str = SOURCE, target: str = TARGET) -> Trace:
    return scope().run(source, target)
