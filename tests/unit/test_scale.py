"""The colour scale of weights, and the keys that can be hidden; downloaded drawings follow both."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from drawn import Drawing, letters, mixed, rgb
from small import random_bert, words_of

from models.checkpoint import Checkpoint
from models.runs.scope import Scope
from models.tokenizers.base import Encoding
from models.trace import Trace
from viz_app.drawing import export
from viz_app.drawing.head import head_payload
from viz_app.drawing.payload import unpack
from viz_app.drawing.scale import ROW_SCALE, SCALE_NAMES, WEIGHT_SCALE, Scale, automatic, sinks
from viz_app.words import terms

WEIGHTS = np.array(
    [[0.5, 0.25, 0.25], [0.0, 0.01, 0.04], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], np.float32
)
SITE = "decoder.layers.1.cross_attn"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return letters().run("abcde", "edc")


@pytest.mark.parametrize(("scale", "expected"), [
    (Scale(), WEIGHTS),
    (Scale("row"), [[1, 0.5, 0.5], [0, 0.25, 1], [0, 0, 0], [1, 0, 0]]),
    (Scale("root"), [[math.sqrt(0.5), 0.5, 0.5], [0, 0.1, 0.2], [0, 0, 0], [1, 0, 0]]),
    (Scale("weight", True), [[0, 0.25, 0.25], [0, 0.01, 0.04], [0, 0, 0], [0, 0, 0]]),
    (Scale("row", True), [[0, 1, 1], [0, 0.25, 1], [0, 0, 0], [0, 0, 0]]),
    (Scale("root", True), [[0, 0.5, 0.5], [0, 0.1, 0.2], [0, 0, 0], [0, 0, 0]]),
])  # fmt: skip
def test_a_weight_is_drawn_by_its_scale(scale: Scale, expected: list) -> None:
    before = WEIGHTS.copy()
    np.testing.assert_allclose(scale.strengths(WEIGHTS, [0]), expected, atol=1e-7)
    np.testing.assert_array_equal(WEIGHTS, before)
    assert np.isfinite(scale.strengths(WEIGHTS)).all()


def test_the_start_and_the_end_can_be_left_out_and_nothing_else() -> None:
    row = Encoding(
        "a",
        (1, 4, 3, 0, 2),
        ("<s>", "a", "<unk>", "<pad>", "</s>"),
        (None, (0, 1), None, None, None),
    )
    assert sinks(row) == [0, 4]
    typed = Encoding("ab", (1, 2), ("<s>", "</s>"), ((0, 1), (1, 2)))  # in the text itself
    assert sinks(typed) == []


def test_the_share_of_the_hidden_keys_is_over_all_rows(trace: Trace) -> None:
    site = trace.attention[SITE]
    header, _ = unpack(head_payload(trace, site, 1, terms("translation")))
    n_query, n_key = site.weights(1).shape
    assert n_query != n_key
    assert header["sinks"] == [n_key - 1]  # </s>; a source has no <s>
    expected = site.weights(1)[:, -1].mean()
    assert header["sinkShare"] == pytest.approx(float(expected), rel=1e-5)


def test_for_two_texts_bert_hides_the_class_token_and_both_separators() -> None:
    tokenizer = words_of("Mary went.", "John took milk.")
    model = random_bert(vocab_size=tokenizer.vocab_size)
    scope = Scope(Checkpoint(Path("words"), model, tokenizer, {}), torch.device("cpu"))
    run = scope.run("Mary [MASK].", "John took milk.")
    site = run.attention["encoder.layers.1.self_attn"]
    hiding = Scale("row", hides_sinks=True)
    header, _ = unpack(head_payload(run, site, 1, terms("masked"), scale=hiding))
    names = [label[0] for label in header["keys"]]
    assert [names[i] for i in header["sinks"]] == header["sinkNames"] == ["[CLS]", "[SEP]", "[SEP]"]
    assert [i for i, name in enumerate(names) if name in ("[CLS]", "[SEP]")] == header["sinks"]
    weights = site.weights(1)
    assert header["sinkShare"] == pytest.approx(float(weights[:, header["sinks"]].sum(1).mean()))
    strengths = hiding.strengths(weights.numpy(), header["sinks"])
    assert not strengths[:, header["sinks"]].any()
    np.testing.assert_allclose(strengths.max(1), 1)
    assert hiding.key(header["sinkNames"]).endswith("[CLS] and [SEP] left out")


def test_the_key_names_the_scale_and_the_hidden_tokens() -> None:
    assert {name: Scale(name).key(["[start]"]) for name in SCALE_NAMES} == SCALE_NAMES
    assert (
        Scale("row", True).key(["[start]", "[end]"])
        == "the largest attention weight of its row; [start] and [end] left out"
    )
    assert (
        Scale("row", True).key([]) == "the largest attention weight of its row"
    )  # there is nothing to hide


@pytest.mark.parametrize("scale", [Scale("row"), Scale("root"), Scale("root", True)])
def test_the_svg_is_drawn_on_the_same_scale(trace: Trace, scale: Scale) -> None:
    site = trace.attention[SITE]
    drawing = Drawing(export.head_svg(trace, site, 1, "What it is", scale))
    weights = site.weights(1).numpy()
    for i, (box, said) in enumerate(drawing.titled()):
        q, k = divmod(i, 6)
        assert np.float32(said) == weights[q, k]  # the number does not change
        if scale.hides_sinks and k == 5:
            assert box.get("fill") == "#d3d9e6"
            continue
        strength = (
            weights[q, k] / weights[q].max() if scale.name == "row" else math.sqrt(weights[q, k])
        )
        assert (
            np.abs(rgb(box.get("fill")) - mixed(float(strength), "#ffffff", "#1b3fae")).max() <= 1
        )
    key = scale.key(["[end]"])
    assert drawing.said(f"{key}; rows: query, columns: key; hatched = masked") is not None


def test_up_to_128_keys_a_row_is_drawn_by_its_weights() -> None:
    assert [automatic(n) for n in (1, 128, 129)] == [WEIGHT_SCALE, WEIGHT_SCALE, ROW_SCALE]
