"""Each mask against a truth table written by hand; layers know which of them blocks a cell."""

import pytest
import torch

from models.layers import masks
from models.layers.masks import DRAWN, LOOK_AHEAD, PADDING, Mask, MaskLayer


def table(text: str) -> torch.Tensor:
    """Parse a table: x = blocked, . = may attend; rows are queries."""
    return torch.tensor([[sign == "." for sign in row] for row in text.split()])


def test_a_blocked_cell_names_its_layers():
    assert (PADDING, LOOK_AHEAD, DRAWN) == ("padding", "look-ahead", "drawn by hand")
    made = [
        masks.padding(torch.tensor([[5]]), 0),
        masks.look_ahead(1, 1),
        masks.custom_layer(torch.ones(1, 1, dtype=torch.bool)),
    ]
    assert [layer.name for layer in made] == [PADDING, LOOK_AHEAD, DRAWN]


def test_nothing_blocked_needs_no_mask():
    open_, shut = masks.custom_layer(table("...  ...")), masks.custom_layer(table("...  .x."))
    assert Mask().blocking is None
    assert Mask([open_, open_]).blocking is None
    assert (open_.blocks, shut.blocks) == (False, True)
    assert Mask([open_, shut]).blocking is shut.allowed  # a layer that blocks nothing adds nothing
    assert torch.equal(Mask([open_, shut, shut]).blocking, Mask([open_, shut]).allowed)
    for dtype in (torch.float32, torch.float64):
        assert Mask([open_]).additive(dtype) is None
        added = Mask([open_, shut]).additive(dtype)
        assert added.dtype == dtype
        assert torch.equal(added == 0, Mask([open_, shut]).allowed)
        assert torch.equal(added == -torch.inf, ~Mask([open_, shut]).allowed)
    large = Mask([masks.look_ahead(257, 257)])
    assert (
        large.additive(torch.float32) is large.blocking
    )  # no tensor is made that a recording would keep


def test_a_row_of_a_mask_is_cut_to_its_own_length():
    mask = Mask(
        [masks.padding(torch.tensor([[5, 6, 7, 8], [5, 6, 0, 0]]), 0), masks.look_ahead(3, 4)]
    ).row(1, 2, 3)
    assert [tuple(layer.allowed.shape) for layer in mask.layers] == [(1, 1, 1, 3), (1, 1, 2, 3)]
    assert torch.equal(mask.expanded(0, 0, 2, 3), table("..x  ..x"))


def test_padding_blocks_the_key_for_every_query():
    ids = torch.tensor([[5, 6, 7, 2], [5, 2, 0, 0]])
    mask = Mask([masks.padding(ids, pad_id=0)])
    assert torch.equal(mask.expanded(0, 0, 3, 4), table("....  ....  ...."))
    assert torch.equal(mask.expanded(1, 0, 3, 4), table("..xx  ..xx  ..xx"))


def test_padding_follows_the_models_own_pad_id():
    assert masks.padding(torch.tensor([[0, 9]]), pad_id=9).allowed.tolist() == [[[[True, False]]]]


@pytest.mark.parametrize(
    "ids", [[[5, 6, 7]], [[5, 9, 7]], [[9]], [[5], [9]], [[5, 6], [6, 5]], [[5, 6], [6, 9]]]
)
def test_padding_knows_whether_there_is_any(ids):
    padding = masks.padding(torch.tensor(ids), pad_id=9)
    assert padding.blocks == any(9 in row for row in ids) == (not padding.allowed.all())
    assert (Mask([padding]).blocking is None) == (not padding.blocks)
    assert padding.allowed.shape == (len(ids), 1, 1, len(ids[0]))


def test_look_ahead_lets_a_query_see_itself_and_earlier_tokens():
    assert torch.equal(
        Mask([masks.look_ahead(4, 4)]).expanded(0, 0, 4, 4), table(".xxx  ..xx  ...x  ....")
    )


def test_look_ahead_with_cached_keys_counts_from_the_end():
    assert torch.equal(Mask([masks.look_ahead(2, 5)]).expanded(0, 0, 2, 5), table("....x  ....."))
    assert (
        Mask([masks.look_ahead(1, 5)])
        .expanded(0, 0, 1, 5)
        .equal(torch.ones(1, 5, dtype=torch.bool))
    )


def test_the_last_query_looks_ahead_to_nothing_by_one_layer_that_every_pass_may_read():
    masks._nothing_ahead.cache_clear()
    with torch.inference_mode():
        layer = masks.look_ahead(1, 5)
    assert layer is masks.look_ahead(1, 9)
    assert not layer.allowed.is_inference()
    assert layer.name == LOOK_AHEAD


def test_a_cell_is_open_only_if_every_layer_allows_it():
    padding = masks.padding(torch.tensor([[5, 6, 0]]), 0)
    drawn = masks.custom_layer(table("...  x..  ..."))
    mask = Mask([padding, masks.look_ahead(3, 3), drawn])
    assert torch.equal(mask.expanded(0, 0, 3, 3), table(".xx  x.x  ..x"))
    reasons = {
        (q, k): mask.blocked_by(q, k, 3, 3)
        for q in range(3)
        for k in range(3)
        if mask.blocked_by(q, k, 3, 3)
    }
    assert reasons == {
        (0, 1): [LOOK_AHEAD], (0, 2): [PADDING, LOOK_AHEAD], (1, 0): [DRAWN], (1, 2): [PADDING, LOOK_AHEAD],
        (2, 2): [PADDING],
    }  # fmt: skip


def test_no_layer_means_everything_is_allowed():
    assert Mask().allowed is None
    assert Mask().expanded(1, 1, 2, 3).all()
    assert Mask().blocked_by(0, 1, 2, 3) == []


def test_row_keeps_one_batch_row():
    ids = torch.tensor([[5, 6, 7], [5, 0, 0]])
    mask = Mask([masks.padding(ids, 0), masks.look_ahead(3, 3)])
    for row in (0, 1):
        assert torch.equal(mask.row(row, 3, 3).expanded(0, 0, 3, 3), mask.expanded(row, 0, 3, 3))
        assert [layer.allowed.shape[0] for layer in mask.row(row, 3, 3).layers] == [1, 1]


def test_layers_of_each_head():
    allowed = torch.stack([table(".x  .."), table("..  x.")])[None]
    mask = Mask([MaskLayer(DRAWN, allowed), masks.look_ahead(2, 2)])
    assert torch.equal(mask.expanded(0, 0, 2, 2), table(".x  .."))
    assert torch.equal(mask.expanded(0, 1, 2, 2), table(".x  x."))
    assert torch.equal(
        mask.expanded(0, None, 2, 2), torch.stack([table(".x  .."), table(".x  x.")])
    )
    assert mask.blocked_by(0, 1, 2, 2, head=0) == [DRAWN, LOOK_AHEAD]
    assert mask.blocked_by(0, 1, 2, 2, head=1) == [LOOK_AHEAD]


def test_shapes_that_are_no_mask_are_refused_under_the_tests():
    with pytest.raises(Exception, match="allowed"):
        MaskLayer(DRAWN, torch.ones(3, 3))  # not boolean, and without batch and head
