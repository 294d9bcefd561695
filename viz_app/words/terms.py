"""Task-specific names of the texts that a model reads and writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from models.tasks.languages import language_name


@dataclass(frozen=True)
class Stream:
    """The display names of a text that a model reads or writes and of one of its tokens."""

    text: str
    token: str


@dataclass(frozen=True)
class Terms:
    """Task-specific names: of texts by stream, and of their input boxes by field."""

    streams: Mapping[str, Stream]
    labels: Mapping[str, str]
    aligned: str = "eng-fra-bahdanau"  # a shipped checkpoint of this task with an alignment

    def of(self, stream: str) -> Stream:
        """Return the names for a stream, generic ones if the task does not name it."""
        return self.streams.get(stream) or _ANYWHERE.get(stream, Stream(f"the {stream}", "token"))

    def label(self, field: str) -> str:
        """Return the label of a field's input box."""
        return self.labels.get(field, field.replace("_", " ").capitalize())

    @property
    def source(self) -> str:
        """The name of the text the encoder reads."""
        return self.of("source").text

    @property
    def target(self) -> str:
        """The name of the text the decoder writes."""
        return self.of("target").text


_ANYWHERE = {  # streams whose name is the same in all tasks
    "patches": Stream("the image", "token"),
    "frames": Stream("the sound", "frame"),
    "spectrogram": Stream("the sound", "token"),
    "transcript": Stream("the transcript so far", "token"),
}


def _pair(source: Stream, target: Stream, labels: tuple[str, str], **fields: str) -> Terms:
    return Terms(
        {"source": source, "target": target},
        dict(zip(("source", "target"), labels, strict=True)),
        **fields,
    )


def _one_text(text: Stream, label: str, continuation: str) -> Terms:
    return Terms({"text": text}, {"text": label, "continuation": continuation})


def _either(pair: Terms, text: Stream, label: str) -> Terms:
    """Return names for a task that is read as two texts by some models and as one by others."""
    one = _one_text(text, label, "Answer")
    return Terms({**pair.streams, **one.streams}, {**pair.labels, **one.labels})


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
)
_ENGLISH_DATES = _pair(
    Stream("the date in English", "character of the English date"),
    Stream("the ISO date so far", "character of the ISO date"),
    ("Date, such as 5 March 2019", "ISO date"),
)
_LETTERS = _either(
    _pair(
        Stream("the letters", "letter"),
        Stream("the answer so far", "letter of the answer"),
        ("Letters a to j", "Answer"),
    ),
    Stream("the letters and the answer", "letter"),
    "Letters a to j, =, and their answer",
)
_SUMS = _either(
    _pair(
        Stream("the two numbers", "digit"),
        Stream("the sum so far", "digit of the sum"),
        ("Two numbers of three digits", "Sum"),
    ),
    Stream("the two numbers and their sum", "digit"),
    "Two numbers of three digits and =",
)
_REPEATED = _one_text(
    Stream("the letters", "letter"), "Letters a to l, some repeated", "What follows"
)
_CHAIN = _one_text(
    Stream("the letters so far", "letter"), "Letters a to c of a chain", "What follows"
)
_LANGUAGE = Terms(
    {"text": Stream("the text", "token")},
    {"text": "Text", "continuation": "What follows"},
)
_MASKED = Terms(
    {"text": Stream("the text", "token")},
    {"text": "Text (type [MASK] to hide a word)", "second_text": "Second text"},
)
_SPAN = Terms(
    {"text": Stream("question and text", "token")},
    {"question": "Question", "context": "Text that holds the answer"},
)
_PERMUTATION = Terms(
    {"text": Stream("the text", "token")},
    {"text": "Text", "second_text": "Second text"},
)
_CLASSIFY = Terms(
    {"text": Stream("the text", "token")},
    {"text": "Text", "second_text": "Second text"},
)
_BY_TASK = {
    "dates": _DATES,
    "english-dates": _ENGLISH_DATES,
    "copy": _LETTERS,
    "reverse": _LETTERS,
    "sort": _LETTERS,
    "addition": _SUMS,
    "repeat": _REPEATED,
    "markov": _CHAIN,
    "language": _LANGUAGE,
    "mlm": _MASKED,
    "permutation": _PERMUTATION,
    "span": _SPAN,
    "classify": _CLASSIFY,
}
ONE_TEXT = "Type a second text: the model predicts whether it follows the first."


def terms(task: str, languages: Sequence[str] = ()) -> Terms:
    """Return the names for a task; a translation from one language to another names them.

    `languages` are ISO codes, source before target, as a training record holds them.
    """
    if task in _BY_TASK:
        return _BY_TASK[task]
    if task != "translation" or len(languages) != 2:
        return _TRANSLATION
    source, target = map(language_name, languages)
    return _pair(
        Stream(f"the {source} sentence", f"{source} token"),
        Stream(f"the {target} so far", f"{target} token"),
        (f"{source} sentence", f"{target} sentence"),
    )
