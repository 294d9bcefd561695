"""The folder of a static edition: which ones it may take, and how its files get there."""

import json
from collections.abc import Mapping
from pathlib import Path

from models.checkpoint_files import read_bytes, write_bytes
from models.errors import CheckpointError

LIST = "attnscope-site.json"  # the files of an exported site, by which a later export knows them
LARGEST_LIST = 2**16  # bytes


def check_folder(folder: Path) -> None:
    """Check that a folder is absent, empty, or holds nothing but an exported site.

    Raises:
        ValueError: it holds something else; the message names it.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ValueError(f"{folder} is not a folder")
    found = sorted(folder.rglob("*"))
    if links := [path for path in found if path.is_symlink()]:
        raise ValueError(f"{folder} holds a link, {links[0].name}; choose another folder")
    known = _listed(folder) if found else set()
    others = [path for path in found if not path.is_dir() and _name(folder, path) not in known]
    if others:
        raise ValueError(f"{folder} holds something else, {others[0].name}; choose another folder")


def write_site(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files into a checked folder, and remove those of an earlier export."""
    listed = json.dumps(sorted([*files, LIST]), indent=1).encode()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and _name(folder, path) not in {*files, LIST}:
            path.unlink()
    write_bytes(folder / LIST, listed)  # first, so that what a stopped export leaves is known
    for name, content in files.items():
        write_bytes(folder / name, content)


def _listed(folder: Path) -> set[str]:
    """Return the files that an earlier export lists as its own; none if there is no such list."""
    try:
        listed = json.loads(read_bytes(folder / LIST, LARGEST_LIST))
    except (CheckpointError, OSError, ValueError, RecursionError):
        return set()
    return {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()


def _name(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()
