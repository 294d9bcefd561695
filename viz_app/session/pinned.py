"""The pinned run, with which the current run is compared; the URL holds it under `pin.`."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from models import Scope
from models.architectures.base import FILE_FIELDS, TEXT_FIELD
from models.field_file import FieldFile
from models.runs.spec import RunSpec
from viz_app.drawing.sites import by_kind
from viz_app.session import cache, live, own_files, run_changes, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Parameter, declared_parameters
from viz_app.session.url_state import CHECKPOINT, parameter_of

PIN_PREFIX = "pin."


@functools.cache
def of_pinned(parameter: Parameter) -> Parameter:
    """Return the pinned run's counterpart of a parameter."""
    return replace(parameter, name=f"{PIN_PREFIX}{parameter.name}", is_step=True)


def pin_run(name: str, run: CurrentRun) -> None:
    """Pin this run with its changes; `name` is the menu name of its model."""
    unpin()
    run_changes.force_anew(of_pinned)
    for parameter in _parameters(run):
        url_state.set_value(of_pinned(parameter), url_state.get(parameter))
    url_state.set_value(of_pinned(CHECKPOINT), name)


def pin_address(query: Mapping[str, Sequence[str]]) -> None:
    """Pin the run of an address, given the texts of its parameters; it names its checkpoint."""
    unpin()
    run_changes.force_anew(of_pinned)
    for parameter in [CHECKPOINT, *url_state.shipped_fields(), *run_changes.parameters(())]:
        url_state.set_value(of_pinned(parameter), parameter.from_query(query))


def unpin() -> None:
    """Stop comparing with the pinned run, and reset all its parameters."""
    for name, parameter in list(declared_parameters().items()):
        if name.startswith(PIN_PREFIX):
            url_state.set_value(parameter, parameter.default)


def swap(name: str, parameters: Sequence[Parameter]) -> None:
    """Exchange the pinned run and the current run, whose model is `name`, in these parameters."""
    run_changes.force_anew()
    run_changes.force_anew(of_pinned)
    for parameter in parameters:
        ours, pinned = url_state.get(parameter), url_state.get(of_pinned(parameter))
        url_state.set_value(parameter, pinned)
        url_state.set_value(of_pinned(parameter), ours)
    url_state.set_value(CHECKPOINT, url_state.get(of_pinned(CHECKPOINT)))
    url_state.set_value(of_pinned(CHECKPOINT), name)


def keep_texts(texts: Mapping[Parameter, str]) -> None:
    """Fix the texts of the pinned run to these."""
    for parameter, text in texts.items():
        url_state.set_value(of_pinned(parameter), text)


def follow_texts(fields: Sequence[Parameter]) -> None:
    """Make the pinned run read the current run's texts in these fields, now and after each edit."""
    for parameter in fields:
        url_state.set_value(of_pinned(parameter), parameter.default)


def texts_of(run: CurrentRun) -> dict[Parameter, str]:
    """Return the texts that a run reads, by the parameter of their field."""
    texts = run.unchanged.trace.fields
    fields = run.scope.model.text_fields
    return {parameter_of(field): texts.get(field.name) or "" for field in fields}


def files_of(run: CurrentRun) -> list[Parameter]:
    """Return the parameters of the images and sounds that a run reads."""
    return [parameter_of(field) for field in run.scope.model.fields if field.kind in FILE_FIELDS]


@dataclass(frozen=True)
class Pinned:
    """A pinned model with the changes of `spec` and its texts.

    Without texts it reads those of the current run.
    """

    scope: Scope
    texts: tuple[str, ...] | None
    chosen: tuple[Any, ...]  # for the model's fields that are not typed
    spec: RunSpec | None = None

    def beside(self, run: CurrentRun) -> CurrentRun:
        """Return the pinned run to show beside this one.

        Raises:
            InputError: the model cannot read the texts.
            CheckpointError: its changes cannot be made.
        """
        texts = _texts_for(self.scope, run) if self.texts is None else self.texts
        unchanged = CurrentRun(self.scope, cache.trace(self.scope, texts, (), self.chosen))
        return unchanged if self.spec is None else cache.with_changes_of(self.spec, unchanged)


def checkpoint() -> str:
    """Return the menu name of the pinned checkpoint; "" if nothing is pinned."""
    url_state.drop_missing(PIN_PREFIX)  # its other parameters are read once it has been opened
    return url_state.get(of_pinned(CHECKPOINT)) or ""


def pinned_beside(scope: Scope, run: CurrentRun) -> Pinned:
    """Return the pinned settings beside this run, given the opened pinned checkpoint.

    Raises:
        CheckpointError: its changes cannot be made.
        InputError: its model cannot read its texts.
    """
    model = scope.model
    values = {field.name: url_state.get(of_pinned(parameter_of(field))) for field in model.fields}
    texts = tuple(values[field.name] or "" for field in model.text_fields)
    fields = run.unchanged.trace.fields
    untyped = tuple(
        fields.get(field.name)
        if field.kind in FILE_FIELDS and not values[field.name]
        else values[field.name]
        for field in model.fields
        if field.kind != TEXT_FIELD
    )
    chosen = own_files.with_files(live.live_session(), model.fields, untyped, of_pinned)
    pinned = Pinned(scope, texts if any(texts) else None, chosen)
    other = pinned.beside(run)
    run_changes.clear_forced(other, of_pinned)
    return replace(pinned, spec=run_changes.chosen_spec(other, of_pinned))


def _texts_for(scope: Scope, run: CurrentRun) -> tuple[str, ...]:
    """Return a run's texts for another model, by field name.

    If the first field of both models is a text, it is passed on under any name.
    """
    values, ours, model = run.unchanged.trace.fields, run.scope.model, scope.model
    texts = {
        name: value
        for name, value in values.items()
        if isinstance(value, str) and not isinstance(value, FieldFile)
    }
    if ours.reads_text and model.reads_text:
        texts.setdefault(model.fields[0].name, texts[ours.fields[0].name])
    return tuple(texts.get(field.name, "") for field in model.text_fields)


def _parameters(run: CurrentRun) -> list[Parameter]:
    """Return the parameters that determine a run of this model, except its checkpoint."""
    kinds = [kind for kind, _ in by_kind(run.unchanged.trace)]
    return [*fields(run.scope), *run_changes.parameters(kinds)]


def parameters_of_both(run: CurrentRun, other: CurrentRun) -> list[Parameter]:
    """Return the parameters that determine one run or the other."""
    return list(dict.fromkeys([*_parameters(run), *_parameters(other)]))


def fields(scope: Scope) -> list[Parameter]:
    """Return the parameters of a model's fields."""
    return [parameter_of(field) for field in scope.model.fields]
