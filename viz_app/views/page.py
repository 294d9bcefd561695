"""The shape of a page: its question and its views, which the frame lays out.

A view has controls, pictures, a text, checks and files.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from viz_app import words
from viz_app.components import Component
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.notes import strip
from viz_app.drawing.stamp import Facts, FileContent, facts
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice
from viz_app.views.run_difference import Quantity

Chosen = TypeVar("Chosen")
Handlers = Mapping[str, Callable]


@dataclass(frozen=True)
class ShownComponent:
    """A browser component, shown if its picture exists.

    The key of the picture is the component's name if none is given.

    The handlers in `choose` choose what is shown. Those in `change` change the run; a pinned
    run has none of them.
    """

    component: Component
    key: str = ""
    choose: Handlers = field(default_factory=dict)
    change: Handlers = field(default_factory=dict)
    caption: str = ""

    @property
    def picture(self) -> str:
        """The key of its picture."""
        return self.key or self.component.name


@dataclass(frozen=True)
class Plot:
    """A chart that Streamlit draws: an Altair or Plotly figure among the pictures.

    Plotly's camera saves it as `file`.
    """

    picture: str
    file: str = ""
    fits: bool = True  # as wide as its column; False: its own width
    extra_px: int = 0  # added to an Altair chart's height when presented without a pinned run
    caption: str = ""


@dataclass(frozen=True)
class Table:
    """A table: a pandas DataFrame among the pictures.

    Numbers in the columns `counted` have thousands separators.

    It scrolls within `height` px; 0: as high as its first rows need.
    """

    picture: str
    counted: tuple[str, ...] = ()
    height: int = 0


@dataclass(frozen=True)
class Prose:
    """A text written by the app, as Markdown; small print if it `is_small`."""

    text: str
    is_small: bool = False


@dataclass(frozen=True)
class Widget:
    """Controls that belong beside a picture; they are drawn for the current run only."""

    draw: Callable[[], None]


@dataclass(frozen=True)
class Explanation:
    """The text of the view and its files; they are placed for the current run only."""


@dataclass(frozen=True)
class Checks:
    """The checks of what is shown, and how the model was trained.

    Their number comes first, unless it `is_counted` elsewhere.
    """

    is_counted: bool = False


@dataclass(frozen=True)
class Foot:
    """The drawer below the pictures: `cells`, then the explanation beside the checks."""

    widths: tuple[float, float] = (1.2, 1)
    cells: Sequence["PageCell"] = ()


@dataclass(frozen=True)
class Columns:
    """Cells side by side; each column holds several below each other.

    Where a pinned run takes half of the page, columns with `names` are shown one at a time.
    """

    widths: tuple[float, ...]
    columns: tuple[Sequence["PageCell"], ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """Cells in one line under a key of the style sheet; they wrap where the page is narrow."""

    key: str
    cells: Sequence["PageCell"]


PageCell = (
    ShownComponent | Plot | Table | Prose | Widget | Explanation | Checks | Foot | Columns | Row
)


def run_facts(run: CurrentRun) -> Facts:
    """Return the facts about a run."""
    return facts(run.trace)


@dataclass(frozen=True)
class File:
    """A download.

    `make` and `about` are called with the run that is shown when the file is requested.
    """

    label: str
    make: Callable[[CurrentRun], FileContent]
    name: str
    about: Callable[[CurrentRun], Facts] = run_facts


def csv_file(
    label: str,
    name: str,
    table: Callable[[CurrentRun], Sequence[Iterable[object]]],
    about: Callable[[CurrentRun], Facts] = run_facts,
) -> File:
    """Return the download of a table, whose first row names its columns; `name` has no suffix."""

    def make(run: CurrentRun) -> FileContent:
        head, *rows = table(run)
        return csv_table(head, rows)

    return File(label, make, f"{name}.csv", about)


@dataclass(frozen=True)
class View(Generic[Chosen]):
    """One way to look at a run.

    `choose` draws the controls and returns the choices; `within` takes the choices, their run and
    another run, and returns the nearest such choices for the other; an InputError says why there
    are none. `payloads` makes all pictures, "checks" among them, and `layout` places them.
    `is_live` tells if the pictures of these choices can be made at every keystroke, without
    Streamlit. `written` makes the line on what was read and written, unless `payloads` make it as
    "written". `has_strip` is False if the pictures themselves show what was read, or do not depend
    on it; `is_of_run` is False if they are the same for every run, so that a pinned run is not
    drawn beside them. `quantities` are the matrices from which a pinned run's are subtracted, if
    the reader wants their difference.
    """

    payloads: Callable[[CurrentRun, Chosen], Pictures]
    layout: Callable[[CurrentRun, Chosen, Pictures], Sequence[PageCell]]
    choose: Callable[[CurrentRun], Chosen] = lambda run: None  # type: ignore[assignment,return-value]
    within: Callable[[Chosen, CurrentRun, CurrentRun], Chosen] = lambda choices, run, other: choices
    text: Callable[[CurrentRun, Chosen], str] = lambda run, choices: ""
    files: Callable[[CurrentRun, Chosen], Sequence[File]] = lambda run, choices: ()
    files_note: Callable[[CurrentRun, Chosen], str] = lambda run, choices: ""
    trained: Callable[[CurrentRun], str] = lambda run: words.training_summary(run.scope.training)
    is_live: Callable[[Chosen], bool] = lambda choices: True
    written: Callable[[CurrentRun, Chosen], dict] = lambda run, choices: strip(
        run.trace, run.terms, run.stale
    )
    has_strip: bool = True
    is_of_run: bool = True
    quantities: Callable[[CurrentRun, Chosen], Sequence[Quantity]] | None = None


Find = Callable[[CurrentRun], View[Any] | str]  # a sentence where there is nothing to show


@dataclass(frozen=True)
class NextQuestion:
    """The question that a page ends with.

    It has a wording, the address of the page that answers it, and the choices to make there, by the
    names of URL parameters.
    """

    question: str
    page: str
    chosen: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """A page: its title, its question, the answer to it, and its views.

    If there are several views, the reader chooses one by name.

    `leads_to` takes a run and the choices of its view. The default of `section` is "": the first
    view that a run has. `shows_changes` is False on a page that compares models as they
    were trained; `names` are the changes of a run that a section itself shows and undoes
    (RunSpec.without), by the section's name in the address. `opens_on` maps a task to the example
    that this page has first, which replaces an untouched example of another page.
    """

    title: str
    question: str
    answer: Callable[[CurrentRun], str]
    views: Mapping[str, Find]
    leads_to: Callable[[CurrentRun, Any], NextQuestion]
    section: Choice | None = None
    shows_changes: bool = True
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    opens_on: Mapping[str, str] = field(default_factory=dict)
