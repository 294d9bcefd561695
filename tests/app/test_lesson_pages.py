"""Each step of each shipped lesson, opened by its address before and after a prediction."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from app_parts import app_at, in_session, said
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

import models
import viz_app.navigation  # noqa: F401  # declares every URL parameter
from models.analysis.shuffle import without_positions
from viz_app.controls.lesson_panel import offered_lessons
from viz_app.drawing.payload import unpack
from viz_app.lessons import library
from viz_app.lessons.lesson import (
    CELLS_STEP,
    CHOOSE_STEP,
    NUMBER_STEP,
    ORDER_STEP,
    TOKEN_STEP,
    LessonStep,
)
from viz_app.session import lesson_state
from viz_app.session.lesson_state import changes_texts
from viz_app.session.pinned import PIN_PREFIX

LESSONS = {lesson.name: lesson for lesson in offered_lessons().lessons}
STEPS = [(name, i) for name, one in LESSONS.items() for i in range(1, len(one.steps) + 1)]


TEXTS = ("source", "target", "text")


def at(page: str) -> str:
    return "" if page == "attention" else page


def open_page(name: str, number: int, said_: str = "", **other: str) -> AppTest:
    """Open a step by its link, in its state after the prediction if one is given."""
    step = LESSONS[name].steps[number - 1]
    query = dict(step.query)
    if said_:
        query |= step.then
        if step.pins:
            pins = ("checkpoint", *TEXTS[: 3 * changes_texts(step)], "edits", "positions")
            query |= {f"{PIN_PREFIX}{key}": step.query[key] for key in pins if key in step.query}
    address = {"lesson": name, "lesson-step": str(number)}
    address |= {"predicted": f"{number}.{said_}"} if said_ else {}
    return app_at(
        at(step.page_when(bool(said_))), **{k: v[-1] for k, v in query.items()} | address | other
    )


def guess(step: LessonStep) -> str:
    kind = step.prediction.kind
    if kind == CHOOSE_STEP:
        return next(iter(step.prediction.options))
    return {
        NUMBER_STEP: "7",
        TOKEN_STEP: "0",
        ORDER_STEP: "3-2-1-0",
        CELLS_STEP: "-".join(["10000"] * 5),
    }[kind]


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize(("name", "number"), STEPS)
def test_a_step_asks_and_then_describes_the_run(name: str, number: int) -> None:
    step = LESSONS[name].steps[number - 1]
    asked = said(open_page(name, number), "lesson")
    assert asked["question"] == step.question
    assert asked["form"]["kind"] == step.prediction.kind
    assert asked["reveal"] is None
    assert "error" not in asked
    assert asked["is_elsewhere"] is False
    told = said(open_page(name, number, guess(step)), "lesson")
    assert "error" not in told, told["error"]
    assert told["form"] is None
    assert len(told["reveal"]["paragraphs"]) == len(step.reveal)
    assert told["reveal"]["happened"]
    if step.prediction.kind == CHOOSE_STEP:
        assert told["reveal"]["happened"] in step.prediction.options.values()


@pytest.mark.slow
def test_another_checkpoint_tells_another_story() -> None:
    told = {
        checkpoint: said(
            open_page("6-positions", 1, "yes", **{"checkpoint": checkpoint, "pin.checkpoint": checkpoint}),
            "lesson",
        )["reveal"]
        for checkpoint in ("eng-fra", "eng-fra-rnn")
    }  # fmt: skip
    for checkpoint, one in told.items():
        scope = models.load(checkpoint)
        for text in ("Tom hit Mary.", "Mary hit Tom."):
            assert f"“{scope.run(text).output}”" in one["paragraphs"][0]
    assert told["eng-fra"]["paragraphs"] != told["eng-fra-rnn"]["paragraphs"]


def test_a_survey_of_the_weights_on_the_screen_is_quoted_or_reported_missing() -> None:
    shares = set()
    for checkpoint in ("eng-fra", "eng-fra-rnn"):
        told = said(open_page("5-one-wrong-word", 4, "7", checkpoint=checkpoint), "lesson")[
            "reveal"
        ]
        means = models.load(checkpoint).training["surveys"]["recovery"]["means"]
        shares.add(told["happened"])
        assert told["happened"] == f"{100 * means['first recovered']['mean']:.0f} %"
        assert told["paragraphs"][0].startswith(f"{told['happened']} of 3")
    assert len(shares) == 2
    missing = said(open_page("5-one-wrong-word", 4, "7", checkpoint="dates"), "lesson")
    assert missing["reveal"] is None
    assert "weights of dates have no record of a survey named recovery" in missing["error"]


def test_the_change_without_positions_is_rounding_and_with_them_it_is_not() -> None:
    told = said(open_page("6-positions", 3, "0.5"), "lesson")["reveal"]
    scope = models.load("eng-fra")
    ids = scope.run("Tom hit Mary.").streams["source"].ids
    order = [*reversed(range(len(ids) - 1)), len(ids) - 1]

    def moved(model: Any) -> float:
        def states(row: list[int]) -> Any:
            tokens = torch.tensor([row])
            return model.encode(tokens, model.masks(tokens, tokens[:, :0]))[0]

        plain, turned = states(list(ids)), states([ids[i] for i in order])
        back = turned[torch.tensor(order).argsort()]
        return float(((back - plain).norm(dim=-1) / plain.norm(dim=-1)).max())

    with torch.inference_mode():
        positioned, bare = moved(scope.model), moved(without_positions(scope.model))
    assert bare < 1e-5 < 0.1 < positioned
    assert told["happened"] == f"{positioned:.2f} of its length"
    assert f"by {positioned:.2f} of its length" in told["paragraphs"][0]
    assert "That is rounding" in told["paragraphs"][0]


def test_a_missing_lesson_is_reported() -> None:
    app = app_at("", lesson="no-such-lesson")
    assert "there is no lesson no-such-lesson" in str(said(app, "note address"))
    with pytest.raises(ValueError, match="not enough values"):
        said(app, "lesson")


def predicted(name: str, number: int, prediction: str) -> AppTest:
    """Open a step and make a prediction as the component in the browser does."""
    app, lesson = open_page(name, number), LESSONS[name]
    with in_session(app):
        lesson_state.predict(lesson, number, prediction, app.session_state["live session"])
    app._page_hash = calc_hash(at(lesson.steps[number - 1].page_when(True)))
    app.run()
    assert not app.exception
    return app


def typed(app: AppTest, field: str, text: str) -> dict[str, Any]:
    """Return what the lesson says after another text is typed, the same at every key and after the pause."""
    session = app.session_state["live session"]
    _, *optional = session.scope.model.text_fields
    live = unpack(session.edit(text, *("" for _ in optional)))[0]["plain"]["lesson"]
    app.text_area(key=field).set_value(text).run()
    assert live == {key: value for key, value in said(app, "lesson").items() if key in live}
    return said(app, "lesson")


@pytest.mark.slow
def test_a_pinned_model_reads_the_text_that_is_typed() -> None:
    app, source = predicted("1-one-vector", 4, "same"), "The dog is here."
    written = {name: models.load(name).write(source).text for name in ("eng-fra-rnn", "eng-fra-bahdanau")}  # fmt: skip
    told = typed(app, "source", source)["reveal"]
    assert len(set(written.values())) == 1
    assert told["happened"] == "Yes, the same"
    assert told["paragraphs"][0] == ", ".join(f"{n} writes “{t}”" for n, t in written.items()) + "."
    app, text = predicted("7-three-families", 3, "bert"), "He ate a slice of bread."
    gpt = models.load("gpt").run(text).next_token.surprisal[1]
    (bert, *_) = models.load("bert").run(text, masked=(2,)).outputs.values()
    bits = -float(bert.log_probs[0, bert.labels[0]]) / math.log(2)
    told = typed(app, "text", text)["reveal"]
    assert told["paragraphs"][0].startswith(
        f"“ate” has {gpt:.1f} bits for gpt, “ate” has {bits:.1f} bits for bert."
    )


def test_a_pinned_text_stays_when_the_step_shows_another_beside_it() -> None:
    app = predicted("6-positions", 1, "yes")
    assert "“Tom hit Mary.”" in said(app, "lesson")["reveal"]["paragraphs"][0]
    assert "“Tom hit Mary.”" in typed(app, "source", "She saw Tom.")["reveal"]["paragraphs"][0]


def test_nothing_is_predicted_for_another_text_than_the_steps() -> None:
    app = open_page("2-alignment", 1)
    assert said(app, "lesson")["form"]["tokens"][1] == "black"
    asked = typed(app, "source", "My old dog sleeps in the house.")
    assert (asked["form"], asked["reveal"]) == (None, None)
    assert "another text" in asked["departure"]
    assert "“Show again”" in asked["departure"]
    asked = typed(app, "source", "The black cat is here.")
    assert (asked["form"]["tokens"][1], asked["departure"]) == ("black", "")


def test_a_prediction_is_not_compared_with_another_run() -> None:
    app = predicted("2-alignment", 1, "1")
    told = said(app, "lesson")["reveal"]
    assert (told["prediction"], told["agrees"], told["happened"]) == ("black", True, "black")
    asked = typed(app, "source", "We like big dogs.")
    assert "prediction" not in asked["reveal"]
    assert "agrees" not in asked["reveal"]
    assert "“ons”" in asked["reveal"]["paragraphs"][0]
    assert "another text" in asked["departure"]
    app = predicted("8-explanation", 1, "stays")
    assert said(app, "lesson")["reveal"]["agrees"] is False
    told = typed(app, "source", "Tom.")["reveal"]
    assert (told["prediction"], told["agrees"]) == ("It stays the same", None)


@pytest.mark.parametrize(
    ("change", "says", "keeps_reveal"),
    [
        ({"checkpoint": "eng-fra-bahdanau", "pin.checkpoint": "eng-fra"}, "another model", True),
        ({"similarity": "cosine"}, "other changes", False),
        ({"cross-mask": "f0.1"}, "other changes", True),
        ({"pin.positions": "false"}, "no longer pinned", False),
        ({"pin.checkpoint": ""}, "no longer pinned", False),
        ({"pin.source": "We like him."}, "no longer pinned", False),
        ({"site": "encoder.layers.0.self_attn", "head": "2"}, "", True),
    ],
)
def test_another_run_is_identified_by_its_difference(
    change: dict[str, str], says: str, keeps_reveal: bool
) -> None:
    told = said(open_page("6-positions", 1, "yes", **change), "lesson")
    assert says in told["departure"]
    assert bool(told["departure"]) == bool(says)
    assert (told["reveal"] is not None) == keeps_reveal
    assert not says or (told["reveal"] or {}).get("agrees") is None


@pytest.mark.parametrize(("number", "change"), [(3, {"masked": "4"}), (4, {"order": "7-3-4-5-6-1-2"})])  # fmt: skip
def test_other_tokens_hidden_or_another_order_are_another_run(
    number: int, change: dict[str, str]
) -> None:
    told = said(open_page("7-three-families", number, guess(LESSONS["7-three-families"].steps[number - 1]), **change), "lesson")  # fmt: skip
    assert told["reveal"] is None
    assert "other changes" in told["departure"]
    app = open_page("7-three-families", 4)
    assert said(app, "lesson")["form"] is not None
    asked = said(open_page("7-three-families", 4, order="2-1-3-4-5-6-7"), "lesson")
    assert (asked["form"], "other changes" in asked["departure"]) == (None, True)


def test_a_change_that_another_model_lacks_is_not_mentioned() -> None:
    told = said(open_page("3-heads", 3, "same", checkpoint="eng-fra-rnn"), "lesson")
    assert told["reveal"] is None
    assert "another model" in told["departure"]


def test_a_lesson_forces_no_token_of_another_source() -> None:
    app = predicted("5-one-wrong-word", 1, "2")
    assert said(app, "lesson")["reveal"]["happened"] == "1 word"
    asked = typed(app, "source", "We like him very much.")
    assert asked["reveal"] is None
    assert "another text" in asked["departure"]
    with in_session(app):
        lesson_state.open_step(LESSONS["5-one-wrong-word"], 1, app.session_state["live session"], True)  # fmt: skip
    again = said(app.run(), "lesson")
    assert (again["reveal"]["happened"], again["departure"]) == ("1 word", "")


HOSTILE = {
    "another folder's file": {"lesson": "../../../etc/passwd"},
    "markup": {"lesson": "<script>alert(1)</script>"},
    "a step too far": {"lesson": "6-positions", "lesson-step": "20"},
    "a step that is no number": {"lesson": "6-positions", "lesson-step": "1e9"},
    "an option that is not there": {"lesson": "6-positions", "predicted": "1.perhaps"},
    "a number for an option": {"lesson": "6-positions", "predicted": "1.1e999"},
    "no number": {"lesson": "6-positions", "lesson-step": "3", "predicted": "3.nan"},
    "an infinite number": {"lesson": "6-positions", "lesson-step": "3", "predicted": "3.1e999"},
    "a token that is not there": {"lesson": "2-alignment", "predicted": "1.99"},
    "a token before the first": {"lesson": "2-alignment", "predicted": "1.-1"},
    "an order of too many": {
        "lesson": "7-three-families",
        "lesson-step": "2",
        "predicted": "2.0-1-99",
    },
    "cells of another text": {"lesson": "4-masks", "predicted": "1." + "1" * 300},
    "thousands of predictions": {"lesson": "6-positions", "predicted": "_".join(["1.yes"] * 5000)},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_no_address_breaks_the_page(case: str) -> None:
    """An invalid lesson, step or prediction is named, and no prediction is made up from it."""
    address = HOSTILE[case]
    if address["lesson"] in LESSONS:
        number = int(address.get("lesson-step", "1")) if "predicted" in address else 1
        app = open_page(address["lesson"], number, "0" * ("predicted" in address), **address)
    else:
        app = app_at("", **address)
    assert said(app, "written")
    lessons = [e for e in app.get("bidi_component") if e.proto.id.endswith("-lesson")]
    if not lessons:
        assert "lesson" in str(said(app, "note address"))
        return
    told = said(app, "lesson")
    assert told["form"] or "error" in told or case == "thousands of predictions"
    assert told["reveal"] is None or case == "thousands of predictions"


def test_the_page_can_be_left_and_the_step_continues() -> None:
    name, step = "6-positions", LESSONS["6-positions"].steps[0]
    query = {key: value[-1] for key, value in step.query.items()}
    app = app_at("decoding", **query, lesson=name, predicted="1.yes")
    assert said(app, "lesson")["is_elsewhere"] is True


def test_the_list_names_every_lesson() -> None:
    files = sorted(path.stem for path in library.SHIPPED_LESSONS.glob("*.md"))
    assert list(LESSONS) == files
    listed = said(app_at("lessons"), "lesson_list")["lessons"]
    assert [one["name"] for one in listed] == list(LESSONS)


def test_a_users_lesson_is_shown_as_text_and_a_broken_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.LESSONS_VARIABLE, str(tmp_path))
    text = (library.SHIPPED_LESSONS / "6-positions.md").read_text()
    (tmp_path / "mine.md").write_text(text.replace("# Shuffle", "# <img src=x onerror=alert(1)>"))
    (tmp_path / "broken.md").write_text("# Only a title\n")
    app = app_at("lessons")
    assert said(app, "lesson_list")["lessons"][0]["title"].startswith("<img src=x")
    assert "broken.md, line 1: minutes is missing" in str(said(app, "note lessons"))
    assert "<img" not in str([element.value for element in app.markdown])
