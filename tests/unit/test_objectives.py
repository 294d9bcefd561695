"""The loss and its gradient against torch's own cross-entropy, which computes them in another way."""

import pytest
import torch
import torch.nn.functional as F

from models.training.batches import NO_LABEL
from models.training.objectives import POSITIONS_PER_BLOCK, label_smoothed_loss

BATCH, N, VOCAB = 11, 13, 31


def random_logits(scale: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
    logits, labels = torch.randn(BATCH, N, VOCAB) * scale, torch.randint(0, VOCAB, (BATCH, N))
    labels[2, 7:] = labels[10] = NO_LABEL
    return logits.requires_grad_(), labels


def torchs(logits: torch.Tensor, labels: torch.Tensor, smoothing: float) -> torch.Tensor:
    how = {"ignore_index": NO_LABEL, "label_smoothing": smoothing, "reduction": "sum"}
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), **how)


@pytest.mark.parametrize("scale", [3.0, 300.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradient_match_torchs_cross_entropy(smoothing, scale):
    assert BATCH * N > 2 * POSITIONS_PER_BLOCK  # in several parts, the last one shorter
    logits, labels = random_logits(scale)
    one, other = label_smoothed_loss(logits, labels, smoothing), torchs(logits, labels, smoothing)
    torch.testing.assert_close(one, other)
    for factor in (1.0, 0.25):
        losses = (f(logits, labels, smoothing) for f in (label_smoothed_loss, torchs))
        mine, theirs = (torch.autograd.grad(loss * factor, logits)[0] for loss in losses)
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-5)
        assert (mine[labels == NO_LABEL] == 0).all()


def test_without_gradients_it_is_the_same_and_leaves_the_logits_alone():
    logits, labels = random_logits()
    before = logits.detach().clone()
    with torch.inference_mode():
        alone = label_smoothed_loss(logits.detach(), labels, 0.1)
    torch.testing.assert_close(alone, torchs(logits, labels, 0.1).detach())
    label_smoothed_loss(logits, labels, 0.1).backward()
    assert torch.equal(logits, before)


def test_half_precision_is_computed_in_single_precision():
    logits, labels = random_logits()
    half = logits.detach().bfloat16().requires_grad_()
    loss = label_smoothed_loss(half, labels, 0.1)
    loss.backward()
    assert (loss.dtype, half.grad.dtype) == (torch.float32, torch.bfloat16)
    torch.testing.assert_close(loss, torchs(half, labels, 0.1))


def test_logits_at_padding_do_not_count_whatever_they_are():
    logits, labels = random_logits()
    with torch.no_grad():
        logits[labels == NO_LABEL] = float("nan")
    loss = label_smoothed_loss(logits, labels, 0.1)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def test_a_gradient_that_was_scaled_is_not_returned_again():
    logits, labels = random_logits()
    loss = label_smoothed_loss(logits, labels, 0.1)
    loss.mul(0.5).backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
