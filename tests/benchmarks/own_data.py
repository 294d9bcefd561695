"""Learning from 29,000 sentence pairs: ours beside Hugging Face's Marian with the same sizes, batches and schedule.
Validation loss and cross-attention entropy (1 = flat) over the steps, for both.

    python -m tests.benchmarks.own_data tatoeba-eng-fra.tsv.gz --steps 400 --warmup 400 --max-tokens 2048

A shorter warm-up rises to the same highest learning rate. Marian needs the extra "dev"; `--ours-only` runs without it,
and `--init xavier` shows the collapse that the default avoids.
"""

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor, nn

from models.architectures.transformer import Transformer, TransformerConfig
from models.tasks.pair_files import read_pairs
from models.tokenizers.base import END, PAD, START, Tokenizer
from models.training.batches import NO_LABEL, Batch, Pair, bucket_by_length, collate
from models.training.objectives import label_smoothed_loss
from models.training.progress import cross_attention_entropy
from models.training.recipe import scheduled_rate
from models.training.recipes import plan_for
from tests.benchmarks.side_by_side import Result

N_TRAIN, N_VALID, SHORTEST, LONGEST = 29_000, 500, 7, 25  # pairs, pairs, words of a source
PLAN = plan_for("translation", "transformer", N_TRAIN)

Measured = tuple[
    float, float
]  # validation loss in nats per token, entropy of the cross-attention over its maximum


def caption_like(path: str, n_train: int) -> tuple[list[Pair], list[Pair], int]:
    """Return training and validation pairs with different sources, drawn with a fixed seed, and the size of their vocabulary."""
    rows, found = read_pairs(path), {}
    random.Random(1).shuffle(rows)
    for source, target in rows:
        if SHORTEST <= len(source.split()) <= LONGEST:
            found.setdefault(source, target)
    chosen = list(found.items())[: n_train + N_VALID]
    tokenizer = Tokenizer.bpe(
        (text for pair in chosen[:n_train] for text in pair), PLAN.data["vocab_size"]
    )
    ids = list(
        zip(*(tokenizer.encode_many(side) for side in zip(*chosen, strict=True)), strict=True)
    )
    return ids[:n_train], sorted(ids[n_train:], key=lambda pair: len(pair[1])), tokenizer.vocab_size


def marian(config: TransformerConfig, attention: str = "eager") -> nn.Module:
    """Return MarianMTModel with these sizes, the same padding, start and end tokens, and one of transformers' attentions."""
    from transformers import MarianConfig, MarianMTModel

    c = config
    return MarianMTModel(
        MarianConfig(
            vocab_size=c.vocab_size, d_model=c.d_model, encoder_layers=c.n_encoder_layers, decoder_layers=c.n_decoder_layers,
            encoder_attention_heads=c.n_heads, decoder_attention_heads=c.n_heads, encoder_ffn_dim=c.d_ff, decoder_ffn_dim=c.d_ff,
            dropout=c.dropout, attention_dropout=0.0, activation_dropout=0.0, activation_function="relu", scale_embedding=True,
            max_position_embeddings=c.n_ctx, pad_token_id=PAD, eos_token_id=END, decoder_start_token_id=START,
            forced_eos_token_id=None, use_cache=False, attn_implementation=attention,
        )
    )  # fmt: skip


def their_logits(model: nn.Module, batch: Batch, **more: bool) -> Tensor:
    source, target = batch.inputs
    return model(input_ids=source, attention_mask=source != PAD, decoder_input_ids=target, **more)


@torch.inference_mode()
def their_entropy(model: nn.Module, batch: Batch) -> float:
    weights = torch.stack(
        their_logits(model, batch, output_attentions=True).cross_attentions
    )  # (layer, batch, head, m, n)
    shares = (
        torch.special.entr(weights).sum(-1) / (batch.inputs[0] != PAD).sum(-1).log()[:, None, None]
    )
    return float(shares.permute(1, 3, 0, 2)[batch.labels != NO_LABEL].mean())


class Learner:
    """A model in training: `step` trains it on one batch, `measured` validates it."""

    def __init__(
        self, model: nn.Module, logits: Callable[[Batch], Tensor], entropy: Callable[[Batch], float]
    ) -> None:
        self.model, self.logits, self.entropy = model, logits, entropy
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True
        )

    def step(self, batch: Batch, rate: float, seed: int) -> None:
        self.model.train()
        torch.manual_seed(seed)
        self.optimizer.param_groups[0]["lr"] = rate
        loss = label_smoothed_loss(self.logits(batch), batch.labels, PLAN.recipe.label_smoothing)
        self.optimizer.zero_grad()
        (loss / (batch.labels != NO_LABEL).sum()).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), PLAN.recipe.clip)
        self.optimizer.step()

    @torch.inference_mode()
    def measured(self, batches: list[Batch]) -> Measured:
        self.model.eval()
        total = sum(
            float(label_smoothed_loss(self.logits(batch), batch.labels)) for batch in batches
        )
        tokens = sum(int((batch.labels != NO_LABEL).sum()) for batch in batches)
        return total / tokens, sum(map(self.entropy, batches)) / len(batches)


def learners(config: TransformerConfig, seed: int, *, ours_only: bool) -> dict[str, Learner]:
    torch.manual_seed(seed)
    ours = Transformer(config)
    found = {
        "ours": Learner(
            ours, lambda b: ours(*b.inputs), lambda b: cross_attention_entropy(ours, b, PAD)
        )
    }
    if not ours_only:
        theirs = marian(config)
        found["Marian"] = Learner(
            theirs,
            lambda b: their_logits(theirs, b).logits,
            lambda b: their_entropy(theirs, b),
        )
    return found


def run(options: argparse.Namespace) -> Iterator[tuple[int, dict[str, Measured]]]:
    """Yield (step, the measurement of each) at regular steps."""
    train, valid, vocab_size = caption_like(options.data, options.pairs)
    config = TransformerConfig(
        vocab_size, **PLAN.sizes | {"init": options.init, "dropout": options.dropout}
    )
    each = learners(config, options.seed, ours_only=options.ours_only)
    special = Tokenizer.characters("")
    held_out = [collate(valid[i : i + 100], special) for i in range(0, len(valid), 100)]
    highest = PLAN.recipe.learning_rate * scheduled_rate(
        PLAN.recipe.warmup, config.d_model, PLAN.recipe.warmup
    )
    factor = highest / scheduled_rate(options.warmup, config.d_model, options.warmup)
    lengths = [(len(source), len(target)) for source, target in train]
    epochs = (
        bucket_by_length(lengths, options.max_tokens, random.Random(f"{options.seed}/{n}"))
        for n in range(10**6)
    )
    for step, rows in enumerate(
        islice((rows for epoch in epochs for rows in epoch), options.steps), 1
    ):
        batch, rate = (
            collate([train[i] for i in rows], special),
            factor * scheduled_rate(step, config.d_model, options.warmup),
        )
        for learner in each.values():
            learner.step(batch, rate, step)
        if step % options.every == 0 or step == options.steps:
            yield step, {name: learner.measured(held_out) for name, learner in each.items()}


def measure(short: bool = False) -> list[Result]:
    """Make two steps of both on made-up pairs. Raises ValueError if not `short`: the figures need a file of sentence pairs."""
    if not short:
        raise ValueError("the figures need a file: python -m tests.benchmarks.own_data FILE")
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 8))) for _ in range(2000)]
    lines = ("\t".join(" ".join(rng.choices(words, k=10)) for _ in "st") for _ in range(80))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pairs.tsv").write_text("\n".join(lines))
        arguments = [f"{folder}/pairs.tsv", "--pairs=60", "--steps=2", "--max-tokens=256"]
        *_, (_, found) = run(_parser().parse_args(arguments))
    ratio = found["ours"][0] / found["Marian"][0]
    return [Result("validation loss after 2 steps: ours over Marian's", (ratio,), "")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument("--pairs", type=int, default=N_TRAIN)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=PLAN.recipe.warmup)
    parser.add_argument("--max-tokens", type=int, default=PLAN.data["max_tokens"])
    parser.add_argument("--dropout", type=float, default=PLAN.sizes["dropout"])
    parser.add_argument("--init", default=PLAN.sizes["init"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ours-only", action="store_true")
    return parser


def main() -> None:
    """Print the progress of both at regular steps."""
    for step, found in run(_parser().parse_args()):
        row = "   ".join(
            f"{name} {loss:.4f} nats, entropy {entropy:.4f}"
            for name, (loss, entropy) in found.items()
        )
        print(f"step {step:>6,}   {row}", flush=True)


if __name__ == "__main__":
    main()
