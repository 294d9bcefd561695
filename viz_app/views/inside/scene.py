"""The data of the walk's text: a stage, and the scene that its sentences describe.

Formulas are plain text; _{…} and ^{…} mark subscripts and superscripts. Notation: the lecture's a,
q, k, v, α, α̂, b, with i the query's position and j the key's; for an RNN's alignment Bahdanau's s,
h, e, α, c.
"""

from dataclasses import dataclass, field

from models.analysis.head_sum import HeadSum
from models.analysis.head_walk import Walk
from models.trace import AttentionSite
from viz_app import words
from viz_app.drawing.labels import Label
from viz_app.views.inside.text import format_number, quote


@dataclass(frozen=True)
class Stage:
    """A stop of the walk: its `name` under the slider, what happens in words, and as a formula.

    `columns` are shown, those in `main` even where there is little room; without any, the table of
    the heads is shown. `top` maps a column to the array of the query's own row. `foot` names the
    sum under the table; `rest` adds a row for the keys not shown.
    """

    name: str
    title: str
    sentence: str
    formula: str
    columns: tuple[str, ...] = ()
    main: tuple[str, ...] = ()
    top: dict[str, str] = field(default_factory=dict)
    foot: str = ""
    rest: bool = False


@dataclass(frozen=True)
class Scene:
    """The subject of the sentences: one query and one key of a walk, by their labels.

    `blocked` counts, for each mask layer, the keys it hides from this query; `head_sum` is the sum
    of the heads, where there is one.
    """

    site: AttentionSite
    walk: Walk
    head_sum: HeadSum | None
    key: int
    query: Label
    read: Label
    blocked: dict[str, int]
    terms: words.Terms

    @property
    def q(self) -> str:
        return quote(self.query)

    @property
    def k(self) -> str:
        return quote(self.read)

    @property
    def score(self) -> str:
        return format_number(self.walk.scores[self.key])
