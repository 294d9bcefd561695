"""Every page with a model that does not generate: it draws what applies, and explains what does not in a sentence."""

from pathlib import Path

import pytest
import torch
from app_parts import address_of, assert_all_passed, page_at, pick_model, picture, prose, said
from small import random_bert, words_of
from streamlit.testing.v1 import AppTest

import models
from models.checkpoint import save_checkpoint
from models.runs.scope import Scope
from viz_app import checkpoints, words
from viz_app.drawing import notes
from viz_app.views.layer.text import NO_LENS_OF_ANSWER

STORY = "Mary went to the garden. John took the milk to the office."
QUESTION, CONTEXT = "Where is Mary?", "Mary went to the garden. John took the milk."
ASKED = {
    "pretraining": {"text": "Mary [MASK] to the garden.", "second_text": "John took the milk."},
    "span": {"question": QUESTION, "context": CONTEXT},
}
PAGES = {
    "attention": "attention",
    "task": "task",
    "inside": "inside",
    "positions": "positions",
    "masks": "masks",
    "decoding": "decoding",
    "from-rnn": "from-rnn",
}


@pytest.fixture(scope="module")
def scopes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scope]:
    found, tokenizer = {}, words_of(STORY, QUESTION)
    for head, task in (("pretraining", "mlm"), ("span", "span")):
        folder = tmp_path_factory.mktemp("models") / head
        examples = [[*ASKED[head].values()][: 1 + (head == "span")]]
        model = random_bert(vocab_size=tokenizer.vocab_size, head=head)
        save_checkpoint(folder, model, tokenizer, {"step": 0, "task": task, "examples": examples})
        found[head] = models.load(folder, device="cpu")
    return found


@pytest.fixture(autouse=True)
def offered(scopes: dict[str, Scope], monkeypatch: pytest.MonkeyPatch) -> None:
    """The models are put into the menu, since AppTest can run again only with values that are in a list."""
    monkeypatch.setattr(
        checkpoints,
        "available",
        lambda: [*(str(scope.path) for scope in scopes.values()), "gpt-char"],
    )


def open_page(name: str, folder: Path, **params: str | list[str]) -> AppTest:
    return page_at(name, **{"checkpoint": str(folder), **params})


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("head", ASKED)
@pytest.mark.parametrize("name", PAGES)
def test_every_page_opens_and_every_check_on_it_passes(
    scopes: dict[str, Scope], head: str, name: str
) -> None:
    app = open_page(name, scopes[head].path, **ASKED[head])
    if name in ("attention", "task", "inside", "masks"):
        looks = [look for look, _ in said(app, "checks")["rows"]]
        assert "passed" in looks
        assert "failed" not in looks


@pytest.mark.parametrize("section", ["Curves", "Map", "Added or concatenated"])
def test_its_positions_are_shown(scopes: dict[str, Scope], section: str) -> None:
    app = open_page(
        "positions",
        scopes["pretraining"].path,
        **ASKED["pretraining"],
        **{"positions-section": section},
    )
    looks = [look for look, _ in said(app, "checks")["rows"]]
    assert "passed" in looks
    assert "failed" not in looks


def test_pages_about_generating_say_that_it_does_not_and_offer_models_that_do(
    scopes: dict[str, Scope],
) -> None:
    app = open_page("decoding", scopes["span"].path, **ASKED["span"])
    assert "This model does not generate text" in prose(app)
    offered = [button.label for button in app.button if button.label.startswith("Open ")]
    assert offered


def test_a_link_hides_the_tokens_that_it_names_on_every_page(scopes: dict[str, Scope]) -> None:
    scope, asked = scopes["pretraining"], {"text": "Mary went to the garden.", "second_text": ""}
    for name, key in (("task", "guesses"), ("attention", "head")):
        app = open_page(
            name, scope.path, **asked, masked=["2", "4", "7", "99"]
        )  # 7 is [SEP], 99 beyond the text
        header, arrays = picture(app, key)
        assert dict(said(app, "written")["rows"])["source"] == "Mary [MASK] to [MASK] garden."
        assert address_of(app)["masked"] == ["2", "4", "7", "99"]
        trace = scope.run("Mary went to the garden.", masked=(2, 4))
        if name == "task":
            assert [mask["position"] for mask in header["masks"]] == [2, 4]
            best = trace.outputs["masked token"].logits.double().softmax(-1).max(-1).values.tolist()
            first = [0, len(header["masks"][0]["rows"])]
            assert arrays["p"][first].tolist() == pytest.approx(best, rel=1e-5)
        else:
            weights = trace.attention[header["site"]].weights(header["head"]).numpy()
            assert arrays["weights"].reshape(weights.shape) == pytest.approx(weights, abs=1e-6)


def test_hidden_tokens_are_cleared_with_another_example_or_model(scopes: dict[str, Scope]) -> None:
    for key in ("example", "checkpoint"):
        app = open_page(
            "task",
            scopes["pretraining"].path,
            text="Mary went to the garden.",
            second_text="",
            masked=["2"],
        )
        if key == "example":
            box = app.selectbox(key=key)
            box.set_value(box.options[0]).run()
        else:
            pick_model(app, str(scopes["span"].path))
        assert "masked" not in address_of(app)
        assert not app.exception


def test_an_empty_second_text_is_reported_under_its_box(scopes: dict[str, Scope]) -> None:
    app = open_page(
        "task", scopes["pretraining"].path, text="Mary went to the garden.", second_text=""
    )
    assert said(app, "note second_text")["rows"] == [["line", words.ONE_TEXT]]
    assert picture(app, "pair")[0]["waiting"]
    {box.key: box for box in app.text_area}["second_text"].set_value("John took the milk.").run()
    assert "waiting" not in picture(app, "pair")[0]
    assert said(app, "note second_text")["rows"] == [["line", ""]]


def test_a_mask_that_the_model_lacks_and_a_question_without_a_text_are_reported_at_their_boxes(
    scopes: dict[str, Scope],
) -> None:
    app = open_page("task", scopes["span"].path, question=QUESTION, context=CONTEXT)
    {box.key: box for box in app.text_area}["context"].set_value("").run()
    assert said(app, "note context")["rows"][0][1] == "The context is empty; type some text."
    assert picture(app, "span")[0]["title"].startswith(
        "Where does the answer to “Where is Mary?”"
    )  # the last good one
    gpt = open_page("task", Path("gpt-char"), text="The [MASK] sat.")
    assert (
        "[MASK] is plain text here: this model has no such token."
        in said(gpt, "note text")["rows"][0][1]
    )


@pytest.mark.parametrize("head", ASKED)
def test_the_shuffle_test_is_made_on_its_vectors_and_on_its_own_answer(
    scopes: dict[str, Scope], head: str
) -> None:
    scope = scopes[head]
    app = open_page("positions", scope.path, **ASKED[head], **{"positions-order": "reversed"})
    assert_all_passed(app, 2)
    row = scope.encode(*ASKED[head].values())["text"]
    ends = [row.ids.index(scope.tokenizer.sep_id), len(row.ids) - 1]
    order = [0, *range(ends[0] - 1, 0, -1), ends[0], *range(ends[1] - 1, ends[0], -1), ends[1]]
    header, arrays = picture(app, "positions-shuffle")
    assert header["order"] == order
    ids, segments = torch.tensor([row.ids])[:, order], torch.tensor([row.segments])
    with torch.no_grad():
        before, after = (
            scope.model.encode(x, scope.model.masks(x), segments)[0]
            for x in (torch.tensor([row.ids]), ids)
        )
    moved = (after[torch.tensor(order).argsort()] - before).norm(dim=-1) / before.norm(dim=-1)
    assert arrays["map0"].reshape(len(order), -1)[:, -1] == pytest.approx(moved.numpy(), abs=1e-5)
    assert float(moved.max()) > 0.01 > 1e-4 > arrays["map1"].max()
    lines = [text for look, text in said(app, "positions-explained")["rows"]][1:]
    label, answer = notes.quoted_answer_line(scope.run(*ASKED[head].values()))
    assert lines[0].startswith(f"With positions, {label}: {answer} as typed; ")
    assert lines[1].startswith("Positions switched off, ")
    assert all(line.endswith(" if reordered.") for line in lines)
    if head == "pretraining":
        typed, other = lines[1].removeprefix(f"Positions switched off, {label}: ").split("; ")
        # without positions, it does not matter where [MASK] is
        assert typed.removesuffix(" as typed") == other.removesuffix(" if reordered.")
        answers = scope.model(ids, segments)["masked token"][0, order.index(2)]
        assert f"; “{scope.tokenizer.token(int(answers.argmax()))}” (" in lines[0]


def test_the_strip_shows_input_and_answer(scopes: dict[str, Scope]) -> None:
    app = open_page("attention", scopes["span"].path, **ASKED["span"])
    rows = dict(said(app, "written")["rows"])
    trace = scopes["span"].run(QUESTION, CONTEXT)
    span = trace.outputs["span"]
    p = float(span.start_logits.softmax(-1)[span.start] * span.end_logits.softmax(-1)[span.end])
    assert (rows["source"], rows["output"]) == (QUESTION, trace.output)
    assert rows["label-out"] == f"the answer in the text, {100 * p:.0f} %"
    app = open_page("attention", scopes["pretraining"].path, **ASKED["pretraining"])
    rows = dict(said(app, "written")["rows"])
    (token,) = (
        scopes["pretraining"].run(*ASKED["pretraining"].values()).outputs["masked token"].predicted
    )
    assert rows["source"] == "Mary [MASK] to the garden. John took the milk."
    assert rows["label-out"] == "best guess for [MASK]"
    assert rows["output"].startswith(f"{token} (")


def test_an_error_is_shown_at_its_field_and_the_last_picture_stays(
    scopes: dict[str, Scope],
) -> None:
    app = open_page("attention", scopes["span"].path, **ASKED["span"])
    boxes = {box.key: box for box in app.text_area}
    boxes["context"].set_value(CONTEXT * 9).run()
    assert said(app, "note context")["look"] == "note bad"
    assert "question and context have" in said(app, "note context")["rows"][0][1].lower()
    assert dict(said(app, "written")["rows"])["source"] == QUESTION
    {box.key: box for box in app.text_area}["context"].set_value("").run()
    assert said(app, "note context")["rows"][0][1] == "The context is empty; type some text."


def test_an_example_fills_both_boxes(scopes: dict[str, Scope]) -> None:
    app = open_page("attention", scopes["span"].path)
    assert {
        box.key: box.value for box in app.text_area if box.key in ("question", "context")
    } == ASKED["span"]


def test_a_second_text_of_the_batch_is_read_with_the_same_context(scopes: dict[str, Scope]) -> None:
    app = open_page(
        "masks", scopes["span"].path, **ASKED["span"], **{"masks-second": "Where is the milk?"}
    )
    header, _ = picture(app, "mask_painter")
    assert [label[0].split(": ")[0] for label in header["effect"]["labels"]] == ["start", "end"]
    assert header["effect"]["outputs"] == [scopes["span"].run(QUESTION, CONTEXT).output] * 2
    assert any("the model predicts" in line for line in header["story"])


def test_a_span_is_not_said_to_be_read_from_no_token(scopes: dict[str, Scope]) -> None:
    scope = scopes["span"]
    site = next(iter(scope.run(QUESTION, CONTEXT).attention))
    for place in (1, 6):  # in the question, and in the text
        app = open_page("layer", scope.path, **ASKED["span"], site=site, lock=f"q{place}")
        header, _ = picture(app, "layer")
        assert (header["position"], header["without"]) == (place, NO_LENS_OF_ANSWER)


def test_a_masked_run_names_question_and_context_apart(scopes: dict[str, Scope]) -> None:
    address = ASKED["span"] | {"masks-second": "Where is the milk?"}
    for shown, question in (("first", QUESTION), ("second", "Where is the milk?")):
        app = open_page("masks", scopes["span"].path, **address, **{"masks-shown": shown})
        assert dict(said(app, "written")["rows"])["source"] == question
        about = picture(app, "mask_painter")[0]["effect"]["about"].splitlines()
        assert {f"question: {question}", f"context: {CONTEXT}"} <= set(about)
