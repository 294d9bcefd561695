"""The component `versions` by itself: three texts with their differences marked, and how much each token changes the fixed vector."""

from typing import Any

import numpy as np
import pytest
from stage import Stage

from models.number_text import percent
from viz_app.drawing.payload import pack

CHANGE = np.array([0.6, 0.15, 0.3], np.float32)
CARDS = [
    {"title": "One", "whose": "mine", "words": [["a", False], ["<b>x</b>", True]], "lost": ["c", "d"], "gap": " ",
     "verdict": "Lost: "},
    {"title": "Two", "whose": "yours", "words": [["2", False], ["4", True]], "lost": [], "gap": "", "verdict": "Nothing lost."},
]  # fmt: skip


def shown(stage: Stage, width: int = 900, change: np.ndarray = CHANGE, **changes: Any) -> None:
    header = {
        "source": "p <i>q</i>", "reference": {"name": "it should say", "text": "a c d"}, "cards": CARDS, "legend": "How it reads.",
        "bottleneck": {"title": "The bottleneck", "note": "What it is.", "vector": "h(m)", "bars": "How much.", "scale": 2.0,
                       "largest": float(change.max()),
                       "labels": [["p", "", False], ["q", "a note", False], [".", "", False]]},
    } | changes  # fmt: skip
    arrays = (
        {"vector": np.array([0.5, -2.0, 1.0, 0.0], np.float32), "change": change}
        if header["bottleneck"]
        else {}
    )
    stage.mount("versions", width).show(pack(header, **arrays))


def texts(stage: Stage, selector: str) -> list[str]:
    return stage.js(
        "(root, s) => [...root.querySelectorAll(s)].map((e) => e.textContent)", selector
    )


def test_the_texts_are_side_by_side_with_their_differences_marked(stage: Stage) -> None:
    shown(stage)
    assert texts(stage, ".asked") == ["p <i>q</i>  →  it should say: a c d"]
    assert texts(stage, ".card h2") == ["One", "Two"]
    assert texts(stage, ".card .text") == [
        "a <b>x</b>",
        "24",
    ]  # typed text is text, never markup
    assert texts(stage, ".invented") == ["<b>x</b>", "4"]
    assert texts(stage, ".missing") == ["Lost: c d", "Nothing lost."]
    assert texts(stage, ".lost") == ["c", "d"]
    tops = stage.js(
        "(root) => [...root.querySelectorAll('.card')].map((e) => e.getBoundingClientRect().top)"
    )
    assert tops[0] == tops[1]
    shown(stage, reference=None, cards=CARDS[:1])
    assert (texts(stage, ".asked"), texts(stage, ".card h2")) == (["p <i>q</i>"], ["One"])


def test_a_bar_is_as_tall_as_its_token_changes_the_vector(stage: Stage) -> None:
    shown(stage)
    columns = stage.js("""(root) => [...root.querySelectorAll(".column")].map((e) => [
      e.children[0].textContent, e.querySelector("i").getBoundingClientRect().height,
      e.querySelector("b").textContent, e.title])""")
    assert [column[0] for column in columns] == ["60 %", "15 %", "30 %"]
    assert [column[2] for column in columns] == ["p", "q", "."]
    assert columns[1][3] == "q (a note): 0.150000"
    heights = np.array([column[1] for column in columns])
    np.testing.assert_allclose(heights / heights[0], CHANGE / CHANGE[0], atol=0.01)
    assert texts(stage, ".strip .what") == ["h(m), 4 numbers, ±2.00"]
    data = stage.js("(root) => ({...root.querySelector('canvas.vector').dataset})")
    assert (data["vector"], data["first"], data["last"]) == ("h_m", "0.500000", "0")


@pytest.mark.parametrize(
    "shares", [(0, 1, 0.9999956), (0.00025, 0.00001, 0.9964), (1.304, 0.62, 0.004)]
)
def test_a_share_is_written_as_python_writes_it(stage: Stage, shares: tuple[float, ...]) -> None:
    change = np.array(shares, np.float32)
    shown(stage, change=change)
    assert texts(stage, ".column span") == [percent(share) for share in change.tolist()]


def test_without_a_fixed_vector_no_bars_are_drawn(stage: Stage) -> None:
    shown(stage, bottleneck=None)
    assert stage.js("(root) => root.querySelector('.bottleneck').hidden")
    shown(stage)
    assert not stage.js("(root) => root.querySelector('.bottleneck').hidden")


def test_longer_texts_do_not_change_the_height(stage: Stage) -> None:
    shown(stage)
    whole = "(root) => root.querySelector('.versions').getBoundingClientRect().height"
    before = stage.js(whole)
    long = {
        **CARDS[0],
        "words": [["word", True]] * 60,
        "lost": ["word"] * 60,
        "whose": "mine " * 40,
    }
    shown(stage, source="p " * 300, cards=[long, CARDS[1]])
    assert stage.js(whole) == before
