"""Attention recorded where any PyTorch model calls it: `scaled_dot_product_attention` or `F.multi_head_attention_forward`.

A torch function mode, which lives in one thread alone, sees these calls in a forward pass under `watching`; the q, k, v, mask and
scale that they are given are the causes that `models.trace` keeps. The path of the module that calls comes from hooks that do
nothing outside such a pass. Masks are changed at the same place, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from models.hub import multi_head
from models.hub.call import Call
from models.hub.masks import Explained, explained, handed
from models.hub.projections import Linear, Linears, Origin, linear_of, reads_joined, same_memory
from models.hub.taps import Tap, Taps
from models.layers.masks import SiteKind
from models.layers.similarity import of_scale
from models.trace import AttentionSite, Recording, current
from models.trace.deferred import Product
from models.trace.edits import edited
from models.trace.recorder import LARGEST_KEPT


@dataclass(frozen=True)
class Frame:
    """A module at work: its path, and the tensors it was given."""

    path: str
    given: tuple[Tensor, ...]


@dataclass(frozen=True)
class Places:
    """What the caller of a pass knows of it: which kind an attention is of, by what its module was given, and what its streams
    hold. `padding` is stream → True at its tokens, absent where it has no padding; `groups` is how many heads read one key head."""

    kind: Callable[[Frame], SiteKind]
    n_query: int
    start: int = 0                                  # position of the first query on the stream that is written
    n_key: Mapping[str, int] = field(default_factory=dict)
    padding: Mapping[str, Bool[Tensor, "batch key"]] = field(default_factory=dict)
    groups: int = 1
    token_table: Tensor | None = None               # the embedding matrix


class Pass:
    """One forward pass under watch."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.frames: list[Frame] = []
        self.recording: Recording | None = current()
        self.linears = Linears()
        self.calls: dict[str, int] = {}                       # name of a kind → how many attentions of it there were
        self.masks: dict[tuple, tuple[Tensor | None, Explained]] = {}
        self.open: AttentionSite | None = None                # the last attention, whose W_O may come next
        self.position_table: Tensor | None = None             # the vectors of places, from the first one that a text stands at
        self._makers: dict[int, tuple[Tensor, str]] = {}
        self.odd: dict[str, str] = {}                         # path → why an attention there could not be recorded

    def attend(self, call: Call, run: Callable[[Tensor | None, bool], Tensor]) -> Tensor:
        """One attention; `run` makes the call with a mask. Its result is untouched unless an edit changes its mask."""
        frame, q = self.frame, call.q
        kind = self.places.kind(frame)
        n_query, n_key = q.shape[2], call.k.shape[2]
        if odd := self._odd(kind, n_query, n_key):
            self.pass_over(odd)
            return run(call.given, call.is_causal)
        number = self.calls[kind.name] = self.calls.get(kind.name, -1) + 1
        found = self._explained(call, kind)
        mask = edited(found.mask, kind.name, str(number), q.shape[1], n_query, n_key, q.device)
        if mask is found.mask:
            out = run(call.given, call.is_causal)
        else:
            out = run(handed(mask, found.terms, n_query, n_key, q.dtype), False)
        if self.recording is not None:
            self._record(call, replace(found, mask=mask), frame, kind, number, out)
        return out

    @property
    def frame(self) -> Frame:
        """The module at work."""
        return self.frames[-1] if self.frames else Frame("attention", ())

    def pass_over(self, reason: str) -> None:
        """Say why an attention of the module at work is not recorded."""
        self.odd[self.frame.path] = reason

    def called(self, linear: Linear) -> None:
        """A product with a matrix: perhaps the W_O of the attention before it."""
        self.linears.add(linear)
        if (site := self.open) is None:
            return
        self.open = None
        if reads_joined(linear, site.out):
            self._with_output(site, linear.weight.detach(), None if linear.bias is None else linear.bias.detach())

    def made(self, tensors: Sequence[Tensor]) -> None:
        """The module at work has made these; of those that look like weights the innermost that made them is known later."""
        if self.recording is not None:
            for t in tensors[1:]:
                if t.dim() == 4:
                    self._makers.setdefault(t.untyped_storage().data_ptr(), (t, self.frame.path))

    def made_by(self, t: Tensor) -> str:
        """The path of the module that made this; empty where none did."""
        return self._makers.get(t.untyped_storage().data_ptr(), (None, ""))[1]

    def tap(self, taps: Sequence[Tap], tensors: Sequence[Tensor]) -> None:
        """Record the first of these tensors under each name."""
        if self.recording is None or not tensors:
            return
        for tap in taps:
            if tap.name not in self.recording.activations and (not tap.largest or tensors[0].numel() <= tap.largest):
                stream = self.places.kind(self.frame).query_stream
                self.recording.tap("", tap.name, tensors[0], stream, tap.feature, tap.formula)

    def looked_up(self, ids: Tensor, table: Tensor, vectors: Tensor) -> None:
        """Vectors taken from a table: those of the tokens, or of places that follow each other, one for each token."""
        kind, n = self.places.kind(self.frame), self.places.n_query
        if ids.shape[-1:] != (n,) or vectors.dim() not in (2, 3) or self.recording is None:
            return
        vectors = vectors if vectors.dim() == 3 else vectors[None]
        if self._is_token_table(table):
            if vectors.numel() > 4 * LARGEST_KEPT:          # the layers' streams begin with it
                return
            name, formula = "embedding", "embedding(token)"
        else:
            first = ids.reshape(-1, n)[:1]
            if n < 2 or not torch.equal(first, first[:, :1] + torch.arange(n, device=ids.device)):
                return
            name, formula, place = "position", "position vectors, looked up", int(first[0, 0])
            self.position_table = table.detach()[place - self.places.start :]
            vectors = table[place : place + n][None]          # the same numbers, which lie there anyway
        if f"{kind.stack}.{name}" not in self.recording.activations:
            self.recording.tap(kind.stack, name, vectors, kind.query_stream, "d_model", formula)

    def _is_token_table(self, table: Tensor) -> bool:
        own = self.places.token_table
        return own is not None and same_memory(own, table)

    def _odd(self, kind: SiteKind, n_query: int, n_key: int) -> str:
        """Why this attention has no place on the tokens of its streams; empty if it has one."""
        tokens = self.places.n_query, self.places.n_key.get(kind.key_stream, n_key)
        if (n_query, n_key) == tokens:
            return ""
        return f"it asks for {n_query} × {n_key} cells, where the run has {tokens[0]} × {tokens[1]} tokens"

    def _explained(self, call: Call, kind: SiteKind) -> Explained:
        """The mask's layers, worked out once for all attentions that share it."""
        given, n_query, n_key = call.given, call.q.shape[2], call.k.shape[2]
        about = (given.data_ptr(), given.shape, given.stride(), given.dtype) if given is not None else (call.is_causal,)
        key = (*about, n_query, n_key, kind.name)
        if key not in self.masks:
            padding = self.places.padding.get(kind.key_stream)
            found = explained(given, call.is_causal, n_query, n_key, padding, call.q.device)
            if kind.query_stream != kind.key_stream:
                found.mask.start = self.places.start
            self.masks[key] = (given, found)                 # the tensor too, so that no other gets its memory
        return self.masks[key][1]

    def _record(self, call: Call, found: Explained, frame: Frame, kind: SiteKind, number: int, out: Tensor) -> None:
        q, n_heads, groups = call.q, call.q.shape[1], self.places.groups
        k, v = _one_each(call.k, groups, n_heads), _one_each(call.v, groups, n_heads)
        origins = call.origins or tuple(self.linears.origin(t) for t in (q, k, v))
        x = _source(origins[0], q, frame)
        reads_itself = origins[2] is None and kind.query_stream == kind.key_stream
        memory = x if reads_itself else _source(origins[2], v, frame)       # with a cache the new positions only
        name = frame.path if frame.path not in self.recording.attention else f"{frame.path} ({number + 1})"
        whole = all(origins) and k.shape[1] == n_heads
        site = AttentionSite(
            name, kind, x, memory, *(_kept(origin, t) for origin, t in zip(origins, (q, k, v), strict=True)), out.detach(),
            found.mask, of_scale(call.scale, q.shape[-1]),
            {f"W_{part}": (o.weight, o.bias) for part, o in zip("QKV", origins, strict=True)} if whole else {},
            terms=found.terms, number=number, dtype=q.dtype,
        )
        self.recording.attention[name] = _with(site, {})                     # they are complete with W_O, which comes next
        if call.output is not None:
            self._with_output(site, *call.output)
        else:
            self.open = site

    def _with_output(self, site: AttentionSite, weight: Tensor, bias: Tensor | None) -> None:
        """The attention with its W_O, and what that makes."""
        if site.projections:
            self.recording.attention[site.name] = _with(site, site.projections | {"W_O": (weight, bias)})
        made = Product(site.out.transpose(1, 2).flatten(2), weight, bias)
        self.recording.tap(site.name, "attn_out", made, site.query_stream, "d_model", "Concat(head_out)·W_O")


def _with(site: AttentionSite, projections: dict[str, tuple[Tensor, Tensor | None]]) -> AttentionSite:
    """The same with these projections; nothing that is kept by its cause is worked out."""
    return replace(site, **{part: site.kept(part) for part in "qkv"}, projections=projections)


def _kept(origin: Origin | None, t: Tensor) -> Tensor | Product:
    """A large one by its cause, if the pass ran in float32: rounded numbers are kept as they were."""
    if origin is None or t.numel() <= LARGEST_KEPT or t.dtype != torch.float32:
        return t.detach()
    return Product(origin.x, origin.weight, origin.bias, t.shape[1])


def _source(origin: Origin | None, t: Tensor, frame: Frame) -> Tensor:
    """What q (or v) was made of; where that is not known, what came into the module, and last the heads themselves."""
    if origin is not None:
        return origin.x
    batch, n = t.shape[0], t.shape[2]
    given = next((x for x in frame.given if x.dim() == 3 and x.shape[:2] == (batch, n) and x.is_floating_point()), None)
    return (t.transpose(1, 2).flatten(2) if given is None else given).detach()


def _one_each(t: Tensor, groups: int, n_heads: int) -> Tensor:
    """Keys or values without the copies that were made of them for each head of a group."""
    if groups == 1 or t.shape[1] != n_heads or n_heads % groups:
        return t
    one = t[:, ::groups]
    return one if torch.equal(one.repeat_interleave(groups, dim=1), t) else t


class Watch(TorchFunctionMode):
    """Sees every torch function of a pass; changes none but attention under an edit."""

    def __init__(self, of: Pass) -> None:
        super().__init__()
        self.of = of

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return _scaled_dot_product(self.of, func, *args, **kwargs)
        if func is F.multi_head_attention_forward:
            return multi_head.attend(self.of, func, *args, **kwargs)
        made = func(*args, **kwargs)
        if func is F.embedding and len(args) > 1:
            self.of.looked_up(args[0], args[1], made)
        if self.of.recording is not None and (linear := linear_of(func, args, kwargs, made)) is not None:
            self.of.called(linear)
        return made


def _scaled_dot_product(
    of: Pass, func: Callable, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:
    if query.dim() != 4:
        lifted = [t.reshape(-1, 1, *t.shape[-2:]) if t.dim() == 3 else t.view(1, 1, *t.shape) for t in (query, key, value)]
        mask = attn_mask[:, None] if attn_mask is not None and attn_mask.dim() == 3 else attn_mask
        return _scaled_dot_product(of, func, *lifted, mask, dropout_p, is_causal, scale, enable_gqa).view(*query.shape[:-1], -1)
    groups = query.shape[1] // key.shape[1]
    if of.places.n_query == 1 and query.shape[1] == key.shape[1] and query.shape[2] == of.places.groups > 1:
        return _packed(of, func, query, key, value, attn_mask, dropout_p, scale)

    def run(mask: Tensor | None, causal: bool) -> Tensor:
        how = {"enable_gqa": True} if enable_gqa or groups > 1 else {}
        return func(query, key, value, attn_mask=mask, dropout_p=dropout_p, is_causal=causal, scale=scale, **how)

    return of.attend(Call(query, key, value, attn_mask, is_causal, scale), run)


def _packed(
    of: Pass, func: Callable, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: float,
    scale: float | None,
) -> Tensor:
    """One query whose heads were laid as rows beside the key head that they share: (batch, key head, head of the group, d_head)."""
    batch, n_key_heads, group, d_head = query.shape

    def run(mask: Tensor | None, causal: bool) -> Tensor:
        if mask is not None and mask is not attn_mask:
            mask = mask.expand(batch, n_key_heads * group, 1, -1).reshape(batch, n_key_heads, group, -1)
        return func(query, key, value, attn_mask=mask, dropout_p=dropout_p, scale=scale).reshape(batch, -1, 1, value.shape[-1])

    asked = query.reshape(batch, n_key_heads * group, 1, d_head)
    mask = attn_mask
    if mask is not None and mask.shape[1] > 1:
        mask = mask.reshape(batch, n_key_heads * group, 1, -1)
    out = of.attend(Call(asked, key, value, mask, False, scale), lambda m, causal: run(attn_mask if m is mask else m, causal))
    return out.reshape(batch, n_key_heads, group, -1)


_pass: ContextVar[Pass | None] = ContextVar("pass", default=None)


@contextmanager
def watching(places: Places) -> Iterator[Pass]:
    """Watch the forward passes made inside the block, in this thread of work only: they are recorded into the recording under
    way, if there is one, under the edits in force."""
    of = Pass(places)
    token = _pass.set(of)
    try:
        with Watch(of):
            yield of
    finally:
        _pass.reset(token)


def under_way() -> Pass | None:
    """The pass under watch here, if any."""
    return _pass.get()


def mark_modules(module: nn.Module, taps: Taps) -> None:
    """Hooks on every module that tell a pass under watch which one is at work; outside of one they do nothing."""
    for path, part in module.named_modules():
        wanted = taps.at.get(path, ())
        part.register_forward_pre_hook(_enter(path, wanted), with_kwargs=True)
        part.register_forward_hook(_leave(wanted), always_call=True)


def _enter(path: str, taps: Sequence[Tap]) -> Callable:
    def enter(module: nn.Module, args: tuple, kwargs: Mapping[str, Any]) -> None:
        if (of := _pass.get()) is None:
            return
        frame = Frame(path, tuple(t for t in (*args, *kwargs.values()) if isinstance(t, Tensor)))
        of.frames.append(frame)
        of.tap([tap for tap in taps if tap.of_input], frame.given)

    return enter


def _leave(taps: Sequence[Tap]) -> Callable:
    def leave(module: nn.Module, args: tuple, output: Any) -> None:
        if (of := _pass.get()) is None or not of.frames:
            return
        made = [t for t in (output if isinstance(output, tuple) else (output,)) if isinstance(t, Tensor)]
        of.made(made)
        of.tap([tap for tap in taps if not tap.of_input], made)
        of.frames.pop()

    return leave
