"""What recording costs a model of Hugging Face: a GPT-2 of the smallest released size over 1,024 tokens, without recording, with
it, and as the library hands out its own maps (eager, output_attentions). All three side by side in one process.

On two CPU cores recording is not what stands between the run and 0.6: the plain pass through the fused kernel takes 0.58 to 0.71 of
the eager one by itself. Both multiply the same matrices, 174 GFLOP in the layers and 79 for the logits of 50,257 words at each
place, which the page Task shows; the kernel saves half of 39 GFLOP in attention, and the way of 144 maps through the memory."""

import copy
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers

from models.hub.config import HubConfig
from models.hub.families import anatomies
from models.hub.writers import CausalLM
from models.trace import Recording, record

N, ROUNDS = 1024, 3


def measure() -> dict[str, float]:
    """Seconds of processor time of each way, the least of some rounds, and bytes that each keeps."""
    config = transformers.GPT2Config()
    module = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="sdpa").eval()
    eager = transformers.GPT2LMHeadModel._from_config(copy.deepcopy(config), attn_implementation="eager").eval()
    ids = torch.randint(config.vocab_size, (1, N))
    with torch.no_grad():
        module(ids, use_cache=False)
        plain = [_timed(lambda: module(ids, use_cache=False))[0]]
        sizes = HubConfig("GPT2LMHeadModel", config.vocab_size, 768, 12, 12, N, 12, "float32", config.vocab_size)
        model, recorded, given = CausalLM(module, sizes), [], []
        model.lay_open(anatomies("gpt2", module)[0])
        for _ in range(ROUNDS):
            recorded.append(_timed(lambda: _recorded(model, ids)))
            given.append(_timed(lambda: eager(ids, output_attentions=True, use_cache=False).attentions))
            plain.append(_timed(lambda: module(ids, use_cache=False))[0])
    return {
        "plain s": min(plain), "recorded s": min(s for s, _ in recorded), "output_attentions s": min(s for s, _ in given),
        "recorded bytes": _bytes(_tensors(recorded[-1][1]), module), "output_attentions bytes": _bytes(given[-1][1], module),
    }


def _recorded(model: CausalLM, ids: torch.Tensor) -> Recording:
    with record() as recording:
        model(ids)
    return recording


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    made = work()
    return time.process_time() - start, made


def _tensors(recording: Recording) -> list[torch.Tensor]:
    """All that a recording keeps alive, the model's own parameters apart."""
    found = [t for site in recording.attention.values() for t in (site.x, site.memory, site.out, *map(site.deferred, "qkv"))]
    found += [layer.allowed for site in recording.attention.values() for layer in site.mask.layers]
    found += [activation.deferred for activation in recording.activations.values() if activation.name != "logits"]
    return [t if isinstance(t, torch.Tensor) else t.x for t in found]


def _bytes(tensors: Any, module: torch.nn.Module) -> int:
    """Of memory besides the model's own, each part counted once however many tensors lie in it."""
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    found = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(size for place, size in found.items() if place not in own)


def main() -> None:
    found = measure()
    for name, value in found.items():
        print(f"{name:26} {value:,.3f}" if name.endswith(" s") else f"{name:26} {value / 2**20:,.0f} MB")
    print(f"recorded / plain           {found['recorded s'] / found['plain s']:.3f}   (at most 1.05)")
    print(f"recorded / handed out      {found['recorded s'] / found['output_attentions s']:.3f}   (at most 0.6)")
    print(f"kept / handed out          {found['recorded bytes'] / found['output_attentions bytes']:.3f}   (at most 0.2)")


if __name__ == "__main__":
    main()
