"""Readings: the functions of these modules, by whose names a lesson's sentences read a run.

A reading is written `{run.weight(encoder.layers.0.self_attn, 1, 3, 0)}`; the run is the one on the
screen, `unchanged` is the same without its changes, and `pinned` the pinned one. Heads, positions
and tokens count from 0, as in addresses and in Python.
"""

from viz_app.lessons.readings import answers, attention, records
from viz_app.lessons.readings.registry import READINGS, without_changes
from viz_app.lessons.sentence import FindReading, Reading, ReadingValue
from viz_app.session.current_run import CurrentRun

TOPICS = (answers, attention, records)  # each registers its readings
READ_RUNS = ("run", "unchanged", "pinned")


def finder(run: CurrentRun, pinned: CurrentRun | None) -> FindReading:
    """Return the function that looks a reading up in these runs."""
    runs = {"run": run, "unchanged": without_changes(run), "pinned": pinned}

    def find(reading: Reading) -> ReadingValue:
        of = runs[reading.whose]
        if of is None:
            raise ValueError("no run is pinned")
        return READINGS[reading.name].of(of, reading.arguments)

    return find
