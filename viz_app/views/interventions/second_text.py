"""A second text that differs in one word, or another example of a file.

Both runs can then be compared position by position.
"""

import re
from typing import cast

from models import InputError, Scope
from models.architectures.base import FILE_FIELDS, TEXT_FIELD
from models.field_file import FieldFile
from models.trace import Trace
from viz_app.input_bar.examples import readable_examples
from viz_app.session.own_files import FILE_KINDS
from viz_app.views.interventions.patch_runs import reads_same, second_fields

# a word → one that may replace it; each pair is tried in this order, and both ways
WORD_PAIRS = (
    ("She", "He"), ("she", "he"), ("dog", "cat"), ("boy", "girl"), ("him", "her"), ("I", "You"), ("We", "They"),
    ("good", "bad"), ("like", "hate"), ("cold", "great"), ("was", "is"), ("I was", "I am"), ("years", "days"), ("long", "short"),
)  # fmt: skip
_WORD = r"(?<![\w\[]){}(?![\w\]])"
# what a changed word may leave behind: "You am", "are she", "You'm", "him umbrella"
_DISAGREES = re.compile(
    r"(?i)\b(?:I (?:are|is|were|has|does)|(?:You|We|They) (?:am|is|was|has|does)|(?:She|He) (?:am|are|were|have|do))\b"
    r"|\b(?:am|was|is) (?:you|we|they)\b|\b(?:are|were) (?:I|she|he)\b"
    r"|\b(?:You|We|They)['’][ms]\b|\bI['’](?:re|s)\b|\b(?:She|He)['’](?:m|re|ve)\b"
    r"|\bhim (?!(?:an?|the|to|that|and|in|on|at|for|with|from)\b)[\w\[]"
)


def propose_second_text(scope: Scope, trace: Trace) -> tuple[str, ...]:
    """Return what the other run reads: this run's text with a word, digit or name exchanged.

    For a file it is the first example that is another file.
    """
    fields = second_fields(scope, trace)
    texts = [cast(str, trace.fields.get(field.name) or "") for field in fields]
    for i, text in enumerate(texts):
        for candidate in _candidates(text):
            proposed = (*texts[:i], candidate, *texts[i + 1 :])
            agrees = _DISAGREES.search(text) or not _DISAGREES.search(candidate)
            if candidate != text and agrees and _fits(scope, trace, proposed):
                return proposed
    for i, one in enumerate(texts):
        if isinstance(one, FieldFile):  # of another length
            return (*texts[:i], *_candidates(one)[:1], *texts[i + 1 :])
    for example in readable_examples(scope):
        if len(example) == len(texts) and list(example) != texts:
            return example
    return tuple(texts)


def _candidates(text: str) -> list[str]:
    candidates = []
    for kind in FILE_KINDS.values():
        if isinstance(text, kind.file_type):
            return [file for name in kind.examples if (file := kind.example(name)) != text]
    for pair in WORD_PAIRS:
        for word, other in (pair, pair[::-1]):
            if re.search(_WORD.format(word), text):
                candidates.append(re.sub(_WORD.format(word), other, text, count=1))
    names = re.findall(r"(?<!^)(?<![.?!] )\b[A-Z][a-z]+", text)
    candidates += [text.replace(names[0], name, 1) for name in ("John", "Mary") if names]
    for match in reversed(list(re.finditer(r"\d", text))):
        digit = (int(match[0]) + 1) % 10
        candidates.append(f"{text[: match.start()]}{digit}{text[match.end() :]}")
    words = text.split(" ")
    candidates += [
        " ".join([*words[: i - 1], words[i], words[i - 1], *words[i + 1 :]])
        for i in range(len(words) - 1, 0, -1)
        if words[i] != words[i - 1]
    ]
    return candidates[:24]


def _fits(scope: Scope, trace: Trace, texts: tuple[str, ...]) -> bool:
    """Return True if the model can read them and they have as many tokens as the run."""
    names = [field.name for field in second_fields(scope, trace)]
    values = dict(trace.fields) | dict(zip(names, texts, strict=True))
    try:
        rows = scope.encode(
            **{
                field.name: values.get(field.name)
                for field in scope.model.fields
                if field.kind in (TEXT_FIELD, *FILE_FIELDS)
            }
        )
    except (InputError, TypeError):
        return False
    streams = {field.stream for field in scope.model.fields if field.name in names}
    return all(
        len(rows[stream].ids) == len(trace.streams[stream].ids)
        and not reads_same(rows[stream], trace.streams[stream])
        for stream in streams
    )
