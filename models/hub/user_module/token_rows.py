"""Measure whether an attention of the user's own module weighs the tokens of its texts, in order.

Sizes alone do not show this: a text may have as many tokens as a head has features, and a module
may reverse its tokens. Short passes over other tokens and other lengths do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.hub.user_module.rows import replaced_tokens
from models.layers.masks import Mask, MaskLayer
from models.trace import AttentionSite
from models.trace.edits.base import AttentionPart, Edit

ENOUGH = 8  # tokens of a text that shows the order
MOVED = "its queries or keys are not at the positions of their tokens"
VARIES_WITH_LENGTH = (
    "an input of another length has no such weights, so they may not be weights of tokens"
)
ALIKE = (
    "the input has as many tokens as a head has features, so its weights may be those of features"
)


@dataclass(frozen=True)
class ModuleInputs:
    """The inputs that texts give a module, batch axis first, and the number of their tokens."""

    tensors: tuple[Tensor, ...]
    n_tokens: int
    n_rows: int = 1

    def resized(self, n: int) -> ModuleInputs:
        """Return the first text with n tokens, repeated from its start if it is shorter."""
        order = torch.arange(n) % self.n_tokens
        return self._with_each(lambda t: t[:1].index_select(1, order.to(t.device)), n)

    def changed(self, places: Bool[Tensor, " n"]) -> ModuleInputs:
        """Return the first text with other tokens at these places."""

        def change(t: Tensor) -> Tensor:
            if t.dtype == torch.bool or t.is_complex():
                return t[:1]
            here = places.to(t.device).view(1, -1, *[1] * (t.dim() - 2))
            return torch.where(here, replaced_tokens(t[:1]), t[:1])

        return self._with_each(change, self.n_tokens)

    def _with_each(self, change: Callable[[Tensor], Tensor], n: int) -> ModuleInputs:
        """Return the inputs with this change in every tensor whose second axis is the tokens."""
        are_tokens = [t.dim() > 1 and t.shape[1] == self.n_tokens for t in self.tensors]
        if not any(are_tokens):
            raise ValueError("no input has an axis of tokens")
        tensors = zip(self.tensors, are_tokens, strict=True)
        return ModuleInputs(tuple(change(t) if is_tokens else t for t, is_tokens in tensors), n)


class OnlyItself(Edit, stored=False):
    """Let each query attend to the token at its own position alone, so that nothing mixes."""

    def mask(self, mask: Mask, part: AttentionPart) -> Mask:
        itself = torch.tensor(part.queries, device=part.device).clamp(max=part.n_key - 1)
        allowed = itself[:, None] == torch.arange(part.n_key, device=part.device)
        return Mask([MaskLayer("itself", allowed[None, None])], mask.start)


@dataclass(frozen=True)
class RecordedAttention:
    """An attention of a recorded pass, and its values if weights alone are known."""

    site: AttentionSite
    values: Float[Tensor, "#batch key_head key d_v"] | None = None

    @property
    def rows(self) -> tuple[Tensor, ...]:
        """Tensors whose third axis should be that of the tokens."""
        if self.site.has_causes:
            return self.site.q.float(), self.site.k.float()
        return () if self.values is None else (self.values.float(),)


Sites = Mapping[str, RecordedAttention]
# texts, names of the attentions that mix nothing, and of those that are off → those of the pass
RecordedPass = Callable[[Sequence[ModuleInputs], Sequence[str], Sequence[str]], Sites]


def misfits(run: RecordedPass, texts: Sequence[ModuleInputs], sites: Sites) -> dict[str, str]:
    """Return name → reason of each attention that is not known to weigh the tokens in order.

    `sites` are those of the texts. `run` makes further passes; it raises ValueError if the module
    cannot read them.
    """
    orders = _orders(run, texts, sites)
    reasons = {name: MOVED for name, order in orders.items() if order.is_moved}
    doubtful = [
        name
        for name, attention in sites.items()
        if name not in reasons
        and not attention.site.projections
        and not (name in orders and attention.site.has_causes and orders[name].is_exact)
    ]
    return reasons | _length_dependent(run, texts, sites, doubtful)


@dataclass(frozen=True)
class _Order:
    """The rows of queries and keys that changed with each group of tokens, and its own rows."""

    changed: Bool[Tensor, "group row"]
    expected: Bool[Tensor, "group row"]

    @property
    def is_exact(self) -> bool:
        """True if each row depends on its own token and on no other."""
        return torch.equal(self.changed, self.expected)

    @property
    def is_moved(self) -> bool:
        """True if a row depends on other tokens, but not on its own."""
        lacks = (self.expected & ~self.changed).any(0)
        return bool((lacks & (self.changed & ~self.expected).any(0)).any())


def _orders(run: RecordedPass, texts: Sequence[ModuleInputs], sites: Sites) -> dict[str, _Order]:
    """Return the order of the rows of each of these attentions, if it can be measured."""
    explained = [name for name, attention in sites.items() if attention.site.has_causes]
    short = tuple(min(text.n_tokens, ENOUGH) for text in texts)
    whole = tuple(text.n_tokens for text in texts)
    for names, n_tokens in product((explained, []), dict.fromkeys((short, whole))):
        try:
            pairs = zip(texts, n_tokens, strict=True)
            orders = _orders_apart(run, [text.resized(n) for text, n in pairs], names)
        except ValueError:
            continue
        if orders.keys() >= {name for name, attention in sites.items() if attention.rows}:
            return {name: order for name, order in orders.items() if name in sites}
    return {}


def _orders_apart(
    run: RecordedPass, texts: Sequence[ModuleInputs], names: Sequence[str]
) -> dict[str, _Order]:
    """Measure the orders, those after an attention that moves tokens once more with it off.

    It passes on other tokens than its own even where it mixes nothing.
    """
    orders, off = _measure_orders(run, texts, names, ()), []
    while moved := [n for n in names if n not in off and n in orders and orders[n].is_moved]:
        off += moved
        left = [name for name in names if name not in off]
        again = _measure_orders(run, texts, left, off)
        orders |= {name: order for name, order in again.items() if name in left}
    return orders


def _measure_orders(
    run: RecordedPass, texts: Sequence[ModuleInputs], names: Sequence[str], off: Sequence[str]
) -> dict[str, _Order]:
    """Return the orders that show when tokens change, half of them at a time, by position bits."""
    before = {name: attention.rows for name, attention in run(texts, names, off).items()}
    changed: dict[str, list[Tensor]] = {name: [] for name in before}
    expected: dict[str, list[Tensor]] = {name: [] for name in before}
    for bit in range((max(text.n_tokens for text in texts) - 1).bit_length()):
        for half in (0, 1):
            halves = [(torch.arange(text.n_tokens) >> bit) % 2 == half for text in texts]
            pairs = zip(texts, halves, strict=True)
            sites = run([text.changed(places) for text, places in pairs], names, off)
            for name in before.keys() & sites.keys():
                both = list(zip(before[name], sites[name].rows, strict=True))
                if not both:
                    continue
                changed[name].append(torch.cat([_has_changed(*pair) for pair in both]))
                places = [torch.arange(t.shape[2]) for t, _ in both]
                expected[name].append(torch.cat([(p >> bit) % 2 == half for p in places]))
    return {
        name: _Order(torch.stack(each), torch.stack(expected[name]))
        for name, each in changed.items()
        if each
    }


def _has_changed(
    before: Float[Tensor, "batch head row d_head"], after: Float[Tensor, "batch head row d_head"]
) -> Bool[Tensor, " row"]:
    limit = 1e-5 * float(before.abs().amax()) if before.numel() else 0.0
    return ((before - after).abs() > limit).any(3).any(1)[0].cpu()


def _length_dependent(
    run: RecordedPass,
    texts: Sequence[ModuleInputs],
    sites: Sites,
    names: Sequence[str],
) -> dict[str, str]:
    """Return a reason for each of these attentions that is missing in texts of other lengths."""
    has_run = False
    for shorter in (lambda n: n - 1, lambda n: n // 2):
        if not names:
            return {}
        lengths = [shorter(text.n_tokens) if text.n_tokens > 2 else 3 for text in texts]
        if min(lengths) < 2:
            continue
        try:
            pairs = zip(texts, lengths, strict=True)
            others = run([text.resized(n) for text, n in pairs], (), ())
        except ValueError:
            continue
        has_run = True
        names = [
            name
            for name in names
            if name not in others or _n_beside(name, others) != _n_beside(name, sites)
        ]
    if has_run:
        return dict.fromkeys(names, VARIES_WITH_LENGTH)
    n_tokens = {text.n_tokens for text in texts}
    return {name: ALIKE for name in names if _features(sites[name].site) & n_tokens}


def _n_beside(name: str, sites: Sites) -> int:
    """Return the number of attentions in the same module, which share its name but for a number."""
    return sum(other.partition(" (")[0] == name.partition(" (")[0] for other in sites)


def _features(site: AttentionSite) -> set[int]:
    return {site.lazy_q.shape[3], site.lazy_v.shape[3]}
