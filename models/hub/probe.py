"""What a short run of somebody else's model shows of it, where nothing that it declares says so."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from models.analysis.checks import rounding_in
from models.errors import CheckpointError
from models.hub.anatomy import Anatomy
from models.hub.answer_heads import Head
from models.hub.choosers import MaskedPair
from models.hub.config import HubConfig
from models.hub.labellers import Discriminator
from models.hub.model import HubModel
from models.hub.places import Places
from models.hub.projections import same_memory
from models.hub.readers import HeadReader, MaskedLM
from models.hub.refusals import why_nothing_is_shown
from models.hub.rotary import Rotary
from models.hub.watch import watching
from models.hub.writing_probe import short_text
from models.layers.rotation import Rotation
from models.trace import Recording, record

PLACES = (
    0,
    1,
    2,
    3,
    5,
    11,
    23,
    47,
)  # positions that a token is asked at, of those that the model has


@torch.no_grad()
def looks_ahead(model: HubModel) -> bool:
    """Return True if in a short run any token reads one that stands after it."""
    with record() as recording:
        model(*model.repeated(short_text(model.module, model.config)))
    return any(bool(site.weights().triu(1).any()) for site in recording.attention.values())


@torch.no_grad()
def pretrained_kind(module: nn.Module, sizes: HubConfig) -> type[HubModel]:
    """Return what a model that was pretrained answers: masks and a pair of texts, one logit a token, or masks alone."""
    output = module(input_ids=short_text(module, sizes))
    if hasattr(output, "prediction_logits"):
        return MaskedPair
    return Discriminator if output.logits.dim() == 2 else MaskedLM


def answering_position(module: nn.Module, sizes: HubConfig, choices: bool = False) -> int:
    """Find by the gradient which token's last vector is read: 0 for the first, −1 for the last. A model that compares `choices`
    takes an axis of them."""
    ids = short_text(module, sizes)
    with torch.enable_grad():
        output = module(input_ids=ids[:, None] if choices else ids, output_hidden_states=True)
        last = output.hidden_states[-1]
        gradient = torch.autograd.grad(output.logits.float().sum(), last, allow_unused=True)[0]
    reads = (
        []
        if gradient is None
        else gradient.reshape(*ids.shape, -1)[0].abs().sum(-1).nonzero().flatten().tolist()
    )
    return -1 if reads == [ids.shape[1] - 1] else 0


@torch.no_grad()
def check_recorded(model: HubModel) -> None:
    """Raise CheckpointError if short runs show no attention or an answer that is not finite.

    Weights that fit the tokens at one length only are as wide as a window or a block; the model then never shows them."""
    short, longer = (_recorded(model, short_text(model.module, model.config, n)) for n in (3, 5))
    reasons = short.unrecorded | longer.unrecorded
    model.misfits = {
        name: reasons[name] for name in short.attention.keys() ^ longer.attention.keys()
    }
    if not short.attention.keys() & longer.attention.keys():
        reason = next(iter(reasons.values()), "")
        raise CheckpointError(
            f"its attention cannot be shown: {reason}"
            if reason
            else why_nothing_is_shown(model.module)
        )


def _recorded(model: HubModel, ids: Tensor) -> Recording:
    with record() as recording:
        output = model(*model.repeated(ids))
    if not all(bool(answer.isfinite().all()) for answer in _tensors(output)):
        raise CheckpointError("with these weights the model's answer is not a number")
    return recording


@torch.no_grad()
def check_two_steps(model: HubModel) -> None:
    """Raise CheckpointError if asking the encoder, then the decoder, gives other logits than one call of the module."""
    if not model.translates:
        return
    ids = short_text(model.module, model.config, 7)
    one_call = model.module(input_ids=ids, decoder_input_ids=ids, use_cache=False).logits
    if not _close(model, model(ids, ids), one_call):
        raise CheckpointError(
            "its decoder gives other logits from a finished encoding than in one call with its encoder"
        )


class PositionTable(nn.Module):
    """The vectors of places that a model was seen to look up, from the first place of a text on."""

    def __init__(self, table: Tensor, is_learned: bool) -> None:
        super().__init__()
        self.table, self.is_learned = table, is_learned


@torch.no_grad()
def position_table(model: HubModel) -> PositionTable | None:
    """None where the model looks up none, as one that turns its queries and keys by their places."""
    ids = short_text(model.module, model.config)
    given = model.kinds[0]
    places = Places(lambda frame: given, ids.shape[1], token_table=model.token_table)
    with record(), watching(places) as forward_pass:
        model.reader(input_ids=ids)
    if (table := forward_pass.position_table) is None:
        return None
    learned = any(p.requires_grad and same_memory(p, table) for p in model.module.parameters())
    return PositionTable(table[: model.config.n_ctx], learned)


@torch.no_grad()
def rotary(model: HubModel, paths: Sequence[str]) -> Rotary | None:
    """The module at the first of these paths that is there, if a short run bears it out; else None.

    One token alone reads itself only, so that at every position each layer makes the same W·x of it. What is recorded at the other
    positions must be what is recorded at the first, turned."""
    there = dict(model.module.named_modules())
    found = next((Rotary(there[path]) for path in paths if path in there), None)
    positions = torch.tensor([p for p in PLACES if p < model.config.n_ctx])
    rotation = found and found.rotation(int(positions[-1]) + 1)
    if rotation is None or len(positions) < 2:
        return None
    known = [
        i
        for i in range(model.config.vocab_size)
        if i not in (model.config.fill_id, model.config.end_id)
    ]
    ids = torch.full((len(positions), 1), known[0], device=model.device)
    with record() as recording, watching(model.places(ids)):
        model.module.base_model(
            input_ids=ids, position_ids=positions.to(model.device)[:, None], use_cache=False
        )
    rows = [t for site in recording.attention.values() if site.has_causes for t in (site.q, site.k)]
    if len(rows) < 2 * model.config.n_layers or any(
        t.shape[-1] < 2 * rotation.n_pairs for t in rows
    ):
        return None
    miss = max(_miss(rotation, t.float().cpu().transpose(0, 2)[0], positions) for t in rows)
    return Rotary(found.module, miss) if miss <= rounding_in(model.module.dtype) else None


def _miss(rotation: Rotation, recorded: Tensor, positions: Tensor) -> float:
    """Of q or k recorded of one token, (head, position, d_head)."""
    first = rotation.unrotate(recorded[:, :1], positions[:1])
    expected = rotation.rotate(first.expand_as(recorded), positions)
    return float((expected - recorded).abs().max()) / max(1.0, float(recorded.abs().max()))


@torch.no_grad()
def lay_open(model: HubModel, anatomies: Sequence[Anatomy]) -> None:
    """Of the ways in which the model's layers may stand, the first that a short run bears out; of none nothing is recorded."""
    for anatomy in anatomies:
        model.lay_open(anatomy)
        if _adds_up(model):
            if isinstance(model, HeadReader):
                model.head = _head(model)
            return
    model.lay_open(None)


def _adds_up(model: HubModel) -> bool:
    """Return True if each part of each layer takes and gives what its sublayer says, and what is read out of the last is the answer."""
    with record() as recording:
        output = model(*model.repeated(short_text(model.module, model.config)))
    held = recording.activations
    pairs: list[tuple[Tensor, Tensor]] = []
    last: Tensor | None = None
    for part in model.sublayers:
        if not {part.out, *filter(None, (part.before, part.after, part.normed))} <= set(held):
            return False
        before = held[part.before].value if part.before else last
        total = before + held[part.out].value
        if part.norm == "pre":
            pairs.append(
                (
                    part.layer_norm(held[part.reads].value if part.reads else before),
                    held[part.normed].value,
                )
            )
        last = held[part.after].value if part.after else total
        pairs.append((part.layer_norm(total) if part.norm == "post" else total, last))
    if model.can_write:
        try:
            pairs.append((model.readout(last), output))
        except RuntimeError:  # a product of other sizes lies between
            return False
    return all(_close(model, *pair) for pair in pairs)


def _head(model: HeadReader) -> Head | None:
    """Return the first way from the last states to the answer that makes the run's own logits; None if none does."""
    with record() as recording:
        output = model(*model.repeated(short_text(model.module, model.config)))[model.output_name]
    held, last = recording.activations, torch.empty(0)
    for part in model.sublayers:
        before = held[part.before].value if part.before else last
        last = held[part.after].value if part.after else before + held[part.out].value
    last = model.last_norm(model.answering(last))
    for head in model.possible_heads():
        with suppress(
            AttributeError, TypeError, IndexError, RuntimeError
        ):  # a head of another kind
            found = head(last)
            if found.shape == output.shape and _close(model, found, output):
                return head
    return None


def _close(model: HubModel, one: Tensor, other: Tensor) -> bool:
    return float((one - other).abs().max()) <= rounding_in(model.module.dtype) * max(
        1.0, float(other.abs().max())
    )


def _tensors(output: Any) -> list[Tensor]:
    return [output] if isinstance(output, Tensor) else list(output.values())
