"""Data-parallel processes under torchrun (DDP), which share each batch; or one alone."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


@contextmanager
def joined_processes(device: torch.device) -> Iterator[int]:
    """Join the other processes under torchrun, and leave them at the end.

    Yields the rank of this process, 0 when it is alone.
    """
    joins = "RANK" in os.environ and not dist.is_initialized()
    if joins:
        if device.type == "cuda":
            # the meaning of "cuda" in this process from here on
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield dist.get_rank() if dist.is_initialized() else 0
    finally:
        if joins:
            # a wrapped model that outlives its group may abort the process at its end
            gc.collect()
            dist.destroy_process_group()


@dataclass(frozen=True)
class Processes:
    """The `rank` of this process among all `n`."""

    rank: int = 0
    n: int = 1

    @classmethod
    def current(cls) -> "Processes":
        """Return this process as `joined_processes` set it up."""
        return cls(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else cls()

    @property
    def is_first(self) -> bool:
        """True for the process that writes the files."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap the model so that gradients are averaged over all processes."""
        return DistributedDataParallel(model) if self.n > 1 else model

    def sum(self, value: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """Sum over all processes."""
        if self.n > 1:
            dist.all_reduce(value)
        return value

    def broadcast(self, value: float, device: torch.device) -> float:
        """Return the first process's value: all must stop at the same step."""
        shared = torch.tensor(value, dtype=torch.float64)
        if self.n > 1:
            shared = shared.to(device)
            dist.broadcast(shared, 0)
        return float(shared)
