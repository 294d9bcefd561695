"""Example texts; a newcomer sees the first one."""

from models import InputError, Scope
from models.architectures.base import FILE_FIELDS
from models.tasks.date_formats import SOURCE_EXAMPLES

_EXAMPLES = {
    "dates": [source for _, source in SOURCE_EXAMPLES],
    "translation": [
        "She is reading a book.",
        "We like him.",
        "I don't want to go to school today.",
        "Where did you buy this hat?",
        "The little dog that I saw yesterday was very hungry.",
    ],
    "mlm": [
        "The little dog was very [MASK].",
        "She is [MASK] a book.",
        "I don't want to go to [MASK] today.",
    ],
    "span": [
        ("Where is Mary?", "Mary went to the kitchen. John moved to the garden."),
        (
            "Where is the book?",
            "John took the book. Mary went to the office. John moved to the park.",
        ),
    ],
    "permutation": [
        "She is reading a book.",
        "I don't want to go to school today.",
        "The little dog was very hungry.",
    ],
    "classify": [
        "I like it very much, it works well.",
        "The food was cold and the waiter was rude.",
    ],
    "language": [
        "The little dog was very hungry, so",
        "Once upon a time there was",
        "I don't want to go to school",
    ],
}


FieldTexts = tuple[str, ...]  # a text for each of the model's first fields


# example → all correct outputs, not only the usual one
_REFERENCES = {
    "She is reading a book.": ("Elle lit un livre.",),
    "We like him.": ("Nous l'aimons bien.", "Nous l'apprécions."),
    "I don't want to go to school today.": ("Je ne veux pas aller à l'école aujourd'hui.",),
    "Where did you buy this hat?": (
        "Où as-tu acheté ce chapeau ?",
        "Où avez-vous acheté ce chapeau ?",
    ),
    "The little dog that I saw yesterday was very hungry.": (
        "Le petit chien que j'ai vu hier avait très faim.",
    ),
    "The boy has an apple in his pocket.": ("Le garçon a une pomme dans sa poche.",),
    "Friday, the 31st of May, 2024": ("2024-05-31",),
    "le dimanche 1er mai 1994": ("1994-05-01",),
    "viernes, 15 de noviembre de 2024": ("2024-11-15",),
    "Di., den 27. August 2024": ("2024-08-27",),
    "24/07/69": ("1969-07-24",),
    "2025年10月20日(月)": ("2025-10-20",),
}


def references(text: str) -> tuple[str, ...]:
    """Return the correct outputs for an example; empty for any other text."""
    return _REFERENCES.get(text.strip(), ())


def examples(task: str) -> list:
    """Return example sources for a task: texts, or tuples of texts for several fields."""
    return _EXAMPLES.get(task, _EXAMPLES["translation"])


def readable_examples(scope: Scope) -> list[FieldTexts]:
    """Return the examples that this model can read: its checkpoint's own, else its task's.

    If all are too long, the result is the first example with its last text shortened.
    """
    n = len(scope.model.text_fields)
    if not n or scope.model.fields[0].kind in FILE_FIELDS:  # its examples are in its own box
        return [()]
    candidates = [
        (example,) if isinstance(example, str) else tuple(example[:n])
        for example in scope.examples or examples(scope.task)
    ]
    # text boxes hold a single line, unless the model reads line breaks
    keeps_lines = holds_lines(scope)
    lines = [
        tuple(text.strip() if keeps_lines else text.strip().splitlines()[-1] for text in texts)
        for texts in candidates
        if all(map(str.strip, texts))
    ]
    *first, last = lines[0]
    beginnings = ((*first, last[:end]) for end in range(len(last), 0, -1))
    return [texts for texts in lines if reads_text(scope, *texts)] or [
        next((shortened for shortened in beginnings if reads_text(scope, *shortened)), lines[0])
    ]


def example_choices(scope: Scope) -> list[str]:
    """Return the first text of each readable example."""
    return [first for first, *_ in readable_examples(scope)]


def holds_lines(scope: Scope) -> bool:
    """Return True if texts of this model may have several lines: its tokens encode a line break."""
    if not scope.model.text_fields:
        return False
    try:
        return scope.tokenizer.decode(scope.tokenizer.encode("\n").ids) == "\n"
    except InputError:  # a module's own tokens may know no line break
        return False


def reads_text(scope: Scope, *texts: str) -> bool:
    try:
        scope.encode(*texts)
    except InputError:
        return False
    return True
