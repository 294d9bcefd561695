"""Masks changed by hand, against truth tables written by hand: x = blocked, . = may attend; rows are queries; and what a
model says under them."""

from dataclasses import replace

import pytest
import torch
from small import forbidding

from models.decoding import greedy
from models.layers.masks import DRAWN, LOOK_AHEAD, PADDING, Mask, SiteKind, look_ahead, padding
from models.runs.masked_comparison import run_masked
from models.tokenizers.base import END, START
from models.trace.attend import Attending
from models.trace.edits import (
    READY_MADE,
    MaskChange,
    Where,
    editing,
    for_kinds,
    mask_change,
    ready_made,
)


def table(text: str) -> list[list[bool]]:
    return [[sign == "." for sign in row] for row in text.split()]


@pytest.mark.parametrize(
    ("name", "k", "wanted"),
    [
        ("none", 0, ".....  .....  .....  ....."),
        ("causal", 0, ".xxxx  ..xxx  ...xx  ....x"),
        ("previous", 0, "xxxxx  .xxxx  x.xxx  xx.xx"),
        ("window", 0, ".xxxx  x.xxx  xx.xx  xxx.x"),
        ("window", 1, "..xxx  ...xx  x...x  xx..."),
        ("window", 2, "...xx  ....x  .....  x...."),
        ("block-diagonal", 1, ".xxxx  x.xxx  xx.xx  xxx.x"),
        ("block-diagonal", 2, "..xxx  ..xxx  xx..x  xx..x"),
        ("block-diagonal", 3, "...xx  ...xx  ...xx  xxx.."),
    ],
)
def test_a_ready_made_mask(name, k, wanted):
    assert ready_made(name, k, 4, 5).tolist() == table(wanted)


def test_a_ready_made_mask_that_cannot_be():
    assert READY_MADE == ("none", "causal", "window", "previous", "block-diagonal")
    for name, k, message in (
        (
            "diagonal",
            1,
            "a ready-made mask is one of none, causal, window, previous, block-diagonal, got 'diagonal'",
        ),
        ("window", -1, "k of a window mask must be at least 0, got -1"),
        ("block-diagonal", 0, "k of a block-diagonal mask must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            ready_made(name, k, 3, 3)
    assert ready_made("causal", -7, 2, 2).tolist() == table(".x  ..")  # has no k


@pytest.mark.parametrize(
    ("ready", "name"),
    [
        ("none", ""),
        ("causal", LOOK_AHEAD),
        ("window", "window of 3"),
        ("previous", "only the previous"),
        ("block-diagonal", "blocks of 3"),
    ],
)
def test_the_names_of_the_layers(ready, name):
    change = MaskChange(preset=ready, k=3)
    assert change.preset_name == name
    assert [layer.name for layer in change.apply(Mask(), 4, 5).layers] == ([name] if name else [])
    assert change.is_none == (ready == "none")


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (MaskChange(), False),
        (MaskChange(removed_layers=(PADDING,)), False),
        (MaskChange(removed_layers=(LOOK_AHEAD,)), True),
        (
            MaskChange(removed_layers=(LOOK_AHEAD,), preset="causal"),
            False,
        ),  # another mask in its place still hides what is ahead
        (MaskChange(removed_layers=(LOOK_AHEAD,), preset="previous"), False),
        (MaskChange(removed_layers=(LOOK_AHEAD,), preset="window"), True),
        (MaskChange(removed_layers=(LOOK_AHEAD,), preset="block-diagonal"), True),
        (MaskChange(allow=((2, 2), (2, 1))), False),
        (MaskChange(allow=((2, 1), (2, 3))), True),
        (MaskChange(preset="previous", allow=((0, 1),)), True),
        (MaskChange(block=((0, 1),)), False),
    ],
)
def test_what_may_let_a_position_see_ahead(change, wanted):
    assert change.opens_ahead is wanted


def base() -> Mask:
    return Mask([padding(torch.tensor([[5, 6, 7, 0], [5, 0, 0, 0]]), 0), look_ahead(4, 4)])


def test_nothing_changed_is_the_very_mask():
    mask = base()
    assert MaskChange(k=9).apply(mask, 4, 4) is mask
    for what in (
        {"removed_layers": (PADDING,)},
        {"preset": "causal"},
        {"block": ((9, 9),)},
        {"allow": ((9, 9),)},
    ):
        change = MaskChange(**what)
        assert not change.is_none
        assert change.apply(mask, 4, 4) is not mask


@pytest.mark.parametrize(
    ("change", "names", "first", "second"),
    [
        (
            MaskChange(removed_layers=(PADDING,)),
            [LOOK_AHEAD],
            ".xxx ..xx ...x ....",
            ".xxx ..xx ...x ....",
        ),
        (
            MaskChange(removed_layers=(LOOK_AHEAD,)),
            [PADDING],
            "...x ...x ...x ...x",
            ".xxx .xxx .xxx .xxx",
        ),
        (
            MaskChange(preset="window", k=1),
            [PADDING, LOOK_AHEAD, "window of 1"],
            ".xxx ..xx x..x xx.x",
            ".xxx .xxx xxxx xxxx",
        ),
        (
            MaskChange(block=((2, 0), (3, 1))),
            [PADDING, LOOK_AHEAD, DRAWN],
            ".xxx ..xx x..x .x.x",
            ".xxx .xxx xxxx .xxx",
        ),
        (
            MaskChange(allow=((0, 3), (1, 2))),
            [PADDING, LOOK_AHEAD],
            ".xx. ...x ...x ...x",
            ".xx. .x.x .xxx .xxx",
        ),
        (
            MaskChange(preset="previous", allow=((0, 0),)),
            [PADDING, LOOK_AHEAD, "only the previous"],
            ".xxx .xxx x.xx xx.x",
            ".xxx .xxx xxxx xxxx",
        ),
        (
            MaskChange(allow=((1, 3),), block=((1, 3),)),
            [PADDING, LOOK_AHEAD, DRAWN],
            ".xxx ..xx ...x ...x",
            ".xxx .xxx .xxx .xxx",
        ),
    ],
)
def test_a_changed_mask_cell_by_cell(change, names, first, second):
    """In both rows of a batch; a forbidden cell stays forbidden where it is opened too."""
    changed = change.apply(base(), 4, 4)
    assert [layer.name for layer in changed.layers] == names
    assert changed.expanded(0, 0, 4, 4).tolist() == table(first)
    assert changed.expanded(1, 0, 4, 4).tolist() == table(second)


def test_cells_beyond_the_mask_do_nothing():
    change = MaskChange(block=((4, 0), (0, 4)), allow=((4, 0), (0, 4)))
    assert (
        change.apply(base(), 4, 4).expanded(0, 0, 4, 4).tolist()
        == base().expanded(0, 0, 4, 4).tolist()
    )


def mask_at(kind: str, mask: Mask, n_query: int, n_key: int) -> Mask:
    """The mask of an attention under the edits in force."""
    site_kind = SiteKind(kind, "decoder", "self", "text", "text")
    size = (1, 1, n_query, n_key)
    return Attending(site_kind, "layers.0", mask, size, torch.device("cpu")).mask


def test_each_kind_of_attention_has_its_own_change_and_size():
    changes = for_kinds(
        encoder_self=MaskChange(preset="causal"),
        decoder_self=MaskChange(preset="previous"),
        cross=MaskChange(preset="window", k=0),
    )
    sizes = {"encoder_self": (2, 2), "decoder_self": (3, 3), "cross": (3, 2)}
    with editing(changes):
        changed = {kind: mask_at(kind, Mask(), *size) for kind, size in sizes.items()}
    assert {kind: mask.layers[0].allowed[0, 0].tolist() for kind, mask in changed.items()} == {
        "encoder_self": table(".x .."), "decoder_self": table("xxx .xx x.x"), "cross": table(".x x. xx"),
    }  # fmt: skip
    assert mask_change(changes, "cross").k == 0
    some, whole = (
        MaskChange(Where(kind="cross", heads=heads), preset=ready)
        for ready, heads in (("causal", (1,)), ("previous", None))
    )
    assert mask_change((some,), "cross") == MaskChange()  # of all heads
    assert mask_change((some, whole), "cross") == MaskChange(preset="previous")
    assert mask_at("cross", own := Mask(), 3, 2) is own  # outside the block nothing holds


def test_a_change_of_some_layers_and_heads_leaves_the_others_alone(scope):
    """Two layers of three heads: one head of the second layer is shut, and only what lies behind it moves."""
    shut = MaskChange(block=((2, 0),))
    plain = scope.run("abc", "cba")
    edits = (replace(shut, where=Where(kind="cross", layers=(0,), heads=(2,))),)
    trace = scope.run("abc", "cba", edits=edits)
    own, site = (run.attention["decoder.layers.0.cross_attn"] for run in (plain, trace))
    assert trace.edits == edits
    for head in range(3):
        assert site.allowed(head=head)[2, 0] == (head != 2)
        assert torch.equal(site.weights(head)[:2], own.weights(head)[:2])
    assert torch.equal(site.weights(1), own.weights(1))
    left = own.weights(2)[2, 1:]
    torch.testing.assert_close(site.weights(2)[2], torch.cat([torch.zeros(1), left / left.sum()]))
    assert site.blocked_by(2, 0, head=2) == [DRAWN]
    assert site.blocked_by(2, 0, head=1) == []
    torch.testing.assert_close(site.head_out()[None], site.out, atol=1e-5, rtol=1e-4)
    beyond = scope.run(
        "abc", "cba", edits=(replace(shut, where=Where(kind="cross", layers=(1,))),)
    )  # the model has one layer
    assert torch.equal(beyond.next_token.logits, plain.next_token.logits)


def test_a_change_meets_a_cached_step_where_it_stands(scope):
    """Position by position from the cache, and all at once: the same numbers under the same edits."""
    edits = (
        MaskChange(Where(kind="cross", heads=(0, 1)), block=((1, 0), (2, 3)), allow=((0, 1),)),
        MaskChange(Where(kind="decoder_self"), preset="window", k=1),
    )
    steps = list(greedy(scope.model, scope.given_ids("abc"), edits=edits))
    given, row = (
        torch.tensor([ids])
        for ids in (scope.given_ids("abc"), (START, *(step.token for step in steps[:-1])))
    )
    with torch.no_grad(), editing(edits):
        logits = scope.model(given, row)[0]
    torch.testing.assert_close(
        torch.stack([step.log_probs for step in steps]),
        logits.log_softmax(-1),
        atol=1e-4,
        rtol=1e-4,
    )


def test_a_run_under_its_own_masks_says_what_each_pair_says_alone(scope):
    """Of two sources in one padded batch: the log-probability of each given token, their sum, and the model's own text."""
    runs = run_masked(scope, [("abd", "ce"), ("e", None)])
    assert [run.trace.streams["source"].text for run in runs] == ["abd", "e"]
    assert runs[1].trace.streams["target"].text == "e"
    for run, own in zip(runs, ("dba", "e"), strict=True):
        target = run.trace.streams["target"].ids
        with torch.no_grad():
            logits = scope.model(
                torch.tensor([run.trace.streams["source"].ids]), torch.tensor([target])
            )[0].double()
        assert run.labels == (*target[1:], END)
        wanted = [
            float(row[label] - row.logsumexp(0))
            for row, label in zip(logits, run.labels, strict=True)
        ]
        assert run.log_probs == pytest.approx(wanted, abs=1e-4)
        assert run.log_prob == pytest.approx(sum(wanted), abs=1e-4)
        assert run.output == own
        assert run.output_ids == (*scope.tokenizer.encode(own).ids, END)


def test_what_is_forbidden_changes_what_is_said_and_what_is_written(scope):
    """No target position may read the source's first letter: the run and the writing both go without it."""
    pairs = [("abc", "cba")]
    changes = for_kinds(cross=MaskChange(block=tuple((query, 0) for query in range(13))))
    (before,), (after,) = run_masked(scope, pairs), run_masked(scope, pairs, changes)
    site = after.trace.attention["decoder.layers.0.cross_attn"]
    assert site.weights()[:, :, 0].abs().max() == 0
    allowed = torch.ones(4, 4, dtype=torch.bool)
    allowed[:, 0] = False
    drawn = scope.run("abc", "cba", edits=forbidding({"cross": allowed}))
    wanted = drawn.next_token.logits.log_softmax(-1)[range(4), after.labels]
    torch.testing.assert_close(torch.tensor(after.log_probs), wanted, rtol=1e-4, atol=1e-4)
    assert before.output == "cba" != after.output
    assert after.log_prob < before.log_prob - 1
    first = drawn.next_token.logits[0].argmax()
    assert after.output_ids[0] == int(first)
