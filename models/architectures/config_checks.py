"""Validation of configurations: types and ranges of fields, and class names."""

from dataclasses import fields
from typing import Any

from models.architectures.base import CLASSES_OUTPUT

# field → smallest and largest value; the largest, far beyond real models, catch mistyped numbers
SIZE_LIMITS = {
    "vocab_size": (1, 2**20), "d_model": (1, 2**16), "d_ff": (1, 2**18), "d_hidden": (1, 2**16), "d_align": (1, 2**16),
    "n_encoder_layers": (0, 256), "n_decoder_layers": (0, 256), "n_self_layers": (0, 256), "n_layers": (0, 256),
    "n_ctx": (2, 2**16), "window": (0, 2**16), "n_segments": (1, 16), "n_texts": (1, 2),
}  # fmt: skip
CONFIG_CHOICES = {
    "init": ("xavier", "scaled", "normal"),
    "decoder_mask": ("look-ahead", "none"),
    "head": ("pretraining", "span", "classes"),
}
TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def check_types(kind: type, values: dict[str, Any]) -> None:
    """Check that values have the types of the configuration's fields; bool is not accepted as int.

    Raises:
        ValueError: a value has another type.
    """
    for field in fields(kind):
        value = values.get(field.name)
        if (
            field.name in values
            and type(value) is not field.type
            and not (field.type is float and type(value) is int)
        ):
            raise ValueError(f"{field.name} must be {TYPE_NAMES[field.type]}, not {value!r:.60}")


def check_fields(config: Any) -> None:
    """Check the types and ranges of a configuration's fields.

    Raises:
        ValueError: a field has another type or is out of its range.
    """
    check_types(type(config), vars(config))
    for name, value in vars(config).items():
        least, largest = SIZE_LIMITS.get(name, (value, value))
        if value < least:
            raise ValueError(f"{name} must be at least {least}, not {value}")
        if value > largest:
            raise ValueError(f"{name} must be at most {largest:,}, not {value:,}")
    for name, values in CONFIG_CHOICES.items():
        if (value := getattr(config, name, values[0])) not in values:
            raise ValueError(f"{name} must be one of {', '.join(values)}, not {value!r}")
    if not 0 <= getattr(config, "dropout", 0) < 1:
        raise ValueError(f"dropout must be at least 0 and below 1, not {config.dropout}")
    if not 0 <= config.pad_id < config.vocab_size:
        raise ValueError(
            f"pad_id must be a token of the vocabulary, 0 to {config.vocab_size - 1}, not {config.pad_id}"
        )


def class_names(classes: str) -> tuple[str, ...]:
    """Return the names in a configuration's comma-separated `classes`."""
    return tuple(name.strip() for name in classes.split(",") if name.strip())


def check_classes(head: str, classes: str) -> None:
    """Check that a classifying head has at least two classes, and another head none.

    Raises:
        ValueError: the classes do not fit the head.
    """
    if (head == CLASSES_OUTPUT) != (len(class_names(classes)) > 1):
        raise ValueError(
            f"classes must be two names or more for the head classes, and none for other heads, not {classes!r}"
        )
