"""What a short run of somebody else's model shows of it, where nothing that it declares says so."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from models.errors import CheckpointError
from models.hub.config import HubConfig
from models.hub.model import HubModel
from models.hub.projections import same_memory
from models.hub.recorder import Places, watching
from models.trace import record

NOTHING = (
    "its attention passes neither scaled_dot_product_attention nor multi_head_attention_forward, and it hands out no weights: "
    "there is nothing that could be shown"
)


def _ids(module: nn.Module, sizes: HubConfig, n: int = 3) -> Tensor:
    """A few tokens that are not the one that fills rows up."""
    some = [i for i in range(min(sizes.vocab_size, n + 3)) if i not in (sizes.fill_id, sizes.end_id)]
    return torch.tensor([(some * n)[:n]], device=next(module.parameters()).device)


@torch.no_grad()
def looks_back_only(module: nn.Module, sizes: HubConfig) -> bool:
    """Whether another last token leaves the logits before it as they are, to the last digit."""
    ids = _ids(module, sizes)
    others = ids.clone()
    others[0, -1] = ids[0, 0]
    before, after = (module(input_ids=row, use_cache=False).logits[0, :-1] for row in (ids, others))
    return torch.equal(before, after)


def answering_position(module: nn.Module, sizes: HubConfig) -> int:
    """Which token's last vector a class is read from: 0 for the first, −1 for the last, by the gradient."""
    ids = _ids(module, sizes)
    with torch.enable_grad():
        made = module(input_ids=ids, output_hidden_states=True)
        last = made.hidden_states[-1]
        gradient = torch.autograd.grad(made.logits.float().sum(), last, allow_unused=True)[0]
    reads = [] if gradient is None else gradient.reshape(*ids.shape, -1)[0].abs().sum(-1).nonzero().flatten().tolist()
    return -1 if reads == [ids.shape[1] - 1] else 0


@torch.no_grad()
def check_recorded(model: HubModel) -> None:
    """Raises CheckpointError if a short run of it shows no attention, or if its answer is no number."""
    ids = _ids(model.module, model.config)
    with record() as recording:
        made = model(*[ids for _ in model.streams])
    if not recording.attention:
        raise CheckpointError(NOTHING)
    for logits in _tensors(made):
        if not bool(logits.isfinite().all()):
            raise CheckpointError("with these weights the model's answer is not a number")


class PositionTable(nn.Module):
    """The vectors of places that a model was seen to look up, from the first place of a text on."""

    def __init__(self, table: Tensor, is_learned: bool) -> None:
        super().__init__()
        self.table, self.is_learned = table, is_learned


@torch.no_grad()
def position_table(model: HubModel) -> PositionTable | None:
    """None where the model looks up none, as one that turns its queries and keys by their places."""
    ids = _ids(model.module, model.config)
    given = model.kinds[0]
    places = Places(lambda frame: given, ids.shape[1], token_table=model.token_table)
    reader = model.module.get_encoder() if len(model.streams) > 1 else model.module
    with record(), watching(places) as seen:
        reader(input_ids=ids)
    if (table := seen.position_table) is None:
        return None
    learned = any(p.requires_grad and same_memory(p, table) for p in model.module.parameters())
    return PositionTable(table[: model.config.n_ctx], learned)


def _tensors(made: Any) -> list[Tensor]:
    return [made] if isinstance(made, Tensor) else list(made.values())
