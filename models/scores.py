"""Scores in a checkpoint's training record, and the weights each was measured on.

`scores` and `by_length` belong to the weights with the digest `measured_on` (models.weights);
`snapshot_scores` holds `scores` and `measured_on` of each snapshot, by step. `ablation` and each of
`surveys` name their own weights. A score is never shown for other weights.
"""

from typing import Any

Record = dict[str, Any]

SURVEYS_ENTRY = "surveys"


def without_scores(record: Record) -> Record:
    """Return the record without scores, for weights or a similarity that were never measured."""
    measures = ("by_length", "measured_on", "ablation", SURVEYS_ENTRY)
    return {name: entry for name, entry in record.items() if name not in measures} | {"scores": {}}


def at_snapshot(record: Record, step: int) -> Record:
    """Return the record with the scores of the snapshot at this step, if any."""
    scores = record.get("snapshot_scores", {}).get(str(step), {})
    return without_scores(record) | {
        name: scores[name] for name in ("scores", "measured_on") if name in scores
    }


def of_weights(record: Record, digest: str) -> Record:
    """Return the record, without its scores if they were measured on other weights.

    Older records do not name the weights; their scores are kept.
    """
    if record.get("measured_on", digest) != digest:
        return without_scores(record)
    swept = record.get("ablation", {}).get("measured_on", digest) == digest
    scores = record if swept else {name: record[name] for name in record if name != "ablation"}
    surveys = scores.get(SURVEYS_ENTRY, {})
    ours = {name: one for name, one in surveys.items() if one["measured_on"] == digest}
    if len(ours) == len(surveys):
        return scores
    return {name: scores[name] for name in scores if name != SURVEYS_ENTRY} | (
        {SURVEYS_ENTRY: ours} if ours else {}
    )
