"""Attribution of an answer to attention weights and heads by gradients, each with its identity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.cells import PositionPairs, aligned_positions
from models.analysis.effects import HeadEffects, Runner, head_effects
from models.analysis.metrics import Metric, logits_of
from models.trace import Trace
from models.trace.edits import Patch
from models.trace.edits.gradients import HeadOutputGradients, WeightGates

N_PATH_STEPS = 48  # of the path of integrated gradients


def attention_gradients(
    scope: Runner, run: Trace, metric: Metric
) -> dict[str, Float[Tensor, "head query key"]]:
    """Return gradient × attention, a(i,j)·∂f/∂a(i,j), of every attention of a run.

    It is signed; Chefer et al. (2021) take the mean over heads of its positive part. `metric` is
    differentiated at the run itself, so its change must not be flat there, as a divergence is.
    """
    gates = _ones(run, list(_with_causes(run)))
    before = logits_of(scope.outputs_batch([run.streams], run.edits)[0])
    edits = (*run.edits, WeightGates(gates=gates))
    outputs = scope.outputs_batch([run.streams], edits, gradients=True)
    change = metric(before, logits_of(outputs[0])).sum()
    grads = torch.autograd.grad(change, list(gates.values()), allow_unused=True)
    return {
        name: torch.zeros_like(gate[0]) if grad is None else grad[0]
        for (name, gate), grad in zip(gates.items(), grads, strict=True)
    }


@dataclass(frozen=True, eq=False)
class IntegratedGradients:
    """Parts of f(run) − f(baseline), by weight; the baseline is the run with these heads at 0.

    `error` is |Σ parts − total| over |total|, which more steps make smaller.
    """

    parts: dict[str, Float[Tensor, "head query key"]]
    total: float

    @property
    def sum(self) -> float:
        return float(torch.stack([part.double().sum() for part in self.parts.values()]).sum())

    @property
    def error(self) -> float:
        return abs(self.sum - self.total) / max(abs(self.total), 1e-12)


def integrated_gradients(
    scope: Runner, run: Trace, metric: Metric, sites: Sequence[str] = (), steps: int = N_PATH_STEPS
) -> IntegratedGradients:
    """Return ∫₀¹ a·∂f(α·a)/∂a dα for each weight of these attentions, by default of all.

    Sundararajan et al. 2017, eq. 1; of attention weights, Hao et al. 2021. All weights of the sites
    grow together from 0, without rescaling rows. The integral is Gauss–Legendre's over √α,
    whose points are rows of one batch: near α = 0 a norm right after the attention makes f steep.
    """
    names = list(sites) or list(_with_causes(run))
    roots, root_shares = _gauss_legendre(steps)
    points, shares = roots.square(), 2 * roots * root_shares  # dα = 2 √α d√α
    gates = {
        name: (ones.expand(steps, -1, -1, -1) * points[:, None, None, None])
        .clone()
        .requires_grad_()
        for name, ones in _ones(run, names).items()
    }
    before = logits_of(scope.outputs_batch([run.streams], run.edits)[0])
    edits = (*run.edits, WeightGates(gates=gates))
    outputs = scope.outputs_batch([run.streams] * steps, edits, gradients=True)
    changes = torch.stack([metric(before, logits_of(one)).sum() for one in outputs])
    grads = torch.autograd.grad((changes * shares).sum(), list(gates.values()), allow_unused=True)
    no_gates = {name: torch.zeros_like(gate[:1]).detach() for name, gate in gates.items()}
    off = scope.outputs_batch([run.streams], (*run.edits, WeightGates(gates=no_gates)))[0]
    parts = {
        name: torch.zeros_like(no_gates[name][0]) if grad is None else grad.sum(0)
        for name, grad in zip(gates, grads, strict=True)
    }
    return IntegratedGradients(parts, -float(metric(before, logits_of(off)).sum()))


@dataclass(frozen=True, eq=False)
class AttributionPatching:
    """The effect of patching each head from another run, estimated by a gradient and exact.

    Both hold layer × head by kind of attention.
    """

    estimated: dict[str, Float[Tensor, "layer head"]]
    exact: dict[str, Float[Tensor, "layer head"]]

    @property
    def pairs(self) -> Float[Tensor, "2 head"]:
        """The estimated and the exact effects of all heads that have both."""
        both = [torch.cat([t.flatten() for t in x.values()]) for x in (self.estimated, self.exact)]
        pairs = torch.stack(both).double()
        return pairs[:, pairs.isfinite().all(0)]

    @property
    def r(self) -> float:
        """Their correlation over all heads (Pearson), NaN for one head or if one never changes."""
        pairs = self.pairs
        return float(torch.corrcoef(pairs)[0, 1]) if pairs.shape[1] > 1 else torch.nan


def attribution_patching(
    scope: Runner, run: Trace, other: Trace, metric: Metric
) -> AttributionPatching:
    """Return the estimated effect of patching each head together with the exact one.

    Raises:
        ValueError: the runs differ in their numbers of tokens.
    """
    exact = head_effects(scope, run, metric, partial(Patch, from_run=other))
    return AttributionPatching(estimated_effects(scope, run, other, exact), exact.values)


def estimated_effects(
    scope: Runner,
    run: Trace,
    other: Trace,
    exact: HeadEffects,
    alignments: Mapping[str, PositionPairs] | None = None,
) -> dict[str, Float[Tensor, "layer head"]]:
    """Return ∂f/∂z·(z_other − z) of each head, laid out as its exact effects (Nanda 2023).

    z is the head output and f what `exact` measures. `alignments` holds the pairs of each stream
    whose token counts differ; positions without a counterpart keep what they have.

    Raises:
        ValueError: the runs have different numbers of tokens there and no alignment is given.
    """
    zeros_edit, change = _with_head_zeros(scope, run, exact.metric)
    # in a recurrent decoder a patch replaces the outputs of all queries: none follows another
    if recurrent := {name for name, parts in zeros_edit.head_zeros.items() if parts.n_steps > 1}:
        zeros_edit, change = _with_head_zeros(scope, run, exact.metric, frozenset(recurrent))
    estimated = {kind: torch.full_like(values, torch.nan) for kind, values in exact.values.items()}
    for kind, paths in exact.sites.items():
        for layer, path in enumerate(paths):
            site, parts = run.attention[path], zeros_edit.head_zeros[path]
            zeros = parts.tensors
            grads = torch.autograd.grad(change, zeros, retain_graph=True, allow_unused=True)
            steps = [z if g is None else g for z, g in zip(zeros, grads, strict=True)]
            gradient = parts.whole(steps)[0].detach().float().cpu()
            pairs = aligned_positions(
                run, other, site.query_stream, (alignments or {}).get(site.query_stream)
            )
            ours, theirs = (list(one) for one in zip(*pairs, strict=True)) if pairs else ([], [])
            moved = other.attention[path].out[0][:, theirs] - site.out[0][:, ours]
            estimated[kind][layer, : len(moved)] = (gradient[:, ours] * moved).sum((-1, -2))
    return estimated


def _with_head_zeros(
    scope: Runner, run: Trace, metric: Metric, held: frozenset[str] = frozenset()
) -> tuple[HeadOutputGradients, Float[Tensor, ""]]:
    """Return the edit whose zeros the metric can be differentiated by, and the metric."""
    zeros_edit = HeadOutputGradients(held=held)
    before = logits_of(scope.outputs_batch([run.streams], run.edits)[0])
    outputs = scope.outputs_batch([run.streams], (*run.edits, zeros_edit), gradients=True)
    return zeros_edit, metric(before, logits_of(outputs[0])).sum()


def _with_causes(run: Trace) -> list[str]:
    return [name for name, site in run.attention.items() if site.has_causes]


def _ones(run: Trace, names: Sequence[str]) -> dict[str, Tensor]:
    sites = {name: run.attention[name] for name in names}
    return {
        name: torch.ones(1, s.n_heads, s.n_query, s.n_key, requires_grad=True)
        for name, s in sites.items()
    }


def _gauss_legendre(steps: int) -> tuple[Float[Tensor, "step"], Float[Tensor, "step"]]:
    """Return points and shares of the integral from 0 to 1 (Golub and Welsch 1969)."""
    n = torch.arange(1, steps, dtype=torch.float64)
    beta = n / (4 * n**2 - 1).sqrt()
    values, vectors = torch.linalg.eigh(torch.diag(beta, 1) + torch.diag(beta, -1))
    return ((values + 1) / 2).float(), (vectors[0] ** 2).float()


def positive_mean(
    gradients: Mapping[str, Float[Tensor, "head query key"]],
) -> dict[str, Float[Tensor, "query key"]]:
    """Return E_h (∇A ⊙ A)⁺ of each attention (Chefer et al. 2021, eq. 5)."""
    return {name: values.clamp(min=0).mean(0) for name, values in gradients.items()}
