"""Watch attention where any PyTorch model calls it.

A torch function mode, which lives in one thread alone, sees `scaled_dot_product_attention`,
`F.multi_head_attention_forward` and `flex_attention` in a forward pass under `watching`. Hooks that
do nothing outside such a pass give the path of the calling module.

The mode runs Python code at every torch function, whether it belongs to attention or not. If a
short run has shown that a few functions are enough for a model (`choose_route`), only these are
watched: they are replaced while such a pass is under way, and pass other threads' calls on.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from models.hub.recording import flex, multi_head
from models.hub.recording.batch_axes import by_text_and_head
from models.hub.recording.by_hand.attention_watch import ByHand
from models.hub.recording.context import (
    AttentionCall,
    ModuleCall,
    PassContext,
    Tap,
    Taps,
    rebuild,
)
from models.hub.recording.forward_pass import ForwardPass
from models.hub.recording.intermediates import Intermediates
from models.hub.recording.projections import ADDMM, LINEAR, linear_of
from models.trace.compiled import run_uncompiled

EMBEDDING = F.embedding


class Watch(TorchFunctionMode):
    """A mode that sees every torch function of a pass; it changes results only under an edit."""

    def __init__(self, forward_pass: ForwardPass) -> None:
        super().__init__()
        self.forward_pass, self.by_hand = forward_pass, ByHand(forward_pass)

    def __torch_function__(
        self,
        func: Callable,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs, provenance = kwargs or {}, self.forward_pass.context.provenance
        if self.forward_pass.intermediates.is_paused:
            return func(*args, **kwargs)
        if func in _ATTENTION:
            if provenance is None:
                return _ATTENTION[func](self.forward_pass, func, *args, **kwargs)
            query, key = (*args[:2], *(kwargs[name] for name in ("query", "key")[len(args) :]))
            provenance.note_call(query, key)
            result = _ATTENTION[func](self.forward_pass, func, *args, **kwargs)
            provenance.note(result, query)
            return result
        by_hand = self.by_hand if self.forward_pass.is_followed else None
        if by_hand is not None and (weighted := by_hand.called(func, args, kwargs)) is not None:
            result, queries = weighted
            if provenance is not None:
                provenance.note(result, queries)
            return result
        result, target = func(*args, **kwargs), args[0] if func is Tensor.__setitem__ else None
        if by_hand is not None:
            by_hand.steps.note(func, args, kwargs, result)
        if self.forward_pass.is_followed:  # under an edit, too: products tell texts from heads
            result = _report(self.forward_pass, func, args, kwargs, result)
        if provenance is not None:
            provenance.note(result if target is None else target, args, kwargs)
        return result


def _report(
    forward_pass: ForwardPass,
    func: Callable,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    result: Any,
) -> Any:
    """Report a product or vectors from a table to the pass; return the result, perhaps edited."""
    if func is EMBEDDING and len(args) > 1:
        return forward_pass.intermediates.on_embedding(*args[:2], result)
    linear = linear_of(func, args, kwargs, result)
    return result if linear is None else forward_pass.on_product(linear)


def _scaled_dot_product(
    forward_pass: ForwardPass,
    func: Callable,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if query.dim() != 4 or query.shape[0] > forward_pass.context.n_rows:
        return _with_other_axes(
            forward_pass,
            func,
            (query, key, value, attn_mask),
            is_causal,
            {"dropout_p": dropout_p, "scale": scale, "enable_gqa": enable_gqa},
        )
    groups = query.shape[1] // key.shape[1]
    if (
        forward_pass.context.n_query == 1
        and query.shape[1] == key.shape[1]
        and 1 < query.shape[2] <= forward_pass.context.groups
    ):
        return _record_packed(forward_pass, func, query, key, value, attn_mask, dropout_p, scale)

    def run(mask: Tensor | None, causal: bool) -> Tensor:
        how = {"enable_gqa": True} if enable_gqa or groups > 1 else {}
        return func(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=dropout_p,
            is_causal=causal,
            scale=scale,
            **how,
        )

    return forward_pass.attend(AttentionCall(query, key, value, attn_mask, is_causal, scale), run)


def _with_other_axes(
    forward_pass: ForwardPass,
    func: Callable,
    inputs: tuple[Tensor, Tensor, Tensor, Tensor | None],
    is_causal: bool,
    how: Mapping[str, Any],
) -> Tensor:
    """Record attention whose axes are not texts, heads, tokens and features in this order."""
    q, k, v, mask = by_text_and_head(forward_pass, *inputs)

    def run(changed: Tensor | None, causal: bool) -> Tensor:
        if changed is mask and causal == is_causal:
            out = func(*inputs, is_causal=causal, **how)
            return out.reshape(*q.shape[:-1], -1)
        return func(q, k, v, attn_mask=changed, is_causal=causal, **how)

    out = forward_pass.attend(AttentionCall(q, k, v, mask, is_causal, how["scale"]), run)
    return out.reshape(*inputs[0].shape[:-1], -1)


def _record_packed(
    forward_pass: ForwardPass,
    func: Callable,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    scale: float | None,
) -> Tensor:
    """Record one query whose heads are rows beside the key head that they share.

    Shapes are (batch, key head, head of the group, d_head).
    """
    batch, n_key_heads, group, d_head = query.shape

    def run(mask: Tensor | None, causal: bool) -> Tensor:
        if mask is not None and mask is not attn_mask:
            mask = mask.expand(batch, n_key_heads * group, 1, -1).reshape(
                batch, n_key_heads, group, -1
            )
        return func(query, key, value, attn_mask=mask, dropout_p=dropout_p, scale=scale).reshape(
            batch, -1, 1, value.shape[-1]
        )

    joined_heads = query.reshape(batch, n_key_heads * group, 1, d_head)
    mask = attn_mask
    if mask is not None and mask.shape[1] > 1:
        mask = mask.reshape(batch, n_key_heads * group, 1, -1)
    call = AttentionCall(joined_heads, key, value, mask, False, scale)
    out = forward_pass.attend(call, lambda m, causal: run(attn_mask if m is mask else m, causal))
    return out.reshape(batch, n_key_heads, group, -1)


_ATTENTION = {
    F.scaled_dot_product_attention: _scaled_dot_product,
    F.multi_head_attention_forward: multi_head.record_multi_head,
    flex.OPERATOR: flex.record_flex,
}
_pass: ContextVar[ForwardPass | None] = ContextVar("pass", default=None)


_WATCHED = (  # module, name and torch's function: enough for most models
    (F, "scaled_dot_product_attention", F.scaled_dot_product_attention),
    (F, "linear", LINEAR),
    (F, "embedding", EMBEDDING),
    (torch, "addmm", ADDMM),
)
_lock, _n_passes = threading.Lock(), 0  # passes under way that are watched by these functions


def _watched_function(func: Callable, original: Callable) -> Callable:
    """Return the function that replaces a watched one while passes are watched, in any thread.

    `original` does the work: torch's `func`, or what another library has put in its place.
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        forward_pass = _pass.get()
        if forward_pass is None or not forward_pass.by_functions:
            return original(*args, **kwargs)
        if func in _ATTENTION:
            return _ATTENTION[func](forward_pass, original, *args, **kwargs)
        if forward_pass.recording is None:
            return original(*args, **kwargs)
        return _report(forward_pass, func, args, kwargs, original(*args, **kwargs))

    return called


_replaced: list[tuple[Any, str, Callable, Callable]] = []  # module, name, original and ours


@contextmanager
def _watch_functions() -> Iterator[None]:
    """Replace the watched functions until the last such block ends."""
    global _n_passes
    with _lock:
        _n_passes += 1
        if _n_passes == 1:
            for module, name, func in _WATCHED:
                original = getattr(module, name)
                _replaced.append((module, name, original, _watched_function(func, original)))
                setattr(module, name, _replaced[-1][-1])
    try:
        yield
    finally:
        with _lock:
            _n_passes -= 1
            while not _n_passes and _replaced:
                module, name, original, ours = _replaced.pop()
                if getattr(module, name) is ours:  # else another library has replaced it since
                    setattr(module, name, original)


@contextmanager
def watching(context: PassContext, by_functions: bool = False) -> Iterator[ForwardPass]:
    """Watch the forward passes made inside the block, in this thread only.

    They go into the current recording, if there is one, under the edits in force. With
    `by_functions` a few functions are watched, unless there are edits; otherwise all are.
    """
    forward_pass = ForwardPass(context)
    forward_pass.by_functions = by_functions and forward_pass.edits is None
    token = _pass.set(forward_pass)
    watch = _watch_functions() if forward_pass.by_functions else Watch(forward_pass)
    try:
        with run_uncompiled(), watch:
            yield forward_pass
        if isinstance(watch, Watch):
            watch.by_hand.name_unsummed()
        forward_pass.name_unrecorded()
    finally:
        _pass.reset(token)


class Marks:
    """Hooks on every module that tell a watched pass which one is at work.

    They also pass on the tensors that `taps` name there, which an edit may change. The hooks are
    removed with the model that these marks belong to.
    """

    def __init__(self, module: nn.Module, taps: Taps) -> None:
        self._handles = {
            path: (
                part.register_forward_pre_hook(_enter(path, taps), with_kwargs=True),
                part.register_forward_hook(_leave(path, taps), always_call=True),
            )
            for path, part in module.named_modules()
        }
        weakref.finalize(self, _remove, self._handles)

    def keep(self, paths: Collection[str]) -> None:
        """Remove the hooks of all other modules, which are not needed; each costs time."""
        _remove({path: self._handles.pop(path) for path in self._handles.keys() - set(paths)})


def _remove(handles: Mapping[str, tuple[RemovableHandle, ...]]) -> None:
    for handle in itertools.chain(*handles.values()):
        handle.remove()


def _enter(path: str, taps: Taps) -> Callable:
    place, models = (path, True), (None, taps.number)

    def enter(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple | None:
        # without a function of its own: this runs at every module
        if (forward_pass := _pass.get()) is None or forward_pass.model_number not in models:
            return None
        call = ModuleCall(path, args, kwargs)
        forward_pass.frames.append(call)
        intermediates = forward_pass.intermediates
        here = _taps_at(place, taps, intermediates)
        if not here or (after := intermediates.tap(here, inputs := call.inputs)) is None:
            return None
        args = tuple(after if value is inputs[0] else value for value in args)
        kwargs = {name: after if t is inputs[0] else t for name, t in kwargs.items()}
        return args, kwargs

    return enter


def _leave(path: str, taps: Taps) -> Callable:
    place, models = (path, False), (None, taps.number)

    def leave(module: nn.Module, args: tuple, output: Any) -> Any:
        if (forward_pass := _pass.get()) is None or forward_pass.model_number not in models:
            return None
        if not forward_pass.frames:
            return None
        outputs = [output] if isinstance(output, Tensor) else []
        if isinstance(output, tuple | list):
            outputs = [t for t in output if isinstance(t, Tensor)]
            forward_pass.on_outputs(outputs)
        here = _taps_at(place, taps, forward_pass.intermediates)
        after = forward_pass.intermediates.tap(here, outputs) if here else None
        forward_pass.frames.pop()
        if after is None or not isinstance(output, tuple | list):
            return after
        return rebuild(output, (after if value is outputs[0] else value for value in output))

    return leave


def _taps_at(place: tuple[str, bool], taps: Taps, intermediates: Intermediates) -> Sequence[Tap]:
    return (taps.exact if intermediates.edits_activations else taps.by_place).get(place, ())
