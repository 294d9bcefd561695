"""Texts to start from, by task. The first one is what a newcomer sees."""

from models.tasks.date_formats import SOURCE_EXAMPLES

_EXAMPLES = {
    "dates": [source for _, source in SOURCE_EXAMPLES],
    "translation": [
        "She is reading a book.", "We like him.", "I don't want to go to school today.", "Where did you buy this hat?",
        "The little dog that I saw yesterday was very hungry.",
    ],
}


def examples(task: str) -> list[str]:
    """Example sources for a task, at least one."""
    return _EXAMPLES.get(task, _EXAMPLES["translation"])
