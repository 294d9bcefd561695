"""Every head of a model switched off in turn, in one batched pass, beside one forward pass per head.

    python -m tests.benchmarks.heads

The models are eng-fra with a sentence of 12 tokens, and a GPT-2 small with random weights and 64 tokens. The time of one batch is
wall-clock time on all cores; the two routes are compared in CPU time.
"""

import statistics
import tempfile
import time
from pathlib import Path

import torch
import transformers

import models
from models.analysis import LogProbability, effects_of, head_effects
from models.runs.scope import Scope
from models.trace import Trace
from tests.benchmarks.side_by_side import Result, in_turns, over, print_table

SENTENCE = "We like the small black cat of my old friend."  # 12 tokens with </s>
SIZES = (transformers.GPT2Config(bos_token_id=0, eos_token_id=0), 64)  # 12 layers × 12 heads
SHORT = (
    transformers.GPT2Config(vocab_size=99, n_embd=24, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0),
    16,
)  # fmt: skip


def compare(what: str, scope: Scope, run: Trace, aim: float, rounds: int) -> list[Result]:
    """Return the seconds of one batch over `aim`, and over one pass per head. Raises ValueError if the two routes differ."""
    metric = LogProbability(0)
    effects = head_effects(scope, run, metric)
    edits = list(effects.edits.values())

    def one_by_one() -> torch.Tensor:
        return torch.stack([effects_of(scope, run, [(edit,)], metric)[0] for edit in edits])

    together = torch.stack([effects.values[k].flatten() for k in effects.values]).sort().values
    if not torch.allclose(together.flatten().sort().values, one_by_one().sort().values, atol=1e-3):
        raise ValueError("one batch and one pass a head should agree")
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        head_effects(scope, run, metric)
        seconds.append(time.perf_counter() - start)
    batched, alone = in_turns(lambda: head_effects(scope, run, metric), one_by_one, rounds)
    detail = f"{1000 * statistics.median(seconds):.0f} ms, at best {1000 * min(seconds):.0f}"
    return [
        Result(f"{what}: {len(edits)} heads off in one batch over {1000 * aim:g} ms",
               tuple(s / aim for s in seconds), "≤ 1", detail),
        Result(f"{what}: one batch over one pass per head", over(batched, alone), "≤ 0.5"),
    ]  # fmt: skip


def measure(short: bool = False) -> list[Result]:
    """Measure both models."""
    config, n = SHORT if short else SIZES
    scope = models.load("eng-fra", device="cpu")
    results = compare("eng-fra, 12 tokens", scope, scope.run(SENTENCE), 0.15, 1 if short else 5)
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        transformers.GPT2LMHeadModel(config).save_pretrained(Path(folder, "gpt2"))
        gpt2 = models.load(Path(folder, "gpt2"), device="cpu")
        run = gpt2.run(" ".join(str(i % 97) for i in range(n)))
    name = f"GPT-2 of {config.n_layer} × {config.n_head} heads, {n} tokens"
    return results + compare(name, gpt2, run, 3.0, 1 if short else 2)


if __name__ == "__main__":
    print_table(measure())
