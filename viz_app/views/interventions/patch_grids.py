"""The cells of a run that the section Patch can take, and how far its edits move them."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from models import Scope
from models.trace import Trace
from viz_app.views.interventions import patch_text as say


@dataclass(frozen=True)
class Grid:
    """Cells of one stream, a row for each layer from the input on.

    `is_layered` is False for a model without layers, whose rows are its intermediates.
    """

    key: str
    title: str
    stream: str
    names: tuple[str, ...]
    labels: tuple[str, ...]
    is_layered: bool = True


def grids(scope: Scope, trace: Trace, part: str) -> list[Grid]:
    """Return the streams whose cells can be taken, with their rows.

    A row is the residual stream, or the feed-forward output, of a layer.
    """
    by_row: dict[str, list] = {}
    for one in scope.model.sublayers:
        by_row.setdefault(one.row, []).append(one)
    grids = []
    for key, several in by_row.items():
        rows: dict[str, str] = {}
        if part == say.FEED_FORWARD_PART:
            rows = {s.out: _layer(s.layer) for s in several if s.role == "feed-forward"}
        else:
            if several[0].before:
                rows[several[0].before] = say.INPUT
            last = {s.layer: s for s in several}
            rows |= {s.after: _layer(s.layer) for s in last.values()}
        rows = {name: label for name, label in rows.items() if name in trace.activations}
        if rows:
            title = say.stream_title(several[0].stack, several[0].states)
            grids.append(Grid(key, title, several[0].stream, (*rows,), (*rows.values(),)))
    if by_row or part == say.FEED_FORWARD_PART:
        return grids
    return _without_layers(trace)


def has_stream(scope: Scope) -> bool:
    """Return True if the layers of the model add to a residual stream."""
    return any(sublayer.adds for sublayer in scope.model.sublayers)


def has_states(scope: Scope) -> bool:
    """Return True if the cells together hold all that the model passes on.

    For a model whose layers are not known, only the outputs of attentions are cells.
    """
    return bool(scope.model.sublayers) or scope.model.is_recurrent


def _layer(number: int | None) -> str:
    return say.LAST if number is None else say.layer_row_label(number)


def _without_layers(trace: Trace) -> list[Grid]:
    """Return the intermediates of a model without layers of sublayers, by stream.

    Position vectors are left out: both runs have the same.
    """
    by_stream: dict[str, dict[str, str]] = {}
    for name, activation in trace.activations.items():
        stream = activation.axes[1]
        is_state = activation.axes[-1] != "vocab" and name.rpartition(".")[2] != "position"
        if stream in trace.streams and is_state:
            site = trace.attention.get(name.rpartition(".")[0])
            label = say.recurrent_label(name) if site is None else _layer(site.layer)
            by_stream.setdefault(stream, {})[name] = label
    return [
        Grid(
            stream,
            say.stream_title(_stack(trace, next(iter(rows)))),
            stream,
            (*rows,),
            (*rows.values(),),
            is_layered=False,
        )
        for stream, rows in by_stream.items()
    ]


def _stack(trace: Trace, name: str) -> str:
    """Return the stack of an intermediate: that of its attention, or the first part of its name."""
    site = trace.attention.get(name.rpartition(".")[0])
    return name.partition(".")[0] if site is None else site.stack


def cell_changes(edited: Trace, base: Trace, grid: Grid) -> Float[Tensor, "layer position"]:
    """Return (layer, position): how far the edits moved each cell, as a share of its length."""
    rows = []
    for name in grid.names:
        before, after = (trace.activations[name].value[0].float() for trace in (base, edited))
        rows.append((after - before).norm(dim=-1) / before.norm(dim=-1).clamp(min=1e-12))
    return torch.stack(rows)
