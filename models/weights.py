"""A safetensors file, held against the configuration before a model is built, and read into it. Nothing is ever unpickled."""

import json
from dataclasses import dataclass

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from models.architectures import Config, Model, build

LARGEST = 4 * 2**30  # bytes that opening one model may take
HEADER = 2**20  # bytes of a header; that of 256 layers has a quarter of it
FLOATS = ("F16", "BF16", "F32")
# while a model is opened: a parameter in the file, read, and in the model; a number of a position table as it is worked out
_PARAMETER, _POSITION = 4 + 4 + 4, 28


@dataclass(frozen=True)
class Header:
    """What a safetensors file says of itself."""

    shapes: dict[str, tuple[int, ...]]
    step: int  # of the training; 0 if it does not say


def half_bytes(state: dict[str, Tensor], metadata: dict[str, str]) -> bytes:
    """Weights as safetensors in half precision."""
    half = {
        name: tensor.detach().to("cpu", torch.float16).contiguous()
        for name, tensor in state.items()
    }
    return safetensors.torch.save(half, metadata)


def header_of(content: bytes) -> Header:
    """Raises ValueError if this is no safetensors file of floating-point numbers."""
    size = int.from_bytes(content[:8], "little")
    if size > HEADER or 8 + size > len(content):
        raise ValueError(
            f"not readable as safetensors (a header of {size:,} bytes in a file of {len(content):,})"
        )
    try:
        said = json.loads(content[8 : 8 + size])
        metadata = said.pop("__metadata__", {})
        shapes = {name: tuple(tensor["shape"]) for name, tensor in said.items()}
        kinds = {tensor["dtype"] for tensor in said.values()}
        step = metadata.get("step", "0")
        odd = (
            [step]
            if not (step.isascii() and step.isdigit() and len(step) <= 12)
            else [k for k in kinds if k not in FLOATS]
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"not readable as safetensors ({error!r:.80})") from None
    if odd:
        raise ValueError(
            f"wanted the numbers in {', '.join(FLOATS)} and a step, not {odd[0]!r:.40}"
        )
    return Header(shapes, int(step))


def blank(config: Config) -> Model:
    """A model of these sizes without its numbers, which takes no memory. Raises ValueError if one with them would take too much."""
    with torch.device("meta"):
        model = build(config)
    takes = _PARAMETER * sum(p.numel() for p in model.parameters()) + _POSITION * sum(
        b.numel() for b in model.buffers()
    )
    if takes > LARGEST:
        wanted, given = f"{takes / 2**30:,.1f} GB", f"{LARGEST / 2**30:,.1f} GB"
        raise ValueError(
            f"opening a model of these sizes takes {wanted}, more than the {given} that one may take"
        )
    return model


def read(content: bytes, blank: Model) -> tuple[Model, int]:
    """A model like `blank` with the numbers of a safetensors file, in evaluation mode; and the step of its training.

    Raises ValueError for other parameters or shapes, and for numbers with which the model cannot run."""
    header = header_of(content)
    expected = {name: tuple(tensor.shape) for name, tensor in blank.state_dict().items()}
    if odd := sorted(header.shapes.keys() ^ expected.keys()):
        raise ValueError(
            f"{len(odd)} parameters do not match the configuration, {odd[0]:.100} for one"
        )
    for name, shape in header.shapes.items():
        if shape != expected[name]:
            raise ValueError(
                f"{name} should have shape {expected[name]} by config.json, but has {shape!s:.100}"
            )
    model = build(blank.config).eval()
    model.load_state_dict(_numbers(content))
    _try_out(model)
    return model, header.step


def _numbers(content: bytes) -> dict[str, Tensor]:
    try:
        state = safetensors.torch.load(content)
    except SafetensorError as error:
        raise ValueError(f"not readable as safetensors ({error})") from None
    for name, tensor in state.items():
        if not tensor.half().isfinite().all():  # half precision is what a checkpoint is kept in
            raise ValueError(f"{name} holds values that are not finite in half precision")
    return state


@torch.inference_mode()
def _try_out(model: Model) -> None:
    """Raises ValueError if one short run of the model is not all numbers."""
    row = torch.arange(2)[None] + model.config.pad_id + 1
    made = model(*[row for _ in model.streams])
    answers = [made] if isinstance(made, Tensor) else made.values()
    if not all(logits.isfinite().all() for logits in answers):
        raise ValueError("with these weights the model's answer is not a number")
