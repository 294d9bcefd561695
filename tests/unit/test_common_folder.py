"""The folder that server processes share: one for all of them, removed when the process that made it ends."""

from pathlib import Path

import pytest

from viz_app import common_folder


def test_a_process_removes_its_own_folder_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(common_folder.VARIABLE, str(tmp_path))
    assert common_folder.common_folder() == tmp_path
    common_folder.remove_own()
    assert tmp_path.is_dir()
    monkeypatch.delenv(common_folder.VARIABLE)
    made = common_folder.common_folder()
    assert common_folder.common_folder() == made
    assert made.stat().st_mode & 0o077 == 0  # for this user alone
    common_folder.remove_own()
    assert not made.exists()
