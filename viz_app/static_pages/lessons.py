"""The lessons as static pages: predict, then open what happened."""

import json
from collections.abc import Sequence
from html import escape

import numpy as np

from viz_app.components import stamp_payload
from viz_app.drawing.payload import pack
from viz_app.handout import on_paper
from viz_app.lessons.document import lesson_document
from viz_app.lessons.lesson import Lesson
from viz_app.notebook.picture import Mounted
from viz_app.static_pages.events import KEPT_EVENTS, without_model
from viz_app.static_pages.packed import UNAVAILABLE, zipped
from viz_app.static_pages.page import EDITION, INSTALL_COMMAND, NOTICE, frame

PREDICT = "Predict first, on paper or in your head; then open what happened."


def lesson_file(lesson: Lesson) -> str:
    """Return the path of a lesson's page."""
    return f"lessons/{lesson.name}.html"


def lesson_page(lesson: Lesson, tabs: str) -> tuple[bytes, set[str]]:
    """Return the page of a lesson, and the names of its components; `tabs` are links as HTML.

    Raises:
        ValueError: a step cannot be shown.
    """
    paper = on_paper(lesson, has_answers=True)
    data = zipped(_packed(paper.parts))
    body = (
        f'<div class="inputs"><p class="edition">{escape(PREDICT)} {escape(EDITION)}'
        f" <code>{escape(INSTALL_COMMAND)}</code></p></div>"
        f"{lesson_document(lesson, paper.steps, paper.about, is_folded=True)}"
        f'{NOTICE}<script type="application/json" id="drawn">"{data}"</script>'
        '<script src="../assets/components.js"></script><script src="../assets/lesson.js"></script>'
    )
    title, names = f"{lesson.title} · Attnscope", {part.component.name for part in paper.parts}
    page = frame(title=title, description=lesson.about, pages=tabs, body=body, root="../")
    return page, names


def _packed(parts: Sequence[Mounted]) -> bytes:
    """Return the pictures of a lesson, which lesson.js reads."""
    pictures, objects = {}, []
    for i, part in enumerate(parts):
        whole = stamp_payload(
            without_model(part.component, part.payload), f"{part.component.name}-{i}", (0, 0)
        )
        if isinstance(whole, dict):
            whole = json.dumps(whole, ensure_ascii=False).encode()
            objects.append(i)
        pictures[f"p{i}"] = np.frombuffer(whole, np.uint8)
    header = {"names": [part.component.name for part in parts], "objects": objects}
    return pack({**header, "kept": KEPT_EVENTS, "says": {"unavailable": UNAVAILABLE}}, **pictures)
