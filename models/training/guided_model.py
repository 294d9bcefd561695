"""Frozen attention weights given to a model without context (Wiegreffe and Pinter 2019, §4.2).

Do the weights that one model has learned carry information for another? A guided model knows no
context: each source token is transformed by itself, and a weighted mean of them is all it reads
beside the token it has written last,

    c_i = Σ_j α_ij tanh(W_x x_j + b_x)     y_i from tanh(W_r [y_{i−1}; c_i] + b_r)

which is Bahdanau's model without its two recurrences. It is trained for each kind of α in GUIDES,
on the same texts and from the same parameters; from the surveyed model it gets nothing but the
weights. Wiegreffe and Pinter's classifiers read no token before; a translator has to. They also
impose an adversary's weights, for which a second model would have to be trained.
"""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from models.architectures import Model
from models.layers.masks import SiteKind
from models.layers.similarity import masked_softmax
from models.trace import AttentionSite, record
from models.training.batches import Batch

D_GUIDED = 64

Weights = Float[Tensor, "batch m n"]


class GuidedModel(nn.Module):
    """A translator without context, whose weights are imposed or learned.

    Learned, α_i = softmax(v·tanh(W y_{i−1} + U x_j)) over the real source tokens.
    """

    def __init__(self, vocab_size: int, pad_id: int, *, learns: bool, seed: int) -> None:
        super().__init__()
        self.pad_id, d = pad_id, D_GUIDED
        self.embedding = nn.Parameter(torch.empty(vocab_size, d))
        self.W_x, self.b_x = nn.Parameter(torch.empty(d, d)), nn.Parameter(torch.zeros(d))
        self.W_r, self.b_r = nn.Parameter(torch.empty(d, 2 * d)), nn.Parameter(torch.zeros(d))
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        random_weights = [self.embedding, self.W_x, self.W_r]
        self.learns = learns
        if learns:
            self.W, self.U = (nn.Parameter(torch.empty(d, d)) for _ in "WU")
            self.v = nn.Parameter(torch.empty(d))
            random_weights += [self.W, self.U, self.v]
        rng = torch.Generator().manual_seed(seed)
        for weights in random_weights:
            nn.init.normal_(weights, std=weights.shape[-1] ** -0.5, generator=rng)

    def forward(
        self,
        source: Int[Tensor, "batch n"],
        target: Int[Tensor, "batch m"],
        weights: Weights | None = None,
    ) -> Float[Tensor, "batch m d_model"]:
        """Return the input of the logits after each position of `target`, which starts with <s>."""
        x, y = (F.embedding(ids, self.embedding) * D_GUIDED**0.5 for ids in (source, target))
        if self.learns:
            weights = self.learned(x, y, source != self.pad_id)
        if weights is None:
            raise ValueError("a model that learns no weights must be given some")
        c = weights @ F.linear(x, self.W_x, self.b_x).tanh()  # (batch, m, d_model)
        return F.linear(torch.cat([y, c], dim=-1), self.W_r, self.b_r).tanh()

    def learned(
        self,
        x: Float[Tensor, "batch n d_model"],
        y: Float[Tensor, "batch m d_model"],
        real: Bool[Tensor, "batch n"],
    ) -> Weights:
        """Return the model's own weights."""
        hidden = (F.linear(y, self.W)[:, :, None] + F.linear(x, self.U)[:, None]).tanh()
        return masked_softmax(hidden @ self.v, real[:, None])

    def logits(self, readout: Float[Tensor, "*any d_model"]) -> Float[Tensor, "*any vocab"]:
        return F.linear(readout, self.embedding, self.bias)


@torch.no_grad()
def frozen_weights(model: Model, batch: Batch) -> Weights:
    """Return what each target position of a batch reads in the source, by this model.

    It is the mean over all heads and layers of attention from target to source. A position's
    weights do not depend on the token that it predicts.
    """
    with record() as recording:
        model(*batch.inputs)
    sites = [site.read("q", "k") for site in recording.attention.values() if aligns(site)]
    rows = range(len(batch.labels))
    return torch.stack([torch.cat([site.weights(None, i) for site in sites]).mean(0) for i in rows])


def aligns(attention: SiteKind | AttentionSite) -> bool:
    """Return True if target tokens read source tokens."""
    return (attention.query_stream, attention.key_stream) == ("target", "source")


def equal_weights(model: Model, batch: Batch) -> Weights:
    """Return the same weight for every source token."""
    source, target = batch.inputs
    real = (source != model.config.pad_id).float()
    return (real / real.sum(1, keepdim=True))[:, None].expand(-1, target.shape[1], -1)


def diagonal_weights(model: Model, batch: Batch) -> Weights:
    """Return all weight on the source token of the same position, or on the last one."""
    source, target = batch.inputs
    last = (source != model.config.pad_id).sum(1, keepdim=True) - 1
    position = torch.arange(target.shape[1], device=source.device).expand(len(source), -1)
    return F.one_hot(position.minimum(last), source.shape[1]).float()


LEARNED, IMPOSED = "learned", "imposed"
GUIDES: Mapping[str, Callable[[Model, Batch], Weights] | None] = {
    "uniform": equal_weights,
    "diagonal": diagonal_weights,
    LEARNED: None,  # by the guided model, from the two tokens alone
    IMPOSED: frozen_weights,
}
