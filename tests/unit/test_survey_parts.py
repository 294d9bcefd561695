"""The finished parts of a survey: numbers out of range count as damage of the file only if they come from it."""

from contextlib import suppress
from pathlib import Path

import pytest

from models.runs.survey_parts import SurveyParts


def test_computed_numbers_out_of_range_are_named_and_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for parts in (SurveyParts(), SurveyParts(path, "survey")):
        with pytest.raises(ValueError, match="^'gain' should be from 0 to 1, but is nan$"), parts:
            parts.numbers("gain", 1, lambda: [0.5, float("nan")])
        assert parts.numbers("gain", 1, lambda: [0.25]) == [0.25]
    assert not path.exists()


def test_numbers_out_of_range_in_a_file_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    with suppress(KeyboardInterrupt), SurveyParts(path, "survey") as parts:
        parts.numbers("gain", 9, lambda: [7.0])
        raise KeyboardInterrupt
    with pytest.raises(ValueError, match="state.json is damaged at 'gain'"):
        SurveyParts(path, "survey").numbers("gain", 1, lambda: [0.5])
