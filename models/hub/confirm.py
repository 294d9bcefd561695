"""Confirm by a short run which layout of layers a third-party model has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.hub.close import is_close
from models.hub.layer_map import LayerMap
from models.hub.logits import UNCHANGED, change_between, soft_caps
from models.hub.model import HubModel
from models.hub.probe import short_text
from models.hub.readers import HeadReader, OutputHead, masked_heads
from models.hub.writers import CausalLM
from models.layers.sublayers import Sublayer, apply_norm
from models.trace import Recording, record

_EXACT = 1e-4  # a measured factor this close to 1 counts as 1
# raised by modules that have a layout's names but another structure
_STRUCTURE_ERRORS = (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)


@torch.no_grad()
def choose_layer_map(model: HubModel, layer_maps: Sequence[LayerMap]) -> None:
    """Record the first of these layouts that a short run confirms; no layers if none does."""
    for layer_map in layer_maps:
        if max(part.kind for part in layer_map.parts) >= len(model.kinds):
            continue
        try:
            model.record_layers(layer_map)
            confirmed = _adds_up(model)
        except _STRUCTURE_ERRORS:
            confirmed = False
        if confirmed:
            if isinstance(model, HeadReader):
                model.head = _head(model)
            return
    model.record_layers(None)


def _adds_up(model: HubModel) -> bool:
    """Return True if a short run agrees with the model's sublayers and with its answer."""
    with record() as recording:
        output = model(*model.repeated(short_text(model.module, model.config)))
    activations = recording.activations
    names = {
        name
        for p in model.sublayers
        for name in (p.before, p.out, p.after, p.normed, p.made)
        if name
    }
    if not names <= set(activations) or not _attend(model, recording):
        return False
    value = {name: activations[name].value for name in names}
    model.rescale(output_scales(model.sublayers, value))
    streams = _streams(model.sublayers, value)
    if any(before.shape != value[p.out].shape for p, before, _ in streams):
        return False
    pairs = [pair for part in streams for pair in _pairs(*part, value)]
    last = streams[-1][2]
    return all(is_close(model, *pair) for pair in pairs) and (
        not model.can_write or _reads_out(model, last, output)
    )


def _reads_out(
    model: HubModel, last: Float[Tensor, "*places d_model"], logits: Float[Tensor, "*places vocab"]
) -> bool:
    """Return True if the last states give the logits by a matrix or a known head."""
    caps = soft_caps(model.module.config)
    heads = masked_heads(model.module) if isinstance(model, CausalLM) else []
    for head in (None, *heads):
        if isinstance(model, CausalLM):
            model.head = head
        model.logit_change = UNCHANGED
        with suppress(AttributeError, TypeError, IndexError, RuntimeError):  # a different head
            if (unchanged := model.readout(last)).shape != logits.shape:
                continue
            model.logit_change = change_between(unchanged, logits, caps)
            if is_close(model, model.readout(last), logits):
                return True
    if isinstance(model, CausalLM):
        model.head = None
    return False


def _attend(model: HubModel, recording: Recording) -> bool:
    """Return True if the attention of every sublayer is recorded, and there is at least one.

    Sublayers without a softmax, such as linear attention, are marked as mixers.
    """
    silent = {p.path for p in model.sublayers if p.attends} - set(recording.attention)
    attentions = (*recording.attention, *recording.unrecorded)
    if any(f"{name}.".startswith(f"{path}.") for path in silent for name in attentions):
        return False
    model.mark_mixers(silent)
    return any(p.attends for p in model.sublayers)


def output_scales(
    sublayers: Sequence[Sublayer], value: Mapping[str, Float[Tensor, "*batch token d_model"]]
) -> tuple[float, ...]:
    """Measure the factor by which each sublayer's output is multiplied before it is added.

    Sublayers between two recorded streams share it. It is 1 in most models; Granite has a residual
    multiplier.
    """
    factors: list[float] = []
    starts = [i for i, p in enumerate(sublayers) if p.before]
    for start, end in pairwise([*starts, len(sublayers)]):
        several = sublayers[start:end]
        factor = 1.0
        if (after := several[-1].after) and all(p.norm != "post" for p in several):
            added = torch.stack([value[p.out].double() for p in several]).sum(0)
            factor = _factor(added, value[several[0].before], value[after])
        factors += [factor] * len(several)
    return tuple(factors)


def _factor(
    added: Float[Tensor, "*batch token d_model"],
    before: Float[Tensor, "*batch token d_model"],
    after: Float[Tensor, "*batch token d_model"],
) -> float:
    """Return the least-squares factor of the added vectors, or 1 if that fits as well."""
    change = after.double() - before.double()
    measured = float((change * added).sum() / added.square().sum().clamp(min=1e-300))
    sums = [before + (factor * added).to(before) for factor in (1.0, measured)]
    with_one, with_measured = (float((total - after).abs().double().sum()) for total in sums)
    is_one = abs(measured - 1) < max(_EXACT, torch.finfo(after.dtype).eps)
    return 1.0 if is_one or with_one <= with_measured else measured


def _streams(
    sublayers: Sequence[Sublayer], value: Mapping[str, Tensor]
) -> list[tuple[Sublayer, Tensor, Tensor]]:
    """Return each sublayer with the stream before and after it."""
    streams: list[tuple[Sublayer, Tensor, Tensor]] = []
    last = torch.empty(0)
    for part in sublayers:
        before = value[part.before] if part.before else last
        last = value[part.after] if part.after else before + part.scale * value[part.out]
        streams.append((part, before, last))
    return streams


def _pairs(
    part: Sublayer, before: Tensor, after: Tensor, value: Mapping[str, Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """Return numbers of one sublayer that must be equal, each by two routes."""
    total, norm = before + part.scale * value[part.out], part.layer_norm or nn.Identity()
    pairs = [(norm(total) if part.norm == "post" else total, after)]
    if part.norm == "pre":
        inputs = value[part.reads] if part.reads else before
        pairs += [
            (route(inputs).to(inputs), value[part.normed]) for route in (norm, part.normalised)
        ]
    if part.norm == "post":
        pairs.append((part.normalised(total).to(total), after))
    if part.out_norm is not None:
        before_norm, out = value[part.made], value[part.out]
        pairs += [
            (part.out_norm(before_norm), out),
            (apply_norm(part.out_norm, before_norm).to(out), out),
        ]
    return pairs


def _head(model: HeadReader) -> OutputHead | None:
    """Return the first head that turns the last states into the run's own logits, if any."""
    if not (heads := model.possible_heads()):
        return None
    with record() as recording:
        output = model(*model.repeated(short_text(model.module, model.config)))[model.output_name]
    value = {name: activation.value for name, activation in recording.activations.items()}
    last = _streams(model.sublayers, value)[-1][2]
    last = model.last_norm(model.answering(last))
    for head in heads:
        with suppress(AttributeError, TypeError, IndexError, RuntimeError):  # a different head
            logits = head(last)
            if logits.shape == output.shape and is_close(model, logits, output):
                return head
    return None
