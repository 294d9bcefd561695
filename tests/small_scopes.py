"""A scope of each family with random weights, and two texts of equal length that each can read."""

from pathlib import Path

import torch
from small import (
    random_attention_only,
    random_bert,
    random_gpt,
    random_model,
    random_seq2seq,
    random_xlnet,
    words_of,
)

from models.architectures import Model
from models.checkpoint import Checkpoint
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer

LETTERS, WORDS = Tokenizer.characters("abcdefg"), words_of("ab ba cd dc ef fe ga", "ag")
MAKERS = {
    "transformer": (random_model, LETTERS),
    "seq2seq": (random_seq2seq, LETTERS),
    "attention only": (random_attention_only, LETTERS),
    "gpt": (random_gpt, LETTERS),
    "bert": (random_bert, WORDS),
    "xlnet": (random_xlnet, WORDS),
}
HELD_OUT = [
    "ab cd ef", "ba dc fe", "cd ab", "dc ab ef", "ef", "ga ab ba cd", "ab ab cd dc", "fe fe", "cd cd cd", "ba ga", "ef cd ab ba ga",
]  # fmt: skip


def scope_of(family: str, **training: object) -> Scope:
    """Return a model of a family with the held-out texts as its examples."""
    make, tokenizer = MAKERS[family]
    return as_scope(make(vocab_size=tokenizer.vocab_size), tokenizer, family, **training)


def as_scope(model: Model, tokenizer: Tokenizer, name: str, **training: object) -> Scope:
    """Wrap a model in a scope."""
    texts = [as_text(text, tokenizer) for text in HELD_OUT]
    record = {"examples": texts, "held_out": [[text] for text in texts], **training}
    return Scope(Checkpoint(Path(name), model, tokenizer, record), torch.device("cpu"))


def as_text(text: str, tokenizer: Tokenizer) -> str:
    """Return the text in a form that this tokenizer reads: words, or their letters."""
    return text.replace(" ", "") if tokenizer is LETTERS else text


def fields(scope: Scope, text: str, target: str = "ba cd") -> tuple[str, ...]:
    """Return the fields of a run on a text, with a target if the model reads one."""
    texts = (text, target) if scope.model.translates else (text,)
    return tuple(as_text(one, scope.tokenizer) for one in texts)
