"""Read lesson files: Markdown with one field per line.

    # How many heads can go?
    What a model answers when its heads are switched off one by one.
    minutes: 6

    ## Switch one head off. Does the answer change?
    open: interventions?checkpoint=eng-fra&source=We+like+him.
    look: board
    There are 8 heads in each of 3 layers, three times.

    predict: choose
    - yes: Yes, it changes
    - no: No, it stays the same
    then: pin ?edits=...
    happened: {run.output = pinned.output ? no | yes}
    reveal: Without the head it writes "{run.output}".

`open` is a page with its address, `then` is the change after the prediction:
"attention?lock=q2" opens another page, "?lock=q2" stays, and "pin" before it pins the run before.
`look` is the picture that is marked. A field continues on the lines after it; an empty line within
`reveal` begins a new paragraph.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from models.checkpoint import CheckpointError
from models.checkpoint_files import read_bytes
from viz_app.lessons.lesson import (
    CELLS_STEP,
    CHOOSE_STEP,
    MAX_LESSON_STEPS,
    STEP_KINDS,
    Lesson,
    LessonStep,
    Prediction,
    Query,
)
from viz_app.lessons.readings import READ_RUNS, READINGS
from viz_app.lessons.sentence import Reading, Sentence, read_sentence
from viz_app.session.lesson_state import LESSON_KEYS
from viz_app.session.parameters import Parameter

MAX_LESSON_BYTES = 100_000  # bytes of a lesson file
MAX_OPTIONS = 6
MAX_LESSON_MINUTES = 60
MAX_REASON_LENGTH = 300  # characters of an error, which may quote the file
STEP_FIELDS = ("open", "look", "predict", "then", "happened", "reveal")
CHECKPOINT_KEY = "checkpoint"
_OPTION = re.compile(r"- ([a-z0-9-]{1,30}): (.+)")
_NAME = re.compile(r"[\w-]{1,60}")

Line = tuple[int, str]  # its number in the file, and its text
FieldLines = dict[str, list[Line]]


class LessonError(ValueError):
    """A lesson file that cannot be read; the message names the file and the line."""


def read_lesson(path: Path, pages: Collection[str], parameters: Mapping[str, Parameter]) -> Lesson:
    """Read a lesson file; its addresses may name these pages and URL parameters.

    Raises:
        LessonError: the file is not a lesson.
    """
    try:
        text = read_bytes(path, MAX_LESSON_BYTES).decode("utf-8-sig")
    except (CheckpointError, UnicodeDecodeError) as error:
        raise LessonError(str(error)) from None
    return parse_lesson(text, path, pages, parameters)


def parse_lesson(
    text: str, path: Path, pages: Collection[str], parameters: Mapping[str, Parameter]
) -> Lesson:
    """Parse the text of a lesson file; `path` names it.

    Raises:
        LessonError: the text is not a lesson.
    """
    return _Reader(path, pages, parameters).lesson(text)


class _Reader:
    def __init__(
        self, path: Path, pages: Collection[str], parameters: Mapping[str, Parameter]
    ) -> None:
        self.path, self.pages, self.parameters = path, pages, parameters

    def fail(self, number: int, why: str) -> LessonError:
        reason = why if len(why) <= MAX_REASON_LENGTH else f"{why[:MAX_REASON_LENGTH]} …"
        return LessonError(f"{self.path.name}, line {number}: {reason}")

    def lesson(self, text: str) -> Lesson:
        if not _NAME.fullmatch(self.path.stem):
            raise self.fail(1, "the file's name may contain letters, digits, _ and - only")
        if any(ord(c) < 32 and c not in "\r\n\t" for c in text):
            raise self.fail(1, "the file contains control characters")
        parts = list(_parts(text))
        if not parts or not parts[0][0][1].startswith("# "):
            raise self.fail(1, "a lesson begins with its title: # Title")
        (number, title), *lines = parts[0]
        head = self.fields(lines, ("minutes",))
        minutes = self.one_line(head, "minutes", number)
        if not re.fullmatch("[1-9][0-9]?", minutes[1]) or int(minutes[1]) > MAX_LESSON_MINUTES:
            raise self.fail(minutes[0], f"minutes is a whole number from 1 to {MAX_LESSON_MINUTES}")
        if not 1 <= len(parts) - 1 <= MAX_LESSON_STEPS:
            raise self.fail(number, f"a lesson has 1 to {MAX_LESSON_STEPS} steps: ## Question")
        steps = tuple(self.step(part) for part in parts[1:])
        about = _joined(head[""])
        return Lesson(self.path.stem, title[2:].strip(), about, int(minutes[1]), steps)

    def step(self, lines: list[Line]) -> LessonStep:
        (number, title), *others = lines
        fields = self.fields(others, STEP_FIELDS)
        page, query = self.address(self.one_line(fields, "open", number), self.pages)
        look = self.one_line(fields, "look", number)[1] if "look" in fields else ""
        pins, then_page, then = False, page, {}
        if "then" in fields:
            at, line = self.one_line(fields, "then", number)
            pins = line.startswith("pin ")
            pin_line = at, line.removeprefix("pin ").strip()
            place, then = self.address(pin_line, ("", *self.pages))
            then_page = place or page
            if pins and CHECKPOINT_KEY not in query:
                raise self.fail(
                    fields["open"][0][0], "a step that pins its run names its checkpoint"
                )
        prediction = self.prediction(fields, number)
        happened = self.sentence(fields, "happened", number)
        if len(happened.parts) != 1 or not happened.places:
            raise self.fail(fields["happened"][0][0], "happened is one reading: {…}")
        self.check_happened(happened, prediction, fields["happened"][0][0])
        reveal = self.paragraphs(fields, number)
        return LessonStep(
            question=title[3:].strip(),
            text=_joined(fields[""]),
            page=page,
            query=query,
            prediction=prediction,
            then_page=then_page,
            then=then,
            pins=pins,
            looks_at=look,
            happened=happened,
            reveal=reveal,
        )

    def fields(self, lines: list[Line], names: Collection[str]) -> FieldLines:
        """Return the lines of each field, those before the first field under ""."""
        lines_by_field: FieldLines = {"": []}
        name = ""
        for number, text in lines:
            key, colon, rest = text.partition(":")
            if colon and key in (*STEP_FIELDS, "minutes"):
                if key not in names:
                    raise self.fail(number, f"{key} does not belong here")
                if key in lines_by_field:
                    raise self.fail(number, f"{key} appears twice")
                name, lines_by_field[key] = key, [(number, rest.strip())]
            # these fields have one line, after which the text continues
            elif name in ("open", "look", "minutes", "then"):
                name = ""
                lines_by_field[name].append((number, text))
            else:
                lines_by_field[name].append((number, text))
        return lines_by_field

    def one_line(self, fields: FieldLines, name: str, number: int) -> Line:
        if name not in fields or not fields[name][0][1]:
            raise self.fail(number, f"{name} is missing")
        return fields[name][0]

    def address(self, line: Line, places: Collection[str]) -> tuple[str, Query]:
        number, text = line
        parts = urlsplit(text)
        if parts.scheme or parts.netloc or parts.fragment or parts.path not in places:
            listed = ", ".join(sorted(filter(None, places)))
            raise self.fail(
                number, f"an address begins with one of {listed}, not {parts.path[:40]}"
            )
        try:
            query = parse_qs(parts.query, keep_blank_values=True, max_num_fields=60)
        except ValueError:
            raise self.fail(number, "the address has too many parameters") from None
        for name, texts in query.items():
            if name not in self.parameters:
                raise self.fail(number, f"there is no URL parameter {name[:40]}")
            if name in LESSON_KEYS:
                raise self.fail(number, f"{name} is not part of a step")
            if message := self.parameters[name].why_invalid(texts):
                raise self.fail(number, message)
        return parts.path, query

    def prediction(self, fields: FieldLines, number: int) -> Prediction:
        number, text = self.one_line(fields, "predict", number)
        kind, _, of = text.partition(" ")
        if kind not in STEP_KINDS:
            raise self.fail(number, f"predict is one of {', '.join(STEP_KINDS)}, not {kind[:40]}")
        of = of.strip()
        if bool(of) != bool(STEP_KINDS[kind]):
            raise self.fail(number, f"after {kind} comes {STEP_KINDS[kind] or 'nothing'}")
        lines = [line for line in fields["predict"][1:] if line[1].strip()]
        if kind != CHOOSE_STEP:
            if lines:
                raise self.fail(lines[0][0], f"{kind} has no options")
            return Prediction(kind, of)
        options: dict[str, str] = {}
        for at, line in lines:
            match = _OPTION.fullmatch(line.strip())
            if match is None or match[1] in options:
                raise self.fail(at, "an option is one line, with its own key: - key: text")
            options[match[1]] = match[2]
        if not 2 <= len(options) <= MAX_OPTIONS:
            raise self.fail(number, f"choose has 2 to {MAX_OPTIONS} options")
        return Prediction(kind, options=options)

    def check_happened(self, happened: Sentence, prediction: Prediction, number: int) -> None:
        """Check that what happened can be what was predicted."""
        place = happened.places[0]
        if prediction.kind == CHOOSE_STEP:
            for key in (place.if_so, place.if_not) if place.chooses else ():
                if key not in prediction.options:
                    raise self.fail(number, f"{key[:40]} is not one of the options")
        fitting = [n for n, named in READINGS.items() if named.predicted_as == prediction.kind]
        is_fitting = isinstance(place.left, Reading) and place.left.name in fitting
        if fitting and (place.sign or not is_fitting):
            listed = " or ".join(fitting)
            raise self.fail(number, f"after predict: {prediction.kind}, happened is {listed}")
        if prediction.kind == CELLS_STEP and place.left.arguments != (prediction.of,):
            raise self.fail(number, f"happened is of another attention than {prediction.of[:40]}")

    def sentence(self, fields: FieldLines, name: str, number: int) -> Sentence:
        number, _ = self.one_line(fields, name, number)
        return self.parsed(_joined(fields[name]), number)

    def paragraphs(self, fields: FieldLines, number: int) -> tuple[Sentence, ...]:
        number, _ = self.one_line(fields, "reveal", number)
        texts: list[list[Line]] = [[]]
        for line in fields["reveal"]:
            if line[1].strip():
                texts[-1].append(line)
            elif texts[-1]:
                texts.append([])
        return tuple(self.parsed(_joined(lines), lines[0][0]) for lines in texts if lines)

    def parsed(self, text: str, number: int) -> Sentence:
        try:
            sentence = read_sentence(text)
        except ValueError as error:
            raise self.fail(number, str(error)) from None
        for reading in sentence.readings:
            if reading.whose not in READ_RUNS:
                raise self.fail(number, f"{reading.whose} is not one of {', '.join(READ_RUNS)}")
            if reading.name not in READINGS:
                raise self.fail(number, f"{reading.name} is not one of {', '.join(READINGS)}")
            if not READINGS[reading.name].fits(reading.arguments):
                raise self.fail(number, f"{reading.name} is written {READINGS[reading.name].form}")
        return sentence


def _parts(text: str) -> Iterator[list[Line]]:
    """Yield the lines of the head and of each step; a heading begins each."""
    part: list[Line] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## ") and part:
            yield part
            part = []
        if part or line.strip():
            part.append((number, line))
    if part:
        yield part


def _joined(lines: list[Line]) -> str:
    return " ".join(text.strip() for _, text in lines if text.strip())
