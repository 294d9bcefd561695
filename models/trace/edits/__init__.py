"""Changes made to a run on purpose: values that compose, hash, print and round-trip through JSON.

Example:
    from models import edits
    scope.run("We like him.", edits=[edits.HeadOff("decoder.layers.2.cross_attn", head=3)])
    other = scope.run("We like her.")
    scope.run("We like him.", edits=[edits.Patch("encoder.layers.1.resid_post", from_run=other)])
"""

from models.trace.edits.active import editing
from models.trace.edits.base import ActivationPart, AttentionPart, Edit, Edits, Where
from models.trace.edits.cells import SetWeights, ZeroValue
from models.trace.edits.heads import BASELINES, FROM_TEXTS, HeadOff, HeadScale
from models.trace.edits.masks import READY_MADE, Cell, MaskChange, ready_made
from models.trace.edits.patch import Patch
from models.trace.edits.selection import effective, for_kinds, mask_change, of_row, opens_ahead
from models.trace.edits.stored import from_json, from_text, to_json, to_text

__all__ = [
    "BASELINES", "FROM_TEXTS", "READY_MADE", "ActivationPart", "AttentionPart", "Cell", "Edit", "Edits", "HeadOff", "HeadScale",
    "MaskChange", "Patch", "SetWeights", "Where", "ZeroValue", "editing", "effective", "for_kinds", "from_json", "from_text",
    "mask_change", "of_row", "opens_ahead", "ready_made", "to_json", "to_text",
]  # fmt: skip
