"""A session's own images and sounds: how they are kept, and how the URL refers to them.

The URL cannot hold a file. It holds the name of an example, or a reference to a file that this
session keeps; elsewhere such a link opens with the first example, and says so.
"""

import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from models import images, sounds
from models.architectures.base import FILE_FIELDS, IMAGE_FIELD, SOUND_FIELD, TEXT_FIELD, Field
from models.field_file import FieldFile
from models.images.file import MAX_IMAGE_BYTES
from models.sounds.file import MAX_SOUND_BYTES
from viz_app import words
from viz_app.session import routes, uploads, url_state
from viz_app.session.cache import store
from viz_app.session.live import LiveSession
from viz_app.session.parameters import Of, Parameter, itself

MAX_OWN_FILES = 3  # files of a session: one shown, one pinned beside it, one to patch from
FILE_NOT_IN_LINK = "a link cannot hold {a} file, so the example is shown"
_decoding = threading.Lock()  # one at a time: each may take 50 MB


@dataclass(frozen=True)
class FileKind:
    """A kind of field whose value is a file.

    `size` decodes a file and returns its size in words; it raises ValueError for one that cannot be
    read. `accept` is what a browser offers to choose from.
    """

    name: str
    article: str
    file_type: type[FieldFile]
    examples: tuple[str, ...]
    example: Callable[..., FieldFile]
    size: Callable[[Any], str]
    largest: int  # bytes
    formats: str
    accept: str

    @property
    def not_in_link(self) -> str:
        return FILE_NOT_IN_LINK.format(a=f"{self.article} {self.name}")


def _pixels(file: images.ImageFile) -> str:
    width, height = images.decoded(file).size
    return f"{width:,} × {height:,} pixels"


def _seconds(file: sounds.SoundFile) -> str:
    sound = sounds.decoded_sound(file)
    return f"{words.duration(sound.seconds)} at {sound.rate:,} Hz"


FILE_KINDS = {
    IMAGE_FIELD: FileKind(
        IMAGE_FIELD, "an", images.ImageFile, images.EXAMPLES, images.example, _pixels,
        MAX_IMAGE_BYTES, "PNG, JPEG or WebP", "image/png,image/jpeg,image/webp",
    ),
    SOUND_FIELD: FileKind(
        SOUND_FIELD, "a", sounds.SoundFile, sounds.SOUND_EXAMPLES, sounds.example_sound, _seconds,
        MAX_SOUND_BYTES, "WAV, up to 30 s", ".wav,audio/wav,audio/x-wav",
    ),
}  # fmt: skip


def keep_file(
    session: LiveSession, content: bytes, name: str, kind: FileKind = FILE_KINDS[IMAGE_FIELD]
) -> tuple[str, str]:
    """Keep a file; return its reference, and its size in words.

    Raises:
        ValueError: it cannot be read.
    """
    file = kind.file_type(name, content)
    with _decoding:
        size = kind.size(file)
    reference = _own_reference(file)
    # counted in the budget of all runs as long as the session holds it
    stored = store.cache_store.get((kind.name, file), lambda: file)
    others = {name: one for name, one in session.files.items() if name != reference}
    session.files = dict([*others.items(), (reference, stored)][-MAX_OWN_FILES:])
    return reference, size


def reference_of(file: FieldFile) -> str:
    """Return the reference to a file in the URL: the name of an example, or a digest."""
    return str(file) if _is_example(file) else _own_reference(file)


def is_kept(session: LiveSession, file: FieldFile) -> bool:
    """Return True for an example, and for a file that the session still keeps."""
    return file in session.files.values() or _is_example(file)


def _is_example(file: FieldFile) -> bool:
    return any(
        isinstance(file, kind.file_type) and file in map(kind.example, kind.examples)
        for kind in FILE_KINDS.values()
    )


def _own_reference(file: FieldFile) -> str:
    return f"own-{hashlib.sha256(file.content).hexdigest()[:12]}"


def file_at(session: LiveSession, kind: str, reference: str | None) -> FieldFile | None:
    """Return the example or the session's file that this refers to; None if there is none."""
    file_type, examples = FILE_KINDS[kind].file_type, FILE_KINDS[kind].examples
    if isinstance(file := session.files.get(reference or ""), file_type):
        return file
    return FILE_KINDS[kind].example(reference) if reference in examples else None


def file_choices(session: LiveSession, kind: str) -> dict[str, str]:
    """Return the files that the session may choose from: value of the parameter → name."""
    return {name: name for name in FILE_KINDS[kind].examples} | {
        reference: str(file)
        for reference, file in session.files.items()
        if isinstance(file, FILE_KINDS[kind].file_type)
    }


def with_files(
    session: LiveSession, fields: Sequence[Field], chosen: Sequence[Any], of: Of = itself
) -> tuple[Any, ...]:
    """Return the values of fields that are not typed, with the files that they refer to.

    `of` gives the parameter that holds the choice.
    """
    untyped = [field for field in fields if field.kind != TEXT_FIELD]
    return tuple(
        _file(session, FILE_KINDS[field.kind], of(url_state.parameter_of(field)), value)
        if field.kind in FILE_FIELDS
        else value
        for field, value in zip(untyped, chosen, strict=True)
    )


def _file(
    session: LiveSession, kind: FileKind, parameter: Parameter, value: str | None
) -> FieldFile:
    if isinstance(value, kind.file_type):
        return value
    if (file := file_at(session, kind.name, value)) is not None:
        return file
    if value:
        url_state.use_fallback(parameter, None, f"{parameter.name}: {kind.not_in_link}")
    return kind.example()


async def _take(request: Request) -> Response:
    """Read a file, and answer with its size or with an error."""
    kind = FILE_KINDS.get(request.query_params.get("kind", IMAGE_FIELD), FILE_KINDS[IMAGE_FIELD])

    def reads(session: LiveSession) -> bool:
        scope = session.scope
        return scope is not None and any(field.kind == kind.name for field in scope.model.fields)

    def keep(session: LiveSession, content: bytes, request: Request) -> dict[str, str]:
        name = request.query_params.get("name", "")
        reference, size = keep_file(session, content, name, kind)
        return {"kept": size, "reference": reference}

    return await uploads.receive_file(request, kind.largest, reads, keep)


def own_files_path() -> str:
    """Return the route's URL path."""
    return routes.under_base("own-file")


def own_files_routes() -> list[BaseRoute]:
    return [Route(own_files_path(), _take, methods=["POST"])]
