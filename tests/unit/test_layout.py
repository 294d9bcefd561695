"""Where things are: README's tree is the real one, and imports run one way."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import models
import viz_app

ROOT = Path(viz_app.__file__).parents[1]
MODELS, APP = Path(models.__file__).parent, Path(viz_app.__file__).parent
PLOTTING = ("streamlit", "plotly", "altair")
WITH_STREAMLIT = (
    "page.py",
    "controls.py",
    "state.py",
)  # of the pages that are choices, payloads and a layout


def tree() -> list[str]:
    """The paths that README's tree names, folders with a slash."""
    section = (
        (ROOT / "README.md").read_text("utf-8").split("## Where things are")[1].split("```")[1]
    )
    paths, top = [], ""
    for line in section.strip().splitlines():
        if found := re.match(r"( {0,2})(\S+?)(/?)  +\S", line):
            indent, name, slash = found.groups()
            top = "" if not indent else top
            paths.append(f"{top}{name}{slash}")
            top = f"{name}/" if not indent else top
    return paths


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def brings(path: Path, *packages: str) -> list[str]:
    return [name for name in imported(path) if name.split(".")[0] in packages]


def test_the_tree_names_only_what_is_there() -> None:
    named = tree()
    assert {
        "models/",
        "models/trace/",
        "viz_app/session/",
        "viz_app/app.py",
        "tests/",
        "assets/",
    } <= set(named)
    for path in named:
        assert (ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).is_file(), path


def test_files_that_a_line_names_beside_its_folder_are_in_that_folder() -> None:
    section = (
        (ROOT / "README.md").read_text("utf-8").split("## Where things are")[1].split("```")[1]
    )
    top = folder = ""
    mentioned = 0
    for line in section.strip().splitlines():
        if found := re.match(r"( {0,2})(\S+?)/  +\S", line):
            top = top if found[1] else found[2]
            folder = f"{top}/{found[2]}" if found[1] else top
        elif not line.startswith(" " * 4):
            folder = top  # a line about a file; another file it names lies beside it
        for name in re.findall(r"\b\w+\.py\b", re.sub(r"^ *\S+", "", line)):
            mentioned += 1
            assert list((ROOT / folder).rglob(name)), f"{folder} has no {name}"
    assert mentioned > 5


@pytest.mark.parametrize("package", [MODELS, APP], ids=lambda path: path.name)
def test_every_folder_of_a_package_stands_in_the_tree(package: Path) -> None:
    named = set(tree())
    folders = {path.parent for path in package.glob("*/__init__.py")}
    assert folders
    for folder in folders:
        assert f"{package.name}/{folder.name}/" in named


@pytest.mark.parametrize("package", [MODELS, APP], ids=lambda path: path.name)
def test_every_file_at_the_top_of_a_package_stands_in_the_tree(package: Path) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for path in package.glob("*.py"):
        assert path.name == "__init__.py" or path.name in text, path


def test_models_knows_nothing_of_the_app_or_of_plotting() -> None:
    files = list(MODELS.rglob("*.py"))
    assert len(files) > 40
    assert {path: found for path in files if (found := brings(path, "viz_app", *PLOTTING))} == {}


def test_what_is_drawn_is_made_without_streamlit() -> None:
    files = [*(APP / "drawing").rglob("*.py"), *(APP / "views").rglob("*.py")]
    named = ("payloads", "text", "files")
    pure = [path for path in files if path.parent.name == "drawing" or path.stem.endswith(named)]
    assert {"attention", "masks", "decoding", "inside"} <= {
        path.parent.name for path in pure if path.name == "payloads.py"
    }
    assert {path: found for path in pure if (found := brings(path, "streamlit"))} == {}


@pytest.mark.parametrize("page", ["masks", "decoding", "inside", "task", "layer"])
def test_only_the_layout_and_the_controls_of_a_page_know_streamlit(page: str) -> None:
    files = list((APP / "views" / page).glob("*.py"))
    knowing = {path.name for path in files if brings(path, "streamlit")}
    assert {"page.py", "controls.py"} <= knowing <= set(WITH_STREAMLIT)


def test_only_the_session_looks_into_the_url() -> None:
    """Everything else asks viz_app/session/url_state.py."""
    looking = {
        str(path.relative_to(APP))
        for path in APP.rglob("*.py")
        if "query_params" in path.read_text("utf-8")
    }
    assert looking == {"session/url_state.py"}
    assert not [
        path for path in APP.rglob("*.py") if re.search(r"\bbind=", path.read_text("utf-8"))
    ]
    assert not [
        path
        for path in APP.rglob("*.js")
        if "location.search" in path.read_text("utf-8") and path.stem != "live"
    ]
