"""Direct logit attribution: the part of each head, feed-forward and bias in a logit difference."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.analysis.checks import rounding_in
from models.architectures import Model
from models.layers.sublayers import Sublayer, gain_and_bias, norm_name
from models.trace import AttentionSite, Trace

_NOT_LINEAR = "the logits of this model are not a linear reading of the residual stream"
# of the largest part, between the sum of the parts and the logits; more in half precision
LOGITS_ROUNDING = 1e-3


@dataclass(frozen=True, eq=False)
class LogitParts:
    """Parts of logit(token) − logit(other) at one position.

    `heads` holds (head,) by the path of their attention, `others` the rest by name. `total` is the
    difference that the model gave; the parts sum to it up to `rounding`.
    """

    heads: dict[str, Float[Tensor, "head"]]
    others: dict[str, float]
    total: float
    rounding: float

    @property
    def sum(self) -> float:
        """Sum of all parts."""
        return float(sum(part.sum() for part in self.heads.values())) + sum(self.others.values())


@torch.no_grad()
def logit_parts(model: Model, trace: Trace, token: int, other: int, position: int) -> LogitParts:
    """Return the parts of a logit difference of the next token (Elhage et al. 2021).

    Each sublayer's output reaches the logits through the norms after it, whose scale is held as it
    was in the run, so that all that lies between is linear. (z_h·W_O^h) of a head is its own part.

    Raises:
        ValueError: the answer is not a linear reading of a residual stream.
    """
    parts = [part for part in model.sublayers if part.stream == model.writes and part.adds]
    if not model.can_write or not parts or any(not part.before for part in parts):
        raise ValueError("the logits of this model are not a sum over a residual stream")
    position = position % len(trace.streams[model.writes].ids)
    start = trace.activations[parts[0].before].value[0, position]
    vectors: dict[tuple[str, int], Tensor] = {("embedding and position", -1): start}
    x = start
    for part in parts:
        out, added = _of_sublayer(trace, part, position)
        x = x + out
        vectors |= added
        if part.norm == "post" and part.layer_norm is not None:
            x, vectors = _through(part.layer_norm, x, vectors, f"bias of the norm of {part.path}")
    if not isinstance(model.last_norm, nn.Identity):
        x, vectors = _through(model.last_norm, x, vectors, "bias of the last norm")
    direction, dtype = _direction(model, token, other)
    if direction.shape != x.shape:  # a head of several matrices lies between
        raise ValueError(_NOT_LINEAR)
    logits = trace.next_token.logits[position]
    total = float(logits[token] - logits[other])
    rest = total - float(x @ direction)  # a bias of the logits
    added = {name: float(vector @ direction) for name, vector in vectors.items()}
    heads: dict[str, list[float]] = {}
    for (name, head), value in added.items():
        if head >= 0:
            heads.setdefault(name, []).append(value)
    others = {name: value for (name, head), value in added.items() if head < 0}
    bias = _logit_bias(model, token, other)
    largest = max(1.0, abs(total), *(abs(value) for value in added.values()))
    if abs(rest - bias) > max(LOGITS_ROUNDING, rounding_in(dtype)) * largest:
        raise ValueError(_NOT_LINEAR)
    if bias:
        others["bias of the logits"] = bias
    rounding = max(LOGITS_ROUNDING * max(1.0, abs(total)), rounding_in(dtype) * largest)
    by_site = {name: torch.tensor(values) for name, values in heads.items()}
    return LogitParts(by_site, others, total, rounding)


def _of_sublayer(
    trace: Trace, part: Sublayer, position: int
) -> tuple[Tensor, dict[tuple[str, int], Tensor]]:
    """Return what a sublayer adds, and its parts; an attention's are its heads and W_O's bias."""
    added = trace.activations[part.made or part.out].value[0, position]
    vectors = _split_output(trace.attention.get(part.path), part, added, position)
    if part.out_norm is not None:
        name = f"bias of the norm after {part.path}"
        added, vectors = _through(part.out_norm, added, vectors, name)
    if part.scale == 1:
        return added, vectors
    return added * part.scale, {name: vector * part.scale for name, vector in vectors.items()}


def _split_output(
    site: AttentionSite | None, part: Sublayer, output: Tensor, position: int
) -> dict[tuple[str, int], Tensor]:
    """Return the output of a sublayer, split into heads and the bias of W_O for an attention."""
    projection = site and site.projections.get("W_O", site.W_O)
    if site is None or projection is None:
        return {(part.out, -1): output}
    weight, bias = projection
    blocks = weight.unflatten(1, (site.n_heads, -1))  # (d_model, head, d_head)
    added = {
        (part.path, head): blocks[:, head] @ site.out[0, head, position]
        for head in range(site.n_heads)
    }
    return added if bias is None else {**added, (f"bias of W_O of {part.path}", -1): bias}


def _through(
    norm: nn.Module, x: Tensor, vectors: dict[tuple[str, int], Tensor], bias_name: str
) -> tuple[Tensor, dict[tuple[str, int], Tensor]]:
    """Return x and its parts after a norm whose scale is held as it is for x."""
    weight = next(norm.parameters(), x)
    after = norm(x.to(weight)).float().cpu()
    gain, _, eps = gain_and_bias(norm, len(x))
    centres = norm_name(norm) == "LayerNorm"
    centred = x - x.mean() if centres else x
    scale = gain.float() / (centred.square().mean() + eps).sqrt()
    scaled = {key: (v - v.mean() if centres else v) * scale for key, v in vectors.items()}
    return after, {**scaled, (bias_name, -1): after - centred * scale}


def _output_layer(model: Model) -> nn.Module | None:
    """Return the output matrix of a model of another library; ours use their embedding."""
    module: Any = getattr(model, "module", None)
    return module.get_output_embeddings() if hasattr(module, "get_output_embeddings") else None


def _direction(
    model: Model, token: int, other: int
) -> tuple[Float[Tensor, "d_model"], torch.dtype]:
    """Return the difference of the rows of the output matrix, and the dtype they are stored in.

    Raises:
        ValueError: the logits are capped, which half precision may not show in their sum.
    """
    layer: Any = _output_layer(model) or model.embedding
    weight = layer.weight.detach()
    change = getattr(model, "logit_change", None)
    if change and change.cap:
        raise ValueError(_NOT_LINEAR)
    row = weight[token].float() - weight[other].float()
    return row.cpu() * (change.scale if change else 1), weight.dtype


def _logit_bias(model: Model, token: int, other: int) -> float:
    biases = [
        getattr(getattr(model, "module", None), "final_logits_bias", None),
        getattr(_output_layer(model), "bias", None),
    ]
    flat = [bias.detach().flatten() for bias in biases if isinstance(bias, Tensor)]
    return float(sum(float(bias[token] - bias[other]) for bias in flat))
