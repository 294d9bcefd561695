"""A notebook's picture of two runs: it has the distances and the signed difference of the runs, and names what cannot be drawn."""

import json

import numpy as np
import pytest
from drawn import letters
from test_notebook import carried, shown

import models
from models.analysis import comparison
from models.trace import Trace
from models.trace.edits import HeadOff
from viz_app.drawing.stamp import facts
from viz_app.notebook import Picture, compare

TEXT, TARGET = "abcdeab", "edcb"
SITE = "decoder.layers.1.cross_attn"


@pytest.fixture(scope="module")
def run() -> Trace:
    return letters().run(TEXT, TARGET)


@pytest.fixture(scope="module")
def other() -> Trace:
    return letters().run(TEXT, TARGET, edits=[HeadOff("encoder.layers.0.self_attn", head=1)])


def grid(picture: Picture) -> dict:
    return json.loads(carried(picture)["parts"][0]["payload"])


def test_the_grid_holds_every_distance(run: Trace, other: Trace) -> None:
    pairs = comparison.compare(run, other).kinds
    kinds = grid(compare(run, other))["kinds"]
    assert len(kinds) == len(pairs) == 3
    for kind, pair in zip(kinds, pairs, strict=True):
        np.testing.assert_allclose(kind["values"], pair.distances.numpy())


def test_the_difference_is_the_first_run_minus_the_second_and_changes_sign_when_swapped(
    run: Trace, other: Trace
) -> None:
    where = {"kind": "cross", "layer": 2, "head": 3}
    (header, arrays), (turned, turned_arrays) = (
        shown(compare(*runs, **where), 1) for runs in ((run, other), (other, run))
    )
    signed = run.attention[SITE].weights(2) - other.attention[SITE].weights(2)
    np.testing.assert_allclose(arrays["difference"], signed.numpy(), atol=1e-7)
    np.testing.assert_array_equal(arrays["difference"], -turned_arrays["difference"])
    assert header["distance"] == pytest.approx(turned["distance"])
    ways = {(" more to " in s, " less to " in s) for s in (header["most"], turned["most"])}
    assert ways == {(True, False), (False, True)}
    assert "pinned" not in str(header)


def test_without_a_head_the_most_distant_is_shown_and_a_click_shows_any_other(
    run: Trace, other: Trace
) -> None:
    picture = compare(run, other)
    header, _ = shown(picture, 1)
    values = [v for kind in grid(picture)["kinds"] for layer in kind["values"] for v in layer]
    assert header["distance"] == pytest.approx(max(values))
    assert "pinned" not in str(grid(picture))
    answers = carried(picture)["answers"]
    assert len(answers) == len(values)
    assert all(one["shows"] == 1 and one["payload"] for one in answers)


def test_a_run_beside_itself_differs_nowhere(run: Trace) -> None:
    picture = compare(run, run)
    header, arrays = shown(picture, 1)
    assert not arrays["difference"].any()
    assert header["verdict"] == "The same answer."
    assert not any(np.any(kind["values"]) for kind in grid(picture)["kinds"])


def test_the_title_and_the_facts_tell_the_edited_run_from_the_other(
    run: Trace, other: Trace
) -> None:
    for first, second in ((run, other), (other, run)):
        picture = compare(first, second)
        named, then = picture.title.split(" and ")
        assert ("(changed)" in named, "(changed)" in then) == (first is other, second is other)
        begins, ends = picture.about.split(" Second run: ")
        assert begins.startswith("First run: ")
        assert ("changed" in begins, "changed" in ends) == (first is other, second is other)


def test_an_edited_run_is_not_labelled_with_the_text_of_the_unedited_one() -> None:
    scope = models.load("eng-fra", device="cpu")
    run = scope.run("We like him.")
    off = [HeadOff(site, head=h) for site in run.attention if "cross" in site for h in range(6)]
    edited = scope.run("We like him.", edits=off)
    choices = edited.next_token.logits.argmax(-1).tolist()
    said = scope.tokenizer.decode(choices)
    header, _ = shown(compare(run, edited), 1)
    assert [one["words"] for one in header["answers"]] == [
        run.output.split(" "),
        said.split(" "),
    ]
    assert header["verdict"] != "The same answer."
    assert facts(edited)["predicted after each given token"] == said
    assert facts(run)["the model writes"] == "Nous l'aimons."


def test_long_runs_say_which_call_draws_a_head(run: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viz_app.notebook.comparison.MAX_EMBEDDED_EACH", 10)
    answer = carried(compare(run, run))["answers"][0]
    assert answer["code"].startswith("compare(run_a, run_b, kind=")
    assert not answer["payload"]
    drawn = eval(answer["code"], {"compare": compare, "run_a": run, "run_b": run})
    assert shown(drawn, 1)[0]["site"] == answer["values"]["site"]


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"kind": "nosuch"}, "kind must be 'encoder_self', 'decoder_self' or 'cross'"),
        ({"layer": 3}, "layer must be 1 or 2 of 'cross'"),
        ({"layer": 0}, "layer must be 1 or 2 of 'cross', not 0"),
        ({"head": 4}, "head must be 1 to 3"),
        ({"head": 0}, "head must be 1 to 3, not 0"),
    ],
)
def test_a_missing_head_is_an_error(run: Trace, where: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        compare(run, run, **where)


def test_runs_without_a_common_head_say_why(run: Trace) -> None:
    with pytest.raises(ValueError, match="no attention of this kind"):
        compare(letters("recurrent").run(TEXT, TARGET), letters("gpt").run("abc"))
    with pytest.raises(ValueError, match="different texts, of 8 and 6 tokens"):
        compare(run, letters().run("abcde", TARGET), kind="encoder_self")


def test_runs_that_are_too_long_say_so(run: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viz_app.views.compare.compared.MAX_TEXT_TOKENS", 5)
    with pytest.raises(ValueError, match="at most 5"):
        compare(run, run)
