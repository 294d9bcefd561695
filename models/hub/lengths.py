"""Measure the longest row of each stream from the model's tables of positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from models.hub.model import HubModel
from models.hub.writers import HubEncoderDecoder

LENGTHS = 3, 5  # of the two runs, in tokens


@torch.no_grad()
def stream_limits(model: HubModel) -> dict[str, int]:
    """Return the longest row of each stream, in tokens: at most n_ctx.

    A table as wide as the embedding is one of positions if its largest index grows by one with
    each token. In a model with two stacks, the encoder's lookups count for the first stream.
    """
    config = model.config  # some classes have a padding id below 3, whatever their settings say
    candidates = [i for i in (*range(3, 12), 2, 1, 0) if i < config.vocab_size]
    token = next(i for i in candidates if i not in (config.fill_id, config.end_id))
    runs = []
    for n in LENGTHS:
        ids = torch.full((1, n), token, device=model.device)
        with _Lookups(model) as lookups:
            model(*model.repeated(ids))
        runs.append(lookups)
    shorter, longer = (one.largest for one in runs)
    limits = dict.fromkeys(model.streams, config.n_ctx)
    for table, largest in longer.items():
        if largest - shorter.get(table, largest) == LENGTHS[1] - LENGTHS[0]:
            n_tokens = table.n_rows - 1 - largest + LENGTHS[1]
            for stream in _readers(model, table):
                limits[stream] = min(limits[stream], n_tokens)
    return limits


class _Table(NamedTuple):
    """A table that is looked up: by the encoder or not, its number of rows, and its address."""

    by_reader: bool
    n_rows: int
    address: int


def _readers(model: HubModel, table: _Table) -> Sequence[str]:
    """Return the streams whose positions are looked up in a table."""
    if not isinstance(model, HubEncoderDecoder):
        return model.streams
    return model.streams[:1] if table.by_reader else model.streams[1:]


class _Lookups(TorchFunctionMode):
    """Records the largest index looked up in each table as wide as the token embedding."""

    def __init__(self, model: HubModel) -> None:
        super().__init__()
        table = model.token_table
        self.width = 0 if table is None else table.shape[1]
        self.reader, self.is_reading = model.reader, False
        self.largest: dict[_Table, int] = {}

    def __enter__(self) -> _Lookups:
        def begin(module: nn.Module, args: tuple[Any, ...]) -> None:
            self.is_reading = True

        def end(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            self.is_reading = False

        self.hooks = [
            self.reader.register_forward_pre_hook(begin),
            self.reader.register_forward_hook(end, always_call=True),
        ]
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for hook in self.hooks:
            hook.remove()

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.embedding:
            ids, table = (*args, *(kwargs[name] for name in ("input", "weight")[len(args) :]))[:2]
            if isinstance(table, Tensor) and table.shape[1] == self.width and ids.numel():
                looked_up = _Table(self.is_reading, len(table), table.data_ptr())
                largest = max(self.largest.get(looked_up, 0), int(ids.max()))
                self.largest[looked_up] = largest
        return func(*args, **kwargs)
