"""Reasons why a model that transformers opens cannot be shown, found by a short run where its class does not say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

N = 5  # tokens of the run
_SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)


def other_input(transformers: Any, name: str) -> str:
    """Return what a class of transformers reads instead of token ids, such as "pixel values"; "" if it reads those."""
    reads = getattr(getattr(transformers, name, None), "main_input_name", "input_ids")
    return "" if reads in ("input_ids", "inputs") else reads.replace("_", " ")


@torch.no_grad()
def why_nothing_is_shown(module: nn.Module) -> str:
    """Return the reason why no attention between the tokens of a text is seen in this model."""
    counter = _Softmaxes()
    ids = torch.arange(3, 3 + N)[None] % max(2, getattr(module.config, "vocab_size", N + 3))
    try:
        with counter:
            module(input_ids=ids.to(next(module.parameters()).device))
    except Exception:  # the library raises what it likes
        reads = getattr(module, "input_modalities", ("text",))
        kinds = [reads] if isinstance(reads, str) else list(reads)
        if set(kinds) - {"text"}:
            return f"it reads {' and '.join(kinds)}, and does not run on a text alone"
        return "it does not run on the tokens of a text alone"
    if not counter.shapes:
        return "it has no attention: no softmax is taken in a run, so no token weighs the others"
    if (N, N) not in counter.shapes:
        shapes = " and ".join(f"{q} × {k}" for q, k in sorted(counter.shapes))
        return (
            f"its attention is not between the tokens of a text: in a run of {N} tokens it weighs {shapes} "
            "places of its own"
        )
    return (
        "its attention passes neither scaled_dot_product_attention nor multi_head_attention_forward, and it hands "
        "out no weights: there is nothing that could be shown"
    )


class _Softmaxes(TorchFunctionMode):
    """Collects the (query, key) shapes of every softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: set[tuple[int, int]] = set()

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _SOFTMAX and result.dim() > 2:
            self.shapes.add((result.shape[-2], result.shape[-1]))
        return result
