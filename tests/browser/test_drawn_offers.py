"""What the components `board` and `patch` offer on hover, with a model and without one, their scales, and the layers of `patch`."""

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


@pytest.mark.parametrize(("component", "picture"), [("board", BOARD), ("patch", PATCH)])
def test_the_ends_of_a_small_scale_are_not_rounded_to_0(
    stage: Stage, component: str, picture: dict[str, Any]
) -> None:
    stage.mount(component, 700).show({**picture, "largest": 0.0012})
    assert [stage.text(end) for end in (".least", ".most")] == ["−0.001 nats", "+0.001 nats"]
    stage.show({**picture, "largest": 0})
    assert [stage.text(end) for end in (".least", ".most")] == ["0 nats"] * 2


def test_a_board_names_its_layers_unless_they_are_those_beside_it(stage: Stage) -> None:
    boards = []
    for layers in ((1, 2), (1, 2), (2, 4)):
        rows = {"sites": [f"{len(boards)}{n}" for n in layers], "layers": list(layers)}
        each = {"effects": [[0.5]] * 2, "taken": [[False]] * 2}
        boards.append({**HEADS, **rows, **each})
    stage.mount("patch", 700).show({**PATCH, "panels": [{**PANEL, "kinds": boards}]})
    assert [name[-1] for name in stage.texts(".kinds th")] == ["1", "2", "2", "4"]
