"""Edits as JSON: a type name and the fields that differ from their defaults.

A URL holds a list of them as one line of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from models.trace.edits.base import TYPES, Edit, Edits, Where

_KINDS = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}


def to_json(edit: Edit) -> dict[str, Any]:
    """Return the edit as a JSON object {"type": …, field: …}, the inverse of `from_json`."""
    return {"type": type(edit).__name__, **_changed_fields(edit)}


def from_json(stored: Any) -> Edit:
    """Read an edit that `to_json` has written.

    Raises:
        ValueError: an unknown type, an unknown field or a value of another type.
    """
    if not isinstance(stored, dict):
        raise ValueError(f"an edit must be a JSON object, got {stored!r:.60}")
    name = stored.get("type")
    if not isinstance(name, str) or name not in TYPES:
        raise ValueError(f"type of an edit must be one of {', '.join(TYPES)}, got {name!r:.60}")
    return _read(TYPES[name], {key: value for key, value in stored.items() if key != "type"}, name)


def to_text(edits: Iterable[Edit]) -> str:
    """Return edits as one line of JSON, "" for none; the inverse of `from_text`."""
    stored = [to_json(edit) for edit in edits]
    return json.dumps(stored, separators=(",", ":"), ensure_ascii=False) if stored else ""


def from_text(text: str) -> Edits:
    """Read edits that `to_text` has written.

    Raises:
        ValueError: the text is not a list of edits.
    """
    if not text:
        return ()
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"edits must be a JSON list, got {text!r:.60}") from None
    if not isinstance(stored, list):
        raise ValueError(f"edits must be a JSON list, got {text!r:.60}")
    return tuple(from_json(one) for one in stored)


def _changed_fields(of: Any) -> dict[str, Any]:
    return {
        field.name: _changed_fields(value) if is_dataclass(value) else value
        for field in fields(of)
        if field.compare and (value := getattr(of, field.name)) != field.default
    }


def _read(kind: type, stored: dict[str, Any], name: str) -> Any:
    hints, names = get_type_hints(kind), {field.name for field in fields(kind) if field.compare}
    if unknown := sorted(set(stored) - names):
        raise ValueError(f"{name} has no field {unknown[0]!r}; it has {', '.join(sorted(names))}")
    return kind(
        **{key: _value(hints[key], value, f"{name}.{key}") for key, value in stored.items()}
    )


def _value(hint: Any, value: Any, name: str) -> Any:
    """Return a JSON value as the type that a field is annotated with."""
    if get_origin(hint) in (Union, UnionType):
        choices = [choice for choice in get_args(hint) if choice is not NoneType]
        if value is None and len(choices) < len(get_args(hint)):
            return None
        of_lists = [choice for choice in choices if get_origin(choice) is tuple]
        fitting = of_lists if isinstance(value, list | tuple) and of_lists else choices
        return _value(fitting[0], value, name)
    if hint is Where:
        if not isinstance(value, dict):
            raise ValueError(f"{name} must be a JSON object, got {value!r:.60}")
        return _read(Where, value, name)
    if get_origin(hint) is tuple:
        return _tuple(get_args(hint), value, name)
    if type(value) is hint or (hint is float and type(value) is int):
        try:
            if isinstance(value, str):
                value.encode()
            return hint(value)
        except UnicodeEncodeError:
            raise ValueError(
                f"{name} must consist of whole characters, got {value!r:.60}"
            ) from None
        except OverflowError:
            raise ValueError(f"{name} must be at most about 1.8e308, got {value!r:.60}") from None
    raise ValueError(f"{name} must be {_KINDS[hint]}, got {value!r:.60}")


def _tuple(items: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} must be a list, got {value!r:.60}")
    if items[-1] is Ellipsis:
        return tuple(_value(items[0], one, name) for one in value)
    if len(value) != len(items):
        raise ValueError(f"{name} must have {len(items)} entries, got {len(value)}")
    return tuple(_value(item, one, name) for item, one in zip(items, value, strict=True))
