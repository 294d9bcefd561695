"""The cost of recording a forward pass: time beside the same pass unrecorded, memory beside the weights of all heads."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import FunctionType

import torch
from torch import Tensor, nn

from models.architectures.transformer import Transformer, TransformerConfig
from models.trace import Recording, record
from tests.benchmarks.side_by_side import Result, in_turns, over, print_table

ENG_FRA = TransformerConfig(
    6000, d_model=192, n_heads=6, d_ff=768, n_encoder_layers=3, n_decoder_layers=3
)
TWELVE = TransformerConfig(
    6000, d_model=768, n_heads=12, d_ff=3072, n_encoder_layers=12, n_ctx=1024
)


def run(model: Transformer, n: int) -> Tensor:
    """Make one forward pass over n source and, if the model has a decoder, n target tokens."""
    source, target = torch.randint(
        4, model.config.vocab_size, (2, 1, n), generator=torch.Generator().manual_seed(1)
    )
    with torch.inference_mode():
        if model.decoder.layers:
            return model(source, target)
        return model.encode(source, model.masks(source, target))


def run_recorded(model: Transformer, n: int) -> Recording:
    with record() as recording:
        run(model, n)
    return recording


def bytes_kept(recording: Recording, model: nn.Module) -> int:
    """Return the bytes of all tensors that live as long as the recording: each storage once, without the model's own."""
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    storages = {
        t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors_in(recording)
    }
    return sum(size for pointer, size in storages.items() if pointer not in own)


def tensors_in(thing: object) -> Iterator[Tensor]:
    """Yield every tensor reachable from `thing` through containers, attributes and closures, except those of modules."""
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, Mapping):
        for part in thing.values():
            yield from tensors_in(part)
    elif isinstance(thing, (list, tuple)):
        for part in thing:
            yield from tensors_in(part)
    elif isinstance(thing, FunctionType):
        yield from tensors_in([cell.cell_contents for cell in thing.__closure__ or ()])
    elif not isinstance(thing, (type, nn.Module)):
        yield from tensors_in(list(getattr(thing, "__dict__", {}).values()))


def bytes_of_all_weights(recording: Recording) -> int:
    """Return the bytes that the weights of all heads would take, one float32 per cell."""
    return sum(4 * site.n_heads * site.allowed().numel() for site in recording.attention.values())


def measure_time(rounds: int) -> Result:
    """Time both passes at 512 tokens with eng-fra's sizes."""
    model = Transformer(ENG_FRA).eval()
    recorded, plain = in_turns(partial(run_recorded, model, 512), partial(run, model, 512), rounds)
    return Result(
        "recording over not recording: time of a forward, 512 tokens",
        over(recorded, plain),
        "≤ 1.03",
    )


def measure_memory(n_decoder_layers: int, n: int) -> Result:
    """Measure a fresh recording of n tokens, with or without a decoder after the encoder of 12 layers × 12 heads."""
    model = Transformer(replace(TWELVE, n_decoder_layers=n_decoder_layers)).eval()
    recording = run_recorded(model, n)
    kept, weights = bytes_kept(recording, model), bytes_of_all_weights(recording)
    part = "encoder and decoder" if n_decoder_layers else "encoder"
    return Result(
        f"trace over all weights: memory, 12×12 heads, {part}",
        (kept / weights,),
        "≤ 0.2",
        f"{kept / 1e6:.0f} MB against {weights / 1e6:.0f} MB",
    )


def measure(short: bool = False) -> list[Result]:
    """Measure time and memory, on one thread."""
    torch.set_num_threads(1)
    n = 16 if short else 1024
    return [measure_time(1 if short else 30), measure_memory(0, n), measure_memory(12, n)]


if __name__ == "__main__":
    print_table(measure())
