"""The component `answers` by itself: every chip, card, bar and weight, with hover, click and keyboard."""

import functools
import re
from typing import Any

import drawn
import numpy as np
import pytest
from stage import Stage, alike, hex_of, weight_colour

from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.views.task.next_token import next_token
from viz_app.views.task.reading import TaskChoices

TEXT = "abcab=d"
GPT_SELF = "decoder.layers.1.self_attn"


@functools.cache
def payload(
    family: str = "gpt",
    texts: tuple[str, ...] = (TEXT,),
    position: int | None = 3,
    site: str = GPT_SELF,
) -> bytes:
    scope = drawn.letters(family)
    run = CurrentRun(scope, scope.run(*texts))
    pictures, _ = next_token(run, run.trace.next_token, TaskChoices(position, Focus(site, 1)))
    return pictures["answers"]


def shown(stage: Stage, **how: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    stage.mount("answers", 900).show(payload(**how))
    return unpack(payload(**how))


def colours(stage: Stage, selector: str) -> list[str]:
    """Return the background colours of the elements that have one."""
    return [
        hex_of(colour) for colour in stage.css(selector, "backgroundColor") if "rgba" not in colour
    ]


def test_each_token_is_coloured_by_its_bits(stage: Stage) -> None:
    header, arrays = shown(stage)
    names, numbers = stage.texts(".place b"), stage.texts(".place small")
    assert names == ["[start]", *TEXT, "?"]
    assert numbers == ["–", *(f"{bits:.1f}" for bits in arrays["surprisal"]), "next"]
    for colour, bits in zip(colours(stage, ".place"), arrays["surprisal"], strict=True):
        assert alike(colour, weight_colour(min(1.0, float(bits) / header["most"])))
    first, *rest, last = stage.attrs(".place", "title")
    assert first == "[start]: nothing comes before it"
    assert last == "What comes next?"
    said = [
        re.fullmatch(r"(.): (\S+) bits, probability (\S+), rank (\d+)", title).groups()
        for title in rest
    ]
    assert [token for token, *_ in said] == [*TEXT]
    for name, column in (("surprisal", 1), ("probability", 2), ("rank", 3)):
        assert [np.float32(one[column]) for one in said] == arrays[name].tolist()
    assert stage.text("h2") == header["title"]
    assert stage.text(".summary") == header["summary"]
    assert [stage.text(part) for part in (".least", ".most", ".how")] == header["scale"]


def test_the_chosen_position_and_the_answering_token_are_marked(stage: Stage) -> None:
    shown(stage)
    assert stage.attrs(".place", "aria-pressed") == [
        "true" if i == 4 else "false" for i in range(9)
    ]
    assert stage.texts(".place.reads b") == ["c"]
    assert stage.texts(".read.reads b") == ["c"]
    assert stage.data(".answers")["position"] == "3"


def test_a_click_and_the_arrow_keys_choose_a_position(stage: Stage) -> None:
    shown(stage)
    stage.click(".place", n=6)
    stage.press(
        "ArrowLeft",
        "ArrowLeft",
        "ArrowRight",
        "ArrowRight",
        "ArrowRight",
        "ArrowRight",
        "ArrowRight",
    )
    asked = [value["position"] for name, value in stage.sent if name == "pick"]
    assert asked == [5, 4, 3, 4, 5, 6, 7]  # 7 is the next token; there is nothing after it
    assert stage.texts('.place[aria-pressed="true"] b') == ["?"]


def test_before_the_first_position_there_is_nothing_to_choose(stage: Stage) -> None:
    shown(stage, position=0)
    stage.click(".place", n=0)
    stage.js("(root) => root.querySelector('.place[data-position=\"0\"]').focus()")
    stage.press("ArrowLeft", "ArrowUp")
    assert stage.sent == []


def test_an_older_answer_does_not_undo_a_newer_choice(stage: Stage) -> None:
    shown(stage)
    stage.click(".place", n=6)
    stage.show(payload())
    assert stage.texts('.place[aria-pressed="true"] b') == ["="]
    stage.show(payload(position=5))
    stage.show(payload(position=2))
    assert stage.texts('.place[aria-pressed="true"] b') == ["c"]


def test_the_distribution_is_listed_with_the_next_token(stage: Stage) -> None:
    header, arrays = shown(stage)
    rows = header["answer"]["rows"]
    assert stage.texts(".bar .token") == [label[0] for _, label, _ in rows]
    assert [np.float32(p) for p in stage.attrs(".bar", "data-p")] == arrays["p"].tolist()
    follows = [i for i, row in enumerate(rows) if row[2]]
    rank = int(arrays["ranks"][follows[0]])
    assert stage.texts(".bar.taken .mark") == ["follows" + (f", rank {rank}" if rank > 1 else "")]
    widths = stage.js(
        "(root) => [...root.querySelectorAll('.bar i')].map((e) => parseFloat(e.style.width))"
    )
    assert widths == pytest.approx((100 * arrays["p"]).tolist(), rel=1e-4)
    parts = {".answer h3": "title", ".fact": "fact", ".rest": "rest"}
    assert {part: stage.text(part) for part in parts} == {
        part: header["answer"][key] for part, key in parts.items()
    }


def test_the_row_of_attention_is_shaded_by_weight_and_hatched_if_masked(
    stage: Stage,
) -> None:
    header, arrays = shown(stage)
    assert stage.texts(".read b") == ["[start]", *TEXT]
    assert stage.attrs(".read", "data-state") == ["open"] * 4 + ["masked"] * 4
    assert stage.texts(".read small") == [
        *(f"{w:.2f}" for w in arrays["weights"][:4]),
        *["\u00a0"] * 4,
    ]
    for colour, weight in zip(colours(stage, ".read"), arrays["weights"][:4], strict=True):
        assert alike(colour, weight_colour(float(weight)))
    assert all(
        "repeating-linear-gradient" in image for image in stage.css(".read", "backgroundImage")[4:]
    )
    titles = stage.attrs(".read", "title")
    assert titles[5] == "b: masked (look-ahead)"
    assert np.float32(titles[1].removeprefix("a: weight ")) == arrays["weights"][1]
    assert [stage.text(".reading h3"), stage.text(".note")] == [
        header["reading"]["title"],
        header["reading"]["note"],
    ]


def test_a_generated_text_shows_a_card_at_every_position(stage: Stage) -> None:
    header, arrays = shown(stage, family="transformer", texts=("abcde", "edc"), position=2, site="")
    cards = stage.texts(".card > span b")
    others = arrays["others"].reshape(4, 3)
    assert cards == [name for place, alternatives in zip(header["places"], header["alternatives"], strict=True)
                     for name in (place[0], *(label[0] for label in alternatives))]  # fmt: skip
    expected = [p for i in range(4) for p in (arrays["probability"][i], *others[i])]
    assert [np.float32(p) for p in stage.attrs(".card > span", "data-p")] == expected
    for colour, p in zip(colours(stage, ".card > span"), expected, strict=True):
        assert alike(colour, weight_colour(float(p)))
    assert stage.texts(".card .rank") == [
        f"rank {rank}" if rank > 1 else "" for rank in arrays["rank"]
    ]
    assert len(set(arrays["rank"].tolist())) > 1
    assert stage.attrs(".card", "aria-pressed") == ["false", "false", "true", "false"]
    assert stage.texts(".place.reads") == []
    stage.click(".card", n=3)
    assert stage.sent == [["pick", {"position": 3}]]


def test_one_kind_of_picture_replaces_another(stage: Stage) -> None:
    """This happens when another model is chosen; nothing of the old picture stays."""
    shown(stage)
    stage.show(payload(family="transformer", texts=("abcde", "edc"), position=1, site=""))
    assert len(stage.texts(".strip > *")) == 4 == len(stage.texts(".card"))
    stage.show(payload(texts=("ab",), position=1))
    assert stage.texts(".strip b") == ["[start]", "a", "b", "?"]
    assert stage.texts(".read b") == ["[start]", "a", "b"]
    assert stage.attrs(".place", "disabled") == ["", None, None, None]


def test_a_token_keeps_the_keyboard_while_the_text_is_typed(stage: Stage) -> None:
    shown(stage)
    assert stage.keeps_the_keyboard(
        '.place[data-position="2"]', payload(texts=("abca",), position=2)
    )


def test_markup_in_a_text_is_text(stage: Stage) -> None:
    data = stage.change(
        payload(),
        title="<b>t</b>",
        summary="<img src=x>",
        places=[["<i>x</i>", "", False]] * 7 + [None],
    )
    stage.mount("answers", 900).show(data)
    assert stage.text("h2") == "<b>t</b>"
    assert stage.texts(".place b")[1] == "<i>x</i>"
    assert stage.js("(root) => root.querySelectorAll('img, .place i').length") == 0
