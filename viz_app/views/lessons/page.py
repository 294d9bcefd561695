"""Lessons: what to look at first, and which questions the models answer."""

from collections.abc import Sequence

from viz_app.components.catalogue import LESSON_LIST, PLAIN
from viz_app.controls.class_entry import class_entry
from viz_app.controls.lesson_panel import begin_lesson, offered_lessons
from viz_app.drawing.notes import rows
from viz_app.lessons.form import with_unit
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views import onward
from viz_app.views.page import Page, PageCell, ShownComponent, View, Widget

LESSONS_QUESTION = "Lessons: what do you expect?"
LESSONS_ANSWER = "Each lesson asks you to predict what a model does, then shows it on the running model. Pick one."
LESSONS_HELP = (
    "A lesson is a series of questions. You predict first; then the page changes and shows what the model did. "
    "Another model or text gives other answers. You can use everything on the page during a lesson. "
    "*Show again* brings the step's run back. The link in the address bar leads back to this "
    "point.\n\nAn example is one sentence made for its question: it shows what can happen, not how often. Where a "
    "question is about how often, the numbers are of held-out sentences, with their count.\n\n`attnscope --lessons DIR`"
    " adds lessons of your own, a Markdown file each. The README describes their format."
)
IN_CLASS = (
    "**With a class:** start a lesson below and read its code aloud. Pupils open this page on their own devices and type the code, or "
    "open the link beside it. You see how many predict what, without names. Then you show everyone at once what happened. "
    "All predictions are deleted when you end the class; save them as CSV before if you want to keep them. Your browser leads the "
    "class; to try the part of a pupil on the same machine, use a private window. **Handout** is the chosen lesson as a page to print, with "
    "its pictures. It takes a minute to make, since every step is run for it."
)
BROKEN = "Not every lesson file can be read."


def _payloads(run: CurrentRun, choices: None) -> Pictures:
    shelf = offered_lessons()
    lessons = [
        {
            "name": lesson.name,
            "title": lesson.title,
            "about": lesson.about,
            "length": f"{with_unit(f'{len(lesson.steps)}', 'questions')}, about "
            f"{with_unit(f'{lesson.minutes}', 'minutes')}",
        }
        for lesson in shelf.lessons
    ]
    pictures: Pictures = {"lesson_list": {"lessons": lessons}}
    if shelf.errors:
        lines = (("line", line) for line in (BROKEN, *shelf.errors))
        pictures["note lessons"] = rows("note bad", *lines)
    return pictures


def _layout(run: CurrentRun, choices: None, pictures: Pictures) -> Sequence[PageCell]:
    begin = {"on_begin": begin_lesson}
    return [
        ShownComponent(PLAIN, "note lessons"),
        ShownComponent(LESSON_LIST, choose=begin),
        Widget(class_entry),
    ]


ALL_LESSONS = View(
    _payloads,
    _layout,
    text=lambda run, choices: f"{LESSONS_HELP}\n\n{IN_CLASS}",
    is_live=lambda choices: False,
    has_strip=False,
    is_of_run=False,
)
LESSONS_PAGE = Page(
    "Lessons",
    LESSONS_QUESTION,
    lambda run: LESSONS_ANSWER,
    {"": lambda run: ALL_LESSONS},
    lambda run, choices: onward.what_it_reads(run),
    shows_changes=False,
)
