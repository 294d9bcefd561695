"""This run minus the pinned one on every page that offers it: 0 for a run and itself, negated when the sides are swapped, and a
sentence where it is not defined."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from app_parts import app_at, picture, said
from hub_models import BY_NAME
from streamlit.testing.v1 import AppTest

import models
from models.decoding.runs import Method, autoregressive
from viz_app import words
from viz_app.drawing.labels import Label
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import declared_parameters
from viz_app.views.decoding.text import FORCED_CONTINUATION
from viz_app.views.positions.rotation import ROTATION
from viz_app.views.run_difference import (
    DIFFERENCE_NOTE,
    EQUAL,
    KEYS,
    LEARNED_APART,
    ONE_PICTURE,
    Quantity,
    differences,
)

SECTION = "positions-section"
CATS, DOGS = {"source": "I like cats."}, {"source": "I like dogs."}
HEAD = {"site": "decoder.layers.2.cross_attn", "head": "3"}
# the quantity → its page, and the other parameters of its address
PLACES: dict[str, tuple[str, dict[str, str]]] = {
    "residual stream": ("layer", HEAD),
    "shuffle test": ("positions", {SECTION: "Shuffle test"} | HEAD),
    "curves": ("positions", {SECTION: "Curves"}),
    "map": ("positions", {SECTION: "Map"}),
    "added": ("positions", {SECTION: "Added or concatenated", "positions-token": "2"} | HEAD),
    "scores by distance": ("positions", {SECTION: "Score by distance"} | HEAD),
    "masks": ("masks", HEAD | {"masks-second": "I like cats.", "mask": "cross.own"}),
    "decoding": ("decoding", HEAD),
}
RECURRENT = {"checkpoint": "eng-fra", "pin.checkpoint": "eng-fra-bahdanau"}
OF_TABLES = ("curves", "map")  # the same for every text


def open_page(name: str, texts: dict[str, str], pinned: dict[str, str], **more: str) -> AppTest:
    page, asked = PLACES[name]
    beside = {f"pin.{field}": value for field, value in pinned.items()}
    models_of_both = {"checkpoint": "eng-fra", "pin.checkpoint": "eng-fra"}
    return app_at(page, **(models_of_both | {"difference": "true"} | asked | texts | beside | more))


def drawn(app: AppTest) -> list[tuple[dict[str, Any], np.ndarray]]:
    keys = {element.proto.id.rpartition("-")[2] for element in app.get("bidi_component")}
    pictures = [picture(app, key) for key in KEYS if key in keys]
    return [(header, arrays["states"]) for header, arrays in pictures]


def facts_of(header: dict[str, Any]) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in header["about"].split("\n"))


def note(app: AppTest) -> str:
    return " ".join(line for _, line in said(app, DIFFERENCE_NOTE)["rows"])


@pytest.mark.parametrize("name", PLACES)
def test_a_run_minus_itself_is_zero(name: str) -> None:
    app = open_page(name, CATS, CATS)
    pictures = drawn(app)
    assert pictures
    for header, values in pictures:
        assert values.size
        assert not values.any()
        name = header["title"].split(": this run minus")[0]
        assert EQUAL.format(words.lower_first(name)) in note(app)


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", PLACES)
def test_swapping_the_sides_negates_on_one_scale(name: str) -> None:
    ahead, back = drawn(open_page(name, CATS, DOGS)), drawn(open_page(name, DOGS, CATS))
    assert len(ahead) == len(back) > 0
    limits = {header["limit"] for header, _ in ahead + back}
    assert len(limits) == 1
    assert len({header["file"] for header, _ in ahead}) == len(ahead)
    largest = max(float(np.abs(values).max()) for _, values in ahead)
    assert (largest > 0) == (name not in OF_TABLES)
    assert limits.pop() == pytest.approx(largest or 1.0)
    for (header, values), (other, turned) in zip(ahead, back, strict=True):
        assert header["numbered"] == (name in OF_TABLES)
        if name not in OF_TABLES:
            texts = facts_of(header)["source (first)"], facts_of(other)["source (first)"]
            assert texts == (CATS["source"], DOGS["source"])
        np.testing.assert_array_equal(values, -turned)
        assert header["columns"] == other["columns"] == values.shape[1]


def test_the_residual_stream_is_this_run_minus_the_pinned_one() -> None:
    (header, values), *_ = drawn(open_page("residual stream", CATS, DOGS))
    scope = models.load("eng-fra", device="cpu")
    ours, theirs = (scope.run(text["source"]) for text in (CATS, DOGS))
    stream = header["title"].split("of the ")[-1].split(":")[0]
    position = int(header["title"].split("token ")[1].split()[0]) - 1
    stack = "encoder" if stream == "source" else "decoder"
    sums = [run.activations[f"{stack}.embedding"].value[0][position] for run in (ours, theirs)]
    places = [run.activations[f"{stack}.position"].value[0][position] for run in (ours, theirs)]
    first = (sums[0] + places[0]) - (sums[1] + places[1])
    np.testing.assert_allclose(values[0], first, atol=1e-5)
    assert facts_of(header)["source (second)"] == DOGS["source"]
    assert header["file"].count("eng-fra") == 2


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("residual stream", {"similarity": "additive"}),
        ("residual stream", {"positions": "false"}),
        ("residual stream", {"growth": "true", "growth-step": "0"}),
        ("added", {"growth": "true", "growth-step": "0"}),
    ],
)
def test_a_model_was_not_trained_separately_from_itself(name: str, changes: dict[str, str]) -> None:
    beside = {f"pin.{parameter}": value for parameter, value in changes.items()}
    two = {"checkpoint": "dates", "pin.checkpoint": "dates"}
    app = open_page(name, {"source": "15 May 2024"}, {}, **two, **beside)
    assert any(values.any() for _, values in drawn(app))
    assert LEARNED_APART not in note(app)


def test_the_stream_of_all_tokens_is_that_after_the_chosen_layer() -> None:
    _, (header, values) = drawn(open_page("residual stream", CATS, DOGS, layer="1"))
    number = int(header["title"].split("after layer ")[1].split(":")[0])
    stack = "encoder" if "source tokens" in header["title"] else "decoder"
    name = f"{stack}.layers.{number - 1}.resid_post"
    scope = models.load("eng-fra", device="cpu")
    ours, theirs = (scope.run(text["source"]).activations[name].value[0] for text in (CATS, DOGS))
    np.testing.assert_allclose(values, (ours - theirs).numpy(), atol=1e-5)
    assert len(header["rows"]) == len(values)
    assert header["axis"] == "dimension, from 1"


def test_the_weights_are_this_run_minus_the_pinned_one() -> None:
    (_, mask), (_, values) = drawn(open_page("masks", CATS, DOGS))
    scope = models.load("eng-fra", device="cpu")
    ours, theirs = (
        scope.run(text["source"]).attention[HEAD["site"]].weights(3).numpy()
        for text in (CATS, DOGS)
    )
    np.testing.assert_allclose(values, ours - theirs, atol=1e-5)
    assert not mask.any()


def test_the_second_text_is_named_where_its_weights_are_subtracted() -> None:
    second = {"masks-second": "She reads a book.", "masks-shown": "second"}
    app = open_page("masks", CATS, CATS, **second)
    for key in ("written", "pin written"):
        assert dict(said(app, key)["rows"])["source"] == "She reads a book."
    for header, _ in drawn(app):
        assert facts_of(header)["source"] == "She reads a book."


def test_a_sampled_difference_says_how_its_tokens_were_chosen() -> None:
    forced = {"force": "1:1182", "pin.force": "1:1182"}
    how = {"decoding-how": "sampling", "decoding-temperature": "2.0", "decoding-seed": "3"}
    app = open_page("decoding", CATS, CATS, **how, **forced)
    sampled = Method(strategy="sample", temperature=2.0, seed=3, forced=((0, 1182),))
    scope = models.load("eng-fra", device="cpu")
    ids = scope.run(CATS["source"]).streams["source"].ids
    tokens = autoregressive(scope.model, ids, sampled).run.taken
    text = scope.tokenizer.decode(tokens)
    for key in ("written", "pin written"):
        rows = dict(said(app, key)["rows"])
        assert (rows["label-out"], rows["output"]) == (FORCED_CONTINUATION, text)
    for header, _ in drawn(app):
        about = facts_of(header)
        assert about["decoding"].startswith("sampling, temperature 2.0, seed 3")
        assert about["forced"].startswith("position 0: ")
        assert about["inference writes"] == text.strip()


def test_only_the_same_head_is_subtracted() -> None:
    """The only attention of dates-attn is in no numbered layer; both models write the same tokens."""
    beside = {"checkpoint": "dates", "pin.checkpoint": "dates-attn", "site": HEAD["site"]}
    app = open_page("decoding", {"source": "15 May 2024"}, {}, **beside)
    ((header, _),) = drawn(app)
    assert header["title"].startswith("The probabilities of the next token: ")
    assert "decoder layer 2, head 4 and the pinned run" in note(app)


@pytest.mark.parametrize(
    ("name", "more", "reason"),
    [
        ("map", {"positions-table": "This model's own"} | RECURRENT, "no position table of its own"),
        ("added", {"pin.positions": "false"}, "no difference to show: this run shows the "),
        ("scores by distance", {"pin.checkpoint": "dates-self-attn"}, "no difference to show: this run shows the "),
    ],
)  # fmt: skip
def test_parts_that_the_pinned_model_lacks_are_not_taken_from_this_run(
    name: str, more: dict[str, str], reason: str
) -> None:
    both = {"checkpoint": "dates", "pin.checkpoint": "dates", "site": "encoder.layers.1.self_attn"}
    app = open_page(name, {"source": "15 May 2024"}, {}, **(both | more))
    assert not drawn(app)
    assert reason in note(app)


@pytest.mark.parametrize("name", ["residual stream", "masks", "decoding", "scores by distance"])
def test_runs_of_different_lengths_have_no_difference_and_say_why(name: str) -> None:
    app = open_page(name, CATS, {"source": "I like cats and big dogs."})
    assert not drawn(app)
    assert "in the pinned run" in note(app)


def test_a_model_of_another_family_has_no_difference() -> None:
    app = open_page("decoding", CATS, CATS, **{"pin.checkpoint": "eng-fra-rnn"})
    assert not app.exception
    assert drawn(app) or note(app)


def test_the_switch_is_offered_only_if_there_is_a_difference() -> None:
    assert declared_parameters()["difference"].default is False
    for page, there in (("masks", True), ("attention", False)):
        app = app_at(page, **{"checkpoint": "eng-fra", "pin.checkpoint": "eng-fra", **CATS})
        assert any(toggle.label == "Difference" for toggle in app.toggle) == there


def quantity(values: list[list[float]], **more: Any) -> Quantity:
    given = torch.tensor(values)
    rows = [Label(str(i)) for i in range(len(given))]
    return Quantity("the numbers", "value", given, rows, **more)


def test_the_most_probable_columns_of_either_run_are_drawn() -> None:
    name = {"columns": lambda i: Label("abc"[i]), "of_columns": "token", "max_columns": 2}
    first, second = quantity([[0.1, 0.7, 0.2]], **name), quantity([[0.9, 0.1, 0.0]], **name)
    header, arrays = unpack(differences([first], [second])[KEYS[0]])
    assert [text for text, *_ in header["names"]] == ["a", "b"]
    np.testing.assert_allclose(arrays["states"], [[-0.8, 0.6]], atol=1e-6)


def test_different_widths_are_mentioned() -> None:
    drawn = differences([quantity([[1.0, 2.0]])], [quantity([[1.0, 2.0, 3.0]])])
    assert list(drawn) == [DIFFERENCE_NOTE]
    (_, line), *_ = drawn[DIFFERENCE_NOTE]["rows"]
    assert "2 here and 3 in the pinned run" in line
    both = [quantity([[1.0]], same={"number of tokens": n}) for n in (5, 7)]
    (_, line), *_ = differences(both[:1], both[1:])[DIFFERENCE_NOTE]["rows"]
    assert "number of tokens: 5 here and 7 in the pinned run" in line


def test_one_of_two_pictures_is_drawn_where_the_other_has_no_difference() -> None:
    first, second = quantity([[3.0]]), replace(quantity([[1.0]]), name="the other numbers")
    pictures = differences([first, first], [second, second])
    assert list(pictures) == [DIFFERENCE_NOTE]
    pictures = differences([first, second], [first, first])
    assert list(pictures) == [KEYS[0], DIFFERENCE_NOTE]
    (_, line), *_ = pictures[DIFFERENCE_NOTE]["rows"]
    assert line == ONE_PICTURE.format(
        "this run shows the other numbers and the pinned run the numbers"
    )


def test_a_row_with_different_tokens_names_the_run_of_each() -> None:
    first = quantity([[1.0], [2.0]])
    second = replace(first, rows=[Label("0"), Label("x")])
    header, _ = unpack(differences([first], [second])[KEYS[0]])
    both = ["1 | x", "1 in this run, x in the pinned run", False]
    assert header["rows"] == [["0", "", False], both]


@pytest.mark.parametrize(("weights", "is_said"), [("a", False), ("b", True)])
def test_models_trained_separately_are_said_to_be(weights: str, is_said: bool) -> None:
    first = quantity([[1.0]], weights="a", note="They learned apart.")
    second = replace(first, values=torch.tensor([[2.0]]), weights=weights)
    note = differences([first], [second])[DIFFERENCE_NOTE]
    assert (["line", first.note] in [[*row] for row in note["rows"]]) == is_said


def test_a_small_difference_is_not_called_none() -> None:
    name = EQUAL.format("the numbers")
    for second, is_equal in (
        ([[1.0, 2.0]], True),
        ([[1.0, 2.0 + 1e-9]], True),
        ([[1.0, 2.5]], False),
    ):
        note = differences([quantity([[1.0, 2.0]])], [quantity(second)])[DIFFERENCE_NOTE]
        assert (("line", name) in map(tuple, note["rows"])) == is_equal


def test_the_columns_are_named_and_a_numbered_vector_may_be_long() -> None:
    drawn = differences([quantity([[1.0] * 768])], [quantity([[0.0] * 768])])
    header, _ = unpack(drawn[KEYS[0]])
    assert header["axis"] == "dimension, from 1"
    assert header["columns"] == 768


@pytest.mark.slow
def test_the_angles_of_two_rotations_are_subtracted(tmp_path: Path) -> None:
    """The difference of two models whose pairs rotate at different speeds follows the formula; for a model and itself it is 0."""
    runs = []
    for base in (10_000.0, 500.0):
        case = BY_NAME["LlamaForCausalLM"]
        replace(case, sizes=case.sizes | {"rope_theta": base}).save(tmp_path / f"{base:g}")
        scope = models.load(tmp_path / f"{base:g}", device="cpu")
        runs.append(CurrentRun(scope, scope.run("7 11 5")))
    ours, theirs = (ROTATION.quantities(run, 12) for run in runs)
    header, arrays = unpack(differences(ours, theirs)[KEYS[0]])
    pairs, places = torch.arange(5).double() / 5, torch.arange(12).double()[:, None]
    first, second = (places * base**-pairs / (2 * torch.pi) for base in (10_000.0, 500.0))
    np.testing.assert_allclose(arrays["states"], first - second, atol=1e-4)
    assert header["axis"] == "pair of dimensions, from 1"
    assert header["unit"] == "turns"
    _, back = unpack(differences(theirs, ours)[KEYS[0]])
    np.testing.assert_array_equal(back["states"], -arrays["states"])
    (_, said), *_ = differences(ours, ours)[DIFFERENCE_NOTE]["rows"]
    assert said == EQUAL.format("the angles")
