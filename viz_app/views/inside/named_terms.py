"""The walk's stages for a score with named terms, and their sum; notation as in scene.py."""

from torch import Tensor

from models.analysis.head_walk import NamedTerm, Walk
from models.trace import DistanceTerm, RelativePositionTerm, SegmentTerm
from models.trace.terms import ScoreTerm
from viz_app import words
from viz_app.views.inside.scene import Scene, Stage
from viz_app.views.inside.text import format_number

CONTENT_TERM = "content"  # the name of the similarity of q and k, beside other terms


def named_scores(walk: Walk) -> dict[str, Tensor]:
    """Return each term's value at each key by name; empty if the score is only the similarity."""
    return (
        {CONTENT_TERM: walk.content, **{term.name: term.scores for term in walk.named_terms}}
        if walk.named_terms
        else {}
    )


def products_of(name: str) -> str:
    """Return the name of the array of a term's products."""
    return f"{name} products"


def term_stages(s: Scene) -> list[Stage]:
    """Return a stage for each named term and one for their sum; empty without named terms."""
    stages = [
        _stage(s, term, score_term)
        for term, score_term in zip(s.walk.named_terms, s.site.terms, strict=True)
    ]
    if not stages:
        return []
    values = [
        f"{name} {format_number(scores[s.key])}" for name, scores in named_scores(s.walk).items()
    ]
    names = (CONTENT_TERM, *(term.name for term in s.walk.named_terms))
    strips = ("terms", *(products_of(name) for name in names[1:]))
    columns = tuple(column for pair in zip(strips, names, strict=True) for column in pair)
    return [*stages, Stage(
        "Σ", "Terms that add up to one score",
        f"The score is their sum. For {s.k}: {words.join_names(values)} make {s.score}.",
        f"α_{{i,j}} = {' + '.join(names)}", (*columns, "scores"), (*names, "scores"),
    )]  # fmt: skip


def _stage(s: Scene, term: NamedTerm, score_term: ScoreTerm) -> Stage:
    value = format_number(term.scores[s.key])
    title, sentence, formula = _described(s, score_term)
    columns = (products_of(term.name), term.name)
    return Stage(
        term.name, title, f"{sentence} For {s.k} that adds {value}.", formula, columns, columns
    )


def _described(s: Scene, term: ScoreTerm) -> tuple[str, str, str]:
    """Return title, sentence and formula of a term, by its type."""
    distance = s.key - s.walk.query
    side = (
        "the same position"
        if not distance
        else f"{abs(distance)} {'after' if distance > 0 else 'before'} {s.q}"
    )
    if isinstance(term, RelativePositionTerm):
        return (
            "How far apart are they?",
            f"The query is multiplied, through a matrix W_R, by a vector for the distance alone, here {side}. That vector r holds "
            "sines and cosines of i − j. This term has a bias of its own (v in the paper; u in the term of the key).",
            "(W^{Q}a^{i} + v)·W^{R}r_{i−j} / √d_{k}",
        )
    if isinstance(term, SegmentTerm):
        texts = (
            "the same text"
            if bool(term.segments[0, s.walk.query] == term.segments[0, s.key])
            else "different texts"
        )
        return (
            "Are they in the same text?",
            "The query is multiplied by one of two learned vectors e: one for the same text, one for different texts. Here it is "
            f"{texts}.",
            "(W^{Q}a^{i} + s)·e_{ij} / √d_{k}",
        )
    if isinstance(term, DistanceTerm):
        return (
            "What their distance adds",
            f"A number is added that depends only on their distance, here {side}.",
            f"α_{{i,j}} ← α_{{i,j}} + {term.name}_{{j−i}}",
        )
    return (
        "What the model adds",
        f"A number is added that the model gives for this query and this key, here {side}.",
        f"α_{{i,j}} ← α_{{i,j}} + {term.name}_{{i,j}}",
    )
