"""The processes that share each batch of a run under torchrun (DDP); one alone is the only one."""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


def join_processes(device: torch.device) -> int:
    """Under torchrun: join the other processes; returns this one's rank (0 when alone)."""
    if "RANK" in os.environ and not dist.is_initialized():
        if device.type == "cuda":
            torch.cuda.set_device(
                int(os.environ["LOCAL_RANK"])
            )  # what "cuda" means in this process from here on
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return dist.get_rank() if dist.is_initialized() else 0


@dataclass(frozen=True)
class Processes:
    """This process, by its `rank`, among all `n`."""

    rank: int = 0
    n: int = 1

    @classmethod
    def current(cls) -> "Processes":
        """Those that `join_processes` has joined."""
        return cls(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else cls()

    @property
    def is_first(self) -> bool:
        """Whether it is this one that writes the files."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model with its gradients averaged over all processes."""
        return DistributedDataParallel(model) if self.n > 1 else model

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.n > 1:
            dist.all_reduce(value)
        return value

    def broadcast(self, value: float, device: torch.device) -> float:
        """The first process's value: all of them must stop at the same step."""
        shared = torch.tensor(value, dtype=torch.float64)
        if self.n > 1:
            shared = shared.to(device)
            dist.broadcast(shared, 0)
        return float(shared)
