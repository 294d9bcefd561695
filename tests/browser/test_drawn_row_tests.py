"""The component `row_tests` by itself: weights set by hand outlive the answers to earlier ones."""

from collections.abc import Sequence
from typing import Any

import pytest
from stage import Stage

OWN = [0.2, 0.3, 0.5]
WORDS = ("apply", "used", "undo", "search", "searching", "mark")
FIRST = '.weight[data-column="0"]'


def payload(weights: Sequence[float], title: str = "0 → 1", **more: Any) -> dict[str, Any]:
    column = {
        "name": "own", "title": "now", "about": "", "weights": [*weights], "own": OWN, "says": [], "moves": True,
        "edited": list(weights) != OWN,
    }  # fmt: skip
    return {
        "answers": [], "verdict": "", "decisions": [], "title": title, "keys": [["a"], ["b"], ["c"]],
        "allowed": [True] * len(OWN), "columns": [column], "words": {word: word for word in WORDS}, **more,
    }  # fmt: skip


def drawn(stage: Stage) -> list[float]:
    bars = stage.js(
        "(root, one) => [...root.querySelectorAll(one)].map((bar) => bar.dataset.weight)", FIRST
    )
    return [float(weight) for weight in bars]


def scaled(weight: float) -> Any:
    """Return the row with this weight on its first key, and the rest in their own proportions."""
    return pytest.approx([weight, *(w * (1 - weight) / (1 - OWN[0]) for w in OWN[1:])])


def sent(stage: Stage) -> list[list[float]]:
    return [news["weights"] for _, news in stage.sent]


def shown(stage: Stage) -> None:
    stage.mount("row_tests").show(payload(OWN))
    stage.js("(root, one) => root.querySelector(one).focus()", FIRST)


def test_an_answer_older_than_the_last_drag_is_not_shown(stage: Stage) -> None:
    shown(stage)
    stage.press("ArrowRight", "ArrowRight")
    assert drawn(stage) == scaled(0.3)
    stage.show(payload(sent(stage)[0]))
    assert drawn(stage) == scaled(0.3)
    stage.press("ArrowRight")
    assert sent(stage) == [scaled(0.25), scaled(0.3), scaled(0.35)]
    stage.show(payload(sent(stage)[1]))
    assert drawn(stage) == scaled(0.35)
    stage.show(payload(sent(stage)[2]))
    stage.show(payload(OWN))  # the row that Back leads to
    assert drawn(stage) == OWN


@pytest.mark.parametrize("more", [{"title": "1 → 2"}, {"keys": [["a"], ["b"], ["d"]]}])
def test_another_row_is_shown_as_it_is(stage: Stage, more: dict[str, Any]) -> None:
    shown(stage)
    stage.press("ArrowRight")
    stage.show(payload(OWN, **more))
    assert drawn(stage) == OWN


def test_resetting_the_weights_waits_for_nothing(stage: Stage) -> None:
    shown(stage)
    stage.press("ArrowRight")
    stage.show(payload(sent(stage)[0]))
    stage.press("ArrowRight")
    stage.click("tfoot button")
    assert sent(stage)[-1] == []
    stage.show(payload(OWN))
    assert drawn(stage) == OWN


def test_a_drag_under_way_is_kept_and_one_that_is_cancelled_is_not(stage: Stage) -> None:
    shown(stage)
    track = stage.box(f"{FIRST} .track")
    y = track["top"] + track["height"] / 2
    stage.page.mouse.move(track["left"] + 0.2 * track["width"], y)
    stage.page.mouse.down()
    stage.page.mouse.move(track["left"] + 0.6 * track["width"], y)
    stage.show(payload(OWN))
    (weight, *_) = drawn(stage)
    assert weight == pytest.approx(0.6, abs=0.02)
    assert drawn(stage) == scaled(weight)
    assert stage.sent == []
    stage.js(
        "(root, one) => root.querySelector(one).dispatchEvent(new PointerEvent('pointercancel'))",
        FIRST,
    )
    assert drawn(stage) == OWN
    stage.show(payload([0.5, 0.25, 0.25]))
    assert drawn(stage) == [0.5, 0.25, 0.25]


def test_the_heading_of_the_first_column_explains_the_mark(stage: Stage) -> None:
    shown(stage)
    assert stage.texts("thead small") == ["  mark"]
