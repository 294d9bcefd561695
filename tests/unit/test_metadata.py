"""Metadata of the package: one version, its authors, and no invented licence."""

import re
from pathlib import Path

import pytest
from toml_files import tomllib

import models
from models import cli

ROOT = Path(models.__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CITATION = (ROOT / ".github" / "CITATION.cff").read_text("utf-8")
CHANGELOG = (ROOT / ".github" / "CHANGELOG.md").read_text("utf-8")


def test_the_version_is_in_one_place() -> None:
    assert "version" not in PROJECT
    assert PROJECT["dynamic"] == ["version"]
    assert re.findall(r"^version: (.+)$", CITATION, re.MULTILINE) == [models.__version__]


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    assert re.findall(r"^## (\S+)", CHANGELOG, re.MULTILINE)[0] == models.__version__


def test_the_command_prints_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"attnscope {models.__version__}\n"


def test_the_changelog_names_every_command() -> None:
    (commands,) = (
        action.choices for action in cli._parser()._actions if isinstance(action.choices, dict)
    )
    assert [name for name in commands if not re.search(rf"`(attnscope )?{name}`", CHANGELOG)] == []


def test_the_citation_names_the_authors_of_the_package() -> None:
    (author,) = PROJECT["authors"]
    assert f"  - name: {author['name']}\n" in CITATION


def test_the_citation_describes_the_package_in_its_own_words() -> None:
    abstract = re.search(r"^abstract: >-\n((?:  .+\n)+)", CITATION, re.MULTILINE)
    assert abstract
    assert " ".join(abstract[1].split()) == f"{PROJECT['description']}."


def test_no_licence_is_made_up() -> None:
    """The owner of the project chooses one; the licences of the data are in the checkpoints."""
    assert not {"license", "license-files"} & PROJECT.keys()
    assert not [name for name in PROJECT["classifiers"] if name.startswith("License")]
    assert "license" not in CITATION
    assert not [path for path in ROOT.iterdir() if path.stem.upper() in ("LICENSE", "LICENCE")]


def test_the_versions_of_python_named_are_those_allowed() -> None:
    named = [
        name.rpartition(":: ")[2]
        for name in PROJECT["classifiers"]
        if re.search(r"Python :: 3\.\d+$", name)
    ]
    assert f">={named[0]}" == PROJECT["requires-python"]
    assert [int(name.split(".")[1]) for name in named] == list(range(10, 10 + len(named)))
