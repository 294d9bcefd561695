"""Run a notebook of assets/notebooks as a kernel would: its cells in order, in one namespace, the last expression shown."""

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import viz_app
from viz_app.notebook import Picture

FOLDER = Path(viz_app.__file__).parents[1] / "assets" / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text("utf-8"))["cells"]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def execute(path: Path, folder: Path) -> list[tuple[Any, str]]:
    """Return what each code cell showed in its last line, and what it printed; files are written into the folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    outcomes = []
    with contextlib.chdir(folder) if hasattr(contextlib, "chdir") else _inside(folder):
        for number, cell in enumerate(cells(path)):
            if cell["cell_type"] != "code":
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                shown = _run(source(cell), f"{path.name}, cell {number}", names)
            outcomes.append((shown, printed.getvalue()))
    return outcomes


def save_pictures(path: Path, folder: Path) -> list[Path]:
    """Run a notebook and save its pictures as pages that open without a network."""
    saved = []
    for number, (shown, _) in enumerate(execute(path, folder)):
        if isinstance(shown, Picture):
            saved.append(folder / f"{path.stem}-{number}.html")
            shown.save(saved[-1])
    return saved


def _run(code: str, name: str, names: dict[str, Any]) -> Any:
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    return eval(compile(ast.Expression(last.value), name, "eval"), names) if last else None


@contextlib.contextmanager
def _inside(folder: Path):
    """Change into a folder for a block; contextlib.chdir came with Python 3.11."""
    import os

    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
