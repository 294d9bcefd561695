"""Every click and drag on a picture has a key, and the page names it: a list, compared with the browser parts."""

import re
from pathlib import Path

import pytest

from viz_app import components

PARTS = Path(components.__file__).parent
# Elements that are clicked or dragged and are no buttons, which respond to Enter and Space by themselves.
POINTED = re.compile(
    r"(?:cells|canvas|pad|group|row|svg)\.onclick|\.onpointerdown = \(event\) => (?!event\.preventDefault)"
)
# file → where its keys are handled and by which listener, where the page names them and how
KEYS = {
    "head/heatmap.js": ("head/head.js", "arrows((down, right)", "head/head.js", "press an arrow key"),
    "head/lines.js": ("head/head.js", "arrows((down, right)", "head/head.js", "press an arrow key"),
    "walk/table.js": ("walk/walk.js", "useKeys(this.table.cells", "walk/walk.js", "press ↑ or ↓"),
    "board/board.js": ("board/board.js", "ArrowRight: scale(", "board/board.js", "← and →"),
    "stepper/lanes.js": ("stepper/stepper.html", 'type="range"', "stepper/stepper.html", "Next step"),
    "several/strands.js": ("several/strands.js", "ArrowDown: () => this.step(1)", "several/several.js", "↑ or ↓"),
    "matrices/matrices.js": ("choice/choice.js", "button.onclick", "matrices/matrices.js", "tokens above"),
    "mask_painter/board.js": ("mask_painter/brush.js", "this.toggle()", "mask_painter/brush.js", "keys: arrows and Space"),
    "mask_painter/strip.js": ("mask_painter/strip.js", '"button"', "mask_painter/strip.js", "aria-pressed"),
    "order/order.js": ("order/order.js", "ArrowLeft: step(-1)", "../views/task/text.py", "move it with the arrow keys"),
    "order/visibility.js": ("order/order.js", "button.onclick", "../views/task/text.py", "move it with the arrow keys"),
    "beam_tree/tree.js": ("beam_tree/tree.js", "Enter: group.onclick", "beam_tree/beam_tree.js", "use the arrow keys"),
    "layer/stops.js": ("layer/stops.js", "Enter: choose", "layer/layer.html", "press Enter"),
    "patch/patch.js": ("patch/patch.js", "arrows((down, right)", "../views/interventions/patch_text.py", "Click a"),
    "row_tests/row_tests.js": ("row_tests/row_tests.js", "ArrowUp: by(", "../views/interventions/explanation_text.py", "press ← or →"),
}  # fmt: skip


def test_the_list_holds_every_picture_that_is_clicked_or_dragged() -> None:
    pointed = {
        str(path.relative_to(PARTS))
        for path in PARTS.glob("*/*.js")
        if POINTED.search(path.read_text("utf-8"))
    }
    assert pointed == set(KEYS)


@pytest.mark.parametrize("part", KEYS)
def test_a_picture_has_a_key_and_the_page_names_it(part: str) -> None:
    heard_in, hears, named_in, names = KEYS[part]
    assert hears in (PARTS / heard_in).read_text("utf-8")
    assert names in (PARTS / named_in).read_text("utf-8")
