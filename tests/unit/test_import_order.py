"""Imports run one way: there is no cycle in the product, and the packages of `models` import downwards only."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import models
import viz_app

ROOT = Path(models.__file__).parents[1]

# From the bottom up; packages on one line may import each other, and no file imports from a later line.
LEVELS = [
    {
        "errors",
        "field_file",
        "number_text",
        "printable",
        "priority",
        "evaluation_mode",
        "tokenizers",
    },
    {"layers", "trace"},  # a trace is made of masks and similarities; a layer records itself
    {"architectures"},
    {"loading", "weights", "checkpoint_files", "training_record", "scores"},
    {"images", "sounds"},
    {"checkpoint", "devices"},
    {"analysis"},
    {"decoding"},  # a scope generates
    {"runs"},
    {"training"},
    {"tasks"},  # a task makes the batches of `training`
    {"hub"},  # turns any module into a scope
    {"opening"},
    {"held_out_texts", "model_card"},
    {"commands"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}


def files() -> dict[str, Path]:
    """Return module name → file, for both packages."""
    found = {}
    for package in (models, viz_app):
        for path in Path(package.__file__).parent.rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def imports(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """Return the product's modules that a file imports anywhere, in functions and for annotations, too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            while name and name not in modules:
                name = name.rpartition(".")[0]
            if name:
                yield name


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    modules = files()
    assert len(modules) > 250
    return {name: set(imports(path, modules)) - {name} for name, path in modules.items()}


def test_no_file_imports_itself_in_a_circle(graph):
    TopologicalSorter(graph).prepare()  # CycleError names the circle


def test_packages_of_models_import_downwards(graph):
    assert {path.stem for path in (ROOT / "models").iterdir() if _is_code(path)} == set(LEVEL)
    edges = [
        (name, other)
        for name, others in graph.items()
        for other in others
        if name.startswith("models.") and other.startswith("models.")
    ]
    assert len(edges) > 400
    assert not [(a, b) for a, b in edges if LEVEL[_package(b)] > LEVEL[_package(a)]]


def test_no_page_imports_a_page(graph):
    def page(module: str) -> str:
        """Return the package of a module's page; "" for modules that pages share."""
        name = module.split(".")[2] if module.startswith("viz_app.views.") else ""
        return name if (ROOT / "viz_app" / "views" / name).is_dir() else ""

    pages = {page(name) for name in graph} - {""}
    assert len(pages) > 8
    assert not [(a, b) for a in graph for b in graph[a] if page(a) and page(b) not in ("", page(a))]


@pytest.mark.parametrize("package", ["drawing", "controls", "session", "words", "components"])
def test_shared_modules_import_no_page(graph, package):
    shared = [name for name in graph if name.startswith(f"viz_app.{package}.")]
    assert shared
    assert not [(a, b) for a in shared for b in graph[a] if b.startswith("viz_app.views.")]


def _package(module: str) -> str:
    return module.split(".")[1]


def _is_code(path: Path) -> bool:
    if path.is_dir():
        return (path / "__init__.py").is_file()
    return path.suffix == ".py" and path.stem != "__init__"
