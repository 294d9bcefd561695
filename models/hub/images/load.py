"""Open a vision model's folder: its image processor, its patches, and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.architectures.base import BY_VECTORS
from models.errors import CheckpointError, first_line
from models.hub import confirm
from models.hub.images.layout import patch_grid
from models.hub.images.model import ImageClassifier, ImageModel
from models.hub.images.positions import added_positions
from models.hub.images.processor import ImageProcessor, PatchTokenizer
from models.hub.images.text_image import (
    IMAGE_TOWER,
    TextImageModel,
    TextImageTokenizer,
    check_similarity,
    filler_of,
)
from models.hub.labels import label_names
from models.hub.layouts import layer_maps
from models.hub.lengths import stream_limits
from models.hub.positions import (
    PositionTable,
    find_order_source,
    order_source_of_equal_inputs,
    table_looked_up,
)
from models.hub.probe import check_recorded, check_trial, looks_ahead, short_text
from models.hub.probe_route import choose_route
from models.hub.sizes import HubConfig, encoder_sizes
from models.hub.tokenizer import CLOSING, OPENING
from models.images import decoded, example

NO_PATCH_ATTENTION = (
    "no attention between the patches of an image was seen in a run, so there is nothing to show"
)


def vision_model(
    folder: Path, kind: type[ImageModel], module: Any, config: Any, gives: bool, transformers: Any
) -> tuple[ImageModel, PatchTokenizer]:
    """Wrap a module as a vision model, with its processor as a tokenizer.

    Raises CheckpointError, with the reason, for a model that cannot be shown.
    """
    processor = ImageProcessor(folder, transformers)
    trial = processor.pixels(decoded(example()))[None].to(module.device, module.dtype)
    _check_runs(module, trial)
    grid, read_size = patch_grid(module, trial)
    sizes = encoder_sizes(type(module).__name__, module, len(grid.tokens), gives)
    settings: dict[str, Any] = {"grid": grid, "trial": trial}
    if issubclass(kind, ImageClassifier):
        settings |= {"names": label_names(config), "position": answering_patch(module, trial)}
    model = kind(module, sizes, **settings)
    check_trial(model, NO_PATCH_ATTENTION)
    confirm.choose_layer_map(model, layer_maps(module))
    patches = slice(len(grid.before), len(grid.before) + grid.n_patches)
    model.order_source = order_source_of_equal_inputs(model, (torch.ones_like(trial),), patches)
    if (table := _position_table(model, trial)) is not None:
        model.positions, model.order_source = table, BY_VECTORS
        model.config = replace(sizes, positions="learned" if table.is_learned else "fixed")
    choose_route(model, model.repeated(torch.empty(0)))
    return model, PatchTokenizer(processor, grid, read_size)


def _position_table(model: ImageModel, trial: Tensor) -> PositionTable | None:
    """Return the position vectors that are added to the tokens or looked up; None without any."""
    if (added := added_positions(model.module, pixel_values=trial)) is not None:
        return added
    n, d_model = len(model.grid.tokens), model.config.d_model
    table = table_looked_up(model, n, n, pixel_values=trial)
    if model.order_source != BY_VECTORS or table is None or table.table.shape != (n, d_model):
        return None
    return table


def opened_with_text(
    folder: Path,
    module: Any,
    sizes: HubConfig,
    library: Any,
    special_ids: dict[str, int],
    transformers: Any,
) -> tuple[TextImageModel, TextImageTokenizer]:
    """Wrap a module as a model of a text and an image. Raises CheckpointError."""
    processor = ImageProcessor(folder, transformers)
    trial = processor.pixels(decoded(example()))[None].to(module.device, module.dtype)
    ids = short_text(module, sizes)
    grid, read_size = patch_grid(module.get_submodule(IMAGE_TOWER), trial)
    patches = PatchTokenizer(processor, grid, read_size)
    longest = max(sizes.n_ctx, len(grid.tokens))
    pad_id = getattr(library, "pad_token_id", None)
    text_sizes = sizes if pad_id is None else replace(sizes, fill_id=pad_id)
    model = TextImageModel(
        module, replace(text_sizes, n_ctx=longest), grid=grid, trial=trial, text_limit=sizes.n_ctx
    )
    check_recorded(model)
    check_similarity(model, ids)
    model.text_limit = stream_limits(model)["text"]
    tokenizer = TextImageTokenizer(library, special_ids, patches)
    row = tokenizer.encode("a", before=OPENING, after=CLOSING).ids
    model.filler = filler_of(model, torch.tensor([row], device=ids.device), library)
    if not looks_ahead(model, model.kinds[0].name):
        model.kinds = (replace(model.kinds[0], stack="decoder"), model.kinds[1])
    model.order_source = find_order_source(model)
    choose_route(model, model.repeated(ids))
    return model, tokenizer


@torch.no_grad()
def _check_runs(module: nn.Module, trial: Tensor) -> None:
    try:
        module(pixel_values=trial)
    except Exception as error:  # the library may raise anything
        raise CheckpointError(f"it does not run on an image alone ({first_line(error)})") from None


def answering_patch(module: Any, trial: Float[Tensor, "batch channel height width"]) -> int | None:
    """Return the token that the answer is read from, by the gradient; None if there are several."""
    with torch.enable_grad():
        output = module(
            pixel_values=trial.detach().clone().requires_grad_(), output_hidden_states=True
        )
        states: Sequence[Tensor] = getattr(output, "hidden_states", None) or ()
        if not states or states[-1].dim() != 3:
            return None
        gradient = torch.autograd.grad(output.logits.float().sum(), states[-1], allow_unused=True)
    reads = [] if gradient[0] is None else gradient[0][0].abs().sum(-1).nonzero().flatten().tolist()
    return reads[0] if len(reads) == 1 else None
