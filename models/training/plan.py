"""A plan: the sizes, the data settings and the recipe that a run starts from."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, cast

from models.architectures import Config
from models.training.recipe import Recipe


@dataclass(frozen=True)
class Plan:
    """Default model sizes, data settings and training recipe of one model on one task."""

    config: Callable[..., Config]  # the class; a protocol with fields does not allow issubclass
    sizes: dict[str, Any]
    recipe: Recipe
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def size_names(self) -> tuple[str, ...]:
        """Names of the sizes in the model's configuration."""
        return tuple(f.name for f in fields(cast(type[Config], self.config)))
