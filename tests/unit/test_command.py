"""`attnscope` without a command: the address it listens on, the models it opens, and its messages in the terminal."""

import os
import shutil
import sys
from pathlib import Path

import pytest
import streamlit.web.cli

from viz_app import checkpoints, command, handout, workers
from viz_app.controls.lesson_panel import offered_lessons
from viz_app.host_guard import ALLOWED
from viz_app.lessons import library
from viz_app.session import run_owners
from viz_app.session.byte_cache import BUDGET_VARIABLE, MEGABYTE, budget
from viz_app.static_pages import export


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The settings that Streamlit was started with; nothing is served."""
    told: list[list[str]] = []
    monkeypatch.setattr(
        os, "environ", {k: v for k, v in os.environ.items() if not k.startswith("ATTNSCOPE_")}
    )
    monkeypatch.setattr(streamlit.web.cli, "main", lambda arguments, **how: told.append(arguments))
    return told


def attnscope(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["attnscope", *arguments])
    return command.main()


def test_it_listens_on_this_machine_and_opens_any_folder(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attnscope(monkeypatch, "--port", "8999", "--no-browser") == 0
    assert started == [
        [
            "run",
            str(Path(command.__file__).with_name("server.py")),
            "--server.port=8999",
            "--server.headless=true",
        ]
    ]
    assert not checkpoints.is_shared()
    assert not any(
        name in os.environ
        for name in (checkpoints.MODELS_VARIABLE, checkpoints.SHARED_VARIABLE, ALLOWED)
    )
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("given", "address"), [(["--share"], "0.0.0.0"), (["--share", "192.168.7.5"], "192.168.7.5")]
)
def test_a_shared_app_listens_where_it_is_told_and_prints_so(
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: list[str],
    address: str,
) -> None:
    assert attnscope(monkeypatch, *given, "--workers", "1") == 0
    assert f"--server.address={address}" in started[0]
    assert "--client.showErrorDetails=none" in started[0]
    assert checkpoints.is_shared()
    said = " ".join(capsys.readouterr().err.split())
    assert (
        f"*** SHARED: this app is open to everyone who can reach {address}, port 8501. ***" in said
    )
    assert "It opens the shipped models, no other folder of this machine." in said
    assert "no accounts and no passwords, and does not encrypt" in said
    assert "put a proxy with TLS and a login in front of it" in said


def test_the_folder_of_models_and_the_proxys_names_reach_the_app(
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "config.json").touch()
    monkeypatch.chdir(tmp_path)
    names = ["--allow-host", "attn.example.org", "--allow-host", "attn.local"]
    assert (
        attnscope(monkeypatch, "--share", "127.0.0.1", "--models", "runs", *names, "--workers", "1")
        == 0
    )
    assert checkpoints.available()[-1] == "runs/mine"
    assert os.environ[ALLOWED] == "attn.example.org,attn.local"
    assert (
        "It opens the shipped models and 1 under runs, no other folder of this machine."
        in capsys.readouterr().err
    )


def test_a_folder_of_too_many_folders_is_reported(
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for limit, is_reported in ((2, False), (1, True)):
        monkeypatch.setattr(checkpoints, "MAX_SEARCHED_FOLDERS", limit)
        assert attnscope(monkeypatch, "--models", str(tmp_path)) == 0
        assert (f"more than {limit} folders" in capsys.readouterr().err) == is_reported


def test_a_handout_and_the_static_edition_use_the_models_that_the_app_would_offer(
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "config.json").touch()
    shutil.copytree(Path(library.__file__).parent, tmp_path / "own")
    shutil.copy(tmp_path / "own" / "6-positions.md", tmp_path / "own" / "mine.md")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkpoints, "open_found", lambda argument: None)
    given = [
        "--models",
        "runs",
        "--lessons",
        "own",
        "--module",
        "mine.py:scope",
        "--dtype",
        "float16",
    ]
    seen = []

    def run(options: object) -> int:
        names = [lesson.name for lesson in offered_lessons().lessons]
        variables = (checkpoints.MODULE_VARIABLE, checkpoints.DTYPE_VARIABLE)
        seen.append((checkpoints.available()[-1], "mine" in names, *map(os.environ.get, variables)))
        return 0

    monkeypatch.setattr(handout, "write_handout", run)
    monkeypatch.setattr(export, "export_site", run)
    for asked in (["handout", "mine", "--out", "x.html"], ["export-site", "site"]):
        os.environ.clear()
        assert attnscope(monkeypatch, *given, *asked) == 0
    assert seen == [("runs/mine", True, "mine.py:scope", "float16")] * 2


@pytest.mark.parametrize(
    ("given", "cores", "n"),
    [
        (["--share"], 2, 2),
        (["--share"], 16, 4),
        (["--share", "--workers", "7"], 2, 7),
        (["--workers", "3"], 2, 3),
    ],
)
def test_workers_share_the_address_and_the_cache(
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    given: list[str],
    cores: int,
    n: int,
) -> None:
    asked: list[tuple] = []
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(workers, "serve_app", lambda *arguments: asked.append(arguments) or 0)
    assert attnscope(monkeypatch, *given, "--keep", "840", "--port", "8999") == 0
    assert not started
    address = "0.0.0.0" if "--share" in given else "localhost"
    assert asked[0][:3] == (n, address, 8999)
    assert budget() * n == pytest.approx(840 * MEGABYTE, abs=n)


@pytest.mark.parametrize("n", ["0", "-1", "65"])
def test_a_number_of_workers_out_of_range_is_refused(
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    n: str,
) -> None:
    assert attnscope(monkeypatch, "--workers", n) == 1
    assert f"--workers must be between 1 and 64, not {n}" in capsys.readouterr().err
    assert not started


def test_the_dtype_of_models_reaches_the_app(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []
    monkeypatch.setattr(checkpoints.models, "load", lambda name, dtype=None: asked.append(dtype))
    assert attnscope(monkeypatch) == 0
    checkpoints.open_found("a folder")
    assert attnscope(monkeypatch, "--dtype", "bfloat16") == 0
    checkpoints.open_found("a folder")
    assert asked == [None, "bfloat16"]


def test_the_keep_option_sets_the_budget_of_the_cache(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, BUDGET_VARIABLE, "7")
    assert attnscope(monkeypatch, "--keep", "2000") == 0
    assert budget() == 2000 * MEGABYTE
    assert attnscope(monkeypatch) == 0
    assert budget() == 2000 * MEGABYTE  # nothing else was set


@pytest.mark.parametrize("said", ["0", "-1", "three", "inf"])
def test_an_invalid_budget_is_quoted_as_given(
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    said: str,
) -> None:
    assert attnscope(monkeypatch, f"--keep={said}") == 1
    assert (
        capsys.readouterr().err
        == f"attnscope: --keep must be a number of megabytes above 0, not {said!r}\n"
    )
    assert not started


def test_a_missing_folder_of_models_is_named(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attnscope(monkeypatch, "--models", "/no/such/folder") == 1
    assert capsys.readouterr().err == "attnscope: --models /no/such/folder: no such folder\n"
    assert not started


def test_a_folder_of_lessons_reaches_the_app_and_a_broken_one_is_named(
    started: list[list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "mine.md").write_text("# A title\nminutes: 0\n")
    assert attnscope(monkeypatch, "--lessons", str(tmp_path)) == 1
    assert "mine.md, line 2: minutes is a whole number" in capsys.readouterr().err
    assert not started
    assert attnscope(monkeypatch, "--lessons", "/no/such/folder") == 1
    assert "--lessons /no/such/folder: no such folder" in capsys.readouterr().err
    (tmp_path / "mine.md").write_text(
        (library.SHIPPED_LESSONS / "6-positions.md").read_text("utf-8")
    )
    assert attnscope(monkeypatch, "--lessons", str(tmp_path)) == 0
    assert os.environ[library.LESSONS_VARIABLE] == str(tmp_path)
    assert started


def test_a_watched_folder_reaches_the_app_and_a_missing_one_is_named(
    started: list[list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert attnscope(monkeypatch, "watch", "/no/such/run") == 1
    assert "attnscope: watch /no/such/run: no such folder" in capsys.readouterr().err
    assert not started
    (tmp_path / "link").symlink_to(tmp_path)
    assert attnscope(monkeypatch, "--port", "8999", "watch", str(tmp_path / "link")) == 0
    assert os.environ[run_owners.WATCHED] == str(tmp_path.resolve())
    assert "--server.port=8999" in started[0]
