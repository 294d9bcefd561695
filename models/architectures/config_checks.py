"""What a configuration may say: the types and ranges of its fields, and the classes it names."""

from dataclasses import fields
from typing import Any

from models.architectures.base import CLASSES

# field → its least and largest value; the largest are far beyond any model of this kind and keep a mistyped one from being built
SIZES = {
    "vocab_size": (1, 2**20), "d_model": (1, 2**16), "d_ff": (1, 2**18), "d_hidden": (1, 2**16), "d_align": (1, 2**16),
    "n_encoder_layers": (0, 256), "n_decoder_layers": (0, 256), "n_self_layers": (0, 256), "n_layers": (0, 256),
    "n_ctx": (2, 2**16), "window": (0, 2**16), "n_segments": (1, 16), "n_texts": (1, 2),
}  # fmt: skip
CHOICES = {"init": ("xavier", "scaled", "normal"), "head": ("pretraining", "span", "classes")}
TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def check_types(kind: type, values: dict[str, Any]) -> None:
    """Raises ValueError for a value of another type than the configuration's field of that name has; True is no number here."""
    for field in fields(kind):
        value = values.get(field.name)
        if (
            field.name in values
            and type(value) is not field.type
            and not (field.type is float and type(value) is int)
        ):
            raise ValueError(f"{field.name} must be {TYPE_NAMES[field.type]}, not {value!r:.60}")


def check_fields(config: object) -> None:
    """Raises ValueError for a field of a configuration that is of another type than it says or out of its range."""
    check_types(type(config), vars(config))
    for name, value in vars(config).items():
        least, largest = SIZES.get(name, (value, value))
        if value < least:
            raise ValueError(f"{name} must be at least {least}, not {value}")
        if value > largest:
            raise ValueError(f"{name} must be at most {largest:,}, not {value:,}")
    for name, values in CHOICES.items():
        if (value := getattr(config, name, values[0])) not in values:
            raise ValueError(f"{name} must be one of {', '.join(values)}, not {value!r}")
    if not 0 <= getattr(config, "dropout", 0) < 1:
        raise ValueError(f"dropout must be at least 0 and below 1, not {config.dropout}")
    if not 0 <= config.pad_id < config.vocab_size:
        raise ValueError(
            f"pad_id must be a token of the vocabulary, 0 to {config.vocab_size - 1}, not {config.pad_id}"
        )


def class_names(classes: str) -> tuple[str, ...]:
    """The names in a configuration's `classes`, which commas separate."""
    return tuple(name.strip() for name in classes.split(",") if name.strip())


def check_classes(head: str, classes: str) -> None:
    """Raises ValueError for a head that classifies and has no classes to choose from, or one that has and does not."""
    if (head == CLASSES) != (len(class_names(classes)) > 1):
        raise ValueError(
            f"classes must be two names or more for the head classes, and none for another, not {classes!r}"
        )
