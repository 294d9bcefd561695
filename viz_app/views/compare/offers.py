"""Offers of runs to compare with; one click pins the run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import models
from models.layers.masks import LOOK_AHEAD
from models.layers.similarity import SIMILARITIES
from models.tasks import GENERATED
from models.trace import AttentionSite
from models.trace.edits import HeadOff, MaskChange, Where
from viz_app.drawing.sites import by_kind
from viz_app.input_bar import menu
from viz_app.session import live, pinned, run_changes, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Parameter
from viz_app.views.compare import state

MAX_MODELS = 2  # models of the same task that are offered
LANGUAGE = ("gpt", "bert", "xlnet")  # families that read one English text
# offers by key: the chosen head off; this run kept, and another text typed
HEAD_OFF_KEY, ANOTHER_INPUT_KEY = "compare-off", "compare-text"
Changes = dict[Parameter, Any]


@dataclass(frozen=True)
class Offer:
    """A button that pins a run."""

    label: str
    key: str
    action: Callable[[], None]
    help: str = ""


def offers(run: CurrentRun, site: str, head: int) -> list[Offer]:
    """Return offers of runs to compare this one with; (site, head) is the chosen head."""
    return [*_of_this_model(run, site, head), *_models(run)]


def _of_this_model(run: CurrentRun, site: str, head: int) -> Iterator[Offer]:
    model, spec = run.scope.model, run.spec
    unchanged = run.unchanged.scope
    if not spec.is_unchanged:
        yield _offer("This model unchanged", "unchanged", _pin_unchanged)
    steps = [step for step in unchanged.snapshots if step != spec.model.step]
    if steps:
        step = steps[len(steps) // 2]
        changes = {run_changes.SHOWS_SNAPSHOT: True, run_changes.SNAPSHOT_STEP: str(step)}
        yield _offer(f"Training step {step:,}", "step", partial(_pin, changes))
    if model.can_edit_masks:
        yield from _masks(run)
        if run.trace.attention[site].has_causes:
            off = HeadOff(Where(site=site, heads=(head,)))
            action = partial(_pin, {run_changes.EDITS: (*_edits(run), off)})
            yield Offer("This head off", HEAD_OFF_KEY, action)
    if model.similarity:
        other = next(name for name in SIMILARITIES if name != model.similarity)
        changes = {run_changes.SIMILARITY_CHANGE: other}
        yield _offer(f"Similarity: {other}", "similarity", partial(_pin, changes))
    if run.scope.has_removable_positions and spec.model.positions:
        changes = {run_changes.POSITIONS_CHANGE: False}
        yield _offer("No position vectors", "positions", partial(_pin, changes))
    what, how = model.fields[0].kind, "type" if model.reads_text else "choose"
    help = f"Keep this run, then {how} another {what}."
    action = partial(_pin, {}, keeps_text=True)
    yield Offer(f"Another {what}", ANOTHER_INPUT_KEY, action, help)


def _edits(run: CurrentRun) -> tuple[Any, ...]:
    return tuple(edit for edit in run.spec.edits if not isinstance(edit, MaskChange))


def _masks(run: CurrentRun) -> Iterator[Offer]:
    """Offer one mask: the look-ahead mask removed, or, where there is none, put on."""
    kinds = by_kind(run.trace)
    for kind, (site, *_) in kinds:
        if any(layer.name == LOOK_AHEAD for layer in site.mask.layers):
            change = MaskChange(removed_layers=(LOOK_AHEAD,))
            action = partial(_pin, {run_changes.mask_parameter(kind): change})
            yield _offer("No look-ahead mask", "mask", action)
            return
    for kind, (site, *_) in kinds:
        change = MaskChange(preset="causal")
        if site.query_stream == site.key_stream and _blocks(change, site):
            action = partial(_pin, {run_changes.mask_parameter(kind): change})
            yield _offer("A look-ahead mask", "mask", action)
            return


def _blocks(change: MaskChange, site: AttentionSite) -> bool:
    """Return True if a change of the mask closes a cell of a site."""
    masked = change.apply(site.mask, site.n_query, site.n_key)
    allowed = masked.expanded(0, 0, site.n_query, site.n_key)
    return bool((site.allowed() & ~allowed).any())


def _models(run: CurrentRun) -> Iterator[Offer]:
    """Offer other checkpoints of the task, and one of another family that reads the same text."""
    current, task = live.live_session().picked, run.scope.task
    names = [one.name for one in menu.menu_entries() if one.name != current and one.attends]
    same = [name for name in names if _task(name) == task != "unknown"]
    for name in same[:MAX_MODELS]:
        yield _offer(name, f"model-{name}", partial(_pin_model, name))
    texts = sum(not field.optional for field in run.scope.model.text_fields)
    if task in GENERATED or texts != 1:  # 0: it reads a file
        return
    if all(site.site_kind.between_streams for site in run.trace.attention.values()):
        return  # a text that only reads another has no counterpart
    for name in LANGUAGE:
        if name in names and name not in same and name in models.shipped():
            yield _offer(name, f"model-{name}", partial(_pin_model, name), "Compared by words.")
            return


def _task(name: str) -> str:
    description = menu.menu_description(name)
    return description.training.get("task", "") if description else ""


def _offer(label: str, key: str, action: Callable[[], None], help: str = "") -> Offer:
    return Offer(label, f"compare-{key}", action, help)


def _pin(changes: Changes, keeps_text: bool = False) -> None:
    """Pin the shown run with further changes.

    It reads what this run reads unless it keeps its text.
    """
    session = live.live_session()
    run = session.shown
    pinned.pin_run(session.picked, run)
    for parameter, value in changes.items():
        url_state.set_value(pinned.of_pinned(parameter), value)
    if keeps_text:
        pinned.keep_texts(pinned.texts_of(run))
    else:
        pinned.follow_texts([*pinned.texts_of(run), *pinned.files_of(run)])
    state.choose_other(None)


def _pin_unchanged() -> None:
    run = live.live_session().shown
    kinds = [kind for kind, _ in by_kind(run.unchanged.trace)]
    _pin({parameter: parameter.default for parameter in run_changes.parameters(kinds)})


def _pin_model(name: str) -> None:
    """Pin another checkpoint as it was trained."""
    _pin_unchanged()
    url_state.set_value(pinned.of_pinned(url_state.CHECKPOINT), name)
