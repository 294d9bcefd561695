"""Classes: which step of a lesson a teacher has opened for pupils, and what they predict.

A class has a code of eight digits. All server processes of an app share one SQLite file, which
is deleted when the app ends. It has no names: a person is a random text that their browser keeps.
A class and its predictions are deleted when the teacher ends it, or after an hour without the
teacher.
"""

import hashlib
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from viz_app.common_folder import common_folder
from viz_app.lessons.form import MAX_PREDICTION, PredictionForm, value_of
from viz_app.lessons.lesson import MAX_LESSON_STEPS

MAX_OPEN_CLASSES, MAX_PUPILS = 20, 200
CODE_DIGITS = 8  # of a code
MAX_FORM_LENGTH = 20_000  # characters
AWAY = 60.0  # s without a sign of a pupil before they are no longer counted
EXPIRES = 3600.0  # s without a sign of the teacher before a class ends
_PATIENCE = 10.0  # s to wait for another process to write
_TABLES = """
PRAGMA journal_mode=WAL;
CREATE TABLE IF NOT EXISTS class (code TEXT PRIMARY KEY, teacher TEXT, lesson TEXT, step INTEGER, seen REAL);
CREATE TABLE IF NOT EXISTS step (code TEXT REFERENCES class ON DELETE CASCADE, step INTEGER, form TEXT, released INTEGER DEFAULT 0,
  PRIMARY KEY (code, step));
CREATE TABLE IF NOT EXISTS pupil (code TEXT REFERENCES class ON DELETE CASCADE, person TEXT, seen REAL, PRIMARY KEY (code, person));
CREATE TABLE IF NOT EXISTS vote (code TEXT REFERENCES class ON DELETE CASCADE, step INTEGER, person TEXT, prediction TEXT,
  PRIMARY KEY (code, step, person));
"""


class ClassError(ValueError):
    """An action that a class does not allow; the message is for the person who tried it."""


@dataclass(frozen=True)
class ClassStatus:
    """The state of a class: the open step, and whether its reveal is shown."""

    code: str
    lesson: str
    step: int
    is_released: bool

    @property
    def stage(self) -> str:
        """A text that changes when the pages of pupils have to."""
        return f"{self.step}.{int(self.is_released)}"


class Classes:
    """All classes of an app, in the file of this folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "classes.sqlite"
        self._local = threading.local()
        with self._open() as db:
            db.executescript(_TABLES)

    def start(self, teacher: str, lesson: str) -> str:
        """Start a class at the first step of a lesson and return its code.

        Another class of the same teacher ends.

        Raises:
            ClassError: there are too many classes.
        """
        now, teacher = time.time(), _hashed(teacher)
        with self._open() as db:
            db.execute("DELETE FROM class WHERE teacher = ? OR seen < ?", (teacher, now - EXPIRES))
            (n,) = db.execute("SELECT COUNT(*) FROM class").fetchone()
            if n >= MAX_OPEN_CLASSES:
                raise ClassError(
                    f"{MAX_OPEN_CLASSES} classes are open; try again when one has ended."
                )
            codes = {code for (code,) in db.execute("SELECT code FROM class")}
            while (code := f"{secrets.randbelow(10**CODE_DIGITS):0{CODE_DIGITS}}") in codes:
                pass
            db.execute("INSERT INTO class VALUES (?, ?, ?, 1, ?)", (code, teacher, lesson, now))
        return code

    def status(self, code: str) -> ClassStatus | None:
        """Return the state of a class; None if no class has this code."""
        with self._open() as db:
            row = db.execute(
                "SELECT lesson, class.step, released FROM class LEFT JOIN step USING (code, step) "
                "WHERE code = ? AND seen > ?",
                (code, time.time() - EXPIRES),
            ).fetchone()
        return ClassStatus(code, row[0], row[1], bool(row[2])) if row else None

    def is_led_by(self, code: str, person: str) -> bool:
        """Return True if this person started the class."""
        with self._open() as db:
            row = db.execute("SELECT teacher FROM class WHERE code = ?", (code,)).fetchone()
        return row is not None and secrets.compare_digest(row[0], _hashed(person))

    def join(self, code: str, person: str) -> None:
        """Count a person, the teacher or a pupil, as present; a new pupil joins.

        Raises:
            ClassError: the class is full.
        """
        now = time.time()
        if self.is_led_by(code, person):
            with self._open() as db:
                db.execute("UPDATE class SET seen = ? WHERE code = ?", (now, code))
            return
        with self._open() as db:
            old = db.execute(
                "UPDATE pupil SET seen = ? WHERE code = ? AND person = ?", (now, code, person)
            )
            if (
                old.rowcount
                or not db.execute("SELECT 1 FROM class WHERE code = ?", (code,)).fetchone()
            ):
                return
            (n,) = db.execute("SELECT COUNT(*) FROM pupil WHERE code = ?", (code,)).fetchone()
            if n >= MAX_PUPILS:
                raise ClassError(f"This class is full: it has {MAX_PUPILS} pupils.")
            db.execute("INSERT INTO pupil VALUES (?, ?, ?)", (code, person, now))

    def pupils(self, code: str) -> int:
        """Return how many pupils are present."""
        with self._open() as db:
            since = code, time.time() - AWAY
            (n,) = db.execute(
                "SELECT COUNT(*) FROM pupil WHERE code = ? AND seen > ?", since
            ).fetchone()
        return n

    def set_form(self, code: str, teacher: str, step: int, form: PredictionForm) -> None:
        """Set the prediction form of a step; the first form stays.

        Raises:
            ClassError: the person does not lead the class, or the form is too long.
        """
        self._check_led(code, teacher)
        text = _form_text(form)
        if len(text) > MAX_FORM_LENGTH or not 1 <= step <= MAX_LESSON_STEPS:
            raise ClassError("This step is too long to use in a class.")
        with self._open() as db:
            db.execute(
                "INSERT OR IGNORE INTO step (code, step, form) VALUES (?, ?, ?)", (code, step, text)
            )

    def form(self, code: str, step: int) -> PredictionForm | None:
        """Return the prediction form of a step; None until the teacher's page has set it."""
        with self._open() as db:
            row = db.execute(
                "SELECT form FROM step WHERE code = ? AND step = ?", (code, step)
            ).fetchone()
        return json.loads(row[0]) if row else None

    def vote(
        self, code: str, person: str, step: int, form: PredictionForm, prediction: str
    ) -> None:
        """Count a pupil's prediction, made with this form.

        Raises:
            ClassError: it does not count; the message says why.
        """
        expected, status = self.form(code, step), self.status(code)
        if status is None:
            raise ClassError("The class has ended.")
        if (status.step, status.is_released) != (step, False):
            raise ClassError("The class has moved on.")
        if expected is None:
            raise ClassError("Your teacher's page is still opening. Predict again in a moment.")
        if _form_text(form) != _form_text(expected):
            raise ClassError("Your class is predicting for a different text. Choose “Show again”.")
        if len(prediction) > MAX_PREDICTION:
            raise ClassError("The prediction is too long.")
        try:
            value_of(expected, prediction)
        except ValueError as error:
            raise ClassError(f"{error}.") from None
        with self._open() as db:
            has_joined = db.execute(
                "SELECT 1 FROM pupil WHERE code = ? AND person = ?", (code, person)
            ).fetchone()
            if not has_joined:
                raise ClassError("You have not joined this class.")
            new = db.execute(
                "INSERT OR IGNORE INTO vote SELECT ?, ?, ?, ? WHERE EXISTS "
                "(SELECT 1 FROM class JOIN step USING (code, step) WHERE code = ? AND step = ? AND released = 0)",
                (code, step, person, prediction, code, step),
            )
            if not new.rowcount:
                raise ClassError("You have predicted already, or the class has moved on.")

    def predictions(self, code: str, person: str) -> dict[int, str]:
        """Return what a pupil has predicted, by the number of the step."""
        with self._open() as db:
            rows = db.execute(
                "SELECT step, prediction FROM vote WHERE code = ? AND person = ?", (code, person)
            )
            return dict(rows.fetchall())

    def votes(self, code: str, step: int) -> list[tuple[str, int]]:
        """Return each prediction made in a step, and how many pupils made it."""
        with self._open() as db:
            rows = db.execute(
                "SELECT prediction, COUNT(*) FROM vote WHERE code = ? AND step = ? GROUP BY prediction ORDER BY prediction",
                (code, step),
            )
            return rows.fetchall()

    def predictions_by_step(
        self, code: str
    ) -> list[tuple[int, PredictionForm, list[tuple[str, int]]]]:
        """Return the form and the predictions of each step that has any."""
        with self._open() as db:
            rows = db.execute(
                "SELECT DISTINCT step, form FROM step JOIN vote USING (code, step) WHERE code = ? ORDER BY step",
                (code,),
            ).fetchall()
        return [(step, json.loads(form), self.votes(code, step)) for step, form in rows]

    def release(self, code: str, teacher: str) -> None:
        """Show everyone what happened in the open step.

        Raises:
            ClassError: the person does not lead the class.
        """
        self._check_led(code, teacher)
        with self._open() as db:
            db.execute(
                "INSERT INTO step (code, step, form, released) SELECT code, step, 'null', 1 FROM class WHERE code = ? "
                "ON CONFLICT DO UPDATE SET released = 1",
                (code,),
            )

    def open_step(self, code: str, teacher: str, step: int) -> None:
        """Move the class to a step.

        Raises:
            ClassError: the person does not lead the class.
        """
        self._check_led(code, teacher)
        with self._open() as db:
            db.execute("UPDATE class SET step = ? WHERE code = ?", (step, code))

    def end(self, code: str, teacher: str) -> None:
        """End the class and delete all its data.

        Raises:
            ClassError: the person does not lead the class.
        """
        self._check_led(code, teacher)
        with self._open() as db:
            db.execute("DELETE FROM class WHERE code = ?", (code,))
        with self._open() as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the log of changes holds votes, too

    def _check_led(self, code: str, person: str) -> None:
        if not self.is_led_by(code, person):
            raise ClassError("Only the teacher of this class can do that.")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Yield this thread's connection within one transaction."""
        db = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = sqlite3.connect(self._path, timeout=_PATIENCE)
            db.execute("PRAGMA foreign_keys=ON")
            db.execute("PRAGMA secure_delete=ON")
            db.execute("PRAGMA synchronous=OFF")
        with db:
            yield db


def _hashed(person: str) -> str:
    return hashlib.sha256(person.encode()).hexdigest()


def _form_text(form: PredictionForm) -> str:
    return json.dumps(form, sort_keys=True)


_lock = threading.Lock()
_opened: dict[Path, Classes] = {}


def open_classes() -> Classes:
    """Return the classes of this app."""
    folder = common_folder()
    with _lock:
        if folder not in _opened:
            _opened[folder] = Classes(folder)
        return _opened[folder]


def spaced_code(code: str) -> str:
    """Return a code in two groups, as it is read aloud."""
    return f"{code[: CODE_DIGITS // 2]} {code[CODE_DIGITS // 2 :]}"
