"""The sizes and recipes of the shipped checkpoints; `attnscope train` starts from them, flags overrule."""

from dataclasses import dataclass, field
from typing import Any

from models.training import Recipe


@dataclass(frozen=True)
class Plan:
    """A task's default model sizes, data settings and training recipe."""

    model: dict[str, Any]
    recipe: Recipe
    data: dict[str, Any] = field(default_factory=dict)


PLANS = {
    "dates": Plan(
        model={
            "d_model": 64, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 2, "n_decoder_layers": 2, "n_ctx": 64, "dropout": 0.0,
        },
        recipe=Recipe(steps=4000, warmup=1000, label_smoothing=0.0, validate_every=500, snapshots=True),
        data={"batch_size": 128},
    ),
    "translation": Plan(
        model={"d_model": 192, "n_heads": 6, "d_ff": 768, "n_encoder_layers": 3, "n_decoder_layers": 3, "n_ctx": 512},
        recipe=Recipe(steps=8000, warmup=1500, validate_every=1000),
        data={"vocab_size": 6000, "max_tokens": 2048, "licence": None},
    ),
}
