"""What the app says, in words: `words.kind_title`, `words.terms`, `words.trained` and so on, by purpose in four files."""

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
from viz_app.words.glossary import GLOSSARY, entries, explained
from viz_app.words.terms import (  # fmt: skip
    ONE_TEXT,
    TASKS,
    Stream,
    Terms,
    terms,
)
from viz_app.words.training import (  # fmt: skip
    after_steps,
    at_step,
    dropped,
    length,
    listed,
    made,
    measured,
    score,
    sentence,
    trained,
    trained_briefly,
    trained_otherwise,
    unequal,
    unkept,
    warned,
)

__all__ = [
    "GLOSSARY", "JOINED", "ONE_TEXT", "STEP", "TASKS", "Stream", "Terms", "after_steps", "at_step", "axes", "departures", "dropped",
    "entries", "explained", "formula", "formula_tex", "head_title", "how_to_read", "is_alignment", "kind_short", "kind_subtitle",
    "kind_title", "layer_place", "length", "listed", "made", "measured", "place", "score", "sentence", "sides", "terms", "trained",
    "trained_briefly", "trained_otherwise", "unequal", "unkept", "warned", "where_from",
]  # fmt: skip
