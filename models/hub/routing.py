"""Find the module of a mixture of experts that sends each token to its experts.

It is a module within a feed-forward that takes the tokens' vectors, the numbers of their experts
and weights for these. It is not recognised by its name; a short run confirms it: the outputs of the
experts, times the weights, must sum to the module's output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.hub.close import is_close
from models.hub.layer_map import MAX_INNER_NUMBERS
from models.hub.model import HubModel
from models.hub.probe import short_text
from models.hub.recording.context import Tap
from models.layers.sublayers import FEED_FORWARD, Sublayer
from models.trace import Recording, record

_FAILURES = (AttributeError, IndexError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True)
class Routing:
    """The experts of one feed-forward, in the module at `path`, which reads the activation `reads`.

    `n_dims` is the number of axes that the module's vectors have.
    """

    block: str  # path of the feed-forward
    path: str
    reads: str
    n_experts: int
    n_dims: int
    module: nn.Module

    @property
    def names(self) -> tuple[str, str, str]:
        """The names of the experts, their weights and their sum in a run."""
        return f"{self.block}.expert", f"{self.block}.expert_weight", f"{self.block}.expert_sum"

    def taps(self) -> Iterator[tuple[str, Tap]]:
        """Yield the taps of the routing, with the path of its module."""
        chosen, weights, total = self.names
        yield (
            self.path,
            Tap(chosen, True, "the experts of a token", "expert", MAX_INNER_NUMBERS, which=1),
        )
        yield self.path, Tap(weights, True, "their weights", "expert", MAX_INNER_NUMBERS, which=2)
        yield (
            self.path,
            Tap(total, False, "Σ weight · expert(x)", largest=MAX_INNER_NUMBERS, copies=True),
        )

    @torch.no_grad()
    def outputs(
        self, x: Float[Tensor, "token d_model"], experts: Int[Tensor, "token choice"]
    ) -> Float[Tensor, "token choice d_model"]:
        """Return the output of each chosen expert for each token, from the module with it alone."""
        parameter = next(self.module.parameters())
        x, experts = x.to(parameter), experts.to(parameter.device)
        one = torch.ones(len(x), 1, dtype=x.dtype, device=x.device)
        inputs = x[(None,) * (self.n_dims - 2)]
        outputs = [_first(self.module(inputs, column[:, None], one)) for column in experts.T]
        return torch.stack([each.reshape(x.shape) for each in outputs], dim=1)


@dataclass(frozen=True)
class _Call:
    """A call of a module with vectors, numbers of experts and weights."""

    path: str
    x: Tensor
    experts: Tensor
    weights: Tensor
    out: Tensor


@torch.no_grad()
def find_routings(model: HubModel) -> dict[str, Routing]:
    """Return the experts that a short run confirms, by the path of their feed-forward."""
    blocks = [p for p in model.sublayers if may_be_mixture(model, p)]
    if not blocks:
        return {}
    calls: dict[str, _Call] = {}
    hooks = [
        module.register_forward_hook(_noting_hook(f"{p.path}.{path}", calls), with_kwargs=True)
        for p in blocks
        for path, module in model.module.get_submodule(p.path).named_modules()
        if path
    ]
    try:
        with record() as recording:
            model(*model.repeated(short_text(model.module, model.config)))
    finally:
        for hook in hooks:
            hook.remove()
    confirmed = (_confirm(model, p, calls, recording) for p in blocks)
    return {routing.block: routing for routing in confirmed if routing is not None}


def may_be_mixture(model: HubModel, part: Sublayer) -> bool:
    """Return True if a sublayer is a feed-forward with a module called experts or router."""
    if part.role != FEED_FORWARD:
        return False
    paths = (path for path, _ in model.module.named_modules())
    return any(
        path.startswith(f"{part.path}.") and path.rpartition(".")[2] in ("experts", "router")
        for path in paths
    )


def _noting_hook(path: str, calls: dict[str, _Call]) -> Any:
    """Return a hook that notes a call of vectors, experts and weights."""

    def note(module: nn.Module, args: tuple, kwargs: dict[str, Any], out: Any) -> None:
        tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, Tensor)]
        if len(tensors) != 3 or not isinstance(_first(out), Tensor):
            return
        x, experts, weights = tensors
        if experts.dim() != 2 or experts.shape != weights.shape or experts.is_floating_point():
            return
        if weights.is_floating_point() and x[..., 0].numel() == len(experts):
            calls[path] = _Call(path, x.clone(), experts, weights, _first(out).clone())

    return note


def _confirm(
    model: HubModel, part: Sublayer, calls: dict[str, _Call], recording: Recording
) -> Routing | None:
    """Return the routing of a feed-forward, or None if none of its calls is confirmed."""
    value = {name: activation.value for name, activation in recording.activations.items()}
    reads = part.normed or part.before
    for call in calls.values():
        if not call.path.startswith(f"{part.path}."):
            continue
        module = model.module.get_submodule(call.path)
        stacked = (p.shape[0] for p in module.parameters() if p.dim() == 3)
        n_experts = getattr(module, "num_experts", None) or next(stacked, 0)
        if not 0 <= int(call.experts.min()) <= int(call.experts.max()) < n_experts:
            continue
        routing = Routing(part.path, call.path, reads, n_experts, call.x.dim(), module)
        x = value[reads].reshape(-1, call.x.shape[-1]).to(call.x)
        if not is_close(model, x, call.x.reshape(x.shape)):
            continue
        try:
            outputs = routing.outputs(x, call.experts)
        except _FAILURES:  # it takes other arguments
            continue
        if is_close(model, (call.weights[..., None] * outputs).sum(1), call.out.reshape(x.shape)):
            return routing
    return None


def _first(output: Any) -> Any:
    return output[0] if isinstance(output, tuple | list) else output
