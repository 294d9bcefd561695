"""A model that has just been trained on a small task opens on every page, which names its letters."""

from pathlib import Path

import pytest
from app_parts import page_at, prose, said

from models.cli import main
from models.opening import load
from models.tasks.small import SMALL_TASKS, SmallTask, is_held_out
from viz_app.input_bar.examples import readable_examples
from viz_app.navigation import PAGES


@pytest.fixture(scope="module", params=SMALL_TASKS)
def folder(request, tmp_path_factory) -> Path:
    """A checkpoint of the task after a few steps, scored on a few cases."""
    out = tmp_path_factory.mktemp(request.param) / "run"
    held_out = SmallTask.held_out
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            SmallTask, "held_out", lambda self, n=None, **how: held_out(self, n or 11, **how)
        )
        assert (
            main(["train", request.param, "--out", str(out), "--steps", "5", "--score-cases", "2"])
            == 0
        )
    return out


@pytest.mark.parametrize("view", [page for page in PAGES if page not in ("models", "lessons")])
def test_every_page_opens_with_it(folder, view):
    app = page_at(view, checkpoint=str(folder))
    scope = load(folder)
    assert [box.label for box in app.text_area][:1] == ["Letters a to j (type here)"]
    (text,) = readable_examples(scope)[0]
    assert app.text_area[0].value == text
    assert is_held_out(text)
    assert "✗" not in prose(app)
    assert "translat" not in prose(app)
    if view not in ("from-rnn", "interventions", "compare"):  # which say it themselves
        written = dict(said(app, "written")["rows"])
        assert written["output"] == scope.run(text).output
