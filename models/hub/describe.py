"""Describe a third-party model, for `attnscope inspect` and for its card in the app.

The description has its sizes, parameters and tokenizer, and says what can be shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import cast

from models.analysis.routing import routings
from models.architectures import Model
from models.architectures.base import BY_VECTORS, UNSEEN
from models.hub.images.processor import PatchTokenizer
from models.hub.model import HubModel
from models.hub.routing import may_be_mixture
from models.hub.sizes import HubConfig
from models.hub.sounds.processor import FrameTokenizer
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from models.trace import AttentionSite, Trace

_MAY_ADD = (BY_VECTORS, UNSEEN)  # order sources of models that may add position vectors


def model_summary(scope: Scope) -> Iterator[str]:
    """Yield the lines of a summary.

    The model's example is run once, because only a run shows what can be recorded.
    """
    model, config = cast(HubModel, scope.model), cast(HubConfig, scope.config)
    n_parameters = sum(p.numel() for p in model.module.parameters())
    yield f"{scope.name}: {config.architecture}, {n_parameters:,} parameters\n"
    yield from (f"  {field.name:18} {getattr(config, field.name)}" for field in fields(config))
    yield "\nparameters"
    for name, p in model.module.named_parameters():
        yield f"  {name:64} {' × '.join(map(str, p.shape)):>14} {p.numel():>13,}"
    tokenizer, special = scope.tokenizer, ", ".join(_special_tokens(scope.tokenizer))
    yield f"\ntokenizer\n  {type(tokenizer).__name__}: {tokenizer.vocab_size:,} tokens; {special or 'no special tokens'}"
    yield f"  its fields are {', '.join(field.title for field in model.fields)}; up to {config.n_ctx:,} tokens are read"
    first = scope.examples[0]
    yield "\nwhat can be shown"
    yield from (
        f"  {line}"
        for line in capabilities(scope, scope.run(*([first] if isinstance(first, str) else first)))
    )


def _special_tokens(tokenizer: Tokenizer) -> Iterator[str]:
    """Yield the name and id of each special token; for a file, of tokens that are no part of it."""
    if isinstance(tokenizer, PatchTokenizer | FrameTokenizer):
        special = filter(tokenizer.is_special, range(tokenizer.vocab_size))
        yield from (f"{tokenizer.token(i)} {i}" for i in special)
        return
    named = sorted(tokenizer.special_ids.items())
    yield from (f"{name} {i}" for name, i in named if name != "pad")


def capabilities(scope: Scope, trace: Trace) -> Iterator[str]:
    """Yield lines on what a run shows of a model, and why the rest is not shown."""
    model, sites = scope.model, list(trace.attention.values())
    if model.answer_description:
        yield f"output: {model.answer_description}"
    yield from _left_out(model)
    if not sites:
        yield "no attention: a hidden state carries what was read"
        return
    yield f"attention: {layers_and_heads(sites)}"
    yield from (f"not recorded: {name}: {reason}" for name, reason in trace.unrecorded.items())
    if not all(site.has_causes for site in sites):
        weights_only = next(site for site in sites if not site.has_causes)
        yield (
            f"only weights are known, not queries, keys or scores, and masks cannot be painted: {weights_only.name}: "
            f"{weights_only.why_given}"
        )
        return
    yield "queries, keys, values, scores and named mask layers are shown; masks can be painted"
    yield from _head_steps(sites)
    yield (
        "the residual stream is shown"
        if model.sublayers or any("resid" in name for name in trace.activations)
        else ("the residual stream is not shown: no run confirmed which modules pass it on")
    )
    yield from _experts(scope)
    yield from _positions(model)


def _left_out(model: Model) -> Iterator[str]:
    """Yield lines on the tensors and settings of a folder that are not used."""
    if isinstance(model, HubModel) and (unused := model.unused):
        n = (
            "1 tensor in its files is"
            if len(unused) == 1
            else f"{len(unused)} tensors in its files are"
        )
        yield f"{n} not used, such as {unused[0]:.100}: this class has no parameter for it"
    if names := model.not_applied:
        yield f"generation settings not applied here: {', '.join(names)}"


def _head_steps(sites: Sequence[AttentionSite]) -> Iterator[str]:
    """Yield lines on the steps from tokens to scores, and on heads that share keys."""
    yield (
        "each head is shown step by step, from the tokens through W_Q, W_K, W_V and W_O"
        if all(site.projections for site in sites)
        else "the steps from tokens to scores are not shown: its queries and keys were not recognised as x·W + b when compared"
    )
    if groups := {site.n_heads // site.lazy_k.shape[1] for site in sites} - {1}:
        yield f"{' or '.join(map(str, sorted(groups)))} heads read one key head"


def _positions(model: Model) -> Iterator[str]:
    """Yield lines on how the model marks positions."""
    if model.rotation(2) is not None:
        yield "the angles that rotate its queries and keys at each position are shown"
    none = "no table of them was found" if model.order_source in _MAY_ADD else "the model adds none"
    yield (
        "its position vectors are shown"
        if model.positions is not None
        else f"position vectors are not shown: {none}"
    )


def _experts(scope: Scope) -> Iterator[str]:
    """Yield lines on the feed-forwards whose experts are shown for each token."""
    model = scope.model
    if not isinstance(model, HubModel):
        return
    mixtures = [p.path for p in model.sublayers if may_be_mixture(model, p)]
    sizes = Counter(routing.n_experts for routing in routings(model).values())
    for n_experts, n in sizes.items():
        feed_forwards = "1 feed-forward" if n == 1 else f"{n} feed-forwards"
        yield f"each token's experts, out of {n_experts}, are shown in {feed_forwards}"
    if unknown := [path for path in mixtures if path not in model.routings]:
        yield f"each token's experts are not shown, because no run confirmed them: {', '.join(unknown)}"


def layers_and_heads(sites: Sequence[AttentionSite]) -> str:
    """Return the number of attention layers and heads of a run, kind by kind."""
    layers = {(f"{site.stack} {site.role}", site.n_heads, site.layer): None for site in sites}
    counts = Counter((kind, heads) for kind, heads, _ in layers)
    return ", ".join(
        f"{n} layer{'s' * (n > 1)} × {heads} head{'s' * (heads > 1)} of {kind}-attention"
        for (kind, heads), n in counts.items()
    )
