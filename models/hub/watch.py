"""Attention seen where any PyTorch model calls it: `scaled_dot_product_attention` or `F.multi_head_attention_forward`.

A torch function mode, which lives in one thread alone, sees these calls in a forward pass under `watching`. The path of the module
that calls comes from hooks that do nothing outside such a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from models.hub import multi_head
from models.hub.call import Call
from models.hub.places import Frame, Places
from models.hub.projections import linear_of
from models.hub.recorder import Pass
from models.hub.taps import Taps


class Watch(TorchFunctionMode):
    """Sees every torch function of a pass; changes none but attention under an edit."""

    def __init__(self, forward_pass: Pass) -> None:
        super().__init__()
        self.forward_pass = forward_pass

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs, provenance = kwargs or {}, self.forward_pass.places.provenance
        if func in _ATTENTION:
            if provenance is None:
                return _ATTENTION[func](self.forward_pass, func, *args, **kwargs)
            query, key = (*args[:2], *(kwargs[name] for name in ("query", "key")[len(args) :]))
            provenance.note_call(query, key)
            result = _ATTENTION[func](self.forward_pass, func, *args, **kwargs)
            provenance.note(result, query)
            return result
        result = func(*args, **kwargs)
        if provenance is not None:
            provenance.note(args[0] if func is Tensor.__setitem__ else result, args, kwargs)
        if func is F.embedding and len(args) > 1:
            self.forward_pass.note_lookup(args[0], args[1], result)
        if (
            self.forward_pass.recording is not None
            and (linear := linear_of(func, args, kwargs, result)) is not None
        ):
            self.forward_pass.note_product(linear)
        return result


def _scaled_dot_product(
    forward_pass: Pass,
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
    if query.dim() != 4:
        lifted = [
            t.reshape(-1, 1, *t.shape[-2:]) if t.dim() == 3 else t.view(1, 1, *t.shape)
            for t in (query, key, value)
        ]
        mask = attn_mask[:, None] if attn_mask is not None and attn_mask.dim() == 3 else attn_mask
        out = _scaled_dot_product(
            forward_pass, func, *lifted, mask, dropout_p, is_causal, scale, enable_gqa
        )
        return out.view(*query.shape[:-1], -1)
    groups = query.shape[1] // key.shape[1]
    if (
        forward_pass.places.n_query == 1
        and query.shape[1] == key.shape[1]
        and query.shape[2] == forward_pass.places.groups > 1
    ):
        return _packed(forward_pass, func, query, key, value, attn_mask, dropout_p, scale)

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

    return forward_pass.attend(Call(query, key, value, attn_mask, is_causal, scale), run)


def _packed(
    forward_pass: Pass,
    func: Callable,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    scale: float | None,
) -> Tensor:
    """One query whose heads were laid as rows beside the key head that they share: (batch, key head, head of the group, d_head)."""
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
    call = Call(joined_heads, key, value, mask, False, scale)
    out = forward_pass.attend(call, lambda m, causal: run(attn_mask if m is mask else m, causal))
    return out.reshape(batch, n_key_heads, group, -1)


_ATTENTION = {
    F.scaled_dot_product_attention: _scaled_dot_product,
    F.multi_head_attention_forward: multi_head.attend,
}
_pass: ContextVar[Pass | None] = ContextVar("pass", default=None)


@contextmanager
def watching(places: Places) -> Iterator[Pass]:
    """Watch the forward passes made inside the block, in this thread of work only: they are recorded into the recording under
    way, if there is one, under the edits in force."""
    forward_pass = Pass(places)
    token = _pass.set(forward_pass)
    try:
        with Watch(forward_pass):
            yield forward_pass
    finally:
        _pass.reset(token)


def mark_modules(module: nn.Module, taps: Taps) -> None:
    """Hooks on every module that tell a pass under watch which one is at work; outside of one they do nothing."""
    for path, part in module.named_modules():
        part.register_forward_pre_hook(_enter(path, taps), with_kwargs=True)
        part.register_forward_hook(_leave(path, taps), always_call=True)


def _enter(path: str, taps: Taps) -> Callable:
    def enter(module: nn.Module, args: tuple, kwargs: Mapping[str, Any]) -> None:
        if (forward_pass := _pass.get()) is None:
            return
        frame = Frame(path, tuple(t for t in (*args, *kwargs.values()) if isinstance(t, Tensor)))
        forward_pass.frames.append(frame)
        forward_pass.tap([tap for tap in taps.by_path.get(path, ()) if tap.of_input], frame.inputs)

    return enter


def _leave(path: str, taps: Taps) -> Callable:
    def leave(module: nn.Module, args: tuple, output: Any) -> None:
        if (forward_pass := _pass.get()) is None or not forward_pass.frames:
            return
        outputs = [
            t for t in (output if isinstance(output, tuple) else (output,)) if isinstance(t, Tensor)
        ]
        forward_pass.note_outputs(outputs)
        forward_pass.tap([tap for tap in taps.by_path.get(path, ()) if not tap.of_input], outputs)
        forward_pass.frames.pop()

    return leave
