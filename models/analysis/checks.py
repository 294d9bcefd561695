"""Checks that must hold if an attention site's picture is true; shown beside it with values."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis import slices
from models.trace import AttentionSite

# relative limit; in float32, sums over hundreds of keys in another order differ by some 1e-6
ROUNDING = 1e-5
HALF_PRECISION = torch.bfloat16, torch.float16
# limit in float32 roundings between two routes to one score, each a sum of d_head products
SCORE_ULPS = 4


@dataclass(frozen=True)
class Check:
    """A claim, the value measured, and the limit it must not exceed."""

    name: str
    value: float
    limit: float
    sentence: str

    @property
    def passed(self) -> bool:
        return self.value <= self.limit  # NaN fails


def check_site(site: AttentionSite, batch: int = 0) -> list[Check]:
    """Check that rows sum to 1, blocked cells are exactly 0, and weights·v is the kernel's output.

    The weights of a long text are computed head by head and some rows at a time, never all at once.
    """
    blocked = 0.0
    sums: list[Tensor] = []
    n_blocked = 0
    site = site.read("q", "k", "v")
    used = _Used(site, batch)
    for head, rows in _parts(site):
        weights, allowed = (
            site.weights(head, batch, rows),
            site.allowed(batch, head, rows),
        )  # (*head, query, key)
        if site.has_causes:
            used.add(weights, head, rows)
        n_open = allowed.sum(-1)
        n_blocked += allowed.numel() - int(n_open.sum())
        sums.append(weights.sum(-1)[n_open > 0])
        blocked = _larger(blocked, weights.masked_fill(allowed, 0.0))
    everywhere = "Each row of weights sums to 1; largest difference over all heads"
    return [
        check_sums("rows sum to {}", torch.cat(sums), everywhere, site.dtype, site.has_causes),
        Check(
            "blocked cells are 0",
            blocked,
            0.0,
            f"Largest weight on the {n_blocked} blocked cells of all heads",
        ),
        *([used.check()] if site.has_causes else []),
    ]


def check_sums(
    name: str, sums: Float[Tensor, "row"], sentence: str, dtype: torch.dtype, has_causes: bool
) -> Check:
    """Check that rows of weights sum to 1; `name` holds {} for that number.

    Finished weights from a library, which have no causes, are rounded to their dtype and may leave
    a part of a row to a sink. Then no row may sum to more than 1, and the sentence reports the
    smallest sum.
    """
    limit = 1e-5 if has_causes else rounding_in(dtype)
    least = float(sums.min()) if sums.numel() else 1.0
    if has_causes or not least < 1 - limit:
        return Check(name.format("1"), _larger(0.0, sums - 1), limit, sentence)
    sink = f"Their library leaves a part of some rows to no token; the smallest row sums to {least:.3f}"
    return Check(name.format("at most 1"), _larger(0.0, (sums - 1).clamp(min=0)), limit, sink)


def check_used(
    site: AttentionSite,
    batch: int = 0,
    weights: Float[Tensor, "head query key"] | None = None,
) -> Check:
    """Check that weights·v is what the fused kernel returned, in the cell closest to failing.

    The limit is ROUNDING times the largest |v|, or 1 if that is larger. A row beyond it may still
    be right if its scores are large, because float32 rounds them: the limit of that row alone is
    then wider by `room_of_scores`. `weights` are those of the site, if already computed.
    """
    site = site.read("q", "k", "v")
    used = _Used(site, batch)
    if weights is not None:
        used.add(weights, None, slice(0, site.n_query))
        return used.check()
    for head, rows in _parts(site):
        used.add(site.weights(head, batch, rows), head, rows)
    return used.check()


class _Used:
    """The cell of weights·v closest to failing, found part by part."""

    def __init__(self, site: AttentionSite, batch: int) -> None:
        self.site, self.batch = site, batch
        self.limit = (
            rounding_in(site.dtype) * max(1.0, float(site.v[batch].abs().max()))
            if site.has_causes
            else 0.0
        )
        self.worst, self.allowed = 0.0, self.limit

    def add(self, weights: Tensor, head: int | None, rows: slice) -> None:
        """Add the weights of one head (None: of all heads) and some rows."""
        out = self.site.out[self.batch] if head is None else self.site.out[self.batch, head]
        head_out = self.site.mixed(weights, head, self.batch, rows)
        apart = (head_out - out[..., rows, :]).abs()  # (*head, query, d_head)
        largest = float(apart.max())
        if largest <= self.limit:  # not if it is NaN
            if largest / self.limit > self.worst / self.allowed:
                self.worst, self.allowed = largest, self.limit
            return
        over = ~(apart <= self.limit).all(-1)
        # float64, because float32 would round the limit itself
        limits = torch.full_like(apart, self.limit, dtype=torch.float64)
        limits[over] += room_of_scores(self.site, head, self.batch, rows)[over]
        ratio = apart / limits
        nearest = int(ratio.argmax())  # NaN is the largest of all
        if not float(ratio.flatten()[nearest]) <= self.worst / self.allowed:
            self.worst, self.allowed = (
                float(apart.flatten()[nearest]),
                float(limits.flatten()[nearest]),
            )

    def check(self) -> Check:
        sentence = "Largest difference from the model's own output"
        if self.allowed > self.limit:
            sentence += (
                "; its scores are so large that float32 rounds them by more than the softmax tolerates, so the limit is "
                "wider"
            )
        return Check("weights · v is what the model used", self.worst, self.allowed, sentence)


def rounding_in(dtype: torch.dtype) -> float:
    """Return the relative difference allowed to a model that runs in this dtype.

    It is ROUNDING in float32, and in float64, whose numbers a run keeps in float32. In half
    precision kernels sum in float32, and the weights and the sum are rounded once each.
    """
    return 4 * torch.finfo(dtype).eps if dtype in HALF_PRECISION else ROUNDING


def room_of_scores(
    site: AttentionSite, head: int | None = None, batch: int = 0, rows: slice | None = None
) -> Float[Tensor, "*head query d_head"]:
    """Return the possible error of weights·v from scores known only to δ = SCORE_ULPS·ε·|s|.

    ε is float32's spacing at 1. If every score of a row moves by at most δ, a weight w becomes at
    most e^(2δ)·w, and since the weights still sum to 1 their mixture o moves by at most (e^(2δ) −
    1)·Σ w |v − o|, which is no more than (e^(2δ) − 1)·√(Σ w v² − o²).
    """
    allowed = site.allowed(batch, head, rows)
    size = (
        site.scores(head, batch, rows)
        .abs()
        .masked_fill(~allowed, 0.0)
        .amax(-1, keepdim=True)
        .double()
    )
    weights, v = site.weights(head, batch, rows).double(), _values(site, head, batch).double()
    spread = (weights @ v**2 - (weights @ v) ** 2).clamp(min=0).sqrt()
    return (torch.expm1(2 * SCORE_ULPS * torch.finfo(torch.float32).eps * size) * spread).float()


def _values(site: AttentionSite, head: int | None, batch: int) -> Float[Tensor, "*head key d_head"]:
    group = site.n_heads // site.v.shape[1]
    return (
        site.v[batch].repeat_interleave(group, dim=0)
        if head is None
        else site.v[batch, head // group]
    )


def _parts(site: AttentionSite) -> Iterator[tuple[int | None, slice]]:
    """Yield (head, or None for all; rows): the whole site, or at most WEIGHTS_PER_SLICE weights."""
    if site.n_heads * site.n_query * site.n_key <= slices.WEIGHTS_PER_SLICE:
        yield None, slice(0, site.n_query)
        return
    yield from ((head, rows) for head in range(site.n_heads) for rows in slices.row_slices(site))


def _larger(so_far: float, values: torch.Tensor) -> float:
    """Return the largest absolute value so far; NaN once there was one."""
    largest = float(values.abs().max()) if values.numel() else 0.0
    return so_far if largest <= so_far else largest if so_far == so_far else so_far
