"""A file as the value of a model's field: an image or a sound."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from models.printable import printable

MAX_NAME_LENGTH = 60  # characters of a file's name


_File = TypeVar("_File", bound="FieldFile")


class FieldFile(str):
    """The bytes of a file; as a text, its name.

    It can thus be shown wherever a text names the values of fields. Two are equal if they are of
    the same kind and have the same name and bytes.
    """

    unnamed: ClassVar[str] = "file"
    content: bytes

    def __new__(cls: type[_File], name: str, content: bytes) -> _File:
        """Return a file of this name, shortened for display."""
        file = str.__new__(cls, printable(name)[:MAX_NAME_LENGTH] or cls.unnamed)
        file.content = content
        return file

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FieldFile)
            and type(self) is type(other)
            and str.__eq__(self, other)
            and self.content == other.content
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((str(self), self.content))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.content)
