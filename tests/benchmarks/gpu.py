"""Speed on a GPU: recording a GPT-2 of the smallest released size, and training the Transformer's base model. Needs CUDA.

Recording is compared with the same pass unrecorded and with the library's own maps (eager, output_attentions), at 1,024 tokens.
Training is the trainer's own step (models.training.trainer) on random sentence pairs; its work is counted by
torch.utils.flop_counter, and given as a share of the speed of an 8,192 × 8,192 product in bfloat16 on the same card in the same run.
"""

import copy
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from models.architectures.transformer import TransformerConfig
from models.hub.layouts import layer_maps
from models.hub.probe_route import choose_route
from models.hub.sizes import HubConfig
from models.hub.writers import CausalLM
from models.trace import Recording, record
from models.training.batches import Batch, collate
from models.training.compiled_layers import MIN_COMPILED_STEPS
from models.training.recipe import Recipe
from models.training.trainer import Trainer
from tests.benchmarks.side_by_side import Result, in_turns, over, print_table
from tests.small import Reversal

N = 1024  # tokens of the recorded pass
TOKENS = 25_000  # of a batch, on each side (Vaswani et al. 2017, §5.1, on eight GPUs)
MANY = 4 * TOKENS  # of a batch that keeps a large GPU busy
LENGTH = 28  # of a sentence, about as in WMT
SIDE = 8192  # of the product whose speed is called the peak


def clock() -> float:
    """Return the time in seconds, once the GPU has finished all its work."""
    torch.cuda.synchronize()
    return perf_counter()


@torch.no_grad()
def measure_recording(dtype: torch.dtype, rounds: int) -> list[Result]:
    """Return the time of a recorded pass over a plain one and over one that returns all maps."""
    config = transformers.GPT2Config()
    module, eager = (
        transformers.GPT2LMHeadModel._from_config(copy.deepcopy(config), attn_implementation=how)
        .to("cuda", dtype)
        .eval()
        for how in ("sdpa", "eager")
    )
    ids = torch.randint(config.vocab_size, (1, N), device="cuda")
    vocab = config.vocab_size
    name = str(dtype).removeprefix("torch.")
    sizes = HubConfig("GPT2LMHeadModel", vocab, 768, 12, 12, config.n_positions, 12, name, vocab)
    model = CausalLM(module, sizes)
    model.record_layers(layer_maps(module)[0])
    choose_route(model, (ids[:, :5],))

    def recorded() -> Recording:
        with record() as recording:
            model(ids)
        return recording

    results = []
    for what, aim, other in (
        ("not recording", "≤ 1.1", partial(module, ids, use_cache=False)),
        ("eager with maps", "", partial(eager, ids, output_attentions=True, use_cache=False)),
    ):
        ours, theirs = in_turns(recorded, other, rounds, clock)
        detail = f"{1000 * median(ours):.2f} ms against {1000 * median(theirs):.2f}"
        label = f"recording over {what}: GPT-2 small, {N:,} tokens, {name}"
        results.append(Result(label, over(ours, theirs), aim, detail))
    return results


class Pairs(Reversal):
    """Random sentence pairs of about the same length, as many as fit a batch of `tokens` on each side."""

    def __init__(self, vocab_size: int, tokens: int) -> None:
        super().__init__()
        self.vocab_size, self.tokens = vocab_size, tokens

    def batches(self, seed: int) -> Iterator[Sequence[Any]]:
        rng = Random(seed)
        made = [self._pairs(LENGTH + change, rng) for change in (-4, -2, 0, 1, 3)]
        yield from cycle(made)

    def _pairs(self, n: int, rng: Random) -> Sequence[Any]:
        vocab = range(4, self.vocab_size)
        return [
            tuple(rng.choices(vocab, k=n - rng.randrange(3)) for _ in range(2))
            for _ in range(self.tokens // n)
        ]

    def collate(self, examples: Sequence[Any]) -> Batch:
        return collate(examples, self.tokenizer)


def trainer(folder: Path, precision: torch.dtype, tokens: int) -> Trainer:
    """Return a run of the base model that neither validates nor compiles by itself."""
    config = TransformerConfig.base()
    recipe = Recipe(MIN_COMPILED_STEPS - 1, validate_every=10**6, save_every=10**6, score_cases=0)
    task = Pairs(config.vocab_size, tokens)
    made = Trainer(task, config, recipe, folder, torch.device("cuda"))
    if precision == torch.float32:
        made._losses = lambda model, batch, smoothing: made._objective(  # type: ignore[method-assign]
            model(*batch.inputs), batch, smoothing
        )
    return made


def flops_of_a_step(made: Trainer) -> int:
    """Return the floating-point operations of the forward and backward pass over the first batch."""
    share = made._share(next(made.task.batches(1)))
    made.model.train()
    with FlopCounterMode(display=False) as counter:
        losses = made._losses(made.model, share.batch, 0.1)
        sum(losses.values()).backward()
    made.optimizer.zero_grad()
    return counter.get_total_flops()


def peak() -> float:
    """Return the operations per second of a large product of random matrices in bfloat16."""
    a, b = (torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    times = []
    for _ in range(30):
        start = clock()
        a @ b
        times.append(clock() - start)
    return 2 * SIDE**3 / median(times[10:])


def measure_training(
    what: str,
    precision: torch.dtype,
    change: Callable[[Trainer], None],
    tokens: int,
    steps: int,
    highest: float,
) -> Result:
    """Return the share of the card's peak that a training step reaches."""
    torch._dynamo.reset()
    with tempfile.TemporaryDirectory() as folder:
        made = trainer(Path(folder), precision, tokens)
        made.save_checkpoint = made.save_state = lambda: None  # type: ignore[method-assign]
        flops = flops_of_a_step(made)
        change(made)
        start, seconds, labels, losses = clock(), [], [], []
        for step in islice(made.train(), steps):
            labels.append(step.tokens)
            losses.append(step.loss)
            seconds.append(clock() - start)
            start = clock()
        half = steps // 2
        rate = sum(labels[half:]) / sum(seconds[half:])
        share = flops / labels[0] * rate / highest
        first = f"first {seconds[0]:.1f} s, loss {losses[0]:.3f} to {losses[-1]:.3f}"
        detail = f"{rate:,.0f} target tokens per second, {first}"
        return Result(
            f"training, {what}: share of {highest / 1e12:.0f} TFLOP/s", (share,), "≥ 0.4", detail
        )


def measure(short: bool = False) -> list[Result]:
    """Measure recording in both precisions, and training uncompiled and compiled; nothing without a GPU."""
    if not torch.cuda.is_available():
        return []
    rounds, steps = (2, 4) if short else (20, 40)
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        results += measure_recording(dtype, rounds)
    highest = peak()
    for what, precision, change, tokens in (
        ("float32 as written", torch.float32, lambda made: None, TOKENS),
        ("bfloat16 as written", torch.bfloat16, lambda made: None, TOKENS),
        ("bfloat16, compiled", torch.bfloat16, Trainer.compile, TOKENS),
        ("bfloat16, compiled", torch.bfloat16, Trainer.compile, MANY),
    ):
        named = f"{what}, {tokens:,} tokens a side"
        results.append(measure_training(named, precision, change, tokens, steps, highest))
    return results


if __name__ == "__main__":
    print_table(measure())
