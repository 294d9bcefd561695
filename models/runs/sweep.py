"""A sweep over held-out texts: each head off alone, then heads off in order of importance."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from statistics import median_high
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.paired import LEVEL, Interval, bootstrap, holm, sign_flips
from models.checkpoint_files import read_json, write_bytes
from models.number_text import how_many
from models.runs.scope import Scope
from models.runs.survey_parts import are_parts
from models.runs.text_loss import LOSS_UNITS, TextLosses
from models.tokenizers.base import Encoding
from models.trace import Trace
from models.trace.edits import Edit, HeadOff, Where
from models.trace.edits.gradients import HeadOutputGradients

SWEPT_PER_PASS = 32  # texts in one pass
MIN_HALVED_TEXTS = 2  # texts, so that either half has one
SWEPT_SHARES = (
    0.25,
    0.5,
    0.75,
    1.0,
)  # of the heads of a kind that are off, as near as their number allows
CURVE_TEXTS = 100  # of the reported half, for the curves
MAX_SWEEP_BYTES = 2**28  # of a file of losses
UNEDITED = "own"

SiteHead = tuple[str, int]
EncodingByStream = Mapping[str, Encoding]


@dataclass(frozen=True)
class HeadResult:
    """The effect of a head on the loss, in nats per token; positive: the model needs it.

    The interval and p (`sign_flips`) are those of the reported half of the texts. `is_marked` says
    that the effect on the other half is significant after Holm's correction over all heads, and has
    the same sign. `site` is the head's attention, of which a layer may have several; "" in older
    records.
    """

    kind: str
    layer: int
    head: int
    effect: Interval
    p: float
    is_marked: bool
    site: str = ""


def n_off(share: float, n_heads: int) -> int:
    """Return how many of a kind's heads are off at a share of SWEPT_SHARES: at least one."""
    return max(1, round(share * n_heads))


@dataclass(frozen=True)
class SweepResult:
    """The results of a sweep: the effect of each head, largest first, and of heads off together.

    `curves` are by kind and share of heads off, the least important first: the change of the loss
    in nats per token in that order, and the lowest, upper median and highest of `n_orders` random
    orders.
    """

    baseline: str
    n_texts: int
    n_orders: int
    heads: tuple[HeadResult, ...]
    curves: Mapping[str, Mapping[str, tuple[float, float, float, float]]]

    def n_off(self, kind: str, share: str) -> tuple[int, int]:
        """Return how many heads of a kind are off at a share of its curve, and how many it has."""
        n_heads = sum(one.kind == kind for one in self.heads)
        return n_off(float(share), n_heads), n_heads

    @property
    def n_curve_texts(self) -> int:
        """The number of texts that the curves are over, of those that effects are reported on."""
        return min(CURVE_TEXTS, self.n_texts // 2)

    @property
    def can_mark(self) -> bool:
        """True if there are enough texts for a head to be significant among all the others."""
        n_selecting = (self.n_texts + 1) // 2
        return 2.0 ** (1 - n_selecting) <= LEVEL / len(self.heads)

    def record(self) -> dict[str, Any]:
        """Return the results as a training record stores them."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> "SweepResult":
        """Return the results from a training record."""
        heads = (
            HeadResult(**{**one, "effect": Interval(**one["effect"])}) for one in record["heads"]
        )
        curves = {
            kind: {share: tuple(numbers) for share, numbers in curve.items()}
            for kind, curve in record["curves"].items()
        }
        settings = record["baseline"], record["n_texts"], record["n_orders"]
        return cls(*settings, tuple(heads), curves)


@dataclass
class Sweep:
    """A sweep that can be stopped and continued.

    `losses` holds the loss of each text by the heads that are off, and is written to `path`, if
    there is one, after every pass. Even texts select and rank heads, odd ones report their effects.

    Raises:
        ValueError: too few texts have a loss, or the file belongs to another sweep or is damaged.
    """

    scope: Scope
    texts: Sequence[EncodingByStream]
    path: Path | None = None
    baseline: str = "zero"
    n_orders: int = 20
    seed: int = 0
    batch: int = SWEPT_PER_PASS
    losses: dict[str, list[float]] = field(default_factory=dict)
    _example: Trace = field(init=False, repr=False)
    _measure: TextLosses = field(init=False, repr=False)
    _ranked: dict[SiteHead, float] | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        fields = {field.stream for field in self.scope.model.text_fields}
        values = [row for stream, row in self.texts[0].items() if stream in fields]
        self._example = self.scope.run_batch([values])[0]
        self._measure = TextLosses(self.scope, self.texts, self.seed)
        self.texts = self._measure.texts
        if (n := len(self.texts)) < MIN_HALVED_TEXTS:
            raise ValueError(
                f"{how_many(n, 'text')} with a loss, too few: at least {MIN_HALVED_TEXTS} are needed"
            )
        self._continue()

    @property
    def heads(self) -> dict[SiteHead, tuple[str, int]]:
        """Kind and layer of each (site, head)."""
        trace = self._example
        return {
            (site.name, head): (site.kind, site.layer)
            for site in trace.attention.values()
            if site.has_causes
            for head in range(site.n_heads)
        }

    def passes(self) -> Iterator[tuple[str, tuple[Edit, ...], Sequence[EncodingByStream]]]:
        """Yield (name, edits, texts) of every pass, those of the curves after all others."""
        yield UNEDITED, (), self.texts
        for site, head in self.heads:
            yield f"{site} {head}", (self._off(site, head),), self.texts
        reported = self.texts[1::2][:CURVE_TEXTS]
        for kind, orders in self.orders().items():
            for name, order in orders.items():
                for share in SWEPT_SHARES if name == "importance" else SWEPT_SHARES[:-1]:
                    off = order[: n_off(share, len(order))]
                    edits = tuple(self._off(site, head) for site, head in off)
                    yield f"{kind} {name} {share:g}", edits, reported

    @property
    def unit(self) -> str:
        """The unit of the losses."""
        return LOSS_UNITS[self._measure.kind]

    @property
    def n_passes(self) -> int:
        kinds = len({kind for kind, _ in self.heads.values()})
        per_kind = len(SWEPT_SHARES) + self.n_orders * (len(SWEPT_SHARES) - 1)
        return 1 + len(self.heads) + kinds * per_kind

    def run(self, progress: Callable[[int, int], object]) -> None:
        """Make the missing passes, and write the losses after each."""
        n = self.n_passes
        for done in self.steps():
            progress(done, n)

    def steps(self) -> Iterator[int]:
        """Make the missing passes; yield the number of passes done, after each batch."""
        for done, (name, edits, texts) in enumerate(self.passes()):
            if name not in self.losses:
                losses = torch.zeros(len(texts))
                for part in self._batches(texts):
                    losses[part] = self._losses([texts[i] for i in part], edits)
                    yield done
                self.losses[name] = losses.tolist()
                self._write()
            yield done + 1

    def swept(self) -> SweepResult:
        """Return the results, once all passes have been made."""
        return SweepResult(
            self.baseline, len(self.texts), self.n_orders, tuple(self.results()), self.curves()
        )

    def results(self) -> list[HeadResult]:
        """Return the effect of each head, largest first."""
        unedited = torch.tensor(self.losses[UNEDITED])
        heads = list(self.heads.items())
        changes = torch.stack(
            [torch.tensor(self.losses[f"{site} {head}"]) - unedited for (site, head), _ in heads]
        )
        selecting, reported = changes[:, ::2], changes[:, 1::2]
        same_sign = selecting.mean(1).sign() == reported.mean(1).sign()
        marks = holm(sign_flips(selecting, self.seed))
        results = [
            HeadResult(
                kind, layer, head, bootstrap(change, self.seed), p, mark and bool(same), site
            )
            for ((site, head), (kind, layer)), change, p, mark, same in zip(
                heads, reported, sign_flips(reported, self.seed), marks, same_sign, strict=True
            )
        ]
        return sorted(results, key=lambda one: -one.effect.mean)

    def curves(self) -> dict[str, dict[str, tuple[float, float, float, float]]]:
        """Return four changes of the loss for each kind and share of heads off.

        They are the change with the least important heads off first, and the lowest, upper median
        and highest of the random orders.
        """
        unedited = torch.tensor(self.losses[UNEDITED])[1::2][:CURVE_TEXTS]
        by_kind: dict[str, dict[str, tuple[float, float, float, float]]] = {}
        for kind in dict.fromkeys(kind for kind, _ in self.heads.values()):
            for share in SWEPT_SHARES:
                orders = ["importance", *(f"random {i}" for i in range(self.n_orders))]
                names = [f"{kind} {order} {share:g}" for order in orders]
                changes = [
                    float((torch.tensor(self.losses[name]) - unedited).mean())
                    for name in names
                    if name in self.losses
                ]
                random_orders = sorted(changes[1:]) or changes
                median = median_high(random_orders)
                by_kind.setdefault(kind, {})[f"{share:g}"] = (
                    changes[0],
                    random_orders[0],
                    median,
                    random_orders[-1],
                )
        return by_kind

    def orders(self) -> dict[str, dict[str, list[SiteHead]]]:
        """Return the orders in which the heads of each kind go off."""
        importance, by_kind = self._importance(), {}
        for kind in dict.fromkeys(kind for kind, _ in self.heads.values()):
            heads = [head for head, (of, _) in self.heads.items() if of == kind]
            orders = {"importance": sorted(heads, key=lambda head: importance[head])}
            for i in range(self.n_orders):
                rng = Random(f"{self.seed} {kind} {i}")
                orders[f"random {i}"] = rng.sample(heads, len(heads))
            by_kind[kind] = orders
        return by_kind

    def _importance(self) -> dict[SiteHead, float]:
        """Return E|zᵀ ∂L/∂z| of each head over the selecting half, in units of its layer's length.

        z is the head output; Michel et al. (2019, eq. 2 and the end of §4.1). If a layer of its
        kind has a single head, whose share would always be 1, that kind is not divided.
        """
        if self._ranked is not None:
            return self._ranked
        sums: dict[str, Tensor] = {}
        selecting = self.texts[::2]
        for part in self._batches(selecting):
            gradients_edit = HeadOutputGradients()
            texts = [selecting[i] for i in part]
            outputs = self.scope.outputs_batch(texts, [gradients_edit], gradients=True)
            loss = self._measure.losses(texts, outputs).sum()
            for site, parts in gradients_edit.head_zeros.items():
                zeros = parts.tensors
                grads = torch.autograd.grad(loss, zeros, retain_graph=True, allow_unused=True)
                # without a gradient the answer does not depend on this attention
                steps = [z.detach() if g is None else g for z, g in zip(zeros, grads, strict=True)]
                change = parts.whole(steps) * gradients_edit.head_outs[site].whole()
                sums[site] = sums.get(site, 0) + change.sum((-1, -2)).abs().sum(0).cpu()
        kinds = {site: kind for (site, _), (kind, _) in self.heads.items()}
        of_one_head = {kinds.get(site) for site, values in sums.items() if len(values) == 1}
        for site in sums.keys() - {site for site, kind in kinds.items() if kind in of_one_head}:
            sums[site] = sums[site] / sums[site].norm().clamp(min=1e-12)
        self._ranked = {
            (site, head): float(values[head])
            for site, values in sums.items()
            for head in range(len(values))
        }
        return self._ranked

    def _off(self, site: str, head: int) -> Edit:
        return HeadOff(Where(site=site, heads=(head,)), baseline=self.baseline)

    def _batches(self, texts: Sequence[EncodingByStream]) -> Iterator[list[int]]:
        """Yield the indices of texts of similar length, which need little padding."""
        by_length = sorted(range(len(texts)), key=lambda i: [len(r.ids) for r in texts[i].values()])
        size = self.batch if self.scope.model.pads else 1
        for first in range(0, len(texts), size):
            yield by_length[first : first + size]

    def _losses(
        self, texts: Sequence[EncodingByStream], edits: Sequence[Edit]
    ) -> Float[Tensor, "text"]:
        outputs = self.scope.outputs_batch(texts, edits)
        return self._measure.losses(texts, outputs)

    def _identity(self) -> dict[str, Any]:
        """Return the model, texts and settings that a file of losses must belong to."""
        ids = [[list(row.ids) for row in text.values()] for text in self.texts]
        return {
            "fingerprint": self.scope.fingerprint,
            "texts": ids,
            "baseline": self.baseline,
            "orders": self.n_orders,
            "seed": self.seed,
        }

    def _continue(self) -> None:
        """Read the losses of a sweep that was stopped.

        Raises:
            ValueError: the file belongs to another sweep, is damaged or cannot be read.
        """
        if self.path is None or not self.path.exists():
            return
        stored = read_json(self.path, largest=MAX_SWEEP_BYTES, finite=False)
        if stored.get("of") != json.loads(json.dumps(self._identity())):
            raise ValueError(f"{self.path} holds another sweep; remove it, or choose another file")
        if not are_parts(losses := stored.get("losses")):
            raise ValueError(f"{self.path} is damaged; remove it, and the sweep starts again")
        self.losses = losses

    def _write(self) -> None:
        if self.path is None:
            return
        content = json.dumps({"of": self._identity(), "losses": self.losses})
        write_bytes(self.path, content.encode())
