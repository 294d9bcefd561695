"""Properties of a third-party model that it does not declare, measured in short runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from models.errors import CheckpointError
from models.hub.choosers import MaskedPair
from models.hub.close import is_close
from models.hub.kinds import why_nothing_is_shown
from models.hub.model import HubModel
from models.hub.readers import Discriminator, MaskedLM
from models.hub.sizes import HubConfig
from models.hub.writers import EncoderDecoderReader
from models.trace import Recording, record


def short_text(module: nn.Module, sizes: HubConfig, n: int = 3) -> Tensor:
    """Return a row of n token ids without padding and end tokens.

    The row of a model without a vocabulary is empty. Raises ValueError if a vocabulary has no such
    token.
    """
    some = [
        i for i in range(min(sizes.vocab_size, n + 3)) if i not in (sizes.fill_id, sizes.end_id)
    ]
    if sizes.vocab_size and not some:
        raise ValueError("its vocabulary has only tokens for padding and the end of a text")
    return torch.tensor([(some * n)[:n]], device=next(module.parameters()).device)


def looks_back_only(module: Any, sizes: HubConfig) -> bool:
    """Return True if no gradient of earlier logits reaches the embedding of the last token.

    The gradient through a masked cell is exactly 0, in any dtype and however small the weights
    are. Comparing logits is less exact: a mixture of experts batches tokens by their route, so
    another last token changes the earlier logits by rounding.
    """
    embedded: list[Tensor] = []

    def keep(table: nn.Module, args: tuple, vectors: Tensor) -> Tensor:
        embedded.append(vectors.detach().requires_grad_())
        return embedded[-1].clone()  # a copy: the model may change it

    hook = module.get_input_embeddings().register_forward_hook(keep)
    try:
        with torch.enable_grad():
            logits = module(input_ids=short_text(module, sizes), use_cache=False).logits
            raw = torch.autograd.grad(
                logits[0, :-1].float().square().sum(), embedded, allow_unused=True
            )
    except Exception:  # some of the library's models allow no gradient outside training
        return False
    finally:
        hook.remove()
    gradients = [gradient for gradient in raw if gradient is not None]
    return any(bool(gradient[..., :-1, :].any()) for gradient in gradients) and not any(
        bool(gradient[..., -1, :].any()) for gradient in gradients
    )


@torch.no_grad()
def answers_beside_a_longer_text(model: HubModel) -> bool:
    """Return True if a short text gets the same answer beside a longer one as alone.

    XLNet reads its class from the last token of the batch, which then is padding.
    """
    short, longer = (model.repeated(short_text(model.module, model.config, n)) for n in (3, 5))
    beside = []
    for rows in zip(short, longer, strict=True):
        padding = model.config.pad_id if any(bool(row.any()) for row in rows) else 0  # of segments
        beside.append(model.padded([row[0].tolist() for row in rows], padding))
    try:
        alone, both = _tensors(model(*short)), _tensors(model(*beside))
    except Exception:  # the library may raise anything on padding
        return False
    cut = [batch[:1][tuple(map(slice, one.shape))] for batch, one in zip(both, alone, strict=True)]
    pairs = list(zip(cut, alone, strict=True))
    return all(
        one.shape == expected.shape and is_close(model, one, expected) for one, expected in pairs
    )


@torch.no_grad()
def looks_ahead(model: HubModel, kind: str = "") -> bool:
    """Return True if, in a short run, any token reads a later one.

    `kind` names the kind of attention to look at; "" looks at all.
    """
    with record() as recording:
        model(*model.repeated(short_text(model.module, model.config)))
    sites = [site for site in recording.attention.values() if kind in ("", site.kind)]
    return any(bool(site.weights().triu(1).any()) for site in sites)


@torch.no_grad()
def pretrained_kind(module: nn.Module, sizes: HubConfig) -> type[HubModel]:
    """Return the kind of a pretrained model: masks and a pair, a discriminator, or masks."""
    output = module(input_ids=short_text(module, sizes))
    if hasattr(output, "prediction_logits"):
        return MaskedPair
    return Discriminator if output.logits.dim() == 2 else MaskedLM


def answering_position(module: nn.Module, sizes: HubConfig, choices: bool = False) -> int | None:
    """Find the token whose last vector is read: 0 for the first, −1 for the last, None for several.

    With `choices`, the input of the model has an axis of choices.
    """
    ids = short_text(module, sizes)
    read = _tokens_read(module, ids, choices)
    if read == (0,):
        return 0
    return -1 if read == (ids.shape[1] - 1,) else None


def skipped_padding(module: nn.Module, sizes: HubConfig) -> int:
    """Return the padding id if a row ending in it is read from the token before; else −1."""
    pad, ids = getattr(module.config, "pad_token_id", None), short_text(module, sizes).clone()
    if not isinstance(pad, int) or not 0 <= pad < sizes.vocab_size:
        return -1
    ids[:, -1] = pad
    return pad if _tokens_read(module, ids) == (ids.shape[1] - 2,) else -1


def _tokens_read(module: nn.Module, ids: Tensor, choices: bool = False) -> tuple[int, ...]:
    """Return the positions whose last vectors the answer is read from, by the gradient."""
    n, heads_read = ids.shape[1], list[Tensor]()

    def remember(_: nn.Module, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], Tensor) and args[0].shape[-2:-1] == (n,):
            heads_read.append(args[0])

    hooks = [one.register_forward_pre_hook(remember) for one in module.children()]
    try:
        with torch.enable_grad():
            output = module(input_ids=ids[:, None] if choices else ids, output_hidden_states=True)
            # some models return copies of their states: then use the input of a head
            for states in (output.hidden_states[-1], *heads_read):
                if not states.is_floating_point() or not states.requires_grad:
                    continue
                total = output.logits.float().sum()
                (gradient,) = torch.autograd.grad(
                    total, states, allow_unused=True, retain_graph=True
                )
                if gradient is not None:
                    by_token = gradient.reshape(n, -1).abs().sum(-1)
                    return tuple(by_token.nonzero().flatten().tolist())
    finally:
        for hook in hooks:
            hook.remove()
    return ()


@torch.no_grad()
def check_recorded(model: HubModel) -> None:
    """Raise CheckpointError if short runs show no attention or an answer that is not finite.

    Weights that fit the tokens at only one length are as wide as a window or a block; they are
    never shown.
    """
    short, longer = (
        _recorded_run(model, short_text(model.module, model.config, n)) for n in (3, 5)
    )
    reasons = short.unrecorded | longer.unrecorded
    model.misfits = {
        name: reasons[name] for name in short.attention.keys() ^ longer.attention.keys()
    }
    sites = [longer.attention[name] for name in longer.attention if name in short.attention]
    model.shows_causes = all(site.has_causes for site in sites)
    if not sites:
        reason = next(iter(reasons.values()), "")
        raise CheckpointError(
            f"its attention cannot be shown: {reason}"
            if reason
            else why_nothing_is_shown(model.module)
        )


def _recorded_run(model: HubModel, ids: Tensor) -> Recording:
    with record() as recording:
        output = model(*model.repeated(ids))
    _check_finite(_tensors(output))
    return recording


def _check_finite(answers: Iterable[Tensor]) -> None:
    if not all(bool(answer.isfinite().all()) for answer in answers):
        raise CheckpointError("with these weights the model's answer is not finite")


@torch.no_grad()
def check_trial(model: HubModel, otherwise: str) -> None:
    """Raise CheckpointError if a run shows no attention or an answer that is not finite.

    `otherwise` is the reason if the run gives none.
    """
    with record() as recording:
        answers = model(*model.repeated(torch.empty(0)))
    _check_finite(answers.values())
    if not recording.attention:
        reason = next(iter(recording.unrecorded.values()), "")
        raise CheckpointError(f"its attention cannot be shown: {reason}" if reason else otherwise)
    model.shows_causes = all(site.has_causes for site in recording.attention.values())


@torch.no_grad()
def check_two_steps(model: HubModel, reads: str = "input_ids") -> None:
    """Raise CheckpointError if the stacks, run one by one, give different logits than one call.

    `reads` is the module's name for the input of its encoder.
    """
    if not model.translates:
        return
    first, text = model.repeated(short_text(model.module, model.config, 7))
    inputs = {reads: first, "decoder_input_ids": text}
    one_call = model.module(**inputs, use_cache=False).logits
    if not is_close(model, model(first, text), one_call):
        raise CheckpointError(
            "its decoder gives different logits for a finished encoding than in one call with its encoder"
        )


@torch.no_grad()
def choose_shift(model: HubModel) -> None:
    """Begin the decoder's row as the module does for a text alone.

    Raises CheckpointError if the row that the module gives its decoder is not the text, shifted by
    one token.
    """
    if not isinstance(model, EncoderDecoderReader):
        return
    ids, rows = short_text(model.module, model.config, 5), list[Tensor]()
    if int(ids[0, -1]) == model.config.start_id:
        ids = ids.flip(1)

    def keep(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        row = kwargs.get("input_ids", args[0] if args else None)
        rows.extend([row] if isinstance(row, Tensor) else [])

    hook = model.module.get_decoder().register_forward_pre_hook(keep, with_kwargs=True)
    try:
        model.module(input_ids=ids)
    except Exception:  # the library may raise anything: T5Model makes no row for its decoder
        pass
    finally:
        hook.remove()
    if not rows:
        return
    model.begins_with_last = torch.equal(rows[0][:, :1], ids[:, -1:])
    first = ids[:, -1:] if model.begins_with_last else ids.new_full((1, 1), model.config.start_id)
    if not torch.equal(rows[0], torch.cat([first, ids[:, :-1]], dim=1)):
        raise CheckpointError("its decoder does not read the text shifted by one token")


def _tensors(output: Any) -> list[Tensor]:
    return [output] if isinstance(output, Tensor) else list(output.values())
