"""All heads as a notebook's picture, 12 layers × 12 heads at 128 tokens: MB of HTML, without its script, and processor time until
the HTML is complete, over that of the run itself."""

import gzip
from pathlib import Path
from random import Random

import torch

from models import Scope, Trace
from models.architectures.transformer import Transformer, TransformerConfig
from models.checkpoint import Checkpoint
from models.tokenizers.base import Tokenizer
from tests.benchmarks.side_by_side import Result, in_turns, over, print_table
from viz_app.components.catalogue import OVERVIEW
from viz_app.notebook import heads

LAYERS, HEADS, TOKENS, D_HEAD = 12, 12, 128, 64
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def scope() -> Scope:
    """Return a random encoder of GPT-2's size, which has exactly LAYERS × HEADS heads."""
    torch.manual_seed(0)
    tokenizer, d_model = Tokenizer.characters(LETTERS), HEADS * D_HEAD
    model = Transformer(
        TransformerConfig(tokenizer.vocab_size, d_model, HEADS, LAYERS, 0, 4 * d_model, 0.0, TOKENS)
    ).eval()
    return Scope(Checkpoint(Path("random"), model, tokenizer, {}), torch.device("cpu"))


def measure(short: bool = False) -> list[Result]:
    random, text = scope(), "".join(Random(0).choices(LETTERS, k=TOKENS - 1))

    def run() -> Trace:
        return random.run(text, "a")

    trace = run()
    assert (
        sum(site.weights().numel() for site in trace.attention.values())
        == LAYERS * HEADS * TOKENS**2
    )
    drawn, ran = in_turns(lambda: heads(trace).html, run, 1 if short else 5)
    script = 4 / 3 * len(gzip.compress("".join(OVERVIEW.files.values()).encode()))
    size = f"picture of {LAYERS} × {HEADS} heads, {TOKENS} tokens"
    return [
        Result(f"{size}: MB of HTML without its script", ((len(heads(trace)._repr_html_()) - script) / 1e6,), "≤ 1",
               f"its script {script / 1e6:.3f} MB"),
        Result(f"{size}: time over the run's own", over(drawn, ran), "", f"{1000 * min(drawn):.0f} ms"),
    ]  # fmt: skip


if __name__ == "__main__":
    print_table(measure())
