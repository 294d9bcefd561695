"""Texts to start from. The first one is what a newcomer sees."""

from models import InputError, Scope
from models.tasks.date_formats import SOURCE_EXAMPLES

_EXAMPLES = {
    "dates": [source for _, source in SOURCE_EXAMPLES],
    "translation": [
        "She is reading a book.", "We like him.", "I don't want to go to school today.", "Where did you buy this hat?",
        "The little dog that I saw yesterday was very hungry.",
    ],
    "language": ["The little dog was very hungry, so", "Once upon a time there was", "I don't want to go to school"],
}


def examples(task: str) -> list[str]:
    """Example sources for a task, at least one."""
    return _EXAMPLES.get(task, _EXAMPLES["translation"])


def suited(scope: Scope) -> list[str]:
    """At least one source that this model can read: its checkpoint's own examples, else its task's; if all are too long
    for it, as much of the first as it can read."""
    whole = scope.examples or examples(scope.task)
    lines = holds_lines(scope)
    offered = [text.strip() if lines else text.strip().splitlines()[-1] for text in whole if text.strip()]
    beginnings = (offered[0][:end] for end in range(len(offered[0]), 0, -1))
    return [text for text in offered if readable(scope, text)] or [next(b for b in beginnings if readable(scope, b))]


def holds_lines(scope: Scope) -> bool:
    """Whether a text of this model may have several lines: whether a line break comes back from its tokens."""
    tokenizer = scope.tokenizer
    return tokenizer.decode(tokenizer.encode("\n").ids) == "\n"


def readable(scope: Scope, text: str) -> bool:
    try:
        scope.encode(text)
    except InputError:
        return False
    return True
