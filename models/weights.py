"""Safetensors files: checked against the configuration, then read into a model.

Nothing is ever unpickled.
"""

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import safetensors.torch
import torch
from jaxtyping import Shaped
from safetensors import SafetensorError
from torch import Tensor
from torch.overrides import TorchFunctionMode

from models import loading
from models.architectures import Config, Model, build

MAX_WEIGHTS_BYTES = 4 * 2**30  # bytes that opening one model may take
MAX_HEADER_BYTES = 2**20  # bytes of a header, four times what 256 layers need
STORED_FLOATS = ("F16", "BF16", "F32")
# bytes needed to open a model: per parameter (in the file, as read, in the model) and per value of
# a position table while it is computed
_PARAMETER, _POSITION = 4 + 4 + 4, 28


@dataclass(frozen=True)
class WeightsHeader:
    """Tensor shapes and training step from the header of a safetensors file."""

    shapes: dict[str, tuple[int, ...]]
    step: int  # of the training; 0 if the file has none


def weights_digest(model: Model) -> str:
    """Return the SHA-256 (hex) of the names, shapes and values of a model's parameters."""
    digest = sha256()
    tensors = model.state_dict()
    for name, tensor in loading.with_progress(loading.HASHED, tensors.items(), len(tensors)):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().to("cpu").contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def half_bytes(state: dict[str, Shaped[Tensor, "..."]], metadata: dict[str, str]) -> bytes:
    """Return weights as a safetensors file in half precision."""
    half = {
        name: tensor.detach().to("cpu", torch.float16).contiguous()
        for name, tensor in state.items()
    }
    return safetensors.torch.save(half, metadata)


def header_of(content: bytes) -> WeightsHeader:
    """Parse the header of a safetensors file.

    Raises:
        ValueError: This is not a safetensors file of floating-point tensors.
    """
    size = int.from_bytes(content[:8], "little")
    if size > MAX_HEADER_BYTES or 8 + size > len(content):
        raise ValueError(
            f"not readable as safetensors (a header of {size:,} bytes in a file of {len(content):,})"
        )
    try:
        header = json.loads(content[8 : 8 + size])
        metadata = header.pop("__metadata__", {})
        shapes = {name: tuple(tensor["shape"]) for name, tensor in header.items()}
        kinds = {tensor["dtype"] for tensor in header.values()}
        step = metadata.get("step", "0")
        unsupported = (
            [step]
            if not (step.isascii() and step.isdigit() and len(step) <= 12)
            else [k for k in kinds if k not in STORED_FLOATS]
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"not readable as safetensors ({error!r:.80})") from None
    if unsupported:
        raise ValueError(
            f"expected dtypes {', '.join(STORED_FLOATS)} and a step, got {unsupported[0]!r:.40}"
        )
    return WeightsHeader(shapes, int(step))


class _WithoutInitialisation(TorchFunctionMode):
    """Skip random initialisation: on the meta device parameters hold no values.

    torch would import its compiler for it, which takes as long as opening ten checkpoints.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Return the tensor of a function that would initialise it; call any other function."""
        if getattr(func, "__name__", "") in ("normal_", "uniform_"):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def blank(config: Config) -> Model:
    """Return a model of this configuration on the meta device, which takes no memory.

    Raises:
        ValueError: Opening the real model would take too much memory.
    """
    with torch.device("meta"), _WithoutInitialisation():
        model = build(config)
    n_bytes = _PARAMETER * sum(p.numel() for p in model.parameters()) + _POSITION * sum(
        b.numel() for b in model.buffers()
    )
    if n_bytes > MAX_WEIGHTS_BYTES:
        raise ValueError(
            f"opening a model of these sizes takes {n_bytes / 2**30:,.1f} GB; "
            f"the limit is {MAX_WEIGHTS_BYTES / 2**30:,.1f} GB"
        )
    return model


def read_model(content: bytes, blank: Model) -> tuple[Model, int]:
    """Return a model like `blank` with the weights of a file, and their step.

    Raises:
        ValueError: Parameters or shapes differ from the configuration, or a weight or the model's
            output is not finite.
    """
    header = header_of(content)
    expected = {name: tuple(tensor.shape) for name, tensor in blank.state_dict().items()}
    if mismatched := sorted(header.shapes.keys() ^ expected.keys()):
        raise ValueError(
            f"{len(mismatched)} parameters do not match the configuration, "
            f"{mismatched[0]:.100} for example"
        )
    for name, shape in header.shapes.items():
        if shape != expected[name]:
            raise ValueError(
                f"{name} must have shape {expected[name]} by config.json, got {shape!s:.100}"
            )
    model = build(blank.config).eval()
    model.load_state_dict(_load_tensors(content))
    _check_output(model)
    return model, header.step


def _load_tensors(content: bytes) -> dict[str, Tensor]:
    try:
        state = safetensors.torch.load(content)
    except SafetensorError as error:
        raise ValueError(f"not readable as safetensors ({error})") from None
    for name, tensor in state.items():
        if not tensor.half().isfinite().all():  # checkpoints are stored in half precision
            raise ValueError(f"{name} holds values that are not finite in half precision")
    return state


@torch.inference_mode()
def _check_output(model: Model) -> None:
    """Run the model once on two tokens.

    Raises:
        ValueError: An output is not finite.
    """
    row = torch.arange(2)[None] + model.config.pad_id + 1
    output = model(*[row for _ in model.streams])
    outputs = [output] if isinstance(output, Tensor) else output.values()
    if not all(logits.isfinite().all() for logits in outputs):
        raise ValueError("with these weights the model's output is not finite")
