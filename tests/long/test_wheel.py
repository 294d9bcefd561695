"""The wheel, built from the source archive, installed by pip into an empty folder and run from another."""

import json
import os
import subprocess
import sys
import tarfile
from email import message_from_string
from pathlib import Path

import pytest

import models

ROOT = Path(models.__file__).parents[1]
LARGEST = 80 * 2**20  # bytes of a wheel


def run(*command: object, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel as `python -m build` makes it: from the source archive, not from this folder."""
    built = tmp_path_factory.mktemp("built")
    hatch = (sys.executable, "-m", "hatchling", "build", "-d", built)
    run(*hatch, "-t", "sdist", folder=ROOT)
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(built, filter="data")
    run(*hatch, "-t", "wheel", folder=built / archive.name.removesuffix(".tar.gz"))
    (wheel,) = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's packages and command, without their dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    run(*pip, "--target", folder, wheel, folder=folder)
    return folder


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


def test_the_wheel_is_small_and_has_its_metadata(wheel: Path, installed: Path) -> None:
    assert wheel.stat().st_size <= LARGEST
    (about,) = installed.glob("attnscope-*.dist-info")
    metadata = message_from_string((about / "METADATA").read_text("utf-8"))
    assert metadata["Version"] == models.__version__
    assert metadata["Author"] == "Attnscope developers"
    assert metadata["Keywords"]
    assert all((installed / package / "py.typed").is_file() for package in ("models", "viz_app"))


def test_every_shipped_model_brings_the_licence_of_its_data(installed: Path) -> None:
    folders = sorted((installed / "models" / "shipped").iterdir())
    assert [folder.name for folder in folders] == models.shipped()
    for folder in folders:
        licence = json.loads((folder / "training.json").read_text("utf-8"))["licence"]
        assert licence
        assert licence in (folder / "README.md").read_text("utf-8")


def test_the_command_runs_from_another_folder(installed: Path, elsewhere: Path) -> None:
    command = installed / "bin" / "attnscope"
    said = run(
        command, "decode", "eng-fra", "We like him.", folder=elsewhere, PYTHONPATH=str(installed)
    )
    assert said.strip() == models.load("eng-fra", device="cpu").write("We like him.").text


def test_the_app_finds_its_files_beside_itself(installed: Path, elsewhere: Path) -> None:
    """Pages, style, scripts, lessons, Streamlit's settings and models all come from the wheel."""
    script = """
import json, models, viz_app
from pathlib import Path
from streamlit.testing.v1 import AppTest
app = AppTest.from_file(str(Path(viz_app.__file__).with_name("app.py")), default_timeout=240).run()
from viz_app.components.catalogue import COMPONENTS
from viz_app.controls.lesson_panel import offered_lessons
print(json.dumps({
    "from": [models.__file__, viz_app.__file__],
    "errors": [str(error) for error in app.exception],
    "text": app.text_area[0].value,
    "settings": Path(viz_app.__file__).with_name(".streamlit").joinpath("config.toml").is_file(),
    "parts": sum(len(part.files["js"]) > 0 for part in COMPONENTS.values()),
    "lessons": len(offered_lessons().lessons),
}))
"""
    said = run(sys.executable, "-c", script, folder=elsewhere, PYTHONPATH=str(installed))
    said = json.loads(said.splitlines()[-1])
    assert all(Path(path).is_relative_to(installed) for path in said["from"])
    assert said["errors"] == []
    assert said["settings"]
    assert said["parts"] > 30
    assert said["lessons"] == 8
    assert said["text"]
