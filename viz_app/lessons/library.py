"""The available lessons: those that come with the app, and those of `attnscope --lessons DIR`."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from viz_app.lessons.lesson import Lesson
from viz_app.lessons.reader import LessonError, read_lesson
from viz_app.session.parameters import Parameter

LESSONS_VARIABLE = "ATTNSCOPE_LESSONS"  # environment variable, set by command.py
SHIPPED_LESSONS = Path(__file__).parent
MAX_LESSON_FILES = 200

FileVersion = tuple[int, int]  # of a file: when it was changed, and its size


@dataclass(frozen=True)
class Library:
    """Lessons sorted by their files' names, added ones first, and errors of unreadable files."""

    lessons: tuple[Lesson, ...]
    errors: tuple[str, ...]

    def named(self, name: str) -> Lesson | None:
        """Return the lesson of this name."""
        return next((lesson for lesson in self.lessons if lesson.name == name), None)


def library(pages: Collection[str], parameters: Mapping[str, Parameter]) -> Library:
    """Return the lessons, whose addresses name these pages and URL parameters."""
    lessons: dict[str, Lesson] = {}
    errors = []
    added = os.environ.get(LESSONS_VARIABLE)
    for folder in [*([Path(added)] if added else []), SHIPPED_LESSONS]:
        for path in sorted(folder.glob("*.md"))[:MAX_LESSON_FILES]:
            try:
                stat = path.stat()
                version = stat.st_mtime_ns, stat.st_size
                lesson = _read(path, version, tuple(pages), frozenset(parameters.items()))
                lessons.setdefault(lesson.name, lesson)
            except (OSError, LessonError) as error:
                errors.append(str(error))
    return Library(tuple(lessons.values()), tuple(errors))


@lru_cache(maxsize=MAX_LESSON_FILES)
def _read(
    path: Path, version: FileVersion, pages: tuple[str, ...], parameters: frozenset
) -> Lesson:
    """Reread a file whose version has changed."""
    return read_lesson(path, pages, dict(parameters))
