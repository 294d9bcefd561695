"""A model just trained on a small task opens on every page, which names its letters and digits."""

from pathlib import Path

import pytest
from app_parts import page_at, prose, said

from models.cli import main
from models.opening import load
from models.tasks import open_task
from models.tasks.generated import GeneratedTask, is_held_out_source
from models.tasks.small import SMALL_TASKS
from models.training.recipes import PLANS
from viz_app.input_bar.examples import readable_examples
from viz_app.navigation import PAGES

# one model for each task and for each form of an example
MODELS = [("copy", "transformer"), ("reverse", "bahdanau"), ("sort", "gpt"), ("english-dates", "transformer"),
          ("addition", "bahdanau"), ("repeat", "gpt"),
          ("markov", "gpt"), ("sort", "bert"), ("sort", "xlnet")]  # fmt: skip
LABELS = {
    "copy": "Letters a to j", "reverse": "Letters a to j", "sort": "Letters a to j, =, and their answer",
    "english-dates": "Date, such as 5 March 2019",
    "addition": "Two numbers of three digits", "repeat": "Letters a to l, some repeated", "markov": "Letters a to c of a chain",
}  # fmt: skip


def test_every_task_and_every_form_has_its_model() -> None:
    assert {task for task, _ in MODELS} == set(SMALL_TASKS)
    forms = {form for task in SMALL_TASKS.values() for form in task.forms}
    assert {PLANS[task][model].data["form"] for task, model in MODELS} == forms


@pytest.fixture(scope="module", params=MODELS, ids=" ".join)
def folder(request, tmp_path_factory) -> Path:
    """A checkpoint of the task after a few steps, scored on a few cases."""
    (task, model), held_out = request.param, GeneratedTask.held_out
    out = tmp_path_factory.mktemp(task) / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            GeneratedTask, "held_out", lambda self, n=None, **how: held_out(self, n or 11, **how)
        )
        command = ["train", task, "--model", model, "--out", str(out), "--steps", "5"]
        assert main([*command, "--score-cases", "2"]) == 0
    return out


@pytest.mark.parametrize(
    "view", [page for page in PAGES if page not in ("models", "lessons", "train")]
)
def test_every_page_opens_with_it(folder, view):
    app = page_at(view, checkpoint=str(folder))
    scope = load(folder)
    label = LABELS[scope.task]
    assert [box.label for box in app.text_area][:1] == [f"{label} (type here)"]
    (text,) = readable_examples(scope)[0]
    assert app.text_area[0].value == text
    assert "✗" not in prose(app)
    if scope.model.can_write:  # the page Decoding names a model that does
        assert "translat" not in prose(app)
    # pages that say it themselves, and models that write nothing of their own
    if view not in ("from-rnn", "interventions", "compare") and scope.model.translates:
        written = dict(said(app, "written")["rows"])
        assert written["output"] == scope.run(text).output


def test_the_text_shown_first_is_held_out(folder):
    scope = load(folder)
    (text,) = readable_examples(scope)[0]
    if scope.task in ("repeat", "markov"):  # which show the beginning of a text
        task = open_task(scope.task, form=scope.training["data"]["form"])
        (text,) = (each for each in task._held_out_sources(True) if each.startswith(text))
    assert is_held_out_source(text.partition("=")[0])
