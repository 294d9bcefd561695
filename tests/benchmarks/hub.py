"""The cost of recording a Hugging Face model: a GPT-2 of the smallest released size over 1,024 tokens, recorded, beside the same
pass unrecorded and beside the library's own maps (eager, output_attentions); and the memory that each keeps.

All cores work, and the clock is wall-clock time, since a thread that waits for another takes processor time, too. On a busy machine
these figures mean nothing."""

import copy
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import torch
import transformers

from models.hub.layouts import layer_maps
from models.hub.probe_route import choose_route
from models.hub.sizes import HubConfig
from models.hub.writers import CausalLM
from models.trace import Recording, record
from tests.benchmarks.side_by_side import Result, in_turns, over, print_table


@torch.no_grad()
def measure(short: bool = False) -> list[Result]:
    """Measure time, recorded over each of the others, and memory."""
    n, rounds = (32, 1) if short else (1024, 12)
    config = transformers.GPT2Config()
    module = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="sdpa").eval()
    eager = transformers.GPT2LMHeadModel._from_config(
        copy.deepcopy(config), attn_implementation="eager"
    ).eval()
    ids = torch.randint(config.vocab_size, (1, n))
    sizes = HubConfig(
        "GPT2LMHeadModel",
        config.vocab_size,
        768,
        12,
        12,
        config.n_positions,
        12,
        "float32",
        config.vocab_size,
    )
    model = CausalLM(module, sizes)
    model.record_layers(layer_maps(module)[0])
    choose_route(model, (ids[:, :5],))
    recorded, maps = partial(_recorded, model, ids), partial(_maps, eager, ids)
    results = []
    plain = partial(module, ids, use_cache=False)
    for what, other, aim in (
        ("not recording", plain, "≤ 1.05"),
        ("maps handed out (eager, output_attentions)", maps, "≤ 0.6"),
    ):
        ours, theirs = in_turns(recorded, other, rounds, perf_counter)
        detail = f"{median(ours):.2f} s against {median(theirs):.2f}"
        results.append(
            Result(f"recording over {what}: time of a forward", over(ours, theirs), aim, detail)
        )
    kept, handed_out = _bytes(_tensors(recorded()), module), _bytes(maps(), module)
    detail = f"{kept / 1e6:.0f} MB against {handed_out / 1e6:.0f} MB"
    return [
        *results,
        Result("trace over returned maps: memory", (kept / handed_out,), "≤ 0.2", detail),
    ]


def _recorded(model: CausalLM, ids: torch.Tensor) -> Recording:
    with record() as recording:
        model(ids)
    return recording


def _maps(module: torch.nn.Module, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return module(ids, output_attentions=True, use_cache=False).attentions


def _tensors(recording: Recording) -> list[torch.Tensor]:
    """Return all tensors that a recording keeps alive, except the model's own parameters."""
    found = [
        t
        for site in recording.attention.values()
        for t in (site.x, site.memory, site.out, site.lazy_q, site.lazy_k, site.lazy_v)
    ]
    found += [layer.allowed for site in recording.attention.values() for layer in site.mask.layers]
    found += [
        activation.lazy_value
        for activation in recording.activations.values()
        if activation.name != "logits"
    ]
    return [t if isinstance(t, torch.Tensor) else t.x for t in found]


def _bytes(tensors: Any, module: torch.nn.Module) -> int:
    """Return the bytes of memory besides the model's own, each storage counted once however many tensors share it."""
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    found = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(size for place, size in found.items() if place not in own)


if __name__ == "__main__":
    print_table(measure())
