"""Entries of the tables of layouts."""

from typing import Any

from models.hub.layer_paths import FFPaths, LayerGroup, Paths

LayerGroups = tuple[LayerGroup, ...]


def mlp(norm: str, first: str, function: str, second: str, other: str = "") -> FFPaths:
    inside = f"mlp.{first}", f"mlp.{function}", f"mlp.{second}"
    return FFPaths("mlp", norm, "mlp", *inside, f"mlp.{other}" if other else "")


def one_stack(
    layers: str, parts: tuple[Paths, ...], last_norm: str = "", **how: Any
) -> LayerGroups:
    return (LayerGroup(layers, parts, last_norm=last_norm, **how),)
