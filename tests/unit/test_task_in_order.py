"""Predictions in an order on the page Task, against the run itself; orders as typed and in the address."""

import csv
import io
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small import random_xlnet
from small_runs import edited

from models.architectures.xlnet import XLNet
from models.checkpoint import Checkpoint
from models.errors import InputError
from models.layers.masks import ORDER_MASK
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from models.tokenizers.encoding import order_of
from models.trace.edits import MaskChange, for_kinds
from viz_app.drawing.notes import answer_line, arrows
from viz_app.drawing.payload import unpack
from viz_app.session import cache
from viz_app.session.cache import findings
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.parameters import Order
from viz_app.session.url_state import parameter_of
from viz_app.views.task.controls import figure_text, read_order
from viz_app.views.task.files import in_order_csv
from viz_app.views.task.in_order import check_order, draw_in_order
from viz_app.views.task.presentations import explain_order
from viz_app.views.task.reading import TaskChoices, answering_sites, reading_site
from viz_app.words import terms, where_from

TEXT, ORDER = "badcgef", (4, 1, 6, 0, 5, 2, 3)
SITE, HEAD = "encoder.layers.1.query_attn", 2


@pytest.fixture(scope="module")
def scope() -> Scope:
    tokenizer = Tokenizer.characters("abcdefgh")
    checkpoint = Checkpoint(
        Path("orders"),
        random_xlnet(vocab_size=tokenizer.vocab_size),
        tokenizer,
        {"task": "permutation"},
    )
    return Scope(checkpoint, torch.device("cpu"))


@pytest.fixture(scope="module")
def run(scope: Scope) -> CurrentRun:
    return CurrentRun(scope, scope.run(TEXT, order=ORDER))


def shown(
    run: CurrentRun, position: int | None = 5, site: str = SITE
) -> tuple[dict, dict[str, np.ndarray], list]:
    output = run.trace.outputs["token in order"]
    pictures, checks = draw_in_order(run, output, TaskChoices(position, Focus(site, HEAD)))
    return (*unpack(pictures["order"]), checks)


def probabilities(scope: Scope) -> torch.Tensor:
    """Return probabilities (position, vocab), from the model called with the rank of each position."""
    ids = torch.tensor([[scope.tokenizer.encode(c).ids[0] for c in TEXT]])
    with torch.no_grad():
        return (
            scope.model(ids, torch.tensor([ORDER]).argsort())["token in order"][0]
            .double()
            .softmax(-1)
        )


def test_every_number_is_that_of_the_model(scope, run):
    header, arrays, checks = shown(run)
    p, ids = probabilities(scope), run.trace.streams["text"].ids
    assert [check.name for check in checks if not check.passed] == []
    assert header["order"] == list(ORDER)
    assert [label[0] for label in header["tokens"]] == list(TEXT)
    own = p[range(7), list(ids)]
    np.testing.assert_allclose(arrays["surprisal"], -own.log2(), rtol=1e-4)
    np.testing.assert_allclose(arrays["best"], p.max(-1).values, rtol=1e-4)
    plain = [label[0] for label in header["expected"] if not label[2]]
    assert plain == [
        name for name in scope.tokenizer.tokens(p.argmax(-1).tolist()) if len(name) == 1
    ]
    bars = {
        row[0]: value
        for row, value in zip(header["answer"]["rows"], arrays["p"].tolist(), strict=True)
    }
    assert ids[5] in bars
    assert [row[0] for row in header["answer"]["rows"] if row[2] == "true token"] == [ids[5]]
    for token, value in bars.items():
        assert value == pytest.approx(float(p[5, token]), rel=1e-4)
    best = p[5].argsort(descending=True)[:10].tolist()
    assert [row[0] for row in header["answer"]["rows"]][:10] == best
    ranks = [1 + int((p[5] > p[5, token]).sum()) for token in bars]
    assert arrays["ranks"].tolist() == ranks
    total = float(-own.log2().sum())
    assert (
        header["summary"]
        == f"In this order the text takes {total:.2f} bits, {total / 7:.2f} for each of its 7 tokens."
    )
    assert header["title"].startswith("Predicted in the order 5 → 2 → 7 → 1 → 6 → 3 → 4:")


def test_the_masks_follow_the_order(run):
    header, arrays, _ = shown(run)
    turn = [ORDER.index(i) for i in range(7)]
    expected = {"query": [[turn[j] < turn[i] for j in range(7)] for i in range(7)]}
    expected["content"] = [
        [sees or i == j for j, sees in enumerate(row)] for i, row in enumerate(expected["query"])
    ]
    assert [role for role, _ in header["streams"]] == ["content", "query"]
    assert header["axes"] == ["predicted", "seen"]  # down the rows, then along the columns
    for role, title in header["streams"]:
        np.testing.assert_array_equal(arrays[role].reshape(7, 7), expected[role])
        assert ("not itself" in title) == (not np.diag(expected[role]).any())
    assert (
        header["answer"]["from"]
        == "Predicted from “g”, “a”, “f” and “b”, and from their positions and its own."
    )
    first = shown(run, ORDER[0])[0]
    assert (
        first["answer"]["from"]
        == "The first in the order: predicted from nothing but its position."
    )


@pytest.mark.parametrize(
    ("masks", "names"),
    [
        ({"query": MaskChange(block=((5, 6),))}, "“g”, “a”, “f” and “b”"),
        ({"query": MaskChange(block=((5, 0), (5, 6)))}, "“g” and “a”"),
        ({"query": MaskChange(block=((5, 0), (5, 1), (5, 6)))}, "“g”"),
        ({"query": MaskChange(block=((5, 0), (5, 1), (5, 4), (5, 6)))}, ""),
        ({"content": MaskChange(allow=((4, 3),))}, "“g”, “a”, “f”, “b” and “c”"),
    ],
)
def test_a_prediction_depends_on_what_painted_masks_let_it_read(scope, run, masks, names):
    """Also over two layers: changing a token changes the prediction if the token is named, and only then."""
    edits = for_kinds(**masks)
    changed = edited(run, edits)
    header, _, checks = shown(changed)
    expected = f"from {names}, and from their positions and its own." if names else "its position."
    assert header["answer"]["from"].endswith(expected)
    assert "first in the order" not in header["answer"]["from"]
    assert [check.name for check in checks if not check.passed] == []
    own = changed.trace.outputs["token in order"].logits[5]
    for i, letter in enumerate(TEXT):
        text = TEXT[:i] + "h" + TEXT[i + 1 :]
        other = scope.run(text, order=ORDER, edits=edits)
        moved = not torch.allclose(other.outputs["token in order"].logits[5], own, atol=1e-6)
        assert moved == (f"“{letter}”" in names)


def test_no_sentence_holds_a_changed_mask_to_the_order(scope, run):
    """Without the mask of the order, the query stream sees the token that it predicts."""
    changed = edited(run, for_kinds(query=MaskChange(removed_layers=(ORDER_MASK,))))
    (_, content), (_, query) = shown(changed)[0]["streams"]
    assert "itself" in content
    assert "not itself" not in query
    output = changed.trace.outputs["token in order"]
    for one, is_changed in ((run, False), (changed, True)):
        assert ("masks are changed" in explain_order(one.trace, output, "")) == is_changed
        sites = {site.role: site for site in one.trace.attention.values()}
        told = where_from(sites["query"], terms("permutation"))
        assert ("what comes before it in the order" in told) == (not is_changed)
        assert ("may attend to every other" in told) == is_changed
    blocked = edited(run, for_kinds(content=MaskChange(block=((5, 5),))))
    (site, *_) = (one for one in blocked.trace.attention.values() if one.role == "content")
    assert "may attend to itself" not in where_from(site, terms("permutation"))


def test_beside_it_is_the_row_of_the_query_stream(run):
    """Whatever stream is in focus, the answer comes from the query stream."""
    site = run.trace.attention[SITE]
    for focus in (SITE, "encoder.layers.1.content_attn"):
        header, arrays, _ = shown(run, 5, focus)
        np.testing.assert_allclose(
            arrays["weights"], site.weights(HEAD)[5], rtol=1e-5
        )  # a single row is summed in another order
        assert arrays["allowed"].tolist() == [
            int(ORDER.index(j) < ORDER.index(5)) for j in range(7)
        ]
        assert header["reading"]["title"].startswith("Query stream, layer 2, head 3: what “e”")
        assert header["reading"]["blocked"][3] == ["factorisation order"]
    assert {site.role for site in answering_sites(run.trace, "text").values()} == {"query"}
    assert reading_site(run.trace, "text", Focus(SITE, HEAD))[0] is site


def test_without_a_chosen_position_the_last_in_the_order_is_shown(run):
    assert shown(run, None)[0]["position"] == shown(run, 99)[0]["position"] == ORDER[-1]
    assert shown(run, 0)[0]["position"] == 0


def test_a_mask_that_does_not_match_the_order_fails_a_check(run):
    output = run.trace.outputs["token in order"]
    assert check_order(run.trace, output).passed
    other = replace(output, order=ORDER[::-1])
    assert not check_order(run.trace, other).passed


def test_the_strip_shows_the_order_and_the_bits_of_the_text(scope, run):
    bits = -probabilities(scope)[range(7), list(run.trace.streams["text"].ids)].log2().mean()
    assert answer_line(run.trace) == (
        "surprise, read in the order 5 → 2 → 7 → 1 → 6 → 3 → 4",
        f"{float(bits):.2f} bits per token",
    )
    assert answer_line(scope.run(TEXT))[0] == "surprise, read from left to right"
    assert arrows(range(13)) == "1 → 2 → 3 → 4 → 5 → 6 → 7 → 8 → 9 → 10 → 11 → 12 → …"
    assert arrows(range(12)).endswith("→ 12")


def test_the_table_has_a_row_per_step_of_the_order(scope, run):
    table = in_order_csv
    heading, *rows = csv.reader(io.StringIO(table(run, TaskChoices(None, Focus()))))
    p = probabilities(scope)
    assert [row[:3] for row in rows] == [
        [str(turn), str(i), f"{i} {TEXT[i]}"] for turn, i in enumerate(ORDER, 1)
    ]
    for row in rows:
        found, i = dict(zip(heading, row, strict=True)), int(row[1])
        own = float(p[i, run.trace.streams["text"].ids[i]])
        assert float(found["probability"]) == pytest.approx(own, rel=1e-4)
        assert float(found["surprisal (bits)"]) == pytest.approx(-math.log2(own), rel=1e-4)
        assert int(found["id and expected token"].split()[0]) == int(p[i].argmax())
        assert float(found["its probability"]) == pytest.approx(float(p[i].max()), rel=1e-4)


@pytest.mark.parametrize(
    "typed", ["3 2 4 1", "3,2,4,1", "3 → 2 → 4 → 1", "3-2-4-1", " 3;2 ;4 > 1 "]
)
def test_an_order_can_be_typed_in_many_forms(typed):
    assert read_order(typed, 4) == (2, 1, 3, 0)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("3 2 4", "The order must name each of the 4 positions once, from 1 to 4: 1 is missing"),
        ("", "The order must name each of the 4 positions once, from 1 to 4: 1 2 3 4 are missing"),
        (
            "3 3 4 1",
            "The order must name each of the 4 positions once, from 1 to 4: 3 appears twice, 2 is missing",
        ),
        (
            "0 1 2 3 4",
            "The order must name each of the 4 positions once, from 1 to 4: 0 does not exist",
        ),
        (
            "1 2 3 4 5 6",
            "The order must name each of the 4 positions once, from 1 to 4: 5 6 do not exist",
        ),
        ("2 one 3 4", "“one” is not a position; an order is written like 3 2 4 1"),
    ],
)
def test_an_invalid_order_is_refused(typed, message):
    with pytest.raises(InputError) as caught:
        read_order(typed, 4)
    assert (str(caught.value), caught.value.field) == (message, "order")


def test_an_order_is_in_the_address():
    parameter = parameter_of(XLNet.fields[-1])
    assert isinstance(parameter, Order)
    assert parameter.is_step
    assert parameter.in_url((2, 1, 3, 0)) == ["3-2-4-1"]
    assert parameter.from_url(["3-2-4-1"]) == (2, 1, 3, 0)
    assert parameter.in_url(None) == []
    assert [
        parameter.from_url([odd]) for odd in ("3-3-1", "0-1", "2-x", "", "1--2", "99999-1", "-1")
    ] == [None] * 7


def test_an_order_is_kept_while_the_text_is_edited(scope):
    assert order_of(4, (2, 1, 3, 0)) == (2, 1, 3, 0)
    assert order_of(6, (2, 1, 3, 0)) == (2, 1, 3, 0, 4, 5)
    assert order_of(2, (2, 1, 3, 0)) == (1, 0)
    trace = cache.trace(scope, ("badcg", ""), (), ((2, 1, 3, 0),))
    assert trace.outputs["token in order"].order == (2, 1, 3, 0, 4)
    plain = cache.trace(scope, ("badcg", ""), (), ((0, 1, 2),))
    assert plain is cache.trace(scope, ("badcg", ""))


def test_the_papers_figure_is_shown_on_four_tokens(scope):
    assert figure_text(scope, scope.run("badcgef")) == "badc"
    short = figure_text(scope, scope.run("bad"))  # too short, so an example is used
    assert len(scope.encode(short)["text"].ids) == 4


def test_pictures_of_one_order_are_not_shown_for_another(scope, monkeypatch):
    """The tokens are the same, but the masks are not."""
    monkeypatch.setattr(
        findings, "MAX_WHOLE_TOKENS", 3
    )  # so that the text counts as long, and its results are cached
    text = "badc"
    first, second = (scope.run(text, order=order) for order in ((2, 1, 3, 0), (0, 1, 3, 2)))
    assert [cache.trace_finding(run, "test", lambda name=name: name) for run, name in ((first, "first"), (second, "second"))] == [
        "first", "second",
    ]  # fmt: skip
    assert (
        cache.trace_finding(scope.run(text, order=(2, 1, 3, 0)), "test", lambda: "again") == "first"
    )
