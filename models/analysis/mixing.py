"""Mixing of tokens into each other: attention rollout, attention flow and value zeroing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import networkx as nx
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from models.architectures import Model
from models.tokenizers.base import Encoding
from models.trace import Trace
from models.trace.edits import Edit, Where, ZeroValue


@runtime_checkable
class TraceRunner(Protocol):
    """A runner of batches that records all intermediates, such as a Scope."""

    model: Model

    def run_batch(
        self,
        requests: Sequence[Sequence[str | Encoding | Sequence[int] | None]],
        *,
        edits: Sequence[Edit] = (),
    ) -> list[Trace]: ...


def rollout(trace: Trace, kind: str) -> Float[Tensor, "layer query key"]:
    """Return Π (½·Ā + ½·I) up to each layer of a self-attention (Abnar and Zuidema 2020, eq. 1).

    Ā is the mean over heads, ½·I stands for the residual stream. Rows sum to 1.

    Raises:
        ValueError: the run has no self-attention of this kind.
    """
    steps = _mixing(trace, kind)
    total = torch.eye(steps.shape[1])
    layers = []
    for step in steps:
        total = step @ total
        layers.append(total)
    return torch.stack(layers)


def flow(
    trace: Trace, kind: str, queries: Sequence[int] | None = None
) -> Float[Tensor, "query key"]:
    """Return the maximum flow from the last layer to each input token (Abnar and Zuidema 2020, §3).

    The edges between two layers have the capacities ½·Ā + ½·I of the rollout. A flow takes the
    narrowest edge of each path, where the rollout multiplies them. `queries` are those asked for,
    all by default; each takes a maximum flow for every key.

    Raises:
        ValueError: the run has no self-attention of this kind.
    """
    steps = _mixing(trace, kind).double()
    n_layers, n, _ = steps.shape
    graph = nx.DiGraph()
    graph.add_nodes_from((layer, i) for layer in range(n_layers + 1) for i in range(n))
    for layer, step in enumerate(steps.tolist()):
        for i, row in enumerate(step):
            edges = ((j, w) for j, w in enumerate(row) if w > 0)
            graph.add_edges_from(((layer + 1, i), (layer, j), {"capacity": w}) for j, w in edges)
    rows = range(n) if queries is None else queries
    return torch.tensor(
        [[nx.maximum_flow_value(graph, (n_layers, i), (0, j)) for j in range(n)] for i in rows]
    )


def _mixing(trace: Trace, kind: str) -> Float[Tensor, "layer query key"]:
    """Return ½·Ā + ½·I of each layer, from the first.

    Raises:
        ValueError: the run has no self-attention of this kind.
    """
    sites = [
        site
        for site in trace.attention.values()
        if site.kind == kind and site.query_stream == site.key_stream
    ]
    if not sites:
        raise ValueError(f"this run has no self-attention of kind {kind!r}")
    residual = 0.5 * torch.eye(sites[0].n_query)
    return torch.stack(
        [
            0.5 * torch.stack([site.weights(head) for head in range(site.n_heads)]).mean(0)
            + residual
            for site in sorted(sites, key=lambda site: site.layer)
        ]
    )


def value_zeroing(scope: TraceRunner, trace: Trace, site_name: str) -> Float[Tensor, "query key"]:
    """Return 1 − cos(x_i, x_i without the value of token j) (Mohebbi et al. 2023, eq. 5).

    x is the residual stream after the layer of this attention. All tokens are left out in one
    batch, one a row.

    Raises:
        ValueError: no layer of the model is known to hold this attention.
    """
    site, model = trace.attention[site_name], scope.model
    attention = next((part for part in model.sublayers if part.path == site_name), None)
    if attention is None:
        raise ValueError(f"the layer of {site_name} is not known")
    after = [
        part.after
        for part in model.sublayers
        if part.layer == attention.layer
        and part.stack == attention.stack
        and part.row == attention.row
        and part.after
    ][-1]
    keys = range(site.n_key)
    zeroed = [ZeroValue(Where(site=site_name, rows=(key,)), token=key) for key in keys]
    values = _values(trace.streams, model)
    traces = scope.run_batch([values] * len(keys), edits=[*trace.edits, *zeroed])
    unedited = trace.activations[after].value[0]
    apart = [
        1 - F.cosine_similarity(unedited, t.activations[after].value[0], dim=-1) for t in traces
    ]
    return torch.stack(apart, dim=1)


def _values(
    streams: Mapping[str, Encoding], model: Model
) -> tuple[str | Encoding | Sequence[int] | None, ...]:
    """Return what the run read: each stream in its first field."""
    first = {field.stream: field.name for field in reversed(model.fields)}
    return tuple(
        streams.get(field.stream) if first[field.stream] == field.name else None
        for field in model.fields
    )
