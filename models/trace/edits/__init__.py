"""Changes made to a run on purpose: values that compose, hash, print and round-trip through JSON.

Example:
    from models import edits
    scope.run("We like him.", edits=[edits.HeadOff("decoder.layers.2.cross_attn", head=3)])
"""

from models.trace.edits.active import editing
from models.trace.edits.base import ActivationPart, AttentionPart, Edit, Edits, Where
from models.trace.edits.heads import HeadOff
from models.trace.edits.masks import READY_MADE, Cell, MaskChange, ready_made
from models.trace.edits.selection import effective, for_kinds, mask_change, of_row, opens_ahead
from models.trace.edits.stored import from_json, to_json

__all__ = [
    "READY_MADE", "ActivationPart", "AttentionPart", "Cell", "Edit", "Edits", "HeadOff", "MaskChange", "Where", "editing", "effective",
    "for_kinds", "from_json", "mask_change", "of_row", "opens_ahead", "ready_made", "to_json",
]  # fmt: skip
