"""Name every softmax that weighs values and was not recorded, with the reason."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from models.hub.recording.by_hand.followed import Softmax


@dataclass(frozen=True)
class Unshown:
    """A weighted sum of the module at `path` that could not be recorded."""

    path: str
    reason: str
    weights: Tensor
    is_softmax: bool = True  # False: scores without a known softmax


class UnshownSums:
    """The weighted sums of a pass that nothing has recorded yet, and those recorded by hand."""

    def __init__(self) -> None:
        self._sums: list[Unshown] = []
        self._recorded: dict[int, list[Tensor]] = {}  # by address

    def add(
        self, path: str, reason: str, weights: Float[Tensor, ...], is_softmax: bool = True
    ) -> None:
        """Note the reason why a sum with these weights is not recorded."""
        self._sums.append(Unshown(path, reason, weights.detach(), is_softmax))

    def add_recorded(self, softmax: Softmax, used: Float[Tensor, ...]) -> None:
        """Note the weights of a sum that was recorded by its causes, and their scores."""
        for t in (softmax.value, used, softmax.args[0]):
            self._recorded.setdefault(_address(t), []).append(t)

    def is_recorded(self, weights: Float[Tensor, ...]) -> bool:
        """Return True if these weights or scores, which a library returned, have been recorded."""
        if _address(weights) in self._recorded:
            return True
        recorded = (t for each in self._recorded.values() for t in each)
        return any(_same_numbers(t, weights) for t in recorded)

    def account_for(self, weights: Float[Tensor, ...], path: str) -> str:
        """Forget the sum with these weights, which a library returned for the module at `path`.

        Returns the reason why it is not recorded by its causes; empty if there is no such sum. The
        weights are recognised by their memory or, if they were copied, by their number.
        """
        address = _address(weights)
        same = [each for each in reversed(self._sums) if _address(each.weights) == address]
        alike = [
            each
            for each in self._sums
            if each.weights.numel() == weights.numel()
            and f"{each.path}.".startswith(f"{path}." if path else "")
        ]
        for each in (*same, *alike)[:1]:
            self._sums = [other for other in self._sums if other is not each]
            return each.reason
        return ""

    def by_module(self) -> dict[str, list[Unshown]]:
        """Return the remaining sums by the path of their module."""
        sums: dict[str, list[Unshown]] = {}
        for each in self._sums:
            sums.setdefault(each.path, []).append(each)
        return sums


def _same_numbers(recorded: Tensor, weights: Tensor) -> bool:
    if recorded.numel() != weights.numel():
        return False
    recorded, weights = recorded.detach().squeeze(), weights.detach().squeeze().to(recorded.dtype)
    return recorded.shape == weights.shape and bool((recorded == weights).all())


def _address(t: Tensor) -> int:
    return t.untyped_storage().data_ptr()
