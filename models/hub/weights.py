"""Load a third-party module, and reject weights that are incomplete or do not fit."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from models import loading
from models.errors import CheckpointError
from models.hub import probe
from models.hub.close import is_close
from models.hub.model import HubModel

_IN_LAYER = re.compile(r"\.\d+(\.|$)")  # a path of a module
# buffers that older versions of the library saved and newer ones compute, and scales of caches
_BUFFERS = re.compile(
    r"(^|\.)(inv_freq|(cos|sin)_cached|masked_bias|causal_mask|(attn|attention)\.bias|position_ids|relative_position_index|"
    r"relative_coords_table|attention_bias_idxs|num_batches_tracked|[kv]_scale|EncDecAttention\.relative_attention_bias\.weight)$"
)


class OpenedModule(NamedTuple):
    """A module with its weights."""

    module: nn.Module
    gives_weights: bool  # its library can only return finished attention weights
    drawn: list[str]  # pooler parameters missing from its files and initialised at random
    unused: list[str]  # tensors of its files for which it has no parameter


def open_module(folder: Path, auto: Any, config: Any, dtype: torch.dtype | None) -> OpenedModule:
    """Open a staged folder by one of transformers' automatic classes, with this configuration.

    Raises CheckpointError for weights that are missing, ignored within a layer, of the wrong size
    or not finite.
    """
    module, info, gives_weights = _load(folder, auto, config, dtype)
    parameters = list(module.named_parameters())
    if inside := _unused_in_layers(module, info["unexpected_keys"]):
        raise CheckpointError(
            f"transformers ignores {_tensors(len(inside))} of this checkpoint, such as {inside[0]:.100}, so its layers "
            "would compute something else"
        )
    names = {name for name, _ in parameters}
    missing = sorted(info["missing_keys"])
    random_poolers = [name for name in missing if "pooler" in name.split(".") and name in names]
    if needed := [name for name in missing if name not in random_poolers]:
        raise CheckpointError(_not_in_its_weights(needed))
    if odd := sorted(info["mismatched_keys"], key=str):
        name, stored, needed = odd[0]
        sizes = f"{tuple(stored)} in the weights, {tuple(needed)} in the configuration"
        raise CheckpointError(
            f"{_parameters(len(odd))} the wrong size, for example {name:.100}: {sizes}"
        )
    for name, parameter in loading.with_progress(loading.CHECKED, parameters, len(parameters)):
        if not bool(parameter.isfinite().all()):
            raise CheckpointError(f"{name} holds values that are not finite")
    return OpenedModule(module, gives_weights, random_poolers, sorted(info["unexpected_keys"]))


def _load(
    folder: Path, auto: Any, config: Any, dtype: torch.dtype | None
) -> tuple[nn.Module, dict[str, Any], bool]:
    """Return a module, the report on its weights, and `OpenedModule.gives_weights`."""
    options = {
        "config": config,
        "local_files_only": True,
        "trust_remote_code": False,
        "ignore_mismatched_sizes": True,  # the report names them
        "dtype": dtype or "auto",
        "weights_only": True,
        "output_loading_info": True,
    }
    try:
        module, info = auto.from_pretrained(folder, attn_implementation="sdpa", **options)
        return module, info, False
    except ValueError as error:
        if "scaled_dot_product_attention" not in str(error) and "sdpa" not in str(error).lower():
            raise
    module, info = auto.from_pretrained(folder, attn_implementation="eager", **options)
    return module, info, True


def _tensors(n: int) -> str:
    return f"{n} tensor{'s' * (n > 1)}"


def _parameters(n: int) -> str:
    return "1 parameter has" if n == 1 else f"{n} parameters have"


def _unused_in_layers(module: nn.Module, unused: Collection[str]) -> list[str]:
    """Return the unused tensors that belong to a part of one of the module's layers.

    Names may lack the base model's prefix, or carry it where the module has none.
    """
    base = getattr(module, "base_model_prefix", "")
    parts = {path for path, _ in module.named_modules() if _IN_LAYER.search(path)}

    def is_in_layer(name: str) -> bool:
        forms = name, name.removeprefix(f"{base}."), f"{base}.{name}"
        return any(form.rsplit(".", n)[0] in parts for form in forms for n in (1, 2, 3))

    return sorted(name for name in unused if is_in_layer(name) and not _BUFFERS.search(name))


@torch.no_grad()
def check_unread(model: HubModel, names: Sequence[str]) -> None:
    """Raise CheckpointError if an answer of a short run depends on random parameters.

    Otherwise they are set to 0, so that opening the folder twice gives the same model.
    """
    parameters = [model.module.get_parameter(name) for name in names]
    if not parameters:
        return
    inputs = model.repeated(probe.short_text(model.module, model.config))
    before = model(*inputs)
    for parameter in parameters:
        parameter.zero_()
    after = model(*inputs)
    if not all(is_close(model, after[name], answer) for name, answer in before.items()):
        raise CheckpointError(_not_in_its_weights(names))


def _not_in_its_weights(names: Sequence[str]) -> str:
    n = "1 parameter is" if len(names) == 1 else f"{len(names)} parameters are"
    return f"{n} missing from its weights, such as {names[0]:.100}; they are not replaced by random values"
