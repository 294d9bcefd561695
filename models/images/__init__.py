"""Image files as values of a model's field: bounded, decoded, drawn as examples, cut into patches.

`models.images.read("photo.png")` returns a value of `Scope.run` for a field of kind IMAGE_FIELD.
"""

from models.images.examples import EXAMPLES, example
from models.images.file import ImageFile, decoded, read
from models.images.patches import PatchGrid, PatchRow

__all__ = ["EXAMPLES", "ImageFile", "PatchGrid", "PatchRow", "decoded", "example", "read"]
