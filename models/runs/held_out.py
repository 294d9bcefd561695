"""Head outputs over held-out texts, for the baselines "mean" and "resample"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import torch
from jaxtyping import Float
from torch import Tensor

from models.trace import Trace
from models.trace.edits import Where
from models.trace.edits.material import PositionVectors

MIN_TEXTS = 8  # needed for a mean


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The head outputs of each attention in runs on held-out texts, and those runs' tokens."""

    outputs: Mapping[str, tuple[Float[Tensor, "_ _ _"], ...]]  # (head, position, d_head), by site
    places: Mapping[str, tuple[str, int, str]]  # kind, layer and stream of the queries, by site
    streams: tuple[Mapping[str, tuple[int, ...]], ...]  # of each text

    @classmethod
    def of(cls, traces: Sequence[Trace]) -> HeldOut:
        """Keep the head outputs and tokens of these runs."""
        sites = traces[0].attention if traces else {}
        return cls(
            {name: tuple(_outputs(trace, name) for trace in traces) for name in sites},
            {name: (site.kind, site.layer, site.query_stream) for name, site in sites.items()},
            tuple({name: row.ids for name, row in trace.streams.items()} for trace in traces),
        )

    def at(self, where: Where) -> dict[str, str]:
        """Return the query stream of each selected attention."""
        return {
            name: stream
            for name, (kind, layer, stream) in self.places.items()
            if where.meets(kind, name, layer)
        }

    def mean(self, site: str) -> PositionVectors:
        """Return the mean head output at each position.

        Positions that fewer than MIN_TEXTS texts reach share one mean.

        Raises:
            ValueError: there are fewer texts.
        """
        outputs = self.outputs[site]
        if len(outputs) < MIN_TEXTS:
            raise ValueError(
                f"too little held-out text: a mean takes at least {MIN_TEXTS} texts, got "
                f"{len(outputs)}"
            )
        longest = sorted((out.shape[1] for out in outputs), reverse=True)
        n_alone = longest[MIN_TEXTS - 1]
        means = [torch.stack([o[:, p] for o in outputs if o.shape[1] > p]) for p in range(n_alone)]
        columns = [each.mean(0) for each in means]
        if longest[0] > n_alone:
            rest = torch.cat([out[:, n_alone:] for out in outputs], dim=1)
            columns.append(rest.mean(1))
        return PositionVectors(torch.stack(columns, dim=1), repeats=True)

    def resampled(
        self, site: str, seed: int, row: Mapping[str, tuple[int, ...]], first: str, *, grows: bool
    ) -> PositionVectors:
        """Return the head output of this attention on a text other than `row`.

        `first` is the stream by which texts are told apart. If the queries' stream `grows`, each
        position is taken from the first drawn text that reaches it; otherwise all are taken from
        the first text of the same length.

        Raises:
            ValueError: no text is long enough, or none has this length.
        """
        _, _, stream = self.places[site]
        n = len(row.get(stream, ()))
        indices = Random(seed).sample(range(len(self.streams)), len(self.streams))
        others = [i for i in indices if self.streams[i][first] != row[first]]
        outputs = [self.outputs[site][i] for i in others]
        if not grows:
            same = [out for out in outputs if out.shape[1] == n]
            if not same:
                raise ValueError(
                    f"too little held-out text: none of {len(outputs)} other texts has {n} "
                    f"{stream} tokens"
                )
            return PositionVectors(same[0])
        longest = max((out.shape[1] for out in outputs), default=0)
        if longest < max(n, 1):
            raise ValueError(
                f"too little held-out text: the longest of {len(outputs)} other texts has "
                f"{longest} {stream} tokens, and {n} are needed"
            )
        columns = [next(o[:, p] for o in outputs if o.shape[1] > p) for p in range(longest)]
        return PositionVectors(torch.stack(columns, dim=1), repeats=True)


def _outputs(trace: Trace, name: str) -> Float[Tensor, "head position d_head"]:
    """Return the head outputs of an attention without those of padding."""
    site = trace.attention[name]
    return site.out[0, :, : len(trace.streams[site.query_stream].ids)]
