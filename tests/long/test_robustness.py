"""The short forms of `python -m tests.robustness.checkpoints`, `.kills` and `.hub_folders`."""

import sys

import pytest

from tests.robustness import checkpoints, hub_folders, kills


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return checkpoints.small_checkpoints(tmp_path_factory.mktemp("sound"))


@pytest.mark.parametrize("checksums", [True, False], ids=["with checksums", "without"])
def test_a_damaged_checkpoint_is_refused_or_answers_as_before(sound, checksums):
    counts = checkpoints.count(sound, 7, 120, checksums=checksums)
    assert counts.total() == 120
    assert counts[checkpoints.REFUSED] > 60
    assert counts[checkpoints.WRONG] == counts[checkpoints.FAILS] == 0
    if checksums:
        assert counts[checkpoints.DIFFERENT] == 0
    else:
        assert (
            counts[checkpoints.DIFFERENT] > 0
        )  # the damage is real: nothing is claimed, and the answers differ


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_a_killed_run_ends_as_one_left_alone():
    killed, equal = kills.measure(runs=1, kills=2, seed=3)
    assert killed >= 1
    assert equal == 1


def test_edits_of_another_session_are_answered_while_damaged_folders_open():
    counts = hub_folders.count(n=len(hub_folders.CHANGES), seed=5)
    assert counts["lives"]
    assert counts["answers"] > counts["folders"]
    assert counts["wrong"] == 0
