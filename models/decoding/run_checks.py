"""Checks of two runs shown side by side."""

import torch

from models.analysis.checks import ROUNDING, Check, check_sums, rounding_in
from models.decoding.runs import Run, first_divergence, largest


def check_runs(
    parallel: Run,
    serial: Run,
    uncached: Run,
    *,
    from_cache: bool = True,
    sees_ahead: bool = False,
) -> list[Check]:
    """Return the checks of two runs side by side.

    `uncached` is the `uncached_run` over the tokens of `serial`, whose steps came `from_cache` or
    each read the whole row. If positions are allowed to see later ones (`sees_ahead`), one pass and
    a run token by token differ as they should, and are not compared. Tolerance: in float32 the same
    sums in another order differ by some 1e-6; in half precision every layer rounds.
    """
    n, limit = _n_common(parallel, serial), _tolerance(serial)
    sums = torch.cat([run.log_probs.exp().sum(-1) for run in (parallel, serial)]) - 1
    return [
        Check(
            "probabilities sum to 1",
            largest(sums),
            1e-5,
            "Largest difference from 1, over all positions of both runs",
        ),
        *([] if sees_ahead else _check_same(parallel, serial, uncached, n, limit, from_cache)),
        *_check_attention(parallel, serial),
        *_check_states(serial, uncached),
    ]


def first_disagreement(parallel: Run, serial: Run) -> int | None:
    """Return the first position where probabilities differ although both have read the same.

    The tolerance is that of the check. None if there is no such position.
    """
    positions = range(_n_common(parallel, serial))
    pairs = ((run.log_probs[i].exp() for run in (parallel, serial)) for i in positions)
    limit = _tolerance(serial)
    return next((i for i, (a, b) in enumerate(pairs) if not largest(a - b) <= limit), None)


def _n_common(parallel: Run, serial: Run) -> int:
    """Return the number of positions at which both have read the same."""
    divergence = first_divergence(parallel, serial)
    return min(len(parallel), len(serial)) if divergence is None else divergence + 1


def _tolerance(serial: Run) -> float:
    return max(1e-4, rounding_in(serial.dtype))


def _check_same(
    parallel: Run, serial: Run, uncached: Run, n: int, limit: float, from_cache: bool
) -> list[Check]:
    """Check that both runs agree on the first `n` positions, and one pass with all steps."""
    name = "with the cache = without it" if from_cache else "step by step = in one pass"
    steps = (
        "steps from the cache against one pass without it"
        if from_cache
        else "steps that each read the whole row, against one pass"
    )
    return [
        Check(
            name,
            _difference(serial, uncached, len(serial)),
            limit,
            f"Largest difference of any probability, {len(serial)} {steps}",
        ),
        Check(
            "same prefix, same probabilities",
            _difference(parallel, serial, n),
            limit,
            f"Largest difference between the given text and its own, where both have read the same ({n} positions)",
        ),
    ]


def _check_attention(parallel: Run, serial: Run) -> list[Check]:
    sums = [rows.sums for run in (parallel, serial) for rows in run.rows.values()]
    if not sums:
        return []
    errors = [e for e in (parallel.kernel_error, serial.kernel_error) if e is not None]
    everywhere = "Largest difference from 1, over all heads, layers and steps"
    label = "Largest difference from the model's own output, all steps; relative to values above 1 and to large scores' rounding"
    name = "attention rows sum to {}"
    checks = [check_sums(name, torch.cat(sums), everywhere, serial.dtype, bool(errors))]
    if errors:
        checks.append(Check("weights · v is what the model used", max(errors), ROUNDING, label))
    return checks


def _check_states(serial: Run, uncached: Run) -> list[Check]:
    """Check that the state carried from step to step is that of a run from the beginning."""
    if not serial.states:
        return []
    apart = torch.cat(
        [(serial.states[name] - uncached.states[name]).flatten() for name in serial.states]
    )
    detail = "Largest difference of any state or context, steps from the kept state against one run from the beginning"
    return [Check("the kept state is the right one", largest(apart), 1e-4, detail)]


def _difference(a: Run, b: Run, n: int) -> float:
    return largest(a.log_probs[:n].exp() - b.log_probs[:n].exp())
