"""The pictures and files of the page Decoding, read back: both runs, the beam and the drawing against softmax, sorting and counting."""

import csv
import io
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from drawn import Drawing, at, letters, mixed, rgb, saved
from small import random_model

import models
from models import decoding
from models.checkpoint import Checkpoint
from models.decoding import BeamStep, Hypothesis
from models.decoding import runs as decoding_runs
from models.decoding.multiply_adds import count_multiply_adds
from models.decoding.runs import Method, Run
from models.runs.scope import Scope
from models.tokenizers.base import END, START, Tokenizer
from models.trace.edits import MaskChange, Where
from viz_app import words
from viz_app.drawing.difference import common_items
from viz_app.drawing.labels import token_labels
from viz_app.drawing.payload import unpack
from viz_app.drawing.stamp import saving
from viz_app.session.current_run import CurrentRun
from viz_app.views.decoding import beam as decoding_beam
from viz_app.views.decoding import files as decoding_files
from viz_app.views.decoding import files as decoding_svg
from viz_app.views.decoding import steps as decoding_payloads
from viz_app.views.decoding.decoding_facts import decoding_facts
from viz_app.views.decoding.decoding_runs import DecodingRuns, ShownAttention, decoder_attention
from viz_app.views.decoding.payloads import (
    DecodingChoices,
    DecodingPosition,
    decoding_quantities,
)
from viz_app.views.decoding.payloads import decoding_payloads as decoding_page_payloads

TERMS = words.terms("translation", ("en", "fr"))
CROSS, OWN = "decoder.layers.1.cross_attn", "decoder.layers.1.self_attn"
NAMES = ["[padding]", "[start]", "[end]", "[unknown]", *"abcde=@"]  # of the vocabulary, by id
PAPER, ACCENT, TEXT, HATCH = "#ffffff", "#1b3fae", "#1d2330", "#8f96a3"
A, B = (NAMES.index(letter) for letter in "ab")


def story(scope: Scope, target: str | None = "edc", method: Method | None = None) -> DecodingRuns:
    trace, method = scope.run("abcde", target), method or Method()
    run = decoding_runs.autoregressive(scope.model, trace.streams["source"].ids, method).run
    free = (
        decoding_runs.autoregressive(scope.model, trace.streams["source"].ids, Method()).run
        if method.forced
        else None
    )
    return DecodingRuns(trace, decoding_runs.of_trace(trace), run, method, free)


@pytest.fixture(scope="module")
def scope() -> Scope:
    return letters(n_ctx=13)


@pytest.fixture(scope="module")
def forced(scope: Scope) -> DecodingRuns:
    return story(scope, method=Method(forced=((1, A), (3, B))))


def softmax(run: Run) -> np.ndarray:
    """Return the probabilities (position, vocab) in double precision."""
    return run.log_probs.double().softmax(-1).numpy()


def ranks(run: Run) -> list[int]:
    return [
        1 + sorted(row, reverse=True).index(row[token])
        for row, token in zip(softmax(run).tolist(), run.taken, strict=True)
    ]


def entropies(run: Run) -> np.ndarray:
    return -np.array([sum(p * math.log2(p) for p in row if p) for row in softmax(run).tolist()])


def token_names(ids: list[int] | tuple[int, ...]) -> list[str]:
    return [NAMES[i] for i in ids]


# which attention


def test_the_attention_is_named_by_layer_and_head_counted_from_1(scope: Scope) -> None:
    trace = scope.run("abcde", "edc")
    assert decoder_attention(trace, 1, 2) == ShownAttention(
        CROSS, OWN, 2, "decoder layer 2, head 3", "Cross-attention"
    )
    assert decoder_attention(trace) == ShownAttention(
        "decoder.layers.0.cross_attn", "decoder.layers.0.self_attn", None, "decoder layer 1, mean over its 3 heads",
        "Cross-attention",
    )  # fmt: skip
    bahdanau = letters("recurrent").run("abcde", "edc")
    assert decoder_attention(bahdanau, 1, 2) == ShownAttention(
        "decoder.alignment", "", 0, "weights α of the context", "Alignment"
    )
    assert (
        decoder_attention(letters("recurrent", attention="none").run("abcde", "edc"))
        == ShownAttention()
    )
    alone = letters("attention only").run("abcde", "edc")
    (cross,) = (site.name for site in alone.attention.values() if site.kind == "cross")
    found = decoder_attention(alone, 1, 0)
    assert (found.cross, found.name) == (cross, "decoder layer 2, head 1")
    assert alone.attention[found.self_attention].layer == 1
    assert decoder_attention(trace, 1, 5) == decoder_attention(trace, 1, 2)  # it has three heads


# the stepper


def test_the_data_of_the_stepper(scope: Scope, forced: DecodingRuns) -> None:
    header, arrays = unpack(
        decoding_payloads.stepper(
            forced, scope, decoder_attention(forced.trace, 1, 2), TERMS, 2, "A note."
        )
    )
    del header["arrays"]
    n, count = (
        len(forced.autoregressive),
        count_multiply_adds(scope.model, 6, len(forced.autoregressive)),
    )
    lanes = {name: header.pop(name) for name in ("parallel", "serial", "free")}
    assert [label[0] for label in header.pop("source")] == [*"abcde", "[end]"]
    diverges = next(
        i
        for i, (a, b) in enumerate(
            zip(forced.teacher_forced.taken, forced.autoregressive.taken, strict=False)
        )
        if a != b
    )
    assert header == {
        **saving("letters.decoding", decoding_facts(forced, scope.tokenizer)),
        "block": 1, "blocks": {},
        "extent": {"multiply-adds": max(count.uncached)}, "most": max(count.uncached),
        "step": 2, "steps": max(4, n), "note": "A note.", "diverges": diverges, "disagrees": -1,
        "seesAhead": False, "forced": [1, 3], "how": "greedy",
        "sampling": False,
        "reading": "decoder layer 2, head 3", "cross": "Cross-attention", "own": True, "family": "attention", "vectors": [],
        "sourceName": "the English sentence", "targetName": "the French so far", "ownText": "",
        "box": "French sentence", "prompt": [], "vocab": 11,
        "mostEntropy": pytest.approx(math.log2(11)), "unforceable": [0, 1],
        "work": {"cached": list(count.cached), "uncached": list(count.uncached), "layers": 2, "source": 6, "state": 0,
                 "parallel": count_multiply_adds(scope.model, 6, 4).parallel},
    }  # fmt: skip
    best = softmax(forced.teacher_forced).argmax(1).tolist()
    teacher, writer = lanes["parallel"], lanes["serial"]
    assert [label[0] for label in teacher["read"]] == ["[start]", *"edc"]
    assert [label[0] for label in teacher["given"]] == [*"edc", "[end]"]
    assert [label[0] for label in teacher["predicted"]] == token_names(best)
    assert teacher["best"] == best
    assert (teacher["n"], teacher["taken"], teacher["ended"]) == (
        4,
        [*forced.trace.streams["target"].ids[1:], END],
        True,
    )
    assert [label[0] for label in writer["written"]] == token_names(forced.autoregressive.taken)
    assert [label[0] for label in writer["read"]] == [
        "[start]",
        *token_names(forced.autoregressive.taken[:-1]),
    ]
    assert (writer["n"], writer["taken"]) == (n, list(forced.autoregressive.taken))
    assert writer["ended"] == (forced.autoregressive.taken[-1] == END)
    assert writer["cached"] == list(range(n))
    assert (writer["taken"][1], writer["taken"][3]) == (A, B)
    assert [lanes["free"].pop(name) for name in ("written", "taken")] == [
        writer_labels(forced.unforced),
        list(forced.unforced.taken),
    ]
    for name, run in (("parallel", forced.teacher_forced), ("serial", forced.autoregressive)):
        assert arrays[f"{name}_rank"].tolist() == ranks(run)
        np.testing.assert_allclose(arrays[f"{name}_entropy"], entropies(run), atol=1e-5)
        shown = [[label[0] for label in row] for row in lanes[name]["candidates"]]
        assert shown == [token_names(row) for row in arrays[f"{name}_ids"]]
        for ids, p, whole, taken in zip(
            arrays[f"{name}_ids"], arrays[f"{name}_p"], softmax(run), run.taken, strict=True
        ):
            np.testing.assert_allclose(p, whole[ids], atol=1e-6)
            assert ids[:8].tolist() == np.argsort(-whole, kind="stable")[:8].tolist()
            assert taken in ids


def writer_labels(run: Run) -> list:
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    return [[NAMES[i], f"special token {special[i]}" if i < 4 else "", i < 4] for i in run.taken]


def test_under_a_mask_that_opens_ahead_no_cache_is_shown_and_later_keys_are_drawn(
    scope: Scope,
) -> None:
    """At position 1 the given text's row may attend to position 3, in the saved drawing, too."""
    allow = MaskChange(Where(site="decoder.layers.1.self_attn"), allow=((0, 2),))
    trace = scope.run("abcde", "edc", edits=[allow])
    ids, method = trace.streams["source"].ids, Method()
    run = decoding_runs.autoregressive(scope.model, ids, method, edits=[allow]).run
    opened = DecodingRuns(trace, decoding_runs.of_trace(trace), run, method, sees_ahead=True)
    reading = decoder_attention(trace, 1, 0)
    header, arrays = unpack(decoding_payloads.stepper(opened, scope, reading, TERMS, 0))
    assert (header["seesAhead"], header["work"]) == (True, None)
    weight = float(trace.attention[OWN].weights(0)[0, 2])
    assert weight > 0.01
    assert float(arrays["parallel_self"].reshape(4, 4)[0, 2]) == pytest.approx(weight)
    drawing = decoding_files.drawing(opened, scope, reading, 0, "")
    assert f"<title>{weight!r}</title>" in drawing


def test_a_story_without_forced_tokens_has_no_free_run_beside_it(scope: Scope) -> None:
    told = story(scope, None)
    header, arrays = unpack(
        decoding_payloads.stepper(told, scope, decoder_attention(told.trace), TERMS, 0)
    )
    assert (
        header["free"],
        header["forced"],
        header["note"],
        header["ownText"],
        header["diverges"],
    ) == (None, [], "", "the model's own", -1)
    assert "drawn_p" not in arrays


def test_sampling_and_beam_search_are_named(scope: Scope) -> None:
    told = story(scope, method=Method("sample", seed=2))
    assert (
        unpack(decoding_payloads.stepper(told, scope, decoder_attention(told.trace), TERMS, 0))[0][
            "how"
        ]
        == "sampling"
    )
    told = story(scope, method=Method("beam", width=2))
    assert (
        unpack(decoding_payloads.stepper(told, scope, decoder_attention(told.trace), TERMS, 0))[0][
            "how"
        ]
        == "beam search, its best"
    )


def test_a_recurrent_decoder_shows_its_states_on_one_scale() -> None:
    scope = letters("recurrent", n_ctx=13)
    told = story(scope)
    header, arrays = unpack(
        decoding_payloads.stepper(told, scope, decoder_attention(told.trace), TERMS, 0)
    )
    assert (header["family"], header["own"], header["cross"], header["work"]["state"]) == (
        "recurrent",
        False,
        "Alignment",
        7,
    )
    assert header["work"]["layers"] == 0
    titles = {
        "decoder.contexts": "Context c(i), what it read",
        "decoder.states": "State s(i) after this step",
    }
    assert [(one["name"], one["title"]) for one in header["vectors"]] == sorted(titles.items())
    for one in header["vectors"]:
        both = [arrays[f"{run}_{one['name']}"] for run in ("parallel", "serial")]
        assert one["scale"] == max(np.abs(values).max() for values in both)
        np.testing.assert_allclose(
            both[0], told.trace.activations[one["name"]].value[0].numpy(), rtol=1e-4, atol=1e-5
        )
    assert "parallel_self" not in arrays
    np.testing.assert_allclose(
        arrays["parallel_cross"],
        told.trace.attention["decoder.alignment"].weights(0).numpy(),
        atol=1e-6,
    )


# the beam


def test_every_node_of_the_tree_has_its_own_numbers() -> None:
    """The model is the shipped dates, in whose beam hypotheses end and wait."""
    scope = models.load("dates", device="cpu")
    trace, method = scope.run("May 5, 2021"), Method("beam", width=3, alpha=0.6)
    steps = decoding_runs.autoregressive(scope.model, trace.streams["source"].ids, method).beam
    step, rank = 4, 2
    node = steps[step].hypotheses[rank]
    run = decoding_runs.uncached_run(scope.model, trace.streams["source"].ids, node.tokens)
    both = DecodingRuns(trace, decoding_runs.of_trace(trace), run, Method())
    header, arrays = unpack(
        decoding_beam.beam_tree(
            steps, (step, rank), run, both, scope, decoder_attention(trace, 1, 3), TERMS, 0.6
        )
    )
    assert header["about"] == saving("", decoding_facts(both, scope.tokenizer))["about"]
    best = steps[-1].hypotheses[0].tokens
    for i, column in enumerate(header["steps"]):
        assert len(column) == len(steps[i].hypotheses)
        assert [one["score"] for one in column] == sorted(
            (one["score"] for one in column), reverse=True
        )
        for one, h in zip(column, steps[i].hypotheses, strict=True):
            n = len(h.tokens)
            ended = h.tokens[-1] == END
            assert one["score"] == pytest.approx(h.log_prob / ((5 + n) / 6) ** 0.6)
            assert (one["logProb"], one["n"], one["parent"], one["ended"]) == (
                h.log_prob,
                n,
                h.parent,
                ended,
            )
            assert one["carried"] == (n < i + 1)
            assert one["best"] == (h.tokens == best[: i + 1])
            assert one["text"] == "".join(scope.tokenizer.tokens(t for t in h.tokens if t != END))
            assert one["label"][0] == ("[end]" if ended else scope.tokenizer.token(h.tokens[-1]))
            if i:
                parent = steps[i - 1].hypotheses[h.parent].tokens
                assert h.tokens == parent if one["carried"] else h.tokens[:-1] == parent
    assert any(one["carried"] for column in header["steps"] for one in column)
    assert {name: header[name] for name in ("node", "reading", "cross", "sourceName", "taken", "alpha")} == {
        "node": [4, 2], "reading": "decoder layer 2, head 4", "cross": "Cross-attention", "sourceName": "the English sentence",
        "taken": node.tokens[-1], "alpha": 0.6,
    }  # fmt: skip
    assert [label[0] for label in header["source"]] == [*"May␣5,␣2021", "[end]"]
    assert [label[0] for label in header["read"]] == [
        "[start]",
        *scope.tokenizer.tokens(node.tokens[:-1]),
    ]
    assert header["token"][0] == scope.tokenizer.token(node.tokens[-1])
    again = scope.run("May 5, 2021", "".join(scope.tokenizer.tokens(node.tokens[:-1])))
    p = again.next_token.logits[-1].softmax(-1)
    assert arrays["ids"][:8].tolist() == p.topk(8).indices.tolist()
    assert node.tokens[-1] in arrays["ids"]
    np.testing.assert_allclose(arrays["p"], p[arrays["ids"].astype(np.int64)].numpy(), atol=1e-5)
    assert [label[0] for label in header["candidates"]] == [
        {"</s>": "[end]", "<s>": "[start]", "<pad>": "[padding]", "<unk>": "[unknown]", " ": "␣"}.get(token, token)
        for token in scope.tokenizer.tokens(arrays["ids"].tolist())
    ]  # fmt: skip
    np.testing.assert_allclose(
        arrays["cross"], again.attention[CROSS].weights(3)[-1].numpy(), atol=1e-5
    )
    np.testing.assert_allclose(
        arrays["self"], again.attention[OWN].weights(3)[-1].numpy(), atol=1e-5
    )


@pytest.mark.parametrize(
    ("node", "found"), [((0, 0), (0, 0)), ((1, 2), None), ((99, 0), None), (None, None)]
)
def test_a_requested_node_is_shown_if_it_exists(
    scope: Scope, node: tuple | None, found: tuple | None
) -> None:
    steps = decoding_runs.autoregressive(
        scope.model, scope.encode(source="abc")["source"].ids, Method("beam", width=2)
    ).beam
    best = steps[-1].hypotheses[0]
    ended = (
        len(best.tokens) - 1,
        next(
            r
            for r, h in enumerate(steps[len(best.tokens) - 1].hypotheses)
            if h.tokens == best.tokens
        ),
    )
    assert decoding_beam.nearest_node(steps, node) == (found or ended)


def test_only_the_first_word_of_a_text_is_shown_without_its_space() -> None:
    """That holds in every lane, among the candidates, in the beam and in the drawing."""
    tokenizer = Tokenizer.bpe(["reading the book", "a book is read"] * 7, 160)
    model = random_model(vocab_size=tokenizer.vocab_size, n_ctx=13)
    scope = Scope(
        Checkpoint(Path("pieces"), model, tokenizer, {"task": "translation"}), torch.device("cpu")
    )
    book = tokenizer.backend.token_to_id("▁book")
    trace = scope.run("a book", "book book")

    def labels_of(ids: list[int], first: bool) -> list[str]:
        names = [
            "␣"
            if tokenizer.token(i) == "▁"
            else tokenizer.token(i).replace("▁", "" if first else "·")
            for i in ids
        ]
        return [NAMES[i] if i < 4 else name for i, name in zip(ids, names, strict=True)]

    kept = (
        Hypothesis((book,), -1.0, -1.0, -1, False, -1.0),
        Hypothesis((book, book), -2.0, -2.0, 0, False, -2.0),
    )
    steps = BeamStep(0, (kept[0],)), BeamStep(1, (kept[1],))
    for i, node in enumerate(((0, 0), (1, 0))):
        run = decoding_runs.uncached_run(
            model, trace.streams["source"].ids, steps[i].hypotheses[0].tokens
        )
        both = DecodingRuns(trace, decoding_runs.of_trace(trace), run, Method())
        header, arrays = unpack(
            decoding_beam.beam_tree(
                steps, node, run, both, scope, decoder_attention(trace), TERMS, 0.6
            )
        )
        assert [column[0]["label"][0] for column in header["steps"]] == ["book", "·book"]
        assert header["token"][0] == ("·book" if i else "book")
        assert [label[0] for label in header["read"]] == ["[start]", "book"][: 1 + i]
        assert [label[0] for label in header["candidates"]] == labels_of(
            arrays["ids"].tolist(), first=not i
        )
    method = Method(forced=((0, book), (1, book)))
    run = decoding_runs.autoregressive(model, trace.streams["source"].ids, method).run
    told = DecodingRuns(trace, decoding_runs.of_trace(trace), run, method)
    header, arrays = unpack(
        decoding_payloads.stepper(told, scope, decoder_attention(trace), TERMS, 0)
    )
    assert [label[0] for label in header["serial"]["written"]][:2] == ["book", "·book"]
    for name in ("parallel", "serial"):
        for i in (0, 1):
            shown = [label[0] for label in header[name]["candidates"][i]]
            assert shown == labels_of(arrays[f"{name}_ids"][i].tolist(), first=not i)
    drawing = Drawing(decoding_svg.drawing(told, scope, decoder_attention(trace), 1, "t"))
    y = drawing.said("and writes").get("y")
    assert [text.text for text in drawing.texts if text.get("y") == y] == [
        "and writes",
        "book",
        "·book",
    ]
    for heading in (text for text in drawing.texts if text.text.startswith("Self-attention")):
        row = [
            text for text in drawing.texts if float(text.get("y")) == float(heading.get("y")) + 22
        ]
        half = [
            text.text for text in row if 0 <= float(text.get("x")) - float(heading.get("x")) < 500
        ]
        assert half == ["[start]", "book"]


def test_a_continuation_keeps_its_leading_space() -> None:
    tokenizer = Tokenizer.bpe(["reading the book", "a book is read"] * 7, 160)
    book = tokenizer.backend.token_to_id("▁book")
    for start, first in ((0, "book"), (1, "·book"), (7, "·book")):
        named = token_labels(tokenizer, [book, book, book], start)
        assert [label.text for label in named] == [first, "·book", "·book"]


# the drawing


def test_the_rows_of_tokens_stand_one_above_the_other(scope: Scope, forced: DecodingRuns) -> None:
    drawing = Drawing(
        decoding_svg.drawing(forced, scope, decoder_attention(forced.trace, 1, 2), 2, "The title")
    )
    title = drawing.said("The title")
    assert (title.get("font-weight"), title.get("x"), title.get("y"), title.get("font-size")) == (
        "600",
        "10",
        "22",
        "12",
    )
    assert at(drawing.boxes[0]) == (0, 0, *drawing.size)
    assert drawing.boxes[0].get("fill") == PAPER
    assert drawing.root.get("fill") == TEXT
    best = token_names(softmax(forced.teacher_forced).argmax(1).tolist())
    written = token_names(forced.autoregressive.taken)[:3]
    rows = [("given text", [*"edc", "[end]"]), ("decoder reads", ["[start]", *"edc"]), ("model predicts", best),
            ("inference reads", ["[start]", *written[:-1]]), ("and writes", written)]  # fmt: skip
    numbers = [text for text in drawing.texts if text.get("font-size") == "10"]
    assert [text.text for text in numbers] == [str(i + 1) for i in range(forced.n_steps)]
    columns = [float(text.get("x")) for text in numbers]
    pitch = columns[1] - columns[0]
    assert columns == [columns[0] + i * pitch for i in range(len(columns))]
    heights = []
    for name, tokens in rows:
        side = drawing.said(name)
        heights.append(float(side.get("y")))
        here = [
            text
            for text in drawing.texts
            if text.get("y") == side.get("y") and text.get("text-anchor") == "middle"
        ]
        assert [(text.text, float(text.get("x"))) for text in here] == list(
            zip(tokens, columns, strict=False)
        )
        framed = [
            at(box) for box in drawing.boxes if at(box)[1] + 16 == heights[-1] and at(box)[3] == 24
        ]
        assert [(x + wide / 2, wide < pitch) for x, _, wide, _ in framed] == [
            (x, True) for x in columns[: len(tokens)]
        ]
    assert heights == sorted(heights)
    assert [b - a for a, b in pairwise(heights)] == [
        32,
        32,
        46,
        32,
    ]  # inference has a column of its own
    assert float(numbers[0].get("y")) < heights[0]
    (now,) = (box for box in drawing.boxes if box.get("stroke") == ACCENT)
    assert at(now)[0] + pitch / 2 == columns[2]
    assert (at(now)[2], now.get("stroke-width"), now.get("fill")) == (pitch, "2", "none")
    assert at(now)[1] < heights[0] < heights[-1] < at(now)[1] + at(now)[3]
    (apart,) = (box for box in drawing.boxes if box.get("stroke") == "#D55E00")
    assert at(apart)[0] + at(apart)[2] / 2 == columns[forced.divergence]
    assert apart.get("stroke-dasharray") == "5 3"
    assert drawing.size[0] >= columns[-1] + pitch / 2


def test_where_both_write_the_same_nothing_is_framed(scope: Scope) -> None:
    told = story(scope, None)
    assert told.divergence is None
    svg = decoding_svg.drawing(told, scope, decoder_attention(told.trace), 0, "t")
    assert "#D55E00" not in svg


@pytest.mark.parametrize("step", [0, 2, 99])
def test_both_halves_show_the_step_with_its_own_numbers(
    scope: Scope, forced: DecodingRuns, step: int
) -> None:
    """A bar of 200 px is 1; chips have the colour of their weight; a shorter run shows its last position."""
    step = min(step, forced.n_steps - 1)
    drawing = Drawing(
        decoding_svg.drawing(forced, scope, decoder_attention(forced.trace, 1, 2), step, "t")
    )
    for name, run, left in (
        ("Training, teacher-forced", forced.teacher_forced, 10),
        ("Inference", forced.autoregressive, 510),
    ):
        i = min(step, len(run) - 1)
        (heading,) = (
            text for text in drawing.texts if (text.text or "").startswith(f"{name}, position")
        )
        assert heading.text == f"{name}, position {i + 1}: entropy {entropies(run)[i]:.3f} bits"
        assert (float(heading.get("x")), heading.get("font-weight")) == (left, "600")
        mine = [(box, title) for box, title in drawing.titled() if left <= at(box)[0] < left + 500]
        p = softmax(run)[i]
        ids = list(np.argsort(-p, kind="stable")[:9])
        ids = ids if run.taken[i] in ids else [*ids[:8], run.taken[i]]
        bars, chips = mine[: len(ids)], mine[len(ids) :]
        top = float(heading.get("y"))
        for row, (token, (box, title)) in enumerate(zip(ids, bars, strict=True)):
            x, y, wide, tall = at(box)
            assert float(title) == pytest.approx(p[token], abs=1e-6)
            assert wide == pytest.approx(max(0.5, 200 * p[token]), rel=1e-4)
            assert (x, y + 11, tall) == (left + 90, top + 18 * (row + 1), 13)
            assert box.get("fill") == (ACCENT if token == run.taken[i] else HATCH)
            line = [text for text in drawing.texts if float(text.get("y")) == y + 11]
            said = [text for text in line if left <= float(text.get("x")) < left + 500]
            assert [text.text for text in said] == [NAMES[token], f"{p[token]:.3f}"]
            assert [text.get("text-anchor") for text in said] == ["end", "start"]
            assert float(said[0].get("x")) < x < x + 200 < float(said[1].get("x"))
        cross = run.weights(CROSS, 2)[i].tolist()
        own = run.weights(OWN, 2)[i].tolist()[: i + 1]
        tokens = [*"abcde", "[end]", *token_names(run.read[: i + 1])]
        for what in ("Cross-attention to the source", "Self-attention"):
            assert (
                sum(text.text == f"{what} (decoder layer 2, head 3)" for text in drawing.texts) == 2
            )
        for token, weight, (box, title) in zip(tokens, [*cross, *own], chips, strict=True):
            x, y, wide, _ = at(box)
            assert float(title) == weight
            assert np.abs(rgb(box.get("fill")) - mixed(weight, PAPER, ACCENT)).max() <= 1
            places = [(text, float(text.get("x")), float(text.get("y"))) for text in drawing.texts]
            inside = [
                text for text, across, down in places if x < across < x + wide and y < down < y + 32
            ]
            assert [text.text for text in inside] == [token, f"{weight:.2f}"]
            assert {text.get("fill") for text in inside} == {PAPER if weight > 0.45 else TEXT}
            assert y + 32 < drawing.size[1]


def test_chips_without_room_wrap_to_the_next_row() -> None:
    drawn, end = decoding_svg._chips(10, 100, "what", ["abcdefghi"] * 7, [0.1] * 7)
    boxes = [part for part in drawn if part.startswith("<rect")]
    places = [
        tuple(float(part.split(f'{name}="')[1].split('"')[0]) for name in ("x", "y", "width"))
        for part in boxes
    ]
    assert all(x + wide <= 10 + 500 - 30 for x, _, wide in places)
    assert [y for _, y, _ in places] == [108] * 5 + [144] * 2
    assert [x for x, _, _ in places] == [10 + 82 * i for i in (0, 1, 2, 3, 4, 0, 1)]
    assert end == 180


@pytest.mark.parametrize(
    ("token", "short"), [("123456789", "123456789"), ("1234567890", "1234…7890")]
)
def test_long_tokens_are_shortened_in_the_middle(token: str, short: str) -> None:
    assert decoding_svg._short(token) == short


# files


@pytest.mark.parametrize(("method", "decoding", "token"), [
    (Method(forced=((1, A), (40, B))), "greedy", "position 1: a"),
    (Method("sample", temperature=1.5, top_k=5, seed=1234567, forced=((0, B),)),
     "sampling, temperature 1.5, top-k 5, seed 1234567", "position 0: b"),
    (Method("beam", width=3, alpha=0.5, max_new=4), "beam search, its best, width 3, α 0.5, tokens at most 4", None),
])  # fmt: skip
def test_a_file_records_how_tokens_were_chosen_and_what_was_generated(
    scope: Scope, method: Method, decoding: str, token: str | None
) -> None:
    """Tokens forced beyond the end are not named; the given text is recorded beside the generated one."""
    told = story(scope, method=method)
    found = decoding_facts(told, scope.tokenizer)
    assert (found["decoding"], found.get("forced")) == (decoding, token)
    assert found["inference writes"] == scope.tokenizer.decode(told.autoregressive.taken).strip()
    assert found["target"] == told.trace.fields["target"]
    reading = decoder_attention(told.trace)
    picture = unpack(decoding_payloads.stepper(told, scope, reading, TERMS, 0))[0]
    assert picture["about"] == saving("", found)["about"]


def test_the_table_read_back(scope: Scope, forced: DecodingRuns) -> None:
    heading, *rows = csv.reader(io.StringIO(decoding_files.decoding_table(forced, scope)))
    choices = [f"choice {n}" for n in range(1, 9)]
    columns = [
        "run",
        "position",
        "reads",
        "takes",
        "probability",
        "rank",
        "entropy (bits)",
        "forced",
        "from the cache",
    ]
    assert heading == [*columns, *choices, *(f"p of {choice}" for choice in choices)]
    said = [dict(zip(heading, row, strict=True)) for row in rows]
    tokens = [
        "[padding]",
        "[start]",
        "[end]",
        "[unknown]",
        *"abcde",
        "'=",
        "'@",
    ]  # an apostrophe before what begins like a formula
    named = [("teacher-forced", forced.teacher_forced, {}), ("autoregressive, greedy", forced.autoregressive, {1: A, 3: B}),
             ("autoregressive, nothing forced", forced.unforced, {})]  # fmt: skip
    places = [(name, str(i)) for name, run, _ in named for i in range(len(run))]
    assert [(row["run"], row["position"]) for row in said] == places
    for name, run, by_force in named:
        p, entropy, rank = softmax(run), entropies(run), ranks(run)
        for i, row in enumerate(row for row in said if row["run"] == name):
            assert (row["reads"], row["takes"]) == (tokens[run.read[i]], tokens[run.taken[i]])
            assert float(row["probability"]) == pytest.approx(p[i, run.taken[i]], rel=1e-4)
            assert int(row["rank"]) == rank[i]
            assert float(row["entropy (bits)"]) == pytest.approx(entropy[i], abs=1e-5)
            assert row["forced"] == str(int(i in by_force))
            assert row["from the cache"] == str(0 if run is forced.teacher_forced else i)
            best = np.argsort(-p[i], kind="stable")[:8]
            assert [row[choice] for choice in choices] == [tokens[t] for t in best]
            np.testing.assert_allclose(
                [float(row[f"p of {choice}"]) for choice in choices], p[i, best], rtol=1e-4
            )


def test_the_arrays_read_back(scope: Scope, forced: DecodingRuns) -> None:
    with saved(decoding_files.arrays(forced, scope)) as held:
        sites = [name for name in forced.trace.attention if name.startswith("decoder")]
        counted = {
            site: site.replace("layers.0", "layer1").replace("layers.1", "layer2") for site in sites
        }
        parts = ["read", "taken", "log_probs", "entropy_bits", *counted.values()]
        assert set(held) == {
            "source_tokens",
            "vocabulary",
            *(f"{run}.{part}" for run in ("parallel", "serial") for part in parts),
        }
        assert held["source_tokens"].tolist() == [*"abcde", "[end]"]
        assert held["vocabulary"].tolist() == [
            "[padding]",
            "[start]",
            "[end]",
            "[unknown]",
            *"abcde=@",
        ]
        for name, run in (("parallel", forced.teacher_forced), ("serial", forced.autoregressive)):
            assert held[f"{name}.read"].tolist() == [START, *run.taken[:-1]]
            assert held[f"{name}.taken"].tolist() == list(run.taken)
            np.testing.assert_allclose(np.exp(held[f"{name}.log_probs"]), softmax(run), atol=1e-5)
            np.testing.assert_allclose(held[f"{name}.entropy_bits"], entropies(run), atol=1e-5)
        for site in sites:
            np.testing.assert_allclose(
                held[f"parallel.{counted[site]}"],
                forced.trace.attention[site].weights().numpy(),
                atol=1e-6,
            )
        again = decoding_runs.uncached_run(
            scope.model, forced.trace.streams["source"].ids, forced.autoregressive.taken
        )  # in one pass
        np.testing.assert_allclose(
            held[f"serial.{counted[CROSS]}"][2], again.weights(CROSS, 2).numpy(), atol=1e-5
        )


def test_a_recurrent_decoders_arrays_hold_its_states() -> None:
    scope = letters("recurrent", n_ctx=13)
    told = story(scope)
    with saved(decoding_files.arrays(told, scope)) as held:
        for name in ("decoder.states", "decoder.contexts"):
            given = told.trace.activations[name].value[0].numpy()
            np.testing.assert_allclose(held[f"parallel.{name}"], given, rtol=1e-4, atol=1e-5)
        assert held["serial.decoder.states"].shape == (len(told.autoregressive), 7)


def test_what_two_texts_share_is_in_both_and_in_one_order() -> None:
    assert common_items("abcd", "abcd") == ([True] * 4, [True] * 4)
    assert common_items("abxcd", "abcyd") == (
        [True, True, False, True, True],
        [True, True, True, False, True],
    )
    assert common_items("", "ab") == ([], [False, False])
    assert common_items([5, 7, 11, 2], [7, 3, 2]) == (
        [False, True, False, True],
        [True, False, True],
    )
    ours, theirs = common_items("the cat sat".split(), "a cat sat down".split())
    assert (ours, theirs) == ([False, True, True], [False, True, True, False])


def test_the_sentence_says_where_the_forced_and_the_free_run_differ(
    scope: Scope, forced: DecodingRuns
) -> None:
    header, _ = unpack(
        decoding_payloads.stepper(forced, scope, decoder_attention(forced.trace), TERMS, 0)
    )
    free, ours = header["free"], forced.autoregressive.taken
    assert (free["shared"], free["sharedByForced"]) == common_items(forced.unforced.taken, ours)
    kept = [
        token for token, both in zip(forced.unforced.taken, free["shared"], strict=True) if both
    ]
    assert kept == [token for token, both in zip(ours, free["sharedByForced"], strict=True) if both]
    assert not all(free["shared"])


def choices_of(run: CurrentRun, method: Method, *, is_tree: bool = False) -> DecodingChoices:
    reading = decoder_attention(run.trace, 1, 2)
    return DecodingChoices(method, reading, DecodingPosition(), run.input_ids, is_tree=is_tree)


def test_a_difference_is_of_the_text_that_is_generated(scope: Scope) -> None:
    """Not of the given text, which the other lane reads."""
    run = CurrentRun(scope, scope.run("abcde", "edc"))
    next_tokens, weights = decoding_quantities(run, choices_of(run, Method()))
    steps = list(decoding.greedy(scope.model, run.input_ids))
    by_hand = torch.stack([step.log_probs for step in steps]).exp()
    np.testing.assert_allclose(next_tokens.values, by_hand, atol=1e-6)
    assert len(weights.values) == len(steps) != len(run.trace.next_token.labels)


def test_a_tree_has_the_length_penalty_of_its_search(scope: Scope) -> None:
    run = CurrentRun(scope, scope.run("abcde"))
    method = Method("beam", width=3, alpha=1.25)
    drawn = decoding_page_payloads(run, choices_of(run, method, is_tree=True))
    assert unpack(drawn["beam_tree"])[0]["alpha"] == 1.25
