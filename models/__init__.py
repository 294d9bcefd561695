"""Attention models of known internals: load, run, record, edit and generate.

    import models
    scope = models.load("eng-fra")
    trace = scope.run("We like him.", "Nous l'aimons bien.")
    trace.attention["decoder.layers.0.cross_attn"].weights(head=2)

The running app shows this documentation under /reference.
"""

from models.checkpoint import CheckpointError
from models.errors import InputError
from models.hub.user_module.module import Inputs, Patches, watch
from models.opening import load, shipped
from models.runs.scope import Scope
from models.tasks import DataError
from models.trace import AttentionSite, Trace, edits, record

__version__ = "0.1.0"

__all__ = [
    "AttentionSite",
    "CheckpointError",
    "DataError",
    "InputError",
    "Inputs",
    "Patches",
    "Scope",
    "Trace",
    "edits",
    "load",
    "record",
    "shipped",
    "watch",
]
