"""Scores in a checkpoint's training record, and of which weights each was measured.

`scores` and `by_length` are of the weights whose digest (models.fingerprint) stands in `measured_on`; `snapshot_scores` holds
`scores` and `measured_on` for each snapshot, by its step. A score is never said of other weights.
"""

from typing import Any

Record = dict[str, Any]


def unmeasured(record: Record) -> Record:
    """The record without any score: for weights or a similarity of which nothing was measured."""
    return {
        name: entry for name, entry in record.items() if name not in ("by_length", "measured_on")
    } | {"scores": {}}


def at_snapshot(record: Record, step: int) -> Record:
    """The record with the scores measured of the snapshot at this step, if there are any, in place of the finished weights'."""
    measured = record.get("snapshot_scores", {}).get(str(step), {})
    return unmeasured(record) | {
        name: measured[name] for name in ("scores", "measured_on") if name in measured
    }


def of_weights(record: Record, digest: str) -> Record:
    """The record, without its scores if they were measured of other weights than these. One that does not say of which
    weights they are was written before records said so, and is believed."""
    return record if record.get("measured_on", digest) == digest else unmeasured(record)
