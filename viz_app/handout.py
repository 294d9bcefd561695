"""A lesson as a file: a page that opens without a network, or a PDF of it printed by a browser.

The pages of the app are run without a server, and their payloads for the browser parts are kept. So
each picture is the one on the screen, and each number is read from the run made for it.
"""

import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

import viz_app
import viz_app.navigation  # declares every URL parameter
from models.checkpoint_files import write_bytes
from viz_app.components.catalogue import COMPONENTS, OPENING_BAR, PLAIN
from viz_app.controls.lesson_panel import LESSON_KEY, offered_lessons
from viz_app.drawing.notes import BAD_NOTE
from viz_app.lessons.document import StepOnPaper, lesson_document
from viz_app.lessons.form import any_prediction, with_unit
from viz_app.lessons.lesson import Lesson
from viz_app.notebook.picture import Mounted, Picture
from viz_app.session.lesson_state import LESSON_NAME, LESSON_STEP, PREDICTED
from viz_app.session.live import SESSION_KEY, LiveSession
from viz_app.session.pinned import PIN_PREFIX
from viz_app.without_server import held_interrupts, many_runs

OPENING_SECONDS = 600.0  # s for a page and for a model to open
BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "msedge")
NO_BROWSER = (
    "a PDF is printed by Chromium, Chrome or Edge, and none is installed here. "
    "Write the HTML file, open it in any browser and print it"
)


def write_handout(options: Namespace) -> int:
    """Write the file of `attnscope handout`.

    Raises:
        ValueError: there is no such lesson, or no browser that prints a PDF.
    """
    lesson = offered_lessons().named(options.lesson)
    if lesson is None:
        names = ", ".join(one.name for one in offered_lessons().lessons)
        raise ValueError(f"there is no lesson {options.lesson}, only {names}")
    is_pdf = options.out.suffix.lower() == ".pdf"
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if is_pdf and browser is None:
        raise ValueError(NO_BROWSER)
    page = handout(lesson, options.answers).encode()
    write_bytes(options.out, _printed(page, browser) if is_pdf and browser else page)
    n_questions = with_unit(f"{len(lesson.steps)}", "questions")
    print(f"{options.out}: {lesson.title} ({n_questions})")
    return 0


def handout(lesson: Lesson, has_answers: bool) -> str:
    """Return a lesson as a page of its own, with the outcomes if it `has_answers`."""
    paper = on_paper(lesson, has_answers)
    body = lesson_document(lesson, paper.steps, paper.about)
    return Picture(lesson.title, "", paper.parts, theme="light", body=body).html


@dataclass(frozen=True)
class Paper:
    """The steps of a lesson, the pictures that they number, and a note on their runs."""

    steps: list[StepOnPaper]
    parts: list[Mounted]
    about: str


@dataclass(frozen=True)
class ShownStep:
    """The browser parts of a step's page by their keys, and the names of the models run for it."""

    parts: Mapping[str, Mounted]
    models: set[str]


def on_paper(lesson: Lesson, has_answers: bool) -> Paper:
    """Run the pages of a lesson, and return its printed form.

    Raises:
        ValueError: a step cannot be shown.
    """
    parts: list[Mounted] = []
    steps, names = [], set()
    for number, step in enumerate(lesson.steps, 1):
        print(f"{lesson.name}: question {number} of {len(lesson.steps)}", flush=True)
        with many_runs():
            shown = _shown(lesson, number, step.page, step.query)
            step_parts, revealed = shown.parts, {}
            names |= shown.models
            if has_answers:
                form = step_parts[LESSON_KEY].payload["form"]
                reveal = _reveal(lesson, number, any_prediction(form))
                revealed = reveal.parts
                names |= reveal.models
        steps.append(
            StepOnPaper(
                step_parts[LESSON_KEY].payload,
                revealed[LESSON_KEY].payload["reveal"] if revealed else None,
                _placed(step_parts.get(step.looks_at), parts),
                _placed(revealed.get(step.looks_at), parts),
            )
        )
    about = f"Attnscope. The numbers and pictures are of runs of {', '.join(sorted(names))}."
    return Paper(steps, parts, about)


def _placed(part: Mounted | None, parts: list[Mounted]) -> int | None:
    """Add a picture to the parts of the page; return its number."""
    if part is None:
        return None
    parts.append(part)
    return len(parts) - 1


def _reveal(lesson: Lesson, number: int, prediction: str) -> ShownStep:
    step = lesson.steps[number - 1]
    query = {**step.query, **step.then}
    if step.pins:
        query |= {f"{PIN_PREFIX}{name}": texts for name, texts in step.query.items()}
    return _shown(
        lesson, number, step.page_when(True), query | {PREDICTED.name: [f"{number}.{prediction}"]}
    )


def _shown(lesson: Lesson, number: int, page: str, query: Mapping[str, Sequence[str]]) -> ShownStep:
    """Run a step's page until no model is being opened for it.

    Raises:
        ValueError: the step cannot be shown.
    """
    app = AppTest.from_file(
        Path(viz_app.__file__).with_name("app.py"), default_timeout=OPENING_SECONDS
    )
    app._page_hash = calc_hash(page)
    address = {**query, LESSON_NAME.name: [lesson.name], LESSON_STEP.name: [str(number)]}
    for name, texts in address.items():
        app.query_params[name] = list(texts)
    end = time.monotonic() + OPENING_SECONDS
    while True:
        try:
            with held_interrupts():
                app.run()
        except RuntimeError:  # AppTest's own, after OPENING_SECONDS
            raise ValueError(
                f"{lesson.name}, question {number}: its page did not open within {OPENING_SECONDS:g} s"
            ) from None
        parts = _parts(app)
        is_opening = any(part.component is OPENING_BAR for part in parts.values())
        if not is_opening or app.exception or time.monotonic() > end:
            break
        time.sleep(0.2)
    if why := _why_not(parts):
        raise ValueError(f"{lesson.name}, question {number}: {why}")
    return ShownStep(parts, _models(app.session_state[SESSION_KEY]))


def _why_not(parts: Mapping[str, Mounted]) -> str:
    """Return why a page does not show its step, in its own words; "" if it does."""
    if LESSON_KEY in parts:
        payload = parts[LESSON_KEY].payload
        if not (why := payload.get("error") or payload["departure"]):
            return ""
    else:
        why = "its page does not open"
    plain = [part.payload for part in parts.values() if part.component is PLAIN]
    errors = [row[1] for note in plain if note["look"] == BAD_NOTE for row in note["rows"]]
    return " ".join(errors) or why


def _models(session: LiveSession) -> set[str]:
    """Return the names of the models of the shown run and of the pinned one beside it."""
    run = session.shown
    runs = [run, session.beside(run)] if session.beside else [run]
    return {one.scope.name for one in runs}


def _parts(app: AppTest) -> dict[str, Mounted]:
    return dict(_part(element.proto) for element in app.get("bidi_component"))


def _part(proto: Any) -> tuple[str, Mounted]:
    """Return a browser part's key, and its content without its stamp (stamp_payload)."""
    component = COMPONENTS[proto.component_name.removeprefix("attnscope_")]
    if proto.json:
        payload = json.loads(proto.json)
        return payload["key"], Mounted(component, payload)
    (length,) = struct.unpack_from("<I", proto.bytes, len(proto.bytes) - 12)
    content, key = proto.bytes[: -12 - length], proto.bytes[-12 - length : -12].decode()
    return key, Mounted(component, content)


def _printed(page: bytes, browser: str) -> bytes:
    """Return the page as PDF.

    Raises:
        ValueError: the browser prints nothing, or not in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        html, pdf = Path(folder, "handout.html"), Path(folder, "handout.pdf")
        html.write_bytes(page)
        root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        command = [
            *(browser, "--headless", "--disable-gpu", f"--user-data-dir={folder}/browser", *root),
            *("--no-pdf-header-footer", "--virtual-time-budget=20000", f"--print-to-pdf={pdf}"),
        ]
        try:
            subprocess.run(
                [*command, html.as_uri()], capture_output=True, timeout=OPENING_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise ValueError(
                f"{browser} printed nothing within {OPENING_SECONDS:g} s; write the HTML file and print that"
            ) from None
        if not pdf.is_file():
            raise ValueError(f"{browser} printed nothing; write the HTML file and print that")
        return pdf.read_bytes()
