"""The component `order` by itself: tokens are dragged, moved by keys and chosen, and the drawing follows the payload."""

import math
from pathlib import Path

import pytest
import torch
from small import random_xlnet
from stage import DARK, Stage

from models.checkpoint import Checkpoint
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from viz_app.drawing.labels import token_label
from viz_app.drawing.stamp import facts, saving
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.views.task.in_order import draw_in_order
from viz_app.views.task.reading import TaskChoices

SITE = "encoder.layers.1.query_attn"


@pytest.fixture(scope="module")
def scope() -> Scope:
    tokenizer = Tokenizer.characters("abcdefgh")
    model = random_xlnet(vocab_size=tokenizer.vocab_size)
    return Scope(
        Checkpoint(Path("orders"), model, tokenizer, {"task": "permutation"}), torch.device("cpu")
    )


def payload(
    scope: Scope, order: tuple[int, ...] = (2, 1, 3, 0), position: int | None = None
) -> bytes:
    run = CurrentRun(scope, scope.run("badc", order=order))
    return draw_in_order(
        run, run.trace.outputs["token in order"], TaskChoices(position, Focus(SITE, 1))
    )[0]["order"]


def chips(stage: Stage) -> list[str]:
    return stage.texts(".row .place b")


def drag(stage: Stage, start: int, to: int) -> None:
    """Drag chip number `start` to the position of another."""
    one, other = (stage.box(".row .place", n) for n in (start, to))
    mouse = stage.page.mouse
    mouse.move(one["x"] + one["width"] / 2, one["y"] + one["height"] / 2)
    mouse.down()
    mouse.move(other["x"] + other["width"] / 2, other["y"] + other["height"] / 2, steps=7)
    mouse.up()


def test_a_token_is_dragged_to_another_rank(stage, scope):
    stage.mount("order", 900).show(payload(scope))
    assert chips(stage) == ["d", "a", "c", "b"]
    drag(stage, 3, 0)
    assert chips(stage) == ["b", "d", "a", "c"]
    assert stage.sent == [["pick", {"order": [0, 2, 1, 3]}]]
    stage.show(payload(scope))  # an answer that was on its way: the new order stays
    assert chips(stage) == ["b", "d", "a", "c"]
    stage.show(payload(scope, (0, 2, 1, 3)))
    assert chips(stage) == ["b", "d", "a", "c"]
    assert stage.data(".order")["order"] == "0 2 1 3"
    assert stage.errors == []


def test_a_drag_back_to_the_start_changes_nothing_and_a_click_chooses(stage, scope):
    stage.mount("order", 900).show(payload(scope))
    box = stage.box(".row .place", 1)
    mouse = stage.page.mouse
    mouse.move(box["x"] + 9, box["y"] + 9)
    mouse.down()
    mouse.move(box["x"] + 29, box["y"] + 9, steps=3)
    mouse.up()
    assert stage.sent == []
    stage.click(".row .place", n=1)
    assert stage.sent == [["pick", {"position": 1}]]


def test_the_arrow_keys_move_the_token_that_has_the_keyboard(stage, scope):
    stage.mount("order", 900).show(payload(scope))
    stage.page.keyboard.press("Tab")
    stage.press("ArrowRight", "ArrowRight")
    assert chips(stage) == ["a", "c", "d", "b"]
    assert [news for _, news in stage.sent] == [{"order": [1, 2, 3, 0]}, {"order": [1, 3, 2, 0]}]
    stage.press("ArrowLeft")
    assert chips(stage) == ["a", "d", "c", "b"]
    stage.press("ArrowLeft", "ArrowLeft")  # the first stays the first
    assert chips(stage) == ["d", "a", "c", "b"]


def test_both_masks_are_drawn_and_described(stage, scope):
    stage.mount("order", 900).show(payload(scope, position=0))
    assert stage.attrs(".seen section", "data-allowed") == ["1111011000100111", "0111001000000110"]
    assert stage.texts(".seen .who") == [
        "“b”, position 1, sees “d”, “a”, “c”, “b”.",
        "“b”, position 1, sees “d”, “a”, “c”.",
    ]
    canvas, side, cell, left = stage.box(".seen canvas", 1), 20, 26, 150
    assert canvas["width"] >= left + 4 * cell
    stage.move(".seen canvas", left + 2.5 * cell, side + 1.5 * cell, n=1)
    assert stage.texts(".seen .who")[1] == "“a”, position 2, sees “d”."
    stage.click(".seen canvas", left + 0.5 * cell, side + 2.5 * cell, n=1)
    assert stage.sent == [["pick", {"position": 2}]]
    picture = stage.pixels(".seen canvas", 1)
    open_, blocked = (
        picture.within(left + x * cell + 5, side + y * cell + 5, 16, 16)
        for x, y in ((2, 1), (0, 0))
    )
    assert len(open_) == 1
    assert len(blocked) > 1  # hatched


@pytest.mark.parametrize(("n", "role"), [(1, "content"), (2, "query")])
def test_each_mask_is_saved_with_its_allowed_cells(
    stage: Stage, scope: Scope, n: int, role: str
) -> None:
    """Row i is the predicted token, column j a token that may be seen, in the order of the text."""
    stage.mount("order", 900).show(payload(scope, position=0))
    within = f".seen section:nth-of-type({n})"
    name, about, ((head, *rows),) = stage.saved_tables(f"{within} .csv")
    assert name == f"orders.order.{role}.picture.csv"
    trace = scope.run("badc", order=(2, 1, 3, 0))
    known = facts(trace)
    assert about == saving("", known)["about"]
    assert head[1:] == [row[0] for row in rows] == ["0 b", "1 a", "2 d", "3 c"]
    site = next(site for site in trace.attention.values() if site.role == role)
    words = {True: "allowed", False: "masked"}
    assert [row[1:] for row in rows] == [[words[bool(x)] for x in row] for row in site.allowed(0)]
    name, pixels, _ = stage.saved_picture(f"{within} .png", known=saving("", known))
    assert name == f"orders.order.{role}.png"
    assert pixels.wide >= 3 * 260


def test_each_token_has_its_position_its_rank_and_its_numbers(stage: Stage, scope: Scope) -> None:
    """Positions are those of the text, ranks those of the order, both from 1. The text is “badc”, its tokens in the order 3 2 4 1."""
    order = (2, 1, 3, 0)
    stage.mount("order", 900).show(payload(scope, order))
    output = scope.run("badc", order=order).outputs["token in order"]
    log_probs = output.logits.double().log_softmax(-1)
    chips = ".row .place"
    bits, guesses = stage.texts(f"{chips} small"), stage.texts(f"{chips} i")
    titles = stage.attrs(chips, "title")
    for turn, place in enumerate(order):
        own = -float(log_probs[place, output.labels[place]]) / math.log(2)
        best = int(log_probs[place].argmax())
        name = token_label(scope.tokenizer, best).text
        assert bits[turn] == f"{place + 1} · {own:.1f} bits"
        assert guesses[turn].split() == [name, f"{float(log_probs[place, best].exp()):.3f}"]
        assert titles[turn].startswith(
            f"{'badc'[place]}, position {place + 1}, predicted in turn {turn + 1}: "
        )
        stage.click(chips, n=turn)
    assert stage.sent == [["pick", {"position": place}] for place in order]
    assert len({f"{place} {text.split()[2]}" for place, text in zip(order, bits, strict=True)}) == 4
    for n in range(2):
        rows = stage.written(".seen canvas", n)
        assert {"b 1", "a 2", "d 3", "c 4"} <= set(rows)
        assert [rows[name]["y"] for name in ("b 1", "a 2", "d 3", "c 4")] == sorted(
            rows[name]["y"] for name in ("b 1", "a 2", "d 3", "c 4")
        )


@pytest.mark.parametrize(("width", "colours"), [(900, {}), (380, DARK)])
def test_every_target_is_large_enough_and_nothing_sticks_out(stage, scope, width, colours):
    stage.mount("order", width, **colours).show(payload(scope))
    for n in range(4):
        box = stage.box(".row .place", n)
        assert min(box["width"], box["height"]) >= 40
    assert stage.js(
        "(root) => { const e = root.querySelector('.order'); return e.scrollWidth <= e.clientWidth; }"
    )
    assert stage.box(".seen canvas", 0)["width"] <= width
