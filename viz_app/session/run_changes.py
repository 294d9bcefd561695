"""The changes of a session to its run: the one way from the URL to a RunSpec and back.

Every page shows the run of this spec, so changes made on different pages compose, and one link holds them all.
"""

import re
from dataclasses import replace
from functools import cache

from models import Scope, Trace
from models.layers.similarity import SIMILARITIES
from models.runs.spec import Forced, RunSpec
from models.trace.edits import Edits, MaskChange, for_kinds
from viz_app.drawing.sites import by_kind
from viz_app.session import mask_notation, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Choice, Notation, Parameter, Switch

SHOWS_STEP, STEP = Switch("growth"), Choice("growth-step", is_step=False)
SIMILARITY = Choice("similarity")  # none is the model's own
POSITIONS = Switch("positions", default=True)
_MASK_NAMES = {"encoder_self": "encoder-mask", "decoder_self": "decoder-mask"}  # of published links


def pairs(text: str) -> list[tuple[int, int]]:
    """Return the pairs of numbers of a text such as "3:17,4:9", at most 200; anything else in it is left out."""
    matches = (re.fullmatch(r"([0-9]{1,5}):([0-9]{1,6})", part) for part in text.split(",")[:200])
    return [(int(match[1]), int(match[2])) for match in matches if match]


def _read_forced(text: str) -> Forced:
    tokens = {position - 1: token for position, token in pairs(text) if position}
    return tuple(sorted(tokens.items()))


def _write_forced(forced: Forced) -> str:
    return ",".join(f"{position + 1}:{token}" for position, token in forced)


FORCED = Notation("force", (), True, read=_read_forced, write=_write_forced)


@cache
def mask_change(kind: str) -> Notation:
    """Return the parameter that holds the change to the mask of this kind of attention (SiteKind.name)."""
    name = _MASK_NAMES.get(kind, f"{kind.replace('_', '-')}-mask")
    read, write = mask_notation.from_text, mask_notation.to_text
    return Notation(name, MaskChange(), True, read=read, write=write)


MASK_KINDS = ("encoder_self", "decoder_self", "cross", "self", "content", "query")
MASK_CHANGES = {kind: mask_change(kind) for kind in MASK_KINDS}


def chosen(own: CurrentRun) -> RunSpec:
    """Return the spec of this run with the session's changes, without those that its model does not allow."""
    return replace(
        own.spec,
        model=replace(
            own.spec.model,
            step=chosen_step(own.scope),
            similarity=other_similarity(own.scope),
            positions=url_state.get(POSITIONS) or not own.scope.has_removable_positions,
        ),
        edits=mask_edits(own.trace) if own.scope.model.masks_can_change else (),
        forced=url_state.get(FORCED) if own.scope.model.can_write else (),
    )


def chosen_step(scope: Scope) -> int | None:
    """Return the chosen training step, None for the final weights."""
    steps = scope.snapshots
    if not steps or not url_state.get(SHOWS_STEP):
        return None
    return url_state.one_of(STEP, steps, steps[-1])


def other_similarity(scope: Scope) -> str:
    """Return the similarity chosen instead of the model's own; empty for its own, and if it cannot be exchanged."""
    own, name = scope.model.similarity, url_state.get(SIMILARITY)
    return name if own and name in SIMILARITIES and name != own else ""


def mask_edits(trace: Trace) -> Edits:
    """Return the session's mask changes for the kinds of attention that this trace has."""
    kinds = [kind for kind, _ in by_kind(trace)]
    return for_kinds(**{kind: url_state.get(mask_change(kind)) for kind in kinds})


def undo(change: str, kinds: tuple[str, ...] = ()) -> None:
    """Undo one change of RunSpec.without; `kinds` are further kinds of attention whose masks may be changed."""
    for parameter in _parameters(kinds)[change]:
        url_state.keep(parameter, parameter.default)


def undo_all(kinds: tuple[str, ...] = ()) -> None:
    """Undo every change."""
    for change in _parameters(kinds):
        undo(change, kinds)


def _parameters(kinds: tuple[str, ...]) -> dict[str, list[Parameter]]:
    masks = [mask_change(kind) for kind in dict.fromkeys((*MASK_KINDS, *kinds))]
    return {
        "step": [SHOWS_STEP, STEP],
        "similarity": [SIMILARITY],
        "positions": [POSITIONS],
        "edits": masks,
        "forced": [FORCED],
    }
