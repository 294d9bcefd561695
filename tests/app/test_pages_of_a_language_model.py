"""Masks and Decoding through the input bar with a language model: one text, and an optional continuation."""

from pathlib import Path

import pytest
from app_parts import assert_all_passed, page_at, picture, prose, said, with_key
from drawn import letters
from streamlit.testing.v1 import AppTest

import models
from models.checkpoint import save_checkpoint
from models.decoding.runs import Method, autoregressive
from models.runs.masked_comparison import run_masked
from models.runs.scope import Scope
from models.trace.edits import MaskChange, for_kinds
from viz_app import checkpoints

PROMPT, FOLLOWS, SECOND = "abcab", "edc", "bad"


@pytest.fixture(scope="module")
def scope(tmp_path_factory: pytest.TempPathFactory) -> Scope:
    folder, made = tmp_path_factory.mktemp("models") / "letters", letters("gpt", n_ctx=17)
    save_checkpoint(
        folder,
        made.model,
        made.tokenizer,
        {"step": 0, "task": "language", "examples": ["abc", "abcde"]},
    )
    return models.load(folder, device="cpu")


@pytest.fixture(autouse=True)
def offered(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is put into the menu, since AppTest can run again only with values that are in a list."""
    monkeypatch.setattr(checkpoints, "available", lambda: [str(scope.path)])


def open_page(page: str, folder: Path, **params: str) -> AppTest:
    return page_at(page, **{"checkpoint": str(folder), "text": PROMPT, **params})


@pytest.mark.slow
def test_a_window_is_chosen_painted_on_and_undone(scope: Scope) -> None:
    app = open_page("masks", scope.path, continuation=FOLLOWS, masks_second=SECOND)
    assert_all_passed(app, 5)
    assert picture(app, "mask_painter")[0]["kind"] == "self"
    with_key(app.selectbox, "masks-ready-self").set_value("window").run()
    with_key(app.number_input, "masks-k-self").set_value(1).run()
    assert_all_passed(app, 5)
    header, arrays = picture(app, "mask_painter")
    assert app.query_params["self-mask"] in ("window1", ["window1"])
    encoding = scope.run(PROMPT, FOLLOWS).streams["text"]
    (after,) = run_masked(scope, [(encoding,)], for_kinds(self=MaskChange(preset="window", k=1)))
    assert header["effect"]["sums"][1] == pytest.approx(after.log_prob, abs=1e-4)
    assert header["effect"]["outputs"][1] == after.output
    open_cells = [
        (q, k) for q in range(9) for k in range(9) if not arrays["blockedAfter"].reshape(9, 9)[q, k]
    ]
    assert open_cells == [(q, k) for q in range(9) for k in range(9) if q - 1 <= k <= q]
    assert (
        said(app, "note masks")["rows"][0][1]
        == "Text 1 has 9 tokens, text 2 has 4: the second text gets 5 padding tokens."
    )
    with_key(app.button, "masks-undo").click().run()
    sums = picture(app, "mask_painter")[0]["effect"]["sums"]
    assert sums[0] == sums[1]
    assert "self-mask" not in app.query_params


def test_a_second_text_that_is_too_long_says_so_and_the_first_stays(scope: Scope) -> None:
    app = open_page("masks", scope.path, masks_second="a" * 40)
    assert_all_passed(app, 5)
    assert (
        said(app, "note masks")["rows"][0][1]
        == "This text has 41 tokens; this model reads at most 17."
    )


@pytest.mark.parametrize("how", ["greedy", "sampling", "beam"])
def test_prompt_and_continuation_are_side_by_side(scope: Scope, how: str) -> None:
    app = open_page(
        "decoding",
        scope.path,
        continuation=FOLLOWS,
        decoding_how=how,
        decoding_picture="step by step",
        decoding_tokens="4",
        decoding_seed="3",
    )
    assert_all_passed(app, 5)
    header, _ = picture(app, "stepper")
    method = {
        "greedy": Method(max_new=4),
        "sampling": Method("sample", seed=3, max_new=4),
        "beam": Method("beam", max_new=4),
    }[how]
    assert header["serial"]["taken"] == list(
        autoregressive(scope.model, scope.input_ids(PROMPT), method).run.taken
    )
    assert [label[0] for label in header["prompt"]] == ["[start]", *"abca"]
    assert [label[0] for label in header["parallel"]["given"]] == [*FOLLOWS]
    assert not header["ownText"]
    assert "the first step computes the whole prompt" in prose(app)


def test_without_a_continuation_the_models_own_text_is_used(scope: Scope) -> None:
    app = open_page("decoding", scope.path, decoding_tokens="4", force="2:5")
    assert_all_passed(app, 5)
    header, _ = picture(app, "stepper")
    own = autoregressive(scope.model, scope.input_ids(PROMPT), Method(max_new=4)).run.taken
    assert header["ownText"]
    assert (header["parallel"]["taken"], header["serial"]["taken"][1]) == (list(own), 5)
    with_key(app.text_area, "text").set_value("abc").run()
    assert (
        picture(app, "stepper")[0]["note"]
        == "The forced tokens belonged to another text and were removed."
    )


def test_a_prompt_without_room_is_answered_in_words(scope: Scope) -> None:
    app = open_page("decoding", scope.path, text="a" * 16)
    assert "The prompt fills all 17 tokens that this model can read" in prose(app)
    with_key(app.text_area, "text").set_value("abc").run()
    assert_all_passed(app, 5)
