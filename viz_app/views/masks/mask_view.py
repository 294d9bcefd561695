"""One text before and after its masks are changed: kinds, labels, mask layers, and checks."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.analysis.checks import Check
from models.analysis.output_comparison import compare_outputs
from models.layers.masks import MaskLayer, SiteKind
from models.runs.masked_comparison import MaskedRun
from models.trace import AttentionSite, Trace
from models.trace.edits import Edits, mask_change
from models.trace.outputs import NextToken, TokenInOrder
from viz_app import words
from viz_app.drawing.cells import Tile
from viz_app.drawing.labels import Label, axes_labels, labels, special_label, written_labels
from viz_app.drawing.notes import first_output
from viz_app.drawing.pooling import slabs
from viz_app.drawing.sites import by_kind


@dataclass(frozen=True)
class MaskView:
    """The drawn state: a text before and after the changes, the painted kind, and one head.

    For a long text it is the part around `tile`, or with None all of it in blocks.
    """

    before: MaskedRun
    after: MaskedRun
    changes: Edits
    kind: str
    site: str
    head: int
    terms: words.Terms
    tile: Tile = None

    @property
    def sites(self) -> tuple[AttentionSite, AttentionSite]:
        """The chosen site before and after."""
        return self.before.trace.attention[self.site], self.after.trace.attention[self.site]

    @property
    def title(self) -> str:
        return words.head_title(self.sites[1], self.head, self.terms)

    def site_of(self, run: MaskedRun, kind: str) -> AttentionSite:
        """Return the site whose mask is drawn for this kind: the chosen one or its neighbour."""
        return site_of(run.trace, kind, run.trace.attention[self.site])

    def head_of(self, site: AttentionSite) -> int:
        """Return the head whose mask is drawn: the chosen one, or the last of a site with fewer."""
        return min(self.head, site.n_heads - 1)

    def mask_note(self, kind: str) -> str:
        """Return "layer 2, head 3" if masks of this kind differ by both; "" if all are the same."""
        site = self.site_of(self.before, kind)
        by_layer = len(distinct_masks(self.before.trace, kind)) > 1
        notes = [f"layer {site.layer + 1}"] * by_layer
        return ", ".join(notes + [f"head {self.head_of(site) + 1}"] * differs_by_head(site))


def site_of(trace: Trace, kind: str, chosen: AttentionSite) -> AttentionSite:
    """Return the chosen site if it is of this kind, else that kind's site in the nearest layer."""
    if chosen.kind == kind:
        return chosen
    sites = [site for site in trace.attention.values() if site.kind == kind]
    return min(sites, key=lambda site: abs(site.layer - chosen.layer))


def distinct_masks(trace: Trace, kind: str) -> list[AttentionSite]:
    """Return the first site of each different mask of this kind."""
    distinct: list[AttentionSite] = []
    for _, sites in (entry for entry in by_kind(trace) if entry[0] == kind):
        for site in sites:
            if not any(_same_mask(site, other) for other in distinct):
                distinct.append(site)
    return distinct


def _same_mask(first: AttentionSite, second: AttentionSite) -> bool:
    """Compare two masks layer by layer, their reasons included."""
    if first.mask is second.mask:
        return True
    pairs = list(zip(first.mask.layers, second.mask.layers, strict=False))
    return len(first.mask.layers) == len(second.mask.layers) and all(
        a.name == b.name and (a.allowed is b.allowed or torch.equal(a.allowed, b.allowed))
        for a, b in pairs
    )


def differs_by_head(site: AttentionSite) -> bool:
    """Return True if heads of a site have different masks."""
    masks = (layer.allowed for layer in site.mask.layers)
    return any(bool((allowed != allowed[:, :1]).any()) for allowed in masks)


def is_written(trace: Trace, site: AttentionSite) -> bool:
    """Return True if the model predicts the next token of the stream that the queries are on."""
    outputs = (output for output in trace.outputs.values() if isinstance(output, NextToken))
    return any(output.stream == site.query_stream for output in outputs)


def own_layers(trace: Trace, kind: str) -> list[str]:
    """Return the names of the mask layers of this kind in any of its sites, each once."""
    sites = [site for site in trace.attention.values() if site.kind == kind]
    return list(dict.fromkeys(layer.name for site in sites for layer in site.mask.layers))


def kind_names(trace: Trace) -> dict[SiteKind, str]:
    """Return the kinds of attention with their short names."""
    return {sites[0].site_kind: words.kind_short(sites[0]) for _, sites in by_kind(trace)}


@dataclass(frozen=True)
class LogProbChange:
    """Log-probabilities of both runs in nats; `what` names them, with a label for each row."""

    what: str
    labels: list[Label]
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def sums(self) -> tuple[float, float]:
        return sum(self.before), sum(self.after)


def log_prob_change(view: MaskView) -> LogProbChange:
    """Return the log-probabilities that the change affects.

    They are those of the given text's tokens if the model predicts next tokens or tokens in an
    order, else of hidden tokens, or of the class or answer that was most probable before.
    """
    before, after = view.before, view.after
    if isinstance(first_output(before.trace), NextToken):
        output = after.trace.next_token
        row = after.trace.streams[output.stream]
        return LogProbChange(
            output.stream, written_labels(row, output.is_closed), before.log_probs, after.log_probs
        )
    if isinstance(in_order := first_output(before.trace), TokenInOrder):
        name = next(name for name, output in before.trace.outputs.items() if output is in_order)
        both = (_log_probs_in_order(run.trace.outputs[name]) for run in (before, after))
        return LogProbChange(in_order.stream, labels(after.trace.streams[in_order.stream]), *both)
    comparison = compare_outputs(before.trace, after.trace)
    notes = ["the model's own best guess before" * is_guess for is_guess in comparison.guessed]
    names = [Label(name, note) for name, note in zip(comparison.names, notes, strict=True)]
    return LogProbChange(comparison.what, names, comparison.before, comparison.after)


def _log_probs_in_order(output: TokenInOrder) -> tuple[float, ...]:
    """Return the log-probability of each token given those before it in the order."""
    return tuple(output.log_probs[range(len(output.labels)), list(output.labels)].tolist())


def axis_labels(trace: Trace, site: AttentionSite) -> tuple[list[Label], list[Label]]:
    """Return the labels of the query and the key axis, padding included."""
    query, key = axes_labels(trace, site)
    return _padded(query, site.query_tokens), _padded(key, site.key_tokens)


def stream_labels(trace: Trace) -> dict[str, list[Label]]:
    """Return the labels of each stream that attention reads, padding included."""
    rows: dict[str, Sequence[str]] = {}
    for site in trace.attention.values():
        rows |= {site.query_stream: site.query_tokens, site.key_stream: site.key_tokens}
    return {name: _padded(labels(trace.streams[name]), tokens) for name, tokens in rows.items()}


def _padded(row: list[Label], tokens: Sequence[str]) -> list[Label]:
    return row + [special_label(token) for token in tokens[len(row) :]]


def layer_matrix(
    layer: MaskLayer, n_query: int, n_key: int, batch: int = 0, head: int = 0
) -> Tensor:
    """Return one layer as a full (query, key) matrix of one head; True = may attend."""
    n_batch, n_heads = layer.allowed.shape[:2]
    allowed = layer.allowed[min(batch, n_batch - 1), min(head, n_heads - 1)]
    return allowed.expand(n_query, n_key)


def additive_mask(allowed: Tensor) -> Tensor:
    """Return the additive form of a mask: 0 where it allows, −∞ where it blocks."""
    return torch.zeros(allowed.shape).masked_fill(~allowed, -torch.inf)


def mask_checks(view: MaskView) -> list[Check]:
    """Return the checks of the drawn masks, over every layer and head of the changed run."""
    differing, largest = 0, 0.0
    for site in view.after.trace.attention.values():
        for rows in slabs(site):
            allowed = site.allowed(rows=rows)
            union = torch.ones_like(allowed)
            for layer in site.mask.layers:
                union = union & layer_matrix(layer, site.n_query, site.n_key)[rows]
            differing += int((union != allowed).sum())
        largest = max(largest, _largest(site, mask_change(view.changes, site.kind).block))
    return [
        Check(
            "the mask is all its layers together",
            float(differing),
            0.0,
            "Cells that differ from the AND of the layers",
        ),
        Check(
            "forbidden cells are 0",
            largest,
            0.0,
            "Largest weight on a cell you blocked, over all layers and heads",
        ),
    ]


def _largest(site: AttentionSite, cells: Sequence[tuple[int, int]]) -> float:
    """Return the largest weight of any head on these cells; 0 without cells."""
    largest = 0.0
    for rows in slabs(site, heads=site.n_heads):
        inside = [
            (q - rows.start, k) for q, k in cells if rows.start <= q < rows.stop and k < site.n_key
        ]
        if inside:
            queries, keys = zip(*inside, strict=True)
            largest = max(largest, float(site.weights(rows=rows)[:, queries, keys].max()))
    return largest
