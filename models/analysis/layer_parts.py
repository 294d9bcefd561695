"""The parts of a layer at one token: additions to its residual stream, norms, and activations.

Also the logit lens: the model's answer if it stopped there. All values are those of a run; norms
and sums are computed again and compared with what the run recorded.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.analysis.checks import Check, rounding_in
from models.analysis.head_walk import EDITED
from models.architectures.base import NEXT_TOKEN, Architecture
from models.layers.sublayers import FEED_FORWARD, Sublayer, apply_norm, norm_name_of
from models.trace import Trace
from models.trace.outputs import ClassProbabilities, MaskedToken

_FORMULAS = {
    "LayerNorm": "(x − mean) / √(variance + ε) · gain + bias", "RMSNorm": "x / √(mean of x² + ε) · gain",
}  # fmt: skip


@dataclass(frozen=True)
class Firing:
    """Activations inside a feed-forward at one token, before and after the non-linearity."""

    pre: Float[Tensor, "d_ff"]
    post: Float[Tensor, "d_ff"]

    @property
    def fires(self) -> Bool[Tensor, "d_ff"]:
        """True above 0 before the activation.

        ReLU sets all others to 0; GELU and SiLU leave them a little below 0 (blocks.lowest).
        """
        return self.pre > 0

    def strongest(self, n: int) -> Int[Tensor, "n"]:
        """Return the indices of the n largest values after the activation, largest first."""
        return self.post.topk(min(n, len(self.post))).indices


@dataclass(frozen=True)
class SublayerEffect:
    """Effect of one sublayer on one token.

    Under pre-LN `normed` is LayerNorm(before), which it reads; under post-LN it is LayerNorm(before
    + added), the stream after it; without LayerNorm, or where an edit sets that stream, it is None.
    `added` is its output, after its norm and times its factor if it has these.
    """

    sublayer: Sublayer
    before: Float[Tensor, "d_model"]
    added: Float[Tensor, "d_model"]
    after: Float[Tensor, "d_model"]  # as the run recorded it
    normed: Float[Tensor, "d_model"] | None  # as the run recorded it
    firing: Firing | None = None  # of a feed-forward whose inside is known
    read: Float[Tensor, "d_model"] | None = None  # the stream that it read, if not `before`
    made: Float[Tensor, "d_model"] | None = None  # its output before a norm of its own
    sets_after: bool = False  # True if an edit has replaced the result of the parts by `after`

    @property
    def total(self) -> Float[Tensor, "d_model"]:
        """Stream plus addition, or the output that replaces it."""
        return self.before + self.added if self.sublayer.adds else self.added

    @property
    def direction(self) -> float:
        """Cosine of the addition with the stream that it read.

        Above 0 it strengthens the stream, at 0 it is new, below 0 it cancels.
        """
        return cosine_between(self.added, self.before if self.read is None else self.read)

    @property
    def norm_input(self) -> Float[Tensor, "d_model"]:
        """Input of its norm."""
        if self.sublayer.norm == "post":
            return self.total
        return self.before if self.read is None else self.read


def sublayer_effects(
    model: Architecture, trace: Trace, stream: str, position: int, states: str = ""
) -> list[SublayerEffect]:
    """Return every sublayer along a stream, or one of its rows of states, at one token, in order.

    Raises:
        ValueError: The token does not exist.
    """
    n = len(trace.streams[stream].ids)
    if not 0 <= position < n:
        raise ValueError(f"position must be 0 to {n - 1} on this stream, not {position}")
    result: list[SublayerEffect] = []
    for sublayer in model.sublayers:
        if (sublayer.stream, sublayer.states) == (stream, states):
            result.append(_part(trace, sublayer, position, result[-1].after if result else None))
    return result


def are_recorded(model: Architecture, trace: Trace) -> bool:
    """Return True if a run holds all that its model's sublayers are made of.

    It does not for a third-party model on a long text.
    """
    names = {
        name
        for s in model.sublayers
        for name in (s.before, s.out, s.after, s.normed, s.made)
        if name and s.adds
    }
    return names <= set(trace.activations)


def _part(trace: Trace, sublayer: Sublayer, position: int, last: Tensor | None) -> SublayerEffect:
    """Return one part; `last` is the stream after the previous one, for a run without its own."""

    def recorded(name: str) -> Tensor:
        return trace.activations[name].value[0, position]

    firing, out = None, sublayer.scale * recorded(sublayer.out)
    if not sublayer.adds:
        before = trace.attention[sublayer.path].x[0, position]
    elif sublayer.before:
        before = recorded(sublayer.before)
    elif last is not None:
        before = last
    else:
        raise ValueError(f"the first sublayer, {sublayer.path}, must record the stream before it")
    after = recorded(sublayer.after) if sublayer.after else before + out
    inside = [f"{sublayer.path}.{sublayer.mark}{name}" for name in ("ff_pre", "ff_post")]
    if sublayer.role == FEED_FORWARD and inside[0] in trace.activations:
        firing = Firing(*map(recorded, inside))
    normed = {
        "pre": lambda: recorded(sublayer.normed),
        "post": lambda: after,
        "none": lambda: None,
    }[sublayer.norm]()
    part = SublayerEffect(
        sublayer,
        before,
        out,
        after,
        normed,
        firing,
        recorded(sublayer.reads) if sublayer.reads else None,
        recorded(sublayer.made) if sublayer.made else None,
    )
    if not _may_set(trace, sublayer.after, position) or _is_close(_stream_after(part), after):
        return part
    return replace(part, sets_after=True, normed=normed if sublayer.norm == "pre" else None)


def _may_set(trace: Trace, name: str, position: int) -> bool:
    """Return True if an edit may change this intermediate at this position."""
    places = [edit.where for edit in trace.edits if edit.changes("activation")]
    return any(
        place.activation in (None, name) and (place.queries is None or position in place.queries)
        for place in places
    )


def _is_close(a: Float[Tensor, "d"], b: Float[Tensor, "d"]) -> bool:
    return torch.allclose(a, b, atol=EDITED * max(1.0, float(b.abs().max())))


def cosine_between(a: Float[Tensor, "d"], b: Float[Tensor, "d"]) -> float:
    """Return the cosine of the angle between two vectors; 0 if one of them is 0."""
    return float(torch.nn.functional.cosine_similarity(a, b, dim=0, eps=1e-12))


def mean_and_spread(x: Float[Tensor, "d"]) -> tuple[float, float]:
    """Return mean and standard deviation over all d elements, as LayerNorm takes them."""
    return float(x.mean()), float(x.std(correction=0))


def output_read(model: Architecture, trace: Trace, stream: str, position: int) -> str:
    """Return the name of the output that the model reads from a token's stream; "" for none.

    That is its classes at the token that is classified, the masked token at a mask, elsewhere the
    next token if it generates.
    """
    if stream != model.read_stream:
        return ""
    elsewhere = NEXT_TOKEN if stream == model.writes else ""
    places = answering_positions(model, trace, stream)
    return next((name for name, positions in places.items() if position in positions), elsewhere)


def answering_positions(
    model: Architecture, trace: Trace, stream: str
) -> dict[str, tuple[int, ...]]:
    """Return the positions on this stream that the model reads each output from."""
    positions: dict[str, tuple[int, ...]] = {}
    for name, output in trace.outputs.items():
        if stream != model.read_stream or name not in model.read_outputs:
            continue
        if isinstance(output, ClassProbabilities) and output.stream == stream:
            positions[name] = () if output.position is None else (output.position,)
        elif isinstance(output, MaskedToken) and output.stream == stream:
            positions[name] = output.positions
    return positions


@torch.no_grad()
def logit_lens(
    model: Architecture, states: Sequence[Float[Tensor, "d_model"]], output: str = NEXT_TOKEN
) -> Float[Tensor, "state logit"]:
    """Return log p in nats of an output if the model stopped at each of these states (logit lens).

    The model's own output path reads them, with its last LayerNorm if it has one. The default
    output is the next token.
    """
    x = torch.stack(list(states)).to(next(model.parameters()))
    return model.readout(x, output).float().log_softmax(-1).cpu()


def _answer(trace: Trace, output: str, position: int) -> Tensor:
    """Return the run's own log p at this position."""
    answer: Any = trace.outputs[output]
    if isinstance(answer, ClassProbabilities):
        return answer.logits.float().log_softmax(-1)
    row = answer.positions.index(position) if isinstance(answer, MaskedToken) else position
    return answer.log_probs[row]


def check_parts(
    model: Architecture, trace: Trace, layer_parts: list[SublayerEffect], position: int
) -> list[Check]:
    """Check the parts of a stream against what the run recorded, over all layers at this token.

    Limits are 1e-5 of the size of what is compared in float32; more in half precision.
    """
    close = rounding_in(next(model.parameters()).dtype)
    adding = [p for p in layer_parts if p.sublayer.adds and p.sublayer.after and not p.sets_after]
    replacing = [p for p in layer_parts if not p.sublayer.adds]
    norm = norm_name_of([p.sublayer for p in layer_parts])
    compared = [
        (
            "the parts add up to the stream",
            [(_stream_after(p), p.after) for p in adding],
            f"Largest difference of before + added, and {norm} where it is next, from the recorded stream",
        ),
        (
            "each layer reads the output of the one before",
            _passed_on(trace, replacing, position),
            "Largest difference of an attention's output from the recorded input of the next",
        ),
        (
            f"{norm} by hand is the recorded one",
            _norm_pairs(layer_parts),
            f"Largest difference of {_FORMULAS.get(norm)}, in double precision",
        ),
        *([_last_lens(model, trace, layer_parts[-1], position)] if layer_parts else []),
    ]
    return [_check(name, pairs, close, says) for name, pairs, says in compared if pairs]


def _last_lens(
    model: Architecture, trace: Trace, last: SublayerEffect, position: int
) -> tuple[str, list[tuple[Tensor, Tensor]], str]:
    """Return the lens after the last layer with the run's own answer; no pair without one."""
    name = "stopping after the last layer is the model's answer"
    if not (output := output_read(model, trace, last.sublayer.stream, position)):
        return name, [], ""
    pair = logit_lens(model, [last.after], output)[0], _answer(trace, output, position)
    what = "next-token distribution" if output == NEXT_TOKEN else f"probabilities of the {output}"
    return name, [pair], f"Largest difference of a log-probability from the run's own {what}"


def _norm_pairs(layer_parts: list[SublayerEffect]) -> list[tuple[Tensor, Tensor]]:
    """Return pairs of a norm by its formula and the recorded one."""
    pairs = [
        (p.sublayer.normalised(p.norm_input), p.normed) for p in layer_parts if p.normed is not None
    ]
    return pairs + [
        (p.sublayer.scale * apply_norm(norm, p.made), p.added)
        for p in layer_parts
        if p.made is not None and (norm := p.sublayer.out_norm) is not None
    ]


def _passed_on(
    trace: Trace, parts: list[SublayerEffect], position: int
) -> list[tuple[Tensor, Tensor]]:
    """Return pairs of a replacing part's output and the recorded input of its readers.

    Readers are the next part, and the attentions that read the last one.
    """
    pairs = [(one.after, following.before) for one, following in pairwise(parts)]
    stream = parts[-1].sublayer.stream if parts else ""
    readers = [
        site for site in trace.attention.values() if site.key_stream == stream != site.query_stream
    ]
    return pairs + [(parts[-1].after, site.memory[0, position]) for site in readers]


def _stream_after(part: SublayerEffect) -> Tensor:
    """Return the stream after a sublayer, by the model's own LayerNorm."""
    norm = part.sublayer.layer_norm
    return _apply_norm(norm, part.total) if part.sublayer.norm == "post" else part.total


@torch.no_grad()
def _apply_norm(norm: Any, x: Tensor) -> Tensor:
    return norm(x.to(norm.weight)).float().cpu()


def _check(name: str, pairs: list[tuple[Tensor, Tensor]], rounding: float, sentence: str) -> Check:
    """Return the largest difference within the pairs; NaN if one of them is NaN."""
    apart = torch.stack([(one - other).abs().max() for one, other in pairs])
    size = max(float(other.abs().max()) for _, other in pairs)
    return Check(name, float(apart.max()), rounding * max(1.0, size), sentence)
