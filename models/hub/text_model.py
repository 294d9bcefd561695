"""Wrap a third-party module that reads texts as the kind of model that short runs show it to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from models.errors import CheckpointError
from models.hub import confirm, positions, probe, probe_cache, probe_route
from models.hub.choosers import MultipleChoice
from models.hub.generation import generation_settings
from models.hub.kinds import why_it_does_not_run
from models.hub.labels import label_names
from models.hub.layouts import layer_maps, rotary_paths
from models.hub.lengths import stream_limits
from models.hub.model import BIDIRECTIONAL_SELF, CAUSAL_SELF, HubModel
from models.hub.readers import (
    ORIGINAL_OR_REPLACED,
    BidirectionalLM,
    Classifier,
    Discriminator,
    MaskedLM,
    TokenClassifier,
)
from models.hub.routing import find_routings
from models.hub.sizes import HubConfig
from models.hub.token_types import TokenTypes, given_types
from models.hub.tokenizer import (
    SECOND_CLOSING,
    LibraryTokenizer,
    frames_of,
    types_of,
)
from models.hub.writers import (
    CausalLM,
    EncoderDecoderClassifier,
    EncoderDecoderLM,
    EncoderDecoderReader,
    HubEncoderDecoder,
    is_encoder_decoder,
)
from models.tokenizers.base import Tokenizer


def text_model(
    kind: type[HubModel],
    module: nn.Module,
    config: Any,
    sizes: HubConfig,
    library: Any,
    tokenizer: Tokenizer,
) -> HubModel:
    """Wrap a module as the kind of model that its class, or else a short run, shows it to be.

    Raises CheckpointError for a model that does not run on a text alone.
    """
    model = _wrap_running(kind, module, config, sizes, tokenizer)
    if not isinstance(model, HubEncoderDecoder) and not model.can_write:
        model.token_types = _token_types(config, module, library, tokenizer)
    return model


def _wrap_running(kind: type[HubModel], module: nn.Module, *about: Any) -> HubModel:
    """Wrap a module as `_hub_model` does, or raise CheckpointError if it needs more than a text."""
    try:
        return _hub_model(kind, module, *about)
    except CheckpointError:
        raise
    except Exception as error:  # the library's, unless the model runs when it is not watched
        reason = why_it_does_not_run(module)
        if not reason and isinstance(error, AttributeError | TypeError):
            reason = (
                f"{type(module).__name__:.80} runs on a text, but Attnscope does not know the form of its "
                "inputs or outputs"
            )
        if not reason:
            raise
        raise CheckpointError(reason) from None


def _token_types(
    config: Any, module: nn.Module, library: Any, tokenizer: Tokenizer
) -> TokenTypes | None:
    """Return the token types to pass to a reader, or None.

    TAPAS has several types per token and is passed none.
    """
    text = config.get_text_config(decoder=True)
    if hasattr(text, "type_vocab_sizes"):
        return None
    n_types = getattr(text, "type_vocab_size", None)
    return given_types(module, n_types, library, types_of(tokenizer))


def _measured_kind(kind: type[HubModel], module: nn.Module, sizes: HubConfig) -> type[HubModel]:
    """Return our class for a model, by a short run and by the inputs of its module.

    Raises CheckpointError for a model with a decoder whose answer cannot be read.
    """
    if kind in (CausalLM, EncoderDecoderLM):
        # the table does not say whether the class has an encoder
        kind = EncoderDecoderLM if is_encoder_decoder(module) else CausalLM
    if kind is CausalLM and not probe.looks_back_only(module, sizes):
        return BidirectionalLM
    if kind is MaskedLM:
        return probe.pretrained_kind(module, sizes)
    if not is_encoder_decoder(module) or issubclass(kind, HubEncoderDecoder):
        return kind
    if kind not in (Classifier, HubModel):
        raise CheckpointError(
            f"{sizes.architecture} has an encoder and a decoder; among such models, only those that write, classify or "
            "make vectors can be opened"
        )
    return EncoderDecoderClassifier if kind is Classifier else EncoderDecoderReader


def _hub_model(
    kind: type[HubModel], module: nn.Module, config: Any, sizes: HubConfig, tokenizer: Tokenizer
) -> HubModel:
    """Wrap a module as the kind of model that its class or a short run shows it to be."""
    pairs = SECOND_CLOSING in frames_of(tokenizer)
    kind = _measured_kind(kind, module, sizes)
    if isinstance(tokenizer, LibraryTokenizer) and not pairs and kind.needs_pair():
        raise CheckpointError(
            "its tokenizer's template for two texts does not extend that for one, so no pair can be read"
        )
    settings = _answer_settings(kind, module, sizes, label_names(config))
    model = kind(module, sizes, pairs=pairs, **settings)
    if kind is Classifier and settings["position"] == -1:
        _name_padding(module, sizes)
    if model.translates and sizes.start_id < 0:
        raise CheckpointError(
            "its files name neither decoder_start_token_id nor bos_token_id, so it is unknown how its texts begin"
        )
    probe.choose_shift(model)
    probe.check_recorded(model)
    probe.check_two_steps(model)
    _choose_limits(model)
    if model.kinds == (BIDIRECTIONAL_SELF,) and not probe.looks_ahead(model):
        model.kinds = (CAUSAL_SELF,)
    if model.can_write:
        _choose_generation(model)
    confirm.choose_layer_map(model, layer_maps(module))
    model.record_experts(find_routings(model))
    _choose_positions(model)
    inputs = model.repeated(probe.short_text(module, model.config, 5))
    probe_route.choose_route(model, inputs)
    return model


def _answer_settings(
    kind: type[HubModel], module: nn.Module, sizes: HubConfig, names: Sequence[str]
) -> dict[str, Any]:
    """Return where the answer of this kind is read from, and the names of its classes."""
    if kind is Discriminator:
        return {"names": ORIGINAL_OR_REPLACED}
    if kind is TokenClassifier:
        return {"names": names}
    if kind is EncoderDecoderClassifier:
        return {"names": names, "position": -1}
    if kind is Classifier:
        position = probe.answering_position(module, sizes)
        skipped = probe.skipped_padding(module, sizes) if position == -1 else -1
        return {"names": names, "position": position, "skipped": skipped}
    if kind is MultipleChoice:
        return {"position": probe.answering_position(module, sizes, choices=True)}
    return {}


def _choose_limits(model: HubModel) -> None:
    """Measure how long a text may be, and whether several texts may be padded to one length."""
    model.limits = stream_limits(model)
    model.config = replace(model.config, n_ctx=max(model.limits.values()))
    model.pads = (
        model.pads
        and not probe_cache.rotation_varies_with_length(model)
        and probe.answers_beside_a_longer_text(model)
    )


def _choose_generation(model: HubModel) -> None:
    """Choose the cache to generate with, and read the settings of generation."""
    probe_cache.choose_cache(model)
    begin = 0 if model.continues else int(model.config.first_id >= 0)
    model.generation, model.not_applied = generation_settings(
        model.module, model.end_ids, continues=model.continues, n_given=1, begin=begin
    )


def _choose_positions(model: HubModel) -> None:
    """Measure where the model takes the order of its tokens from."""
    model.rotary = positions.rotary(model, rotary_paths(model.module))
    if (table := positions.position_table(model)) is not None:
        model.positions = table
        kind = "learned" if table.is_learned else "fixed"
        model.config = replace(model.config, positions=kind)
    model.order_source = positions.find_order_source(model)


def _name_padding(module: nn.Module, sizes: HubConfig) -> None:
    """Let a classifier without a padding token read several rows, which its library refuses.

    The id that it gets is in no row, so each row is read from its last token, as when it is alone.
    """
    config: Any = module.config
    for part in (config, config.get_text_config()):
        if getattr(part, "pad_token_id", None) is None:
            part.pad_token_id = sizes.pad_id
