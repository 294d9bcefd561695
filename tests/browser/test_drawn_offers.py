"""What the components `board` and `patch` offer on hover, with a model and without one."""

from typing import Any

import pytest
from stage import Stage

HEADS = {"title": "Self", "short": "Self", "sites": ["a"], "layers": [1], "heads": 1, "effects": [[0.5]]}  # fmt: skip
STATES = [[{"factor": 1, "label": "", "says": ""}]]
BOARD = {"title": "", "sentence": "", "legend": "", "unit": "nats", "largest": 1, "kinds": [{**HEADS, "states": STATES}]}  # fmt: skip
PANEL = {
    "side": "needed",
    "title": "Needed?",
    "means": "",
    "text": "",
    "sentence": "",
    "grid": None,
    "kinds": [{**HEADS, "taken": [[False]]}],
}
PATCH = {"measured": "", "unit": "nats", "largest": 1, "hint": "", "is_tried": True, "panels": [PANEL]}  # fmt: skip


@pytest.mark.parametrize(
    ("component", "picture", "without", "offered"),
    [("board", BOARD, {"scales": False}, "scale it"), ("patch", PATCH, {"fixed": True}, "Click")],
)
def test_what_needs_the_model_is_offered_only_with_it(
    stage: Stage, component: str, picture: dict[str, Any], without: dict[str, Any], offered: str
) -> None:
    stage.mount(component, 700).show(picture)
    (title,) = stage.attrs("td button", "title")
    assert offered in title
    stage.show({**picture, **without})
    (title,) = stage.attrs("td button", "title")
    assert "0.5" in title
    assert offered not in title
