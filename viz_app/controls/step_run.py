"""The run that a step of a lesson is about, and how the run on the screen differs from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from models.architectures.base import FILE_FIELDS, TEXT_FIELD
from models.runs.spec import RunSpec
from viz_app import checkpoints
from viz_app.drawing.sites import by_kind
from viz_app.input_bar.form import placed_example
from viz_app.lessons.lesson import LessonStep, Query
from viz_app.lessons.picture import Departure
from viz_app.session import run_changes, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.lesson_state import changes_texts
from viz_app.session.live import LiveSession
from viz_app.session.parameters import Of, Parameter, itself
from viz_app.session.pinned import of_pinned
from viz_app.session.url_state import CHECKPOINT

IS_OPENING = "The model of this step is being opened."
SHOWS_OTHER_MODEL = "The page now shows another model."
SHOWS_OTHER_TEXT = "The page now shows another text."
HAS_OTHER_CHANGES = "The run on the page now has other changes."
HAS_NO_PIN = "The run of this step is no longer pinned beside this one."
SHOW_AGAIN = "“Show again” brings the run of the step back."

FindDeparture = Callable[[CurrentRun, CurrentRun | None], Departure | None]


def departure_finder(
    step: LessonStep,
    is_changed: bool,
    session: LiveSession,
    run: CurrentRun,
    other: CurrentRun | None,
) -> FindDeparture:
    """Return a function that tells how a run and the one pinned beside it differ from a step's.

    The step is as it is after the prediction if it `is_changed`. The function takes runs on other
    texts, too, and does not read the session.
    """
    query = step.query_when(is_changed)
    name = url_state.get(CHECKPOINT) or _first_name()
    of_step = _AskedRun.of(query, run, session.picked)
    is_opening = session.opening is not None and name == of_step.checkpoint and not of_step.is_model
    pins, follows = is_changed and step.pins, not changes_texts(step)
    of_pin = None
    if pins and other is not None:
        of_pin = _AskedRun.of(step.query, other, url_state.get(of_pinned(CHECKPOINT)), of_pinned)
    is_opening |= pins and other is None and session.pinned_opening is not None

    def find(run: CurrentRun, other: CurrentRun | None) -> Departure | None:
        is_beside = not pins or (
            of_pin is not None
            and other is not None
            and of_pin.is_changed_alike(other)
            and (_first_text(run) == _first_text(other) if follows else of_pin.reads_texts(other))
        )
        is_pinned = is_beside and (of_pin is None or of_pin.is_model)
        is_of_step = of_step.is_model and of_step.is_changed_alike(run)
        reads = of_step.reads_texts(run)
        if is_pinned and reads and is_of_step:
            return None
        if is_opening:
            return Departure(IS_OPENING, keeps_reveal=False)
        keeps_reveal = is_beside and of_step.has_changes(run)
        message = (
            SHOWS_OTHER_MODEL if not of_step.is_model
            else SHOWS_OTHER_TEXT if not reads
            else HAS_NO_PIN if is_of_step
            else HAS_OTHER_CHANGES
        )  # fmt: skip
        return Departure(f"{message} {SHOW_AGAIN}", keeps_reveal)

    return find


@dataclass(frozen=True)
class _AskedRun:
    """The run of an address, in terms of the model of a run on the screen.

    `can_change` is False if that is another model, which lacks something that the address changes.
    """

    checkpoint: str
    is_model: bool
    texts: Mapping[str, str]  # field → its text
    chooses_as_asked: bool  # in the fields that are not typed
    spec: RunSpec
    can_change: bool

    @classmethod
    def of(cls, query: Query, run: CurrentRun, name: str | None, of: Of = itself) -> "_AskedRun":
        """Return the run of an address; `name` is the menu name of the run's model."""
        fields = run.scope.model.fields
        checkpoint = CHECKPOINT.from_query(query) or _first_name()
        texts = {}
        untyped = []
        for field in fields:
            parameter = url_state.parameter_of(field)
            value = parameter.from_query(query)
            if field.kind != TEXT_FIELD:
                # an address that names no file leaves it to the reader
                is_any = field.kind in FILE_FIELDS and value is None
                untyped.append(is_any or (url_state.get(of(parameter)) or None) == (value or None))
            elif (text := placed_example(parameter) if value is None else value) is not None:
                texts[field.name] = text
        spec = _spec_of(query, run.unchanged, of)
        is_model = name == checkpoint
        can_change = is_model or _has_all(query, spec, run.unchanged)
        return cls(checkpoint, is_model, texts, all(untyped), spec, can_change)

    def is_changed_alike(self, run: CurrentRun) -> bool:
        """Return True if a run has the changes of the address and no others."""
        is_alike = _changes(run.spec) == _changes(self.spec)
        return self.can_change and self.chooses_as_asked and is_alike

    def reads_texts(self, run: CurrentRun) -> bool:
        """Return True if a run reads the texts of the address."""
        fields = run.unchanged.trace.fields
        return all((fields.get(name) or "") == text for name, text in self.texts.items())

    def has_changes(self, run: CurrentRun) -> bool:
        """Return True if a run has all that the address changes; it may force other tokens."""
        return (
            self.can_change
            and self.chooses_as_asked
            and run.spec.model == self.spec.model
            and set(self.spec.edits) <= set(run.spec.edits)
            and bool(run.spec.forced) >= bool(self.spec.forced)
        )


def _changes(spec: RunSpec) -> tuple:
    return spec.model, spec.edits, spec.forced


def _spec_of(query: Query, original: CurrentRun, of: Of) -> RunSpec:
    """Return the spec of a run with the changes of an address."""
    with url_state.preview_choices():
        for parameter in _change_parameters(original):
            url_state.set_value(of(parameter), parameter.from_query(query))
        return run_changes.chosen_spec(original, of)


def _has_all(query: Query, spec: RunSpec, original: CurrentRun) -> bool:
    """Return True if the spec has every change of an address that it was made from."""
    asked = {p: p.from_query(query) for p in run_changes.parameters(())}
    n_masks = sum(
        p in run_changes.MASK_CHANGES.values() and value != p.default for p, value in asked.items()
    )
    return (
        len(spec.edits) == len(asked[run_changes.EDITS]) + n_masks
        and spec.forced == asked[run_changes.FORCED_CHANGE]
        and spec.model.positions == asked[run_changes.POSITIONS_CHANGE]
        and (asked[run_changes.SIMILARITY_CHANGE] or "") in (spec.model.similarity, original.scope.model.similarity)
        and (spec.model.step is not None) == asked[run_changes.SHOWS_SNAPSHOT]
    )  # fmt: skip


def _change_parameters(run: CurrentRun) -> list[Parameter]:
    return run_changes.parameters(kind for kind, _ in by_kind(run.unchanged.trace))


def _first_text(run: CurrentRun) -> object:
    return next(iter(run.unchanged.trace.fields.values()), None)


def _first_name() -> str:
    return checkpoints.module() or checkpoints.LANDING_CHECKPOINT
