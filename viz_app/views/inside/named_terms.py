"""The stages of the walk for a score with named terms: what each of them is, and how they add up; notation as in scene.py."""

from torch import Tensor

from models.analysis.head_walk import NamedTerm, Walk
from models.trace import DistanceTerm, RelativePositionTerm, SegmentTerm
from models.trace.terms import ScoreTerm
from viz_app import words
from viz_app.views.inside.scene import Scene, Stage
from viz_app.views.inside.text import number

CONTENT = "content"  # what q and k come to is called beside other terms


def named_scores(w: Walk) -> dict[str, Tensor]:
    """Name of a term → what it is at each key; nothing where the similarity is all there is."""
    return (
        {CONTENT: w.content, **{term.name: term.scores for term in w.named_terms}}
        if w.named_terms
        else {}
    )


def products_of(name: str) -> str:
    """The array that holds a term number by number."""
    return f"{name} products"


def term_stages(s: Scene) -> list[Stage]:
    """A stage for each named term, and one in which all are added; none where there is none."""
    each = [_stage(s, term, of) for term, of in zip(s.w.named_terms, s.site.terms, strict=True)]
    if not each:
        return []
    values = [f"{name} {number(scores[s.key])}" for name, scores in named_scores(s.w).items()]
    names = (CONTENT, *(term.name for term in s.w.named_terms))
    strips = ("terms", *(products_of(name) for name in names[1:]))
    columns = tuple(column for both in zip(strips, names, strict=True) for column in both)
    return [*each, Stage(
        "Σ", "Terms that add up to one score",
        f"The score is their sum. For {s.k}: {words.listed(values)} make {s.score}.",
        f"α_{{i,j}} = {' + '.join(names)}", (*columns, "scores"), (*names, "scores"),
    )]  # fmt: skip


def _stage(s: Scene, term: NamedTerm, of: ScoreTerm) -> Stage:
    value = number(term.scores[s.key])
    title, sentence, formula = _told(s, of)
    columns = (products_of(term.name), term.name)
    return Stage(
        term.name, title, f"{sentence} For {s.k} that adds {value}.", formula, columns, columns
    )


def _told(s: Scene, of: ScoreTerm) -> tuple[str, str, str]:
    """Title, sentence and formula of a term, by its kind."""
    distance = s.key - s.w.query
    side = (
        "the same place"
        if not distance
        else f"{abs(distance)} {'after' if distance > 0 else 'before'} {s.q}"
    )
    if isinstance(of, RelativePositionTerm):
        return (
            "How far apart are they?",
            f"The query meets a vector that stands for the distance alone, here {side}: r, sines and cosines of i − j, through a "
            "matrix W_R. Its bias is another one here (v in the paper; u where it meets the key).",
            "(W^{Q}a^{i} + v)·W^{R}r_{i−j} / √d_{k}",
        )
    if isinstance(of, SegmentTerm):
        which = (
            "the same text"
            if bool(of.segments[0, s.w.query] == of.segments[0, s.key])
            else "different texts"
        )
        return (
            "Do they stand in the same text?",
            f"The query meets one of two vectors e, found in training: one for the same text, one for different ones. Here it is "
            f"{which}.",
            "(W^{Q}a^{i} + s)·e_{ij} / √d_{k}",
        )
    if isinstance(of, DistanceTerm):
        return (
            "What their distance adds",
            f"A number is added that depends on how far apart they stand and on nothing else, here {side}.",
            f"α_{{i,j}} ← α_{{i,j}} + {of.name}_{{j−i}}",
        )
    return (
        "What the model adds",
        f"A number is added that the model gives for this query and this key, here {side}.",
        f"α_{{i,j}} ← α_{{i,j}} + {of.name}_{{i,j}}",
    )
