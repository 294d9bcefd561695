"""The app's wording, in five modules by purpose: `words.kind_title`, `words.terms` and so on."""

from models.percent import percent
from viz_app.words.attention import (  # fmt: skip
    JOINED,
    STEP,
    axes,
    departures,
    formula,
    formula_tex,
    head_title,
    how_to_read,
    is_alignment,
    kind_short,
    kind_subtitle,
    kind_title,
    layer_place,
    place,
    sides,
    where_from,
)
from viz_app.words.changes import changes
from viz_app.words.glossary import GLOSSARY, annotate, entries
from viz_app.words.terms import (  # fmt: skip
    ONE_TEXT,
    Stream,
    Terms,
    terms,
)
from viz_app.words.training import (  # fmt: skip
    after_steps,
    at_step,
    grid,
    length,
    listed,
    no_snapshots,
    score,
    score_summary,
    sentence,
    steps,
    training_brief,
    training_of_swapped,
    training_origin,
    training_summary,
    unequal_training,
    untrained,
    with_warning,
)

__all__ = [
    "GLOSSARY", "JOINED", "ONE_TEXT", "STEP", "Stream", "Terms", "after_steps", "annotate", "at_step", "axes", "changes",
    "departures", "entries", "formula", "formula_tex", "grid", "head_title", "how_to_read", "is_alignment", "kind_short",
    "kind_subtitle", "kind_title", "layer_place", "length", "listed", "no_snapshots", "percent", "place", "score", "score_summary",
    "sentence", "sides", "steps", "terms", "training_brief", "training_of_swapped", "training_origin",
    "training_summary", "unequal_training", "untrained", "where_from", "with_warning",
]  # fmt: skip
