"""Training tokens per second: our Transformer against torch.nn.Transformer computing the same function.

The rival has the same embedding, positions, pre-softmax, loss, optimiser and starting weights, and with dropout off the
same logits, which is checked before anything is timed. Dropout is in the same places, too; torch adds two more, on the
attention weights and inside the feed-forward layer, and two final LayerNorms: "as it comes" is the rival with all of
these. Of torch's two ways to request a causal mask, the rival uses the faster one.
"""

import math
import random
from functools import partial
from itertools import cycle
from statistics import median

import torch
from torch import Tensor, nn

from models.architectures.transformer import Transformer, TransformerConfig
from models.tokenizers.base import Tokenizer
from models.training.batches import NO_LABEL, Batch, bucket_by_length, collate
from models.training.objectives import label_smoothed_loss
from tests.benchmarks.recording import ENG_FRA
from tests.benchmarks.side_by_side import Result, in_turns, over, print_table

SIZES = {  # name → (model, source + target tokens per batch, batches)
    "eng-fra's recipe": (ENG_FRA, 2048, 4),
    "d_model 512": (TransformerConfig(6000, n_encoder_layers=3, n_decoder_layers=3), 1024, 2),
}
SMOOTHING = 0.1  # of the labels


class Rival(nn.Module):
    """torch.nn.Transformer with our embedding, positions and pre-softmax around it."""

    def __init__(self, ours: Transformer, *, as_it_comes: bool = False) -> None:
        super().__init__()
        c = self.config = ours.config
        self.embedding = nn.Embedding.from_pretrained(
            ours.embedding.weight.detach().clone(), freeze=False
        )
        self.register_buffer("table", ours.positions.table.clone())
        self.dropout = nn.Dropout(c.dropout)
        self.core = nn.Transformer(
            c.d_model,
            c.n_heads,
            c.n_encoder_layers,
            c.n_decoder_layers,
            c.d_ff,
            c.dropout,
            batch_first=True,
        )
        self.core.encoder.use_nested_tensor = (
            False  # this path is for inference only, and gives a warning
        )
        if not as_it_comes:
            self._like(ours)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        m = target.shape[1]
        padding = source == self.config.pad_id
        look_ahead = torch.ones(m, m, dtype=torch.bool, device=target.device).triu(
            1
        )  # True = blocked here
        x = self.core(
            self._embed(source),
            self._embed(target),
            tgt_mask=look_ahead,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return nn.functional.linear(x, self.embedding.weight)

    def _embed(self, ids: Tensor) -> Tensor:
        return self.dropout(
            self.embedding(ids) * math.sqrt(self.config.d_model) + self.table[: ids.shape[1]]
        )

    def _like(self, ours: Transformer) -> None:
        """Copy our weights, and remove everything that we do not have."""
        self.core.encoder.norm = self.core.decoder.norm = None
        for stack, our_stack in (
            (self.core.encoder, ours.encoder),
            (self.core.decoder, ours.decoder),
        ):
            for layer, our in zip(stack.layers, our_stack.layers, strict=True):
                layer.dropout = nn.Identity()
                names = {"self_attn": "self_attn", "multihead_attn": "cross_attn"}
                for theirs, name in names.items():
                    if (attention := getattr(layer, theirs, None)) is not None:
                        attention.dropout = 0.0
                        _copy_attention(attention, getattr(our, name))
                layer.linear1.load_state_dict(our.ff.W_1.state_dict())
                layer.linear2.load_state_dict(our.ff.W_2.state_dict())
                for n in (1, 2, 3):
                    if hasattr(layer, f"norm{n}"):
                        norm = getattr(our, f"add_norm_{n}").layer_norm
                        getattr(layer, f"norm{n}").load_state_dict(norm.state_dict())


@torch.no_grad()
def _copy_attention(theirs: nn.MultiheadAttention, ours: nn.Module) -> None:
    projections = (ours.W_Q, ours.W_K, ours.W_V)
    theirs.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
    theirs.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
    theirs.out_proj.load_state_dict(ours.W_O.state_dict())


def random_batches(vocab_size: int, max_tokens: int, n: int, seed: int = 1) -> list[Batch]:
    """Return random tokens in sentences as long as the eng-fra pairs: 8.4 ± 3.2 source, 9.8 ± 3.9 target tokens."""
    rng = random.Random(seed)
    sources = [round(rng.lognormvariate(math.log(7.8), 0.37)) for _ in range(20_000)]
    lengths = [(s, max(1, round(s * rng.lognormvariate(math.log(1.14), 0.15)))) for s in sources]
    some = bucket_by_length(lengths, max_tokens, rng)[:n]

    def tokens(k: int) -> list[int]:
        return rng.choices(range(4, vocab_size), k=k)

    special = Tokenizer.characters("")
    return [
        collate([(tokens(lengths[i][0]), tokens(lengths[i][1])) for i in batch], special)
        for batch in some
    ]


class Learner:
    """A model and its optimiser, one gradient step at a time, as models.training.trainer.Trainer does it."""

    def __init__(self, model: nn.Module, batches: list[Batch]) -> None:
        self.model, self.batches = model.train(), cycle(batches)
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True
        )

    def loss(self, batch: Batch) -> Tensor:
        return (
            label_smoothed_loss(self.model(*batch.inputs), batch.labels, SMOOTHING)
            / batch.labels.numel()
        )

    def step(self) -> None:
        loss = self.loss(next(self.batches))
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        float(loss.detach())

    def steps(self, n: int) -> None:
        for _ in range(n):
            self.step()


def largest_difference(ours: nn.Module, rival: nn.Module, batch: Batch) -> float:
    """Return the largest difference between the two models' logits for one batch with dropout off, over real positions."""
    with torch.no_grad():
        a, b = (m.eval()(*batch.inputs) for m in (ours, rival))
    return float((a - b)[batch.labels != NO_LABEL].abs().max())


def compare(what: str, *, as_it_comes: bool, short: bool) -> Result:
    """Return our target tokens per second over the rival's; a round is one pass over the batches by each."""
    config, max_tokens, n_batches = SIZES[what]
    rounds, n_batches = (1, 1) if short else (8, n_batches)
    batches = random_batches(config.vocab_size, max_tokens, n_batches)
    torch.manual_seed(1)
    ours = Transformer(config)
    rival = Rival(ours, as_it_comes=as_it_comes)
    if not as_it_comes and (gap := largest_difference(ours, rival, batches[0])) > 1e-4:
        raise ValueError(
            f"the two models should compute the same, but their logits differ by {gap:.2g}"
        )
    passes = [partial(Learner(model, batches).steps, n_batches) for model in (rival, ours)]
    theirs, our = in_turns(*passes, rounds)
    tokens = sum(int((b.labels != NO_LABEL).sum()) for b in batches)
    name = "nn.Transformer as it comes" if as_it_comes else "nn.Transformer"
    detail = f"{tokens / median(our):,.0f} against {tokens / median(theirs):,.0f} target tokens/s"
    return Result(f"training tokens/s over {name}: {what}", over(theirs, our), "≥ 1", detail)


def measure(short: bool = False) -> list[Result]:
    """Measure both sizes, on one thread."""
    torch.set_num_threads(1)
    return [
        *(compare(what, as_it_comes=False, short=short) for what in SIZES),
        compare("eng-fra's recipe", as_it_comes=True, short=short),
    ]


if __name__ == "__main__":
    print_table(measure())
