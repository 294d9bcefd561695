"""The picture, sentences and files of the page Masks, read back; every direction of a sentence reversed on forged runs."""

import csv
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from drawn import SVG, Drawing, at, letters, mixed, rgb, saved
from small_runs import edited

from models import Scope
from models.architectures.seq2seq import ALIGNMENT
from models.architectures.transformer import Transformer
from models.layers.masks import DRAWN, LOOK_AHEAD, ORDER_MASK, PADDING, Mask, MaskLayer
from models.runs.masked_comparison import MaskedRun, run_masked
from models.trace import AttentionSite
from models.trace.edits import READY_MADE, MaskChange, for_kinds, mask_change
from viz_app import words
from viz_app.drawing.labels import Label
from viz_app.drawing.payload import unpack
from viz_app.drawing.stamp import facts, saving
from viz_app.session import cache
from viz_app.session import mask_notation as masks_notation
from viz_app.session.current_run import CurrentRun
from viz_app.views.masks import files as masks_files
from viz_app.views.masks import mask_view, outcome_text, painter
from viz_app.views.masks import text as masks_text
from viz_app.views.masks.mask_view import LogProbChange, MaskView
from viz_app.views.masks.page import ALL_MASKS
from viz_app.views.masks.payloads import MaskChoices, mask_quantities

TERMS = words.terms("translation", ("en", "fr"))
KIND = {kind.name: kind for kind in Transformer.kinds}
OWN, CROSS = "decoder.layers.0.self_attn", "decoder.layers.1.cross_attn"
PAPER, ACCENT, TEXT, HATCH, LOSS = "#ffffff", "#1b3fae", "#1d2330", "#8f96a3", "#b8420f"
CHANGES = for_kinds(
    encoder_self=MaskChange(preset="window", k=1),
    decoder_self=MaskChange(block=((2, 0),), allow=((1, 2),)),
    cross=MaskChange(removed_layers=(PADDING,), block=((0, 0), (3, 2))),
)
SOURCE, TARGET = ["a", "b", "c", "[end]", "[padding]", "[padding]"], ["[start]", "e", "d", "c"]
STEPS = ["[start] → e", "e → d", "d → c", "c → [end]"]


@pytest.fixture(scope="module")
def scope() -> Scope:
    return letters(n_ctx=13)


@pytest.fixture(scope="module")
def view(scope: Scope) -> MaskView:
    """The second, shorter text of a batch: its source is filled up with padding."""
    pairs = [("abcde", "edc"), ("abc", "edc")]
    before, after = run_masked(scope, pairs)[1], run_masked(scope, pairs, CHANGES)[1]
    return MaskView(before, after, CHANGES, "decoder_self", CROSS, 2, TERMS)


@pytest.fixture(scope="module")
def allowed() -> dict[str, np.ndarray]:
    """Return by hand what may be read before and after, by kind."""
    real = np.array([True] * 4 + [False] * 2)
    causal = np.tril(np.ones((4, 4), bool))
    near = np.abs(np.arange(6)[:, None] - np.arange(6)) <= 1
    painted, cross = causal.copy(), np.ones((4, 6), bool)
    painted[2, 0], painted[1, 2] = False, True
    cross[0, 0] = cross[3, 2] = False
    return {"encoder_self": np.tile(real, (6, 1)) & near, "decoder_self": painted, "cross": cross,
            "cross before": np.tile(real, (4, 1)), "decoder_self before": causal}  # fmt: skip


# the picture


def test_the_data_of_the_painter(view: MaskView, allowed: dict[str, np.ndarray]) -> None:
    header, arrays = unpack(painter.masks(view))
    del header["arrays"]
    effect, strip = header.pop("effect"), header.pop("strip")
    assert [label[0] for label in header.pop("queries")] == STEPS
    assert [label[0] for label in header.pop("keys")] == TARGET
    assert header == {
        "extent": header["extent"], "kind": "decoder_self", "painted": [[2, 0, 0], [1, 2, 1]], "fixed": False,
        "block": 1, "first": [0, 0], "size": [4, 4],
        "title": "Decoder masked self-attention",
        "subtitle": "the French so far → itself",
        "queryAxis": "query (rows): the French so far, read → written",
        "keyAxis": "key (columns): the French so far",
        "layers": [
            {"name": "target padding", "reason": "this key only pads the shorter text; there is nothing to attend to"},
            {"name": "look-ahead", "reason": "the key comes after the query; while a decoder writes, it does not exist yet"},
        ],
        "drawn": {"name": "drawn by hand", "reason": "you blocked it"}, "story": painter.painted_outcome(view),
    }  # fmt: skip
    assert (
        arrays["base"].tolist() == (2 * ~allowed["decoder_self before"]).tolist()
    )  # the second layer's bit
    assert [label[0] for label in effect.pop("queries")] == STEPS
    assert [label[0] for label in effect.pop("keys")] == SOURCE
    assert [label[0] for label in effect.pop("labels")] == ["e", "d", "c", "[end]"]
    weights = {name: arrays[name] for name in ("before", "after")}
    largest = np.abs(weights["after"] - weights["before"]).max()
    assert effect.pop("largest") == max(
        1, *(-v for name in ("logBefore", "logAfter") for v in arrays[name])
    )
    assert effect == {
        "title": "Decoder layer 2, head 3: what each French token attends to in the English sentence", "site": CROSS, "head": 2,
        "block": 1, "first": [0, 0], "size": [4, 6],
        "kind": "cross", **saving("letters.decoder.layer2.cross_attn.head3", facts(view.after.trace)),
        "queryAxis": "query (rows): the French so far, read → written",
        "keyAxis": "key (columns): the English sentence", "scale": min(s for s in (0.1, 0.25, 0.5, 1.0) if s >= largest),
        "given": "Target", "outputs": [view.before.output, view.after.output],
        "sums": [pytest.approx(log_prob(view.before)), pytest.approx(log_prob(view.after))],
    }  # fmt: skip
    for name, run, may in (
        ("before", view.before, allowed["cross before"]),
        ("after", view.after, allowed["cross"]),
    ):
        site = run.trace.attention[CROSS]
        scores = (site.q[0, 2] @ site.k[0, 2].T / 5**0.5).masked_fill(
            ~torch.from_numpy(may), -torch.inf
        )
        np.testing.assert_allclose(weights[name], scores.softmax(-1).numpy(), atol=1e-6)
        np.testing.assert_array_equal(arrays[f"blocked{name.title()}"], ~may)
        np.testing.assert_allclose(arrays[f"log{name.title()}"], by_token(run), atol=1e-5)
    np.testing.assert_array_equal(arrays["difference"], weights["after"] - weights["before"])
    assert [(block["kind"], block["title"], block["rows"], block["cols"]) for block in strip] == [
        ("encoder_self", "Encoder self-attention", 6, 6), ("decoder_self", "Decoder masked self-attention", 4, 4),
        ("cross", "Cross-attention", 4, 6),
    ]  # fmt: skip
    names = {"encoder_self": ["source padding", "window of 1"], "decoder_self": ["target padding", "look-ahead", "drawn by hand"],
             "cross": ["drawn by hand"]}  # fmt: skip
    offset = 0
    for block in strip:
        size, may = block["rows"] * block["cols"], allowed[block["kind"]]
        assert [picture["name"] for picture in block["pictures"]] == [
            *names[block["kind"]],
            "combined",
        ]
        for picture in block["pictures"]:
            cells = arrays["strip"][offset : offset + size]
            assert picture == {
                "name": picture["name"],
                "offset": offset,
                "blocked": int((cells == 0).sum()),
                "cells": size,
            }
            offset += size
        np.testing.assert_array_equal(cells.reshape(may.shape), may)


def by_token(run: MaskedRun) -> np.ndarray:
    """Return log-probabilities in nats of y₁ … </s>, from the run's logits."""
    logits = run.trace.next_token.logits.double()
    return (logits - logits.logsumexp(-1, keepdim=True)).numpy()[
        range(4), [*run.trace.streams["target"].ids[1:], 2]
    ]


def log_prob(run: MaskedRun) -> float:
    return float(by_token(run).sum())


def test_a_long_text_is_pooled_and_open_where_any_cell_is(
    monkeypatch: pytest.MonkeyPatch, view: MaskView
) -> None:
    monkeypatch.setattr(painter, "MAX_PAINTED_SIDE", 3)
    header, arrays = unpack(painter.masks(view))
    block = header["strip"][1]
    assert (block["rows"], block["cols"]) == (2, 2)
    look_ahead = block["pictures"][1]
    assert (look_ahead["blocked"], look_ahead["cells"]) == (
        5,
        16,
    )  # of the whole mask, with one cell allowed by hand
    assert arrays["strip"][look_ahead["offset"] :][:4].tolist() == [1, 1, 1, 1]


def test_a_run_differs_from_itself_by_nothing(
    view: MaskView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights are recomputed at every reading, and their last digit depends on where they are in memory."""
    exact = AttentionSite.weights

    def nearly(site: AttentionSite, *args: Any, **how: Any) -> torch.Tensor:
        weights = exact(site, *args, **how)
        return weights + 1e-7 * torch.rand_like(weights)

    monkeypatch.setattr(AttentionSite, "weights", nearly)
    same = replace(view, after=view.before, changes=())
    assert not unpack(painter.masks(same))[1]["difference"].any()
    assert unpack(painter.masks(view))[1]["difference"].any()
    monkeypatch.undo()
    texts = [text.text for text in Drawing(masks_files.masks_svg(same)).texts]
    assert "Difference: after − before (0 everywhere)" in texts


def test_a_mask_that_differs_by_head_is_drawn_for_the_head_shown(view: MaskView) -> None:
    """This holds for the picture before and after, and for the drawing for print."""
    allowed = torch.rand(1, 3, 4, 6, generator=torch.Generator().manual_seed(5)) > 0.4
    site = replace(view.sites[1], mask=Mask([MaskLayer("own", allowed)]))
    trace = replace(view.after.trace, attention={**view.after.trace.attention, CROSS: site})
    for head in (0, 1, 2):
        one = replace(view, after=replace(view.after, trace=trace), head=head)
        may = allowed[0, head].numpy()
        _, arrays = unpack(painter.masks(one))
        np.testing.assert_array_equal(arrays["blockedAfter"] == 0, may)
        boxes = Drawing(masks_files.masks_svg(one)).titled()
        after = boxes[
            4 * 4 + 4 * 6 : 4 * 4 + 2 * 4 * 6
        ]  # after the painted mask and the head before the change
        assert [note != "blocked, −∞" for _, note in after] == may.flatten().tolist()


@pytest.mark.parametrize(
    ("largest", "scale"), [(0.0, 0.1), (0.09, 0.1), (0.11, 0.25), (0.26, 0.5), (0.9, 1.0)]
)
def test_the_scale_of_a_difference_is_the_smallest_that_fits(
    view: MaskView, largest: float, scale: float, monkeypatch
) -> None:
    given = iter(
        [torch.tensor([[largest, 0.0]]), torch.tensor([[0.0, largest]])] + [torch.zeros(1, 2)] * 9
    )
    monkeypatch.setattr(type(view.sites[0]), "weights", lambda self, head, rows=None: next(given))
    assert painter._effect(view, {})[1]["scale"] == scale
    assert painter._effect(view, {"difference": 0.4})[1]["scale"] == 0.5


def test_the_kinds_of_attention_by_their_short_names(view: MaskView) -> None:
    names = {
        KIND["encoder_self"]: "Encoder self",
        KIND["decoder_self"]: "Decoder self",
        KIND["cross"]: "Cross",
    }
    assert mask_view.kind_names(view.after.trace) == names
    assert mask_view.kind_names(letters("recurrent").run("ab", "b")) == {ALIGNMENT: "Alignment"}


def test_a_mask_as_it_is_added_to_the_scores() -> None:
    assert mask_view.additive_mask(torch.tensor([[True, False]])).tolist() == [[0.0, -np.inf]]


def test_a_forged_run_fails_the_checks(view: MaskView) -> None:
    """The forgeries are a mask that is not the union of its layers, and a weight on a blocked cell."""
    assert [(check.name, check.passed) for check in mask_view.mask_checks(view)] == [
        ("the mask is all its layers together", True), ("forbidden cells are 0", True),
    ]  # fmt: skip
    site = view.after.trace.attention[CROSS]

    class Forged(Mask):
        def expanded(self, batch: int, head: int | None, n_query: int, n_key: int) -> torch.Tensor:
            found = super().expanded(batch, head, n_query, n_key).clone()
            found[..., 1, 1] = False
            return found

    forged = with_site(view, replace(site, mask=Forged(site.mask.layers)))
    assert [check.value for check in mask_view.mask_checks(forged)] == [1.0, 0.0]
    blocked = MaskLayer("other", torch.ones(1, 1, 4, 6, dtype=torch.bool))
    forged = with_site(view, replace(site, mask=Mask([blocked])))
    found = mask_view.mask_checks(forged)
    assert found[0].passed
    weights = forged.after.trace.attention[CROSS].weights()
    assert found[1].value == pytest.approx(
        float(torch.stack([weights[:, 0, 0], weights[:, 3, 2]]).max())
    )
    assert not found[1].passed


def with_site(view: MaskView, site: object) -> MaskView:
    trace = view.after.trace
    return replace(
        view,
        after=replace(view.after, trace=replace(trace, attention={**trace.attention, CROSS: site})),
    )


# words


def test_what_a_change_is_called() -> None:
    names = {
        KIND["encoder_self"]: "Encoder self",
        KIND["decoder_self"]: "Decoder self",
        KIND["cross"]: "Cross",
    }
    assert masks_text.changes_line((), names).startswith("No mask is changed yet")
    assert masks_text.changes_line(CHANGES, names) == (
        "Changed. Encoder self: window of 1; Decoder self: 1 cell forbidden, 1 cell allowed; Cross: cross padding removed, 2 cells "
        "forbidden."
    )
    lifted = for_kinds(
        decoder_self=MaskChange(removed_layers=(LOOK_AHEAD, PADDING), preset="block-diagonal", k=3)
    )
    assert (
        masks_text.changes_line(lifted, names)
        == "Changed. Decoder self: look-ahead removed, target padding removed, blocks of 3."
    )


def run(
    view: MaskView, log_probs: tuple[float, ...], ids: tuple[int, ...] = (4, 2), output: str = "a"
) -> MaskedRun:
    """Return a forged run of four tokens."""
    return replace(view.before, log_probs=log_probs, output_ids=ids, output=output)


@pytest.mark.parametrize(("before", "after", "said"), [
    (-4.0, -2.5, "−4.00 → −2.50 nats, 1.50 higher."), (-2.5, -4.0, "−2.50 → −4.00 nats, 1.50 lower."),
    (-0.2, -0.1, "−0.200 → −0.100 nats, 0.100 higher."), (-2.5, -2.5, "−2.50 → −2.50 nats, as before."),
    (-2.5, -2.5001, "−2.50 → −2.50 nats, less than 0.001 apart."),
])  # fmt: skip
def test_the_likelier_of_two_runs(view: MaskView, before: float, after: float, said: str) -> None:
    both = LogProbChange("target", [Label("e")], (before,), (after,))
    assert (
        outcome_text.effect(both, view.before.trace)
        == f"Log-probability of the target “edc”: {said}"
    )
    assert outcome_text.effect(LogProbChange("", [], (), ()), view.before.trace) == ""


@pytest.mark.parametrize(("before", "after", "word", "loss"), [
    (-4.0, -2.0, "falls", "1.000 → 0.500"), (-2.0, -4.0, "rises", "0.500 → 1.000"), (-2.0, -2.0, "no difference", "0.500 → 0.500"),
])  # fmt: skip
@pytest.mark.parametrize("same", [True, False])
def test_whether_looking_ahead_helped(
    view: MaskView, before: float, after: float, word: str, loss: str, same: bool
) -> None:
    ahead = for_kinds(decoder_self=MaskChange(allow=((0, 1),)))
    old, new = run(view, (before / 4,) * 4), run(view, (after / 4,) * 4, (4, 2) if same else (5, 2))
    clipped = for_kinds(decoder_self=MaskChange(allow=((3, 40),)))
    assert outcome_text.look_ahead_effect(old, new, clipped, Transformer.kinds) == ""
    new = replace(new, trace=view.after.trace)
    said = outcome_text.look_ahead_effect(old, new, ahead, Transformer.kinds)
    assert [w for w in ("falls", "rises", "no difference") if f"{w} " in said] == [word]
    assert f"{loss} nats per token" in said
    assert ("stays the same" in said) == same
    assert ("comes out differently" in said) == (not same)
    assert (
        outcome_text.look_ahead_effect(
            old,
            new,
            for_kinds(decoder_self=MaskChange(block=((1, 0),))),
            Transformer.kinds,
        )
        == ""
    )


def test_the_story_quotes_the_text_before_and_after(view: MaskView) -> None:
    old, new = run(view, (-1.0,), (4,), "a"), run(view, (-1.0,), (5,), "")
    told = outcome_text.outcome_sentences(old, new, (), {}, "An effect.", ["A note."])
    assert told[1] == "Under these masks the model writes: nothing (before: a)."
    assert told[2:] == ["An effect.", "A note."]
    same = outcome_text.outcome_sentences(old, old, (), {}, "An effect.", [])
    assert same[1] == "Under these masks the model writes: a (unchanged)."
    assert len(same) == 3  # looking ahead is not mentioned, not even by an empty line


@pytest.mark.parametrize(("value", "said"), [
    (-3.456, "−3.46"), (0.12345, "0.123"), (-0.0004, "0.000"), (1.0, "1.00"), (-0.5, "−0.500"),
])  # fmt: skip
def test_nats(value: float, said: str) -> None:
    assert outcome_text.nats(value) == said


@pytest.mark.parametrize(("lengths", "said"), [
    ((3, 3), "Both have 3 tokens: no padding in the source."),
    ((3, 5), "Text 1 has 3 tokens, text 2 has 5: the first source gets 2 padding tokens."),
    ((9, 5), "Text 1 has 9 tokens, text 2 has 5: the second source gets 4 padding tokens."),
])  # fmt: skip
def test_the_shorter_of_two_sources_is_padded(lengths: tuple[int, int], said: str) -> None:
    assert masks_text.batch(lengths, "source") == said


def test_layers_reasons_and_preset_masks_by_name() -> None:
    assert [masks_text.mask_layer_name(KIND[kind], PADDING) for kind in ("encoder_self", "decoder_self", "cross")] == [
        "source padding", "target padding", "cross padding",
    ]  # fmt: skip
    assert masks_text.mask_layer_name(KIND["cross"], "window of 2") == "window of 2"
    own, place = "the key ", "its position in the source "
    for name, within, between in (
        ("window of 2", own + "is further away than the window",
         place + "is further than that from the query's position in the target"),
        ("blocks of 2", own + "lies in another block", place + "is in another block than the query's in the target"),
        ("only the previous", own + "is not the one just before the query",
         place + "is not the one before the query's in the target"),
        (DRAWN, "you blocked it", "you blocked it"), ("else", "", ""),
    ):  # fmt: skip
        assert (
            masks_text.reason(KIND["encoder_self"], name, True)
            == masks_text.reason(KIND["decoder_self"], name, True)
            == within
        )
        assert masks_text.reason(KIND["cross"], name, True) == between
    after = "the key comes after the query"
    assert masks_text.reason(KIND["encoder_self"], LOOK_AHEAD, True) == after
    assert (
        masks_text.reason(KIND["decoder_self"], LOOK_AHEAD, True)
        == f"{after}; while a decoder writes, it does not exist yet"
    )
    assert masks_text.reason(KIND["decoder_self"], LOOK_AHEAD, False) == after
    assert (
        masks_text.reason(KIND["cross"], LOOK_AHEAD, True)
        == f"{place}is after the query's in the target"
    )
    assert masks_text.mask_layer_name(KIND["cross"], LOOK_AHEAD) == "positions up to its own"
    assert (
        masks_text.mask_layer_name(KIND["cross"], "only the previous") == "only the position before"
    )
    for kind in ("encoder_self", "decoder_self"):
        assert (masks_text.mask_layer_name(KIND[kind], LOOK_AHEAD), masks_text.mask_layer_name(KIND[kind], "only the previous")) == (
            LOOK_AHEAD, "only the previous",
        )  # fmt: skip
    assert {name: masks_text.ready_label(KIND["decoder_self"], name, "causal") for name in READY_MADE} == {
        "none": "none: attends to everything", "causal": "causal: itself and earlier tokens (this model's)",
        "window": "window: at most k back",
        "previous": "only the previous token", "block-diagonal": "block-diagonal: own k tokens, none ahead",
    }  # fmt: skip
    assert (
        masks_text.ready_label(KIND["encoder_self"], "block-diagonal", "none")
        == "block-diagonal: own k tokens"
    )
    assert {name: masks_text.ready_label(KIND["cross"], name, "window") for name in READY_MADE} == {
        "none": "none: attends to everything", "causal": "source positions up to its own",
        "window": "source positions at most k from its own (this model's)", "previous": "only the source position before its own",
        "block-diagonal": "own block of k source positions",
    }  # fmt: skip
    assert (
        masks_text.ready_label(KIND["encoder_self"], "window", "none") == "window: at most k away"
    )


@pytest.mark.parametrize(
    ("kind", "own", "layers", "named"),
    [
        ("encoder_self", "none", [], "attends to everything"),
        ("encoder_self", "none", [PADDING], "attends to everything"),
        ("encoder_self", "none", [ORDER_MASK, PADDING], ORDER_MASK),
        ("encoder_self", "none", ["window of 3"], "window of 3"),
        ("decoder_self", "causal", [LOOK_AHEAD], "itself and earlier tokens (this model's)"),
        ("decoder_self", "causal", [LOOK_AHEAD, "window of 3"], "and window of 3 (this model's)"),
    ],
)
def test_the_models_own_mask_is_named_by_all_its_layers(
    kind: str, own: str, layers: list[str], named: str
) -> None:
    label = masks_text.ready_label(KIND[kind], own, own, layers)
    assert named in label
    assert label.endswith(" (this model's)")
    assert ("attends to everything" in label) == (own == "none" and {*layers} <= {PADDING})


@pytest.mark.parametrize(("cells", "said"), [
    ((), ""), (((0, 0), (3, 5)), ""), (((4, 0),), "Cross: 1 painted cell lies beyond these texts and applies once they are long enough."),
    (((4, 0), (0, 6), (3, 5)), "Cross: 2 painted cells lie beyond these texts and apply once they are long enough."),
])  # fmt: skip
def test_cells_that_are_clipped_are_counted(cells: tuple, said: str) -> None:
    assert (
        masks_text.painted_outside("Cross", MaskChange(block=cells[:1], allow=cells[1:]), 4, 6)
        == said
    )


def test_rows_with_nothing_to_read_are_named(scope: Scope) -> None:
    shut = for_kinds(cross=MaskChange(block=tuple((q, k) for q in (1, 2) for k in range(4))))
    (run,) = run_masked(scope, [("abc", "edc")], shut)
    site = run.trace.attention[CROSS]
    said = masks_text.empty_rows_note(site, "Cross", TARGET)
    assert said.startswith("Cross: “e” and 1 more may attend to nothing here")
    assert said.endswith("the heads pass on zeros.")
    beyond = for_kinds(encoder_self=MaskChange(block=((9, 9),)), cross=mask_change(shut, "cross"))
    both = run_masked(scope, [("abc", "edc")])[0], run_masked(scope, [("abc", "edc")], beyond)[0]
    told = painter.painted_outcome(MaskView(*both, beyond, "cross", CROSS, 2, TERMS))
    assert told[-2:] == [
        "Encoder self: 1 painted cell lies beyond these texts and applies once they are long enough.",
        said.replace("“e”", "“e → d”"),
    ]
    assert masks_text.empty_rows_note(run.trace.attention[OWN], "Decoder self", TARGET) == ""


def test_a_row_that_one_head_alone_may_not_fill_is_named_for_that_head() -> None:
    site = letters().run("abc", "edc").attention[CROSS]
    allowed = torch.ones(1, site.n_heads, site.n_query, site.n_key, dtype=torch.bool)
    allowed[0, 1, 2] = False
    by_head = replace(site, mask=Mask([MaskLayer("drawn", allowed)]))
    notes = [masks_text.empty_rows_note(by_head, "Cross", TARGET, head) for head in range(2)]
    assert notes[0] == ""
    assert notes[1].startswith("Cross: “d” may attend to nothing here")


def test_rules_fit_the_kind_of_attention(view: MaskView) -> None:
    of_heads = masks_text.rules(view.sites[0])
    assert r"$\mathrm{softmax}(\frac{q\cdot k}{\sqrt{5}} + M)$" in of_heads
    assert "Every layer and head" in of_heads
    of_rnn = masks_text.rules(letters("recurrent").run("ab", "b").attention["decoder.alignment"])
    assert r"$\mathrm{softmax}(v\cdot \tanh(W s_{i-1} + U h_j) + M)$" in of_rnn
    assert "row i is the step that reads token i" in of_rnn


# the text of a change


def test_choices_and_the_layers_they_remove() -> None:
    none, chosen = MaskChange(), masks_notation.with_preset
    assert {name: masks_notation.own_choice(kind) for name, kind in KIND.items()} == {
        "encoder_self": "none", "decoder_self": "causal", "cross": "none",
    }  # fmt: skip
    assert chosen(KIND["decoder_self"], none, "none", 2) == MaskChange(removed_layers=(LOOK_AHEAD,))
    assert (
        chosen(KIND["decoder_self"], MaskChange(removed_layers=(LOOK_AHEAD,)), "causal", 2) == none
    )
    assert chosen(KIND["cross"], none, "causal", 2) == MaskChange(preset="causal")
    assert (
        chosen(KIND["encoder_self"], MaskChange(preset="causal"), "none", 2) == none
    )  # no look-ahead mask to remove there
    assert chosen(
        KIND["decoder_self"], MaskChange(removed_layers=(LOOK_AHEAD, PADDING)), "window", 3
    ) == MaskChange(removed_layers=(PADDING,), preset="window", k=3)
    assert masks_notation.preset_of(KIND["decoder_self"], none) == "causal"
    assert masks_notation.preset_of(KIND["encoder_self"], none) == "none"
    assert (
        masks_notation.preset_of(KIND["decoder_self"], MaskChange(removed_layers=(LOOK_AHEAD,)))
        == "none"
    )
    assert masks_notation.with_padding_masked(none, False) == MaskChange(removed_layers=(PADDING,))
    assert masks_notation.with_padding_masked(MaskChange(removed_layers=(PADDING,)), True) == none


@pytest.mark.parametrize(("change", "text"), [
    (MaskChange(removed_layers=(LOOK_AHEAD, PADDING), preset="window", k=3), "nolook_nopad_window3"),
    (MaskChange(preset="block-diagonal", k=4), "blocks4"),
    (MaskChange(preset="previous"), "previous"), (MaskChange(preset="causal", k=9), "causal"),
    (MaskChange(block=((3, 0), (4, 0), (5, 0)), allow=((1, 1),)), "f3-5.0_a1.1"),
])  # fmt: skip
def test_a_change_as_a_text(change: MaskChange, text: str) -> None:
    assert masks_notation.mask_to_text(change) == text


@pytest.mark.parametrize(
    ("text", "count"), [("f0-99.0-999", 100_000), ("f0-99.0-1000", 0), ("f0-4.0-1_f0-99.0-999", 10)]
)
def test_a_text_paints_at_most_so_many_cells(text: str, count: int) -> None:
    assert len(masks_notation.parse_mask(text).block) == count


def test_the_last_cell_that_can_be_named() -> None:
    kept = masks_notation.with_painted(
        MaskChange(),
        [(4095, 0, 0), (4096, 0, 0), (0, 4095, 1), (0, 4096, 1), (-1, 0, 0), (0, -1, 1)],
    )
    assert (kept.block, kept.allow) == (((4095, 0),), ((0, 4095),))


# files


def test_the_tables_read_back(view: MaskView, allowed: dict[str, np.ndarray]) -> None:
    table = list(csv.reader(io.StringIO(masks_files.log_probs_csv(view))))
    assert table[0] == ["token", "before (nats)", "after (nats)"]
    assert [row[0] for row in table[1:]] == ["e", "d", "c", "[end]", "sum"]
    for column, of in ((1, view.before), (2, view.after)):
        np.testing.assert_allclose(
            [float(row[column]) for row in table[1:]], [*by_token(of), log_prob(of)], atol=1e-5
        )
    heading, *rows = csv.reader(masks_files.masked_head_csv(view))
    assert heading == [
        "query",
        "key",
        "allowed before",
        "weight before",
        "allowed after",
        "weight after",
    ]
    cells = [
        [f"{q} {query}", f"{k} {key}"]
        for q, query in enumerate(STEPS)
        for k, key in enumerate(SOURCE)
    ]
    assert [row[:2] for row in rows] == cells
    for column, may in ((2, allowed["cross before"]), (4, allowed["cross"])):
        assert [row[column] for row in rows] == [str(cell) for cell in may.ravel()]
        weights = view.sites[column // 4].weights(2).numpy().ravel()
        assert np.float32([row[column + 1] for row in rows]).tolist() == weights.tolist()


def test_everything_read_back(view: MaskView, allowed: dict[str, np.ndarray]) -> None:
    with saved(masks_files.everything_npz(view)) as held:
        layers = {("encoder_self", "before"): [PADDING], ("encoder_self", "after"): [PADDING, "window of 1"],
                  ("decoder_self", "before"): [PADDING, LOOK_AHEAD], ("decoder_self", "after"): [PADDING, LOOK_AHEAD, DRAWN],
                  ("cross", "before"): [PADDING], ("cross", "after"): [DRAWN]}  # fmt: skip
        names = {"source_tokens", "target_tokens", "log_probs.before", "log_probs.after"}
        sites = {
            name: name.replace("layers.0", "layer1").replace("layers.1", "layer2")
            for name in view.after.trace.attention
        }
        names |= {f"{name}.{when}" for name in sites.values() for when in ("before", "after")}
        names |= {
            f"{kind}.{when}.{form}" for kind, when in layers for form in ("allowed", "additive")
        }
        names |= {
            f"{kind}.{when}.layer.{name}" for (kind, when), own in layers.items() for name in own
        }
        assert set(held) == names
        assert held["source_tokens"].tolist() == [*"abc", "[end]", "[padding]", "[padding]"]
        assert held["target_tokens"].tolist() == ["[start]", *"edc"]
        for when, of, own in (("before", view.before, " before"), ("after", view.after, "")):
            np.testing.assert_allclose(held[f"log_probs.{when}"], by_token(of), atol=1e-5)
            for kind in ("decoder_self", "cross"):
                may = allowed[f"{kind}{own}"]
                np.testing.assert_array_equal(held[f"{kind}.{when}.allowed"], may)
                np.testing.assert_array_equal(
                    held[f"{kind}.{when}.additive"], np.where(may, 0.0, -np.inf)
                )
                together = np.logical_and.reduce(
                    [held[f"{kind}.{when}.layer.{name}"] for name in layers[kind, when]]
                )
                np.testing.assert_array_equal(together, may)
            assert held[f"{sites[CROSS]}.{when}"].shape == (3, 4, 6)
            np.testing.assert_array_equal(
                held[f"{sites[CROSS]}.{when}"] > 0, np.tile(allowed[f"cross{own}"], (3, 1, 1))
            )


@pytest.mark.parametrize(("row", "text"), [(0, "abcde"), (1, "abc")])
def test_files_are_about_the_text_shown(scope: Scope, row: int, text: str) -> None:
    run = CurrentRun(scope, cache.trace(scope, ("abcde", "")))
    choices = MaskChoices("abc", "", row, "cross", CROSS, 0)
    files = ALL_MASKS.files(run, choices)
    assert [file.about(run)["source"] for file in files] == [text] * 4


def test_a_difference_is_of_the_changed_masks(scope: Scope) -> None:
    run = edited(CurrentRun(scope, cache.trace(scope, ("abcde", ""))), CHANGES)
    for kind, name in (("decoder_self", OWN), ("cross", CROSS)):
        open_cells, weights = mask_quantities(run, MaskChoices("", "", 0, kind, name, 2))
        site = run.trace.attention[name]
        assert torch.equal(open_cells.values, site.allowed(head=2))
        np.testing.assert_allclose(weights.values, site.weights(2), atol=1e-6)


def test_the_drawing_shows_the_mask_before_after_and_the_difference(
    view: MaskView, allowed: dict[str, np.ndarray]
) -> None:
    drawing = Drawing(masks_files.masks_svg(view))
    before, after = (site.weights(2).numpy() for site in view.sites)
    largest = np.abs(after - before).max()
    titles = ["Mask, decoder self (hatched = blocked, −∞)", "Before: the model's own masks (0 … 1)",
              "After: with the changes (0 … 1)",
              f"Difference: after − before (−{largest:.2g} orange … +{largest:.2g} blue)"]  # fmt: skip
    heading, *texts = [text.text for text in drawing.texts]
    assert (
        heading
        == f"{view.title}. {masks_text.changes_line(CHANGES, mask_view.kind_names(view.after.trace))}"
    )
    assert texts[-1] == "Rows: query, columns: key."
    assert [text for text in texts if text in titles] == titles
    shows = [(allowed["decoder_self"], TARGET), (allowed["cross before"], SOURCE), (allowed["cross"], SOURCE),
             (allowed["cross before"] | allowed["cross"], SOURCE)]  # fmt: skip
    values = [np.zeros((4, 4)), before, after, after - before]
    cells = iter(drawing.titled())
    ends = 0.0
    for title, (may, keys), value in zip(titles, shows, values, strict=True):
        mine = [[next(cells) for _ in keys] for _ in TARGET]
        left, top, side, _ = at(mine[0][0][0])
        assert ends < float(drawing.said(title).get("x")) < left
        assert drawing.said(title).get("font-weight") == "600"
        for q, row in enumerate(mine):
            for k, (box, note) in enumerate(row):
                assert at(box) == (left + k * side, top + q * side, side, side)
                if not may[q, k]:
                    assert (note, box.get("fill")) == ("blocked, −∞", "url(#masked)")
                    continue
                assert np.float32(note) == np.float32(value[q, k])
                apart = abs(value[q, k]) / largest, ACCENT if value[q, k] > 0 else LOSS
                share, high = {titles[0]: (0.18, ACCENT), titles[3]: apart}.get(
                    title, (value[q, k], ACCENT)
                )
                assert np.abs(rgb(box.get("fill")) - mixed(float(share), PAPER, high)).max() <= 1
        rows = [text for text in drawing.texts if text.get("text-anchor") == "end"]
        rows = [text for text in rows if left - 10 <= float(text.get("x")) < left]
        assert [text.text for text in rows] == STEPS
        for q, text in enumerate(rows):
            assert top + (q + 0.5) * side < float(text.get("y")) < top + (q + 0.8) * side
        turned = [
            (text.text, text.get("transform").split(") "))
            for text in drawing.texts
            if text.get("transform")
        ]
        places = [
            (said, *map(float, move.removeprefix("translate(").split()), turn)
            for said, (move, turn) in turned
        ]
        mine = [place for place in places if left <= place[1] < left + len(keys) * side]
        assert [place[0] for place in mine] == keys
        for k, (_, x, y, turn) in enumerate(mine):
            assert left + (k + 0.4) * side < x < left + (k + 0.8) * side
            assert top - 10 < y < top
            assert turn == "rotate(-45)"
        ends = left + len(keys) * side
        assert top + 4 * side < float(drawing.texts[-1].get("y")) < drawing.size[1]
    assert ends < drawing.size[0]
    assert next(cells, None) is None
    assert (drawing.root.get("fill"), drawing.boxes[0].get("fill")) == (TEXT, PAPER)
    assert [float(drawing.boxes[0].get(side)) for side in ("width", "height")] == list(drawing.size)
    (pattern,) = drawing.root.iter(f"{SVG}pattern")
    assert (pattern.get("id"), [part.get("fill") for part in pattern]) == ("masked", [PAPER, HATCH])
