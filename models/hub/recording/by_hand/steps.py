"""Follow scores from the product of queries and keys to the softmax, and weights to the values.

The functions applied in between are kept as steps that can be repeated with other numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any
from weakref import ref

from torch import Tensor

from models.hub.recording.by_hand.axes import fresh, resolve_axis, result_layout
from models.hub.recording.by_hand.followed import (
    SOFTMAX,
    FollowedStep,
    Root,
    ScoreProduct,
    Softmax,
    axes_of,
    changes_in_place,
    layout_of,
    operands,
)
from models.hub.recording.by_hand.products import PRODUCTS, product_of
from models.hub.recording.context import Provenance, rebuild
from models.hub.recording.projections import LINEAR, same_memory

_MAX_FOLLOWED = 32  # tensors followed at a time; the oldest are released


class Steps:
    """The followed scores and weights of a pass, by the identity of their tensors."""

    def __init__(
        self,
        lengths: Collection[int],
        provenance: Provenance | None = None,
        path: Callable[[], str] = str,
    ) -> None:
        self._lengths, self._provenance, self._path = lengths, provenance, path
        # softmaxes of queries and keys of the input that no sum has taken yet, by identity
        self.unsummed: dict[int, Softmax] = {}
        self._steps: dict[int, FollowedStep] = {}
        self._cut: dict[int, tuple[Tensor, Softmax]] = {}  # parts of weights, by identity
        # weights that a sum took, by identity, with the place of that sum
        self._used: dict[int, tuple[ref[Tensor], Any]] = {}
        self._used_ids = self._used.keys()

    def __bool__(self) -> bool:
        return bool(self._steps or self._cut or self._used)

    def of(self, t: Any) -> FollowedStep | None:
        """Return how a tensor came about, if it is followed."""
        step = self._steps.get(id(t))
        return step if step is not None and step.value is t else None

    def cut(self, args: Sequence[Any]) -> list[Softmax]:
        """Return the weights that these arguments are parts of; each is returned only once."""
        parts = [self._cut.get(id(t)) for t in _flat(args)]
        whole = list({id(part[1]): part[1] for part in parts if part is not None}.values())
        ids = {id(softmax) for softmax in whole}
        self.unsummed = {key: root for key, root in self.unsummed.items() if key not in ids}
        self._cut = {key: part for key, part in self._cut.items() if id(part[1]) not in ids}
        return whole

    def forget(self, root: Root) -> None:
        """Stop following the results of this product or softmax."""
        self._steps = {key: step for key, step in self._steps.items() if step.root is not root}
        if self.unsummed:
            self.unsummed.pop(id(root), None)

    def use(self, softmax: Softmax, place: object) -> None:
        """Mark weights as taken by the sum at this place; only a second use is still followed."""
        for step in self._steps.values():
            if step.root is softmax:
                self._add_used(step.value, place)
        self.forget(softmax)

    def is_used(self, *args: Any) -> bool:
        """Return True if one of these may be weights that a sum took, or comes from them."""
        return not self._used_ids.isdisjoint(map(id, args))

    def used(self, t: Any) -> Any:
        """Return the place of the sum that took these weights or their origin, or None."""
        used = self._used.get(id(t))
        return used[1] if used is not None and used[0]() is t else None

    def note(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        """Follow one torch function; `result` is its result."""
        if func in SOFTMAX:
            self._softmax(func, args, kwargs, result)
        elif func in PRODUCTS:
            self._product(func, args, kwargs, result)
        else:
            if self._steps or self._cut:
                self._step(func, args, kwargs, result)
            is_copy = self._used and type(result) is Tensor
            if is_copy and not self._used_ids.isdisjoint(map(id, args)):
                self._copy_of_used(args, result)

    def _softmax(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        z = args[0] if args else kwargs.get("input")
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if not isinstance(result, Tensor) or not 2 <= result.dim() <= 6:
            return
        if dim is None:  # torch's default, with a warning
            dim = 0 if result.dim() == 3 else 1
        scores = self.of(z)
        if scores is not None and not isinstance(scores.root, ScoreProduct):
            scores = None
        layout = fresh(result.shape) if scores is None else scores.layout
        args = (z, *args[1:])
        root = Softmax(scores, dim % result.dim(), func, args, kwargs, result, layout)
        if (
            scores is not None
            and self._provenance is not None
            and self._is_of_pairs(scores, root.dim)
        ):
            root.path = self._path()
            self.unsummed[id(root)] = root
        self._add(FollowedStep(root, None, (), {}, result, layout))

    def _product(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        product = product_of(func, args, kwargs)
        if product is None or not isinstance(result, Tensor):
            return
        free = [
            product.of_a[i] for i, label in enumerate(product.of_a) if label not in product.of_b
        ] + [label for label in product.of_b if label not in product.of_a]
        sizes = {result.shape[product.out.index(label)] for label in free if label in product.out}
        if not sizes & set(self._lengths):
            return
        axes = axes_of(product)
        of_a, of_b = (layout_of(t, labels, axes) for t, labels in operands(product))
        layout = tuple(axes[label] for label in product.out)
        value = result if product.added is None else product.computed()
        root = ScoreProduct(product, of_a, of_b, layout, value)
        if product.added is None:
            self._add(FollowedStep(root, None, (), {}, result, layout))
            return
        added, beta, alpha = product.added
        start = FollowedStep(root, None, (), {}, value, layout)

        def with_added(scores: Tensor) -> Tensor:
            scaled = alpha * scores
            return beta * added + scaled if beta else scaled  # at 0 torch ignores `added`, too

        self._add(FollowedStep(root, with_added, (start,), {}, result, layout))

    def _step(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        first = self._first((*args, *kwargs.values())) if self._steps else None
        if first is None:
            self._copy_of_cut(args, result)
            return
        value = args[0] if func is Tensor.__setitem__ else result
        if not isinstance(value, Tensor) or "out" in kwargs:
            return
        if func is LINEAR and isinstance(first.root, ScoreProduct):
            return  # a linear layer reads features: the product was not scores
        if changes_in_place(func, kwargs):
            if self.of(args[0]) is None:
                return
            first.root.is_overwritten = True
        layout = result_layout(func, args, value, first.layout)
        if layout is None or (func is Tensor.__getitem__ and not _keeps_all(args)):
            if isinstance(first.root, Softmax) and same_memory(value, first.value):
                self._cut[id(value)] = value, first.root
            return
        if self.unsummed:  # if several softmaxes are combined, the first is followed
            others = {id(step.root) for arg in _flat(args) if (step := self.of(arg)) is not None}
            for key in others - {id(first.root)}:
                self.unsummed.pop(key, None)
        taken = [self._as_step(arg, first.root) for arg in args]
        named_args = {name: self._as_step(arg, first.root) for name, arg in kwargs.items()}
        self._add(FollowedStep(first.root, func, taken, named_args, value, layout))

    def _first(self, args: Sequence[Any]) -> FollowedStep | None:
        """Return the first followed argument; among several products, one of two inputs."""
        followed = (step for arg in _flat(args) if (step := self.of(arg)) is not None)
        first = next(followed, None)
        if first is None or self._provenance is None or not isinstance(first.root, ScoreProduct):
            return first
        known = [first, *followed]
        if len(known) > 1 and all(isinstance(step.root, ScoreProduct) for step in known):
            return max(known, key=self._n_origins)
        return first

    def _n_origins(self, step: FollowedStep) -> int:
        """Return how many sides of a product come from an input, as far as is known."""
        root, provenance = step.root, self._provenance
        if provenance is None or not isinstance(root, ScoreProduct):
            return 0
        return sum(bool(provenance.of(t)) for t in (root.product.a, root.product.b))

    def _is_of_pairs(self, step: FollowedStep, dim: int) -> bool:
        """Return True if there is a score for each pair of tokens, with the keys along `dim`."""
        sizes = list(step.value.shape)
        is_long = sizes.pop(dim) in self._lengths and not set(sizes).isdisjoint(self._lengths)
        return is_long and self.is_of_keys(step, dim)

    def is_of_keys(self, step: FollowedStep, dim: int) -> bool:
        """Return True if scores are a product of two tensors of the input, `dim` an axis of one.

        A product with a parameter makes no scores, and an axis of both is that of texts or heads.
        """
        root = step.root
        if not isinstance(root, ScoreProduct) or self._n_origins(step) < 2:
            return False
        a, b = (
            {atom for axis in side for atom in resolve_axis(axis)}
            for side in (root.of_a, root.of_b)
        )
        return not (set(resolve_axis(step.layout[dim])) & a & b)

    def _copy_of_cut(self, args: Sequence[Any], result: Any) -> None:
        """Follow a part of weights into a tensor with as many numbers."""
        part = self._cut.get(id(args[0])) if args else None
        if part is not None and isinstance(result, Tensor) and result.numel() == part[0].numel():
            self._cut[id(result)] = result, part[1]
        if len(self._cut) > _MAX_FOLLOWED:
            del self._cut[next(iter(self._cut))]

    def _copy_of_used(self, args: Sequence[Any], result: Tensor) -> None:
        """Follow weights that a sum has taken into a tensor with as many numbers."""
        for t in args:
            if (place := self.used(t)) is not None and t.numel() == result.numel():
                self._add_used(result, place)

    def _add_used(self, t: Tensor, place: object) -> None:
        key = id(t)
        self._used[key] = ref(t, lambda _: self._used.pop(key, None)), place

    def _as_step(self, arg: Any, root: Root) -> Any:
        """Return an argument with the tensors that come from this root as steps."""
        if isinstance(arg, Tensor):
            step = self.of(arg)
            return step if step is not None and step.root is root else arg
        if isinstance(arg, tuple | list) and any(isinstance(part, Tensor) for part in arg):
            return rebuild(arg, (self._as_step(part, root) for part in arg))
        return arg

    def _add(self, step: FollowedStep) -> None:
        self._steps.pop(id(step.value), None)
        self._steps[id(step.value)] = step
        if len(self._steps) > _MAX_FOLLOWED:
            del self._steps[next(iter(self._steps))]


def _flat(args: Sequence[Any]) -> Iterator[Any]:
    for arg in args:
        if isinstance(arg, tuple | list):
            yield from arg
        else:
            yield arg


def _keeps_all(args: Sequence[Any]) -> bool:
    """Return True if an index only adds axes."""
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    return all(i is None or i is Ellipsis or i == slice(None) for i in index)
