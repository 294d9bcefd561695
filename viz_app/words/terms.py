"""What a task calls the texts that a model reads and writes, and what its models are for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Stream:
    """What a text is called while a model reads or writes it, and one of its tokens."""

    text: str
    token: str


@dataclass(frozen=True)
class Terms:
    """What a task calls the texts that a model reads and writes (by stream), and the boxes they are typed into (by field)."""

    streams: Mapping[str, Stream]
    labels: Mapping[str, str]
    aligned: str = "eng-fra-bahdanau"  # a shipped checkpoint of this task with an alignment
    purpose: str = (
        ""  # what a model of this task does, as the end of a sentence; "" if nobody knows
    )

    def of(self, stream: str) -> Stream:
        """The words for a stream; plain ones for one that the task says nothing of."""
        return self.streams.get(stream, Stream(f"the {stream}", "token"))

    def label(self, field: str) -> str:
        """What stands over the box of a field."""
        return self.labels.get(field, field.replace("_", " ").capitalize())

    @property
    def source(self) -> str:
        """The text the encoder reads."""
        return self.of("source").text

    @property
    def target(self) -> str:
        """The text the decoder writes."""
        return self.of("target").text


def _pair(source: Stream, target: Stream, labels: tuple[str, str], **others: str) -> Terms:
    return Terms(
        {"source": source, "target": target},
        dict(zip(("source", "target"), labels, strict=True)),
        **others,
    )


_TRANSLATION = _pair(
    Stream("the source sentence", "source token"),
    Stream("the translation so far", "translated token"),
    ("Sentence", "Translation"),
)
_DATES = _pair(
    Stream("the date as written", "character of the written date"),
    Stream("the ISO date so far", "character of the ISO date"),
    ("Date, in any format", "ISO date"),
    aligned="dates-bahdanau",
    purpose="turns a date, however it is written, into ISO format",
)
_LANGUAGE = Terms(
    {"text": Stream("the text", "token")},
    {"text": "Text", "continuation": "What follows"},
    purpose="continues a text",
)
_MASKED = Terms(
    {"text": Stream("the text", "token")},
    {"text": "Text, [MASK] for a word", "second_text": "Second text"},
    purpose="guesses hidden words from what stands on both sides, and whether one text follows another",
)
_SPAN = Terms(
    {"text": Stream("question and text", "token")},
    {"question": "Question", "context": "Text that holds the answer"},
    purpose="finds the answer to a question in a text",
)
_PERMUTATION = Terms(
    {"text": Stream("the text", "token")},
    {"text": "Text", "second_text": "Second text"},
    purpose="predicts the tokens of a text in any order, each from those before it in that order",
)
_CLASSIFY = Terms(
    {"text": Stream("the text", "token")},
    {"text": "Text", "second_text": "Second text"},
    purpose="says which of its classes a text belongs to",
)
_OF_A_TASK = {
    "dates": _DATES,
    "language": _LANGUAGE,
    "mlm": _MASKED,
    "permutation": _PERMUTATION,
    "span": _SPAN,
    "classify": _CLASSIFY,
}
_LANGUAGES = {
    "eng": "English",
    "fra": "French",
    "cmn": "Chinese",
    "deu": "German",
    "spa": "Spanish",
    "ita": "Italian",
}


ONE_TEXT = "Empty: one text alone. Type a second one to ask whether it follows the first."

# task → what its models are for, in a word or two, in the order in which they are offered
TASKS = {
    "translation": "translation",
    "dates": "dates",
    "language": "running text",
    "mlm": "hidden words",
    "span": "questions",
    "classify": "classes of texts",
    "permutation": "text in any order",
}


def terms(task: str, name: str = "") -> Terms:
    """The words for a task; a translation checkpoint named "eng-fra" is spoken of as English and French."""
    if task in _OF_A_TASK:
        return _OF_A_TASK[task]
    source, target = (_LANGUAGES.get(part) for part in (*name.split("-"), "", "")[:2])
    if not (source and target):
        return (
            replace(_TRANSLATION, purpose="translates a sentence")
            if task == "translation"
            else _TRANSLATION
        )
    return _pair(
        Stream(f"the {source} sentence", f"{source} token"),
        Stream(f"the {target} so far", f"{target} token"),
        (f"{source} sentence", f"{target} sentence"),
        purpose=f"translates {source} into {target}",
    )
