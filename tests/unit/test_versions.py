"""The texts of three models side by side: words lost and words invented, and the fixed vector of the first model."""

import pytest
import torch
from recurrence_by_hand import encoded_by_hand
from small import random_seq2seq

import models
from models.analysis.fixed_vector import vector_changes
from models.decoding import greedy
from viz_app.drawing.labels import Label
from viz_app.drawing.payload import unpack
from viz_app.input_bar.examples import _EXAMPLES, references
from viz_app.session.cache import count_rewritten
from viz_app.views.from_rnn import three
from viz_app.views.from_rnn.pair import cross
from viz_app.views.from_rnn.three import attends_without_recurrence, other_tokens
from viz_app.views.from_rnn.versions import Bottleneck, ModelText, closest_reference, mark, versions


def marked_words(text: str, *others: str) -> tuple[list[str], list[str]]:
    found = mark(text, others)
    assert "".join(piece for piece, _ in found.pieces) == text.replace(" ", "")
    return [piece for piece, invented in found.pieces if invented], found.lost


def test_compared_with_a_reference_extra_words_are_invented_and_missing_ones_lost() -> None:
    assert marked_words("Elle lit un livre.", "Elle lit un livre.") == ([], [])
    assert marked_words("Elle est en train de lire un livre.", "Elle lit un livre.") == (
        ["est", "en", "train", "de", "lire"],
        ["lit"],
    )
    assert marked_words("elle lit un livre", "Elle lit un livre.") == (
        [],
        [],
    )  # capitals and the full stop do not count
    assert marked_words("b a", "a b") == (
        ["a"],
        ["a"],
    )  # a word that has moved is extra here and missing there
    assert marked_words("", "a b") == ([], ["a", "b"])


def test_texts_without_spaces_are_compared_by_character() -> None:
    assert marked_words("2024-01-31", "2024-05-31") == (["1"], ["5"])
    assert marked_words("2024-05-31", "2024-05-31") == ([], [])
    assert marked_words("un", "un livre") == ([], ["livre"])  # but not if another text has a space


def test_compared_with_other_models_a_word_that_both_have_is_lost_and_one_that_neither_has_invented() -> (
    None
):
    assert marked_words("a x c", "a b c d", "a b c e") == (["x"], ["b"])
    assert marked_words("a x c", "a x d", "a b c") == ([], [])
    assert marked_words("a b") == ([], [])


def test_of_several_references_the_nearest_is_taken() -> None:
    offered = "Où as-tu acheté ce chapeau ?", "Où avez-vous acheté ce chapeau ?"
    assert closest_reference(offered, "Où avez-vous acheté ce chapeau ?") == offered[1]
    assert closest_reference(offered, "Où as-tu ?") == offered[0]
    assert closest_reference((), "a") == ""


def test_each_text_is_compared_with_the_nearest_correct_one() -> None:
    texts = [ModelText("One", "", "we like x"), ModelText("Two", "", "nous aimons x")]
    header, _ = unpack(versions("p", texts, ("we like y", "nous aimons x"), "correct", None))
    assert [card["lost"] for card in header["cards"]] == [["y"], []]
    assert [card["verdict"] for card in header["cards"]] == [
        "2 of 3 words match. Missing: ",
        "All 3 words match.",
    ]


def test_nothing_is_lost_in_a_paraphrase_that_two_models_wrote() -> None:
    texts = [ModelText("", "", text) for text in ("Va à maison.", "va à maison", "Reste ici.")]
    first, second, third = unpack(versions("p", texts, ("Va à la maison.",), "correct", None))[0][
        "cards"
    ]
    assert [card["lost"] for card in (first, second)] == [[], []]
    assert not any(extra for card in (first, second) for _, extra in card["words"])
    assert "2 models wrote just this" in first["verdict"]
    assert third["lost"] == ["Va", "à", "la", "maison."]
    dates = [ModelText("", "", "2024-01-31")] * 2  # where one answer is right, two may be wrong
    wrong, _ = unpack(versions("p", dates, ("2024-05-31",), "correct", None))[0]["cards"]
    assert wrong["lost"] == ["5"]


@pytest.mark.parametrize("task", ["translation", "dates"])
def test_every_example_of_a_task_with_a_right_answer_has_one(task: str) -> None:
    assert all(references(text) for text in _EXAMPLES[task])
    assert references(f" {_EXAMPLES[task][0]} ") == references(_EXAMPLES[task][0])
    assert references("anything else") == ()


def test_one_text_alone_is_compared_with_nothing() -> None:
    header, _ = unpack(versions("p", [ModelText("One", "mine", "a x")], (), "", None))
    assert (header["legend"], header["cards"][0]["verdict"]) == ("", "")


@pytest.mark.parametrize("name", ["eng-fra-rnn", "dates-rnn"])
def test_how_often_the_text_changes_is_counted_by_decoding_each(name: str) -> None:
    """Each row is decoded by itself, step by step; a token that the vector barely reflects may change every text, or none."""
    scope = models.load(name, device="cpu")
    source = scope.input_ids("We like him." if name == "eng-fra-rnn" else "24/07/69")
    others = other_tokens(scope)[:7]
    tokens = [token for token in others if token != source[1]]
    rows = [(source[0], token, *source[2:]) for token in tokens]
    original, *texts = (
        [step.token for step in greedy(scope.model, row)] for row in (source, *rows)
    )
    changed = sum(text != original for text in texts)
    assert count_rewritten(scope, tuple(source), 1, others) == (changed, len(tokens))
    said = three.vector_change_text([0.5, 0.001, 0.4], (changed, len(tokens)))
    assert f"**{changed} of {len(tokens)}** trials" in said
    assert "Token 2 of 3 changes it least: by 0.1 %" in said


def test_the_data_of_the_component() -> None:
    found = [ModelText("One", "mine, 5 steps", "a x"), ModelText("Two", "yours", "a b")]
    neck = Bottleneck(
        "mine",
        torch.tensor([0.5, -2.0, 1.0]),
        [Label("p", "note"), Label("q")],
        torch.tensor([0.25, 0.75]),
        (3, 24),
    )
    header, arrays = unpack(versions("p q", found, ("a b",), "correct", neck))
    assert header["source"] == "p q"
    assert header["reference"] == {"name": "correct", "text": "a b"}
    first, second = header["cards"]
    assert (first["title"], first["whose"]) == ("One", "mine, 5 steps")
    assert (first["words"], first["lost"]) == ([["a", False], ["x", True]], ["b"])
    assert (first["gap"], first["verdict"], second["verdict"]) == (
        " ",
        "1 of 2 words match. Missing: ",
        "All 2 words match.",
    )
    assert "word by word" in header["legend"]
    dates = [ModelText("One", "mine", "05-03"), ModelText("Two", "yours", "05-04")]
    of_dates, _ = unpack(versions("3 May", dates, (), "correct", None))
    assert of_dates["cards"][0]["words"][-1] == ["3", True]
    assert "character by character: underlined" in of_dates["legend"]
    assert "word by word" not in of_dates["legend"]
    assert header["bottleneck"]["scale"] == 2.0
    assert header["bottleneck"]["labels"] == [["p", "note", False], ["q", "", False]]
    assert "passes on 3 numbers, however long the text is" in header["bottleneck"]["note"]
    assert (arrays["vector"].tolist(), arrays["change"].tolist()) == (
        [0.5, -2.0, 1.0],
        [0.25, 0.75],
    )
    header, _ = unpack(versions("p q", found, (), "", None))
    assert (header["reference"], header["bottleneck"]) == (None, None)
    assert [card["words"][1] for card in header["cards"]] == [["x", True], ["b", True]]
    assert "the other models' texts, because no correct one is known" in header["legend"]


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("cell", ["gru", "tanh"])
def test_how_much_a_token_changes_the_vector_by_the_equations_alone(cell: str, both: bool) -> None:
    model = random_seq2seq(attention="none", cell=cell, bidirectional=both)
    source, places, others, d = [5, 6, 4, 7, 2], (0, 2, 3), (6, 4, 8), model.config.d_hidden

    def vector(ids: list[int]) -> torch.Tensor:
        states = encoded_by_hand(model, ids)
        return torch.cat([states[-1, :d], states[0, d:]])

    own = vector(source)
    for place, change in zip(places, vector_changes(model, source, places, others), strict=True):
        changed = [
            vector([*source[:place], other, *source[place + 1 :]])
            for other in others
            if other != source[place]
        ]
        assert len(changed) == (2 if place == 2 else 3)
        expected = torch.stack([(one - own).norm() / own.norm() for one in changed]).mean()
        assert float(change) == pytest.approx(float(expected.detach()), rel=1e-4)


@pytest.mark.parametrize(
    ("name", "title", "where"),
    [
        ("eng-fra", "Self-attention, as in the Transformer", "in 6 heads of each of 3 layers."),
        ("dates", "Self-attention, as in the Transformer", "in 4 heads of each of 2 layers."),
        ("dates-attn", "Cross-attention alone, without recurrence", "in 1 head of one layer."),
        ("dates-self-attn", "Self-attention, without residual connections or feed-forward", "in 1 head of one layer."),
        ("dates-stacked", "Self-attention, without residual connections or feed-forward", "in 4 heads of one layer."),
        ("dates-stacked-residual", "Self-attention, without feed-forward", "in 4 heads of one layer."),
    ],
)  # fmt: skip
def test_the_model_without_recurrence_is_named_by_its_own_parts(
    name: str, title: str, where: str
) -> None:
    scope = models.load(name, device="cpu")
    assert attends_without_recurrence(scope)
    assert three.attention_title(scope.model) == title
    sites = cross(scope.run("5 May 1999"))
    assert three.explain_lack(True, sites[0].n_heads, len(sites)).endswith(where)


def test_only_available_models_are_mentioned() -> None:
    assert "second" not in three.explain_lack(False, 4, 1)
    assert "third" not in three.explain_lack(True, 0, 0)
    assert three.explain_lack(False, 0, 0).endswith("(see the check).")


@pytest.mark.parametrize("name", ["dates-rnn", "dates-bahdanau"])
def test_a_recurrent_model_is_not_the_third(name: str) -> None:
    assert not attends_without_recurrence(models.load(name, device="cpu"))
