"""A public name of the product means one thing: it is defined in one module."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import models
import viz_app

ROOT = Path(models.__file__).parents[1]

# Name → why several modules may define it.
SHARED = {
    "compare": "users of the library and of the notebook both call it: numbers there, a picture here",
    "heads": "a word that lessons read a run by, and the notebook's call",
    "main": "the entry point of a command line: of the library, and of the app around it",
    "read": "a word that lessons read a run by, and what users call to read the file of an image or a sound",
}


def defined(source: str) -> Iterator[str]:
    """Return the public names that the statements of a module define, in order."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))


def clashes(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Return name → the modules that define it, for every name that more than one defines."""
    modules = defaultdict(set)
    for module, source in sources.items():
        for name in defined(source):
            modules[name].add(module)
    return {name: sorted(where) for name, where in sorted(modules.items()) if len(where) > 1}


def test_a_public_name_is_defined_in_one_module() -> None:
    sources = {
        str(path.relative_to(ROOT)): path.read_text("utf-8")
        for package in (models, viz_app)
        for path in Path(package.__file__).parent.rglob("*.py")
    }
    found = clashes(sources)
    new = {name: where for name, where in found.items() if name not in SHARED}
    assert not new, "\n".join(f"{name}: {', '.join(where)}" for name, where in new.items())
    assert set(SHARED) == set(found), "no longer shared: take it out of the list"


def test_functions_classes_and_constants_clash_but_private_and_local_names_do_not() -> None:
    first = "def draw(): ...\nclass Step: ...\nLEFT, (TOP, _W) = 1, (2, 3)\nsize: int = 4\n_own = 5"
    second = "draw = 1\nStep = int\nTOP = 2\nsize = 3\n_own = 6\n_W = 7\ndef f():\n    LEFT = 1"
    twice = "import_me = 1\nimport_me = 2"
    found = clashes({"a": first, "b": second, "c": twice})
    assert found == {name: ["a", "b"] for name in ("Step", "TOP", "draw", "size")}
