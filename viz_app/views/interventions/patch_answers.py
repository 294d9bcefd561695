"""The answers of the section Patch: of both texts, and of the patched run."""

from dataclasses import replace
from typing import Any

from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.views.interventions import patch_text as say
from viz_app.views.interventions import text
from viz_app.views.interventions.patch_effects import PatchChoices
from viz_app.views.interventions.patch_runs import NECESSARY, Two
from viz_app.views.interventions.payloads import FollowedDecision, answer_words, outcome_payload


def patch_answers(run: CurrentRun, choices: PatchChoices, two: Two) -> dict[str, Any]:
    """Return the payload of the answers: to both texts, and of the chosen side's patched run."""
    side = choices.side
    base, source = two.sides(side)
    if side == NECESSARY:
        before = cache.changed_run(run.unchanged, run.spec.without("edits"))
        question = FollowedDecision(before, run, two.all, two.chosen)
    else:
        edited = base.with_edits(choices.other_edits)
        all_decisions = [
            replace(one, row=row, option=two.there(one.option))
            for one, row in zip(two.all, two.rows, strict=True)
            if row is not None
        ]
        chosen = sum(row is not None for row in two.rows[: two.chosen])
        question = FollowedDecision(CurrentRun(base.scope, base.trace), CurrentRun(base.scope, edited), all_decisions, chosen)  # fmt: skip
    payload = outcome_payload(question)
    answer, patched = payload["answers"]
    other = answer_words(CurrentRun(source.scope, source.trace))
    first = next(
        (i for i, (a, b) in enumerate(zip(answer["words"], other, strict=False)) if a != b),
        -1 if len(answer["words"]) == len(other) else min(len(answer["words"]), len(other)),
    )
    names = f"This {two.noun}", f"Other {two.noun}"
    names = names if side == NECESSARY else names[::-1]
    payload["answers"] = [
        answer | {"whose": names[0]},
        {"whose": names[1], "words": other, "from": first},
        patched | {"whose": f"{names[0]}, patched"},
    ]
    if payload["verdict"] == text.NO_HEAD_CHANGED:
        payload["verdict"] = say.NOTHING_PATCHED
    return payload
