"""The layout of the repository: the tree in CONTRIBUTING.md is the real one, and imports run one way."""

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


def written_tree() -> str:
    text = (ROOT / ".github" / "CONTRIBUTING.md").read_text("utf-8")
    return text.split("## Where things are")[1].split("```")[1]


def tree() -> list[str]:
    """Return the paths that the tree names, folders with a slash."""
    paths, top = [], ""
    for line in written_tree().strip().splitlines():
        if found := re.match(r"( {0,2})(\S+?)(/?)  +\S", line):
            indent, name, slash = found.groups()
            top = "" if not indent else top
            paths.append(f"{top}{name}{slash}")
            top = f"{name}/" if not indent else top
    return paths


def imported_modules(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def imports_of(path: Path, *packages: str) -> list[str]:
    return [name for name in imported_modules(path) if name.split(".")[0] in packages]


def test_the_tree_names_only_existing_paths() -> None:
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
    top = folder = ""
    mentioned = 0
    for line in written_tree().strip().splitlines():
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
def test_every_folder_of_a_package_is_in_the_tree(package: Path) -> None:
    named = set(tree())
    folders = {path.parent for path in package.glob("*/__init__.py")}
    assert folders
    for folder in folders:
        assert f"{package.name}/{folder.name}/" in named


@pytest.mark.parametrize("package", [MODELS, APP], ids=lambda path: path.name)
def test_every_file_at_the_top_of_a_package_is_in_the_tree(package: Path) -> None:
    text = written_tree()
    for path in package.glob("*.py"):
        assert path.name == "__init__.py" or path.name in text, path


def test_models_knows_nothing_of_the_app_or_of_plotting() -> None:
    files = list(MODELS.rglob("*.py"))
    assert len(files) > 40
    assert {
        path: found for path in files if (found := imports_of(path, "viz_app", *PLOTTING))
    } == {}


def test_payloads_texts_and_files_are_made_without_streamlit() -> None:
    files = [*(APP / "drawing").rglob("*.py"), *(APP / "views").rglob("*.py")]
    named = ("payloads", "text", "files")
    pure = [path for path in files if path.parent.name == "drawing" or path.stem.endswith(named)]
    assert {"attention", "masks", "decoding", "inside"} <= {
        path.parent.name for path in pure if path.name == "payloads.py"
    }
    assert {path: found for path in pure if (found := imports_of(path, "streamlit"))} == {}


def test_only_the_frame_and_the_controls_know_streamlit() -> None:
    """A page is declared: its own files use Streamlit only through the frame and the controls."""
    folders = ("controls", "session", "input_bar", "views/frame")
    single = {
        *(APP / f"{name}.py" for name in ("app", "bounds", "command", "entry_page", "host_guard")),
        *(
            APP / f"{name}.py"
            for name in ("handout", "navigation", "server", "ui", "without_server", "workers")
        ),
        APP / "components" / "mounting.py",
        *(APP / "static_pages" / f"{name}.py" for name in ("crawl", "recording")),
    }
    allowed = {*single, *(path for name in folders for path in (APP / name).rglob("*.py"))}
    knowing = {path for path in APP.rglob("*.py") if imports_of(path, "streamlit")}
    assert APP / "views" / "frame" / "one_run.py" in knowing
    assert knowing - allowed == set()


def test_only_the_session_reads_the_url() -> None:
    """All other code asks viz_app/session/url_state.py."""
    looking = {
        str(path.relative_to(APP))
        for path in APP.rglob("*.py")
        if re.search(r"(?<!\brequest\.)query_params", path.read_text("utf-8"))
    }
    assert looking == {
        "session/url_state.py",
        *("handout.py", "static_pages/crawl.py"),  # which set the address of a page
    }
    assert not [
        path for path in APP.rglob("*.py") if re.search(r"\bbind=", path.read_text("utf-8"))
    ]
    assert not [
        path
        for path in APP.rglob("*.js")
        if "location.search" in path.read_text("utf-8") and path.stem != "live"
    ]


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 150
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    linked = re.findall(r"\]\(([^)#:]+)\)", prose)
    assert len(linked) > 5
    for target in linked:
        assert (ROOT / target).exists(), target


def test_the_readme_and_the_log_link_to_the_cards_of_shipped_models() -> None:
    for path in (ROOT / "README.md", ROOT / ".github" / "LOG.md"):
        cards = re.findall(r"\]\(([^)]*/README\.md)\)", path.read_text("utf-8"))
        assert cards
        assert all((path.parent / card).is_file() for card in cards)
