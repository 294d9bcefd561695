"""Measure how a third-party model knows the order of its tokens.

It may have a rotary module or look up a table of positions; otherwise a run of equal tokens shows
it. In a model that does not distinguish positions, each has the same vector, query, key and value,
and equal weights on the keys that it may read.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from models.analysis.checks import rounding_in
from models.architectures.base import BY_MASK, BY_ROTATION, BY_SCORES, BY_VECTORS, UNSEEN
from models.hub.model import HubModel
from models.hub.probe import short_text
from models.hub.recording.context import PassContext
from models.hub.recording.projections import same_memory
from models.hub.recording.watch import watching
from models.layers.rotation import Rotation
from models.trace import AttentionSite, record


@dataclass(frozen=True)
class Rotary:
    """The module that computes cos and sin; `miss` is its largest error in a short run."""

    module: nn.Module
    miss: float = 0.0

    @torch.no_grad()
    def rotation(self, n: int) -> Rotation | None:
        """Return the rotation at positions 0…n−1 of a text of n tokens.

        None if the module does not make pairs (i, i + n_pairs). A copy of it is called, because
        with some scalings the module stores the length of its last text.
        """
        module = deepcopy(self.module)
        device = next((b.device for b in module.buffers()), torch.device("cpu"))
        try:
            tables = module(torch.zeros(1, device=device), torch.arange(n, device=device)[None])
        except (
            AttributeError,
            KeyError,
            RuntimeError,
            TypeError,
            ValueError,
        ):  # it takes other arguments
            return None
        if not (
            isinstance(tables, tuple) and len(tables) == 2 and all(_is_table(t, n) for t in tables)
        ):
            return None
        halves = [t[0].float().cpu().chunk(2, dim=-1) for t in tables]
        if not all(torch.equal(first, second) for first, second in halves):
            return None
        (cos, _), (sin, _) = halves
        return Rotation(cos, sin, self.miss)


def _is_table(t: object, n: int) -> bool:
    return (
        isinstance(t, Tensor)
        and t.dim() == 3
        and t.shape[:2] == (1, n)
        and t.shape[2] % 2 == 0
        and t.shape[2] > 0
    )


PROBED_POSITIONS = (
    0,
    1,
    2,
    3,
    5,
    11,
    23,
    47,
)  # positions at which a token is read, as far as the model has them
PROBED_LENGTH = 7  # tokens of the row
ALL_TOKENS = slice(None)
_OFF_CIRCLE = 0.01  # error allowed for half-precision numbers


@torch.no_grad()
def find_order_source(model: HubModel) -> str:
    """Return how a model knows the order of its tokens: BY_VECTORS, BY_ROTATION and so on."""
    if model.positions is not None:
        return BY_VECTORS
    config = model.config
    token = next(i for i in range(config.vocab_size) if i not in (config.fill_id, config.end_id))
    ids = torch.full((1, min(PROBED_LENGTH, config.n_ctx)), token, device=model.device)
    return order_source_of_equal_inputs(model, model.repeated(ids))


@torch.no_grad()
def order_source_of_equal_inputs(
    model: HubModel, inputs: Sequence[Shaped[Tensor, "batch ..."]], tokens: slice = ALL_TOKENS
) -> str:
    """Return how a model knows the order of inputs that are all equal, or equal at `tokens`.

    UNSEEN if weights differ and no recorded value shows why, or if an attention is not recorded.
    """
    with record() as recording:
        model(*inputs)
    sites = [s for s in recording.attention.values() if s.kind == model.kinds[0].name]
    tolerance = rounding_in(model.module.dtype)
    for site in sites:  # the first that shows it: later layers read its output
        if site.has_causes and (source := _source_at(site, tokens, tolerance)):
            return source
    if (
        not sites
        or recording.unrecorded
        or any(_is_uneven(site, tokens, tolerance) for site in sites)
    ):
        return UNSEEN
    return BY_MASK


def _source_at(site: AttentionSite, tokens: slice, tolerance: float) -> str:
    """Return how one attention knows the order of equal tokens; empty if it does not."""
    parts = site.q, site.k, site.v
    q_alike, k_alike, v_alike = (_equal(part[:, :, tokens], 2, tolerance) for part in parts)
    if not v_alike and not _equal(site.memory[:, tokens], 1, tolerance):
        return BY_VECTORS
    if not q_alike or not k_alike:  # values may be rotated, too
        return BY_ROTATION
    if not v_alike:
        return UNSEEN
    return BY_SCORES if _varies(site, tokens, tolerance) else ""


def _equal(values: Tensor, axis: int, tolerance: float) -> bool:
    """Return True if values are the same along an axis up to rounding."""
    apart = (values - values.narrow(axis, 0, 1)).abs().max()
    return float(apart) <= 10 * tolerance * max(1.0, float(values.abs().max()))


def _varies(site: AttentionSite, tokens: slice, tolerance: float) -> bool:
    """Return True if a term added to the scores differs from key to key."""
    rows = torch.arange(site.n_query)
    scores = (term.scores(None, rows, site.n_key).float() for term in site.terms)
    return any(not _equal(each[..., tokens], -1, tolerance) for each in scores)


def _is_uneven(site: AttentionSite, tokens: slice, tolerance: float) -> bool:
    """Return True if a query prefers one of the keys that it reads."""
    weights = site.weights().float()[..., tokens]
    most, reads = weights.amax(-1), weights > 0
    least = weights.masked_fill(~reads, torch.inf).amin(-1)
    return bool((most - least > 10 * tolerance).any())


class PositionTable(nn.Module):
    """Position vectors that a model looked up in a run, from the first position of a text."""

    def __init__(self, table: Tensor, is_learned: bool) -> None:
        super().__init__()
        self.table, self.is_learned = table, is_learned


@torch.no_grad()
def position_table(model: HubModel) -> PositionTable | None:
    """Return the table of positions that a model looks up; None if it looks up none."""
    ids = short_text(model.module, model.config)
    return table_looked_up(model, ids.shape[1], model.config.n_ctx, input_ids=ids)


@torch.no_grad()
def table_looked_up(
    model: HubModel, n: int, max_rows: int, **inputs: Tensor
) -> PositionTable | None:
    """Return the table that the model's reader looks up for inputs of n tokens."""
    kind = model.kinds[0]
    context = PassContext(lambda frame: kind, n, token_table=model.token_table)
    with record(), watching(context) as forward_pass:
        model.reader(**inputs)
    if (table := forward_pass.intermediates.position_table) is None:
        return None
    takes_gradients = any(
        p.requires_grad and same_memory(p, table) for p in model.module.parameters()
    )
    return PositionTable(table[:max_rows], takes_gradients and not _is_sinusoidal(table[:max_rows]))


def _is_sinusoidal(table: Float[Tensor, "n d_model"]) -> bool:
    """Return True if every row consists of pairs of a sine and a cosine of the same angle.

    The two are neighbours or half a row apart. After loading, the library lets even such a table
    take gradients.
    """
    if table.shape[1] % 2:
        return False
    squares = table.double().square()
    orders = squares.unflatten(1, (2, -1)).sum(1), squares.unflatten(1, (-1, 2)).sum(2)
    return any(bool(((sums - 1).abs() < _OFF_CIRCLE).all()) for sums in orders)


@torch.no_grad()
def rotary(model: HubModel, paths: Sequence[str]) -> Rotary | None:
    """Return the module at the first of these paths, if a short run confirms it; else None.

    A single token reads only itself, so at every position each layer computes the same W·x of it.
    The q and k recorded at the other positions must be those of the first position, rotated.
    """
    modules = dict(model.module.named_modules())
    candidate = next((Rotary(modules[path]) for path in paths if path in modules), None)
    positions = torch.tensor([p for p in PROBED_POSITIONS if p < model.config.n_ctx])
    rotation = None if candidate is None else candidate.rotation(int(positions[-1]) + 1)
    if candidate is None or rotation is None or len(positions) < 2:
        return None
    tokens = [
        i
        for i in range(model.config.vocab_size)
        if i not in (model.config.fill_id, model.config.end_id)
    ]
    ids = torch.full((len(positions), 1), tokens[0], device=model.device)
    places = {"position_ids": positions.to(model.device)[:, None], "use_cache": False}
    try:
        with record() as recording, watching(model.pass_context(ids)):
            model.module.base_model(input_ids=ids, **places)
    except (RuntimeError, TypeError, ValueError):  # it needs more than a text and its positions
        return None
    rows = [t for site in recording.attention.values() if site.has_causes for t in (site.q, site.k)]
    if len(rows) < 2 * model.config.n_layers or any(
        t.shape[-1] < 2 * rotation.n_pairs for t in rows
    ):
        return None
    miss = max(_miss(rotation, t.float().cpu().transpose(0, 2)[0], positions) for t in rows)
    return Rotary(candidate.module, miss) if miss <= rounding_in(model.module.dtype) else None


def _miss(rotation: Rotation, recorded: Tensor, positions: Tensor) -> float:
    """Return the error of a rotation on q or k of one token, (head, position, d_head)."""
    first = rotation.unrotate(recorded[:, :1], positions[:1])
    expected = rotation.rotate(first.expand_as(recorded), positions)
    return float((expected - recorded).abs().max()) / max(1.0, float(recorded.abs().max()))
