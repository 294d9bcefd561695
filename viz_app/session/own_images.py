"""Images that a session brings along: how they are kept, and how the URL refers to them.

The URL cannot hold a file. It holds the name of an example, or a reference to a file that this
session keeps; elsewhere such a link opens with the first example, and says so.
"""

import hashlib
import threading
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from models.architectures.base import IMAGE_FIELD, TEXT_FIELD, Field
from models.images import EXAMPLES, ImageFile, decoded, example
from models.images.file import MAX_IMAGE_BYTES
from viz_app.session import live, uploads, url_state
from viz_app.session.cache import store
from viz_app.session.live import LiveSession
from viz_app.session.parameters import Parameter

MAX_OWN_IMAGES = 2  # files of a session: one that is shown, and one that is pinned beside it
IMAGE_NOT_IN_LINK = "a link cannot hold an image file, so the example is shown"
_decoding = threading.Lock()  # one at a time: each may take 50 MB


def keep_image(session: LiveSession, content: bytes, name: str) -> tuple[str, str]:
    """Keep a file; return what refers to it, and its size in words.

    Raises:
        ValueError: it is no image that can be read.
    """
    file = ImageFile(name, content)
    with _decoding:
        width, height = decoded(file).size
    reference = f"own-{hashlib.sha256(content).hexdigest()[:12]}"
    # counted in the budget of all runs as long as the session holds it
    counted = store.cache_store.get(("image", file), lambda: file)
    kept = {name: one for name, one in session.images.items() if name != reference}
    session.images = dict([*kept.items(), (reference, counted)][-MAX_OWN_IMAGES:])
    return reference, f"{width:,} × {height:,} pixels"


def image_choices(session: LiveSession) -> dict[str, str]:
    """Return what the session may choose from: value of the parameter → name of the image."""
    return {name: name for name in EXAMPLES} | {
        reference: str(file) for reference, file in session.images.items()
    }


def with_files(
    session: LiveSession, fields: Sequence[Field], chosen: Sequence[Any], of: Any = None
) -> tuple[Any, ...]:
    """Return the values of fields that are not typed, with the files that they refer to.

    `of` gives the parameter that holds the choice, if not the field's own.
    """
    untyped = [field for field in fields if field.kind != TEXT_FIELD]
    return tuple(
        _file(session, (of or _same)(url_state.parameter_of(field)), value)
        if field.kind == IMAGE_FIELD
        else value
        for field, value in zip(untyped, chosen, strict=True)
    )


def _same(parameter: Parameter) -> Parameter:
    return parameter


def _file(session: LiveSession, parameter: Parameter, value: str | None) -> ImageFile:
    if isinstance(value, ImageFile):
        return value
    if value in session.images:
        return session.images[value]
    if value in EXAMPLES:
        return example(value)
    if value:
        url_state.use_fallback(parameter, None, f"{parameter.name}: {IMAGE_NOT_IN_LINK}")
    return example()


async def _take(request: Request) -> Response:
    """Read an image, and answer with its size or with what is wrong with it."""
    return await uploads.receive_file(request, MAX_IMAGE_BYTES, _reads_images, _keep)


def _reads_images(session: LiveSession) -> bool:
    scope = session.scope
    return scope is not None and any(field.kind == IMAGE_FIELD for field in scope.model.fields)


def _keep(session: LiveSession, content: bytes, request: Request) -> dict[str, str]:
    reference, size = keep_image(session, content, request.query_params.get("name", ""))
    return {"kept": size, "reference": reference}


def own_images_path() -> str:
    """Return the route's URL path."""
    return live.under_base("own-image")


def own_images_routes() -> list[BaseRoute]:
    return [Route(own_images_path(), _take, methods=["POST"])]
