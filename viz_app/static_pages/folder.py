"""The folder of a static edition: the check of the folder, and the writing of its files."""

import json
from collections.abc import Mapping
from pathlib import Path

from models.checkpoint_files import checksum, read_bytes, write_bytes
from models.errors import CheckpointError

LIST = "attnscope-site.json"  # the files of an exported site, each with its checksums
MAX_LIST_BYTES = 2**18
MAX_SITE_BYTES = 20_000_000  # bytes of a whole site, and so also of each file

Sums = dict[str, list[str]]  # by path in the folder; two of a file that is being replaced


def check_folder(folder: Path) -> None:
    """Check that a folder is absent, empty, or contains an unchanged exported site.

    Raises:
        ValueError: it contains something else; the message names it.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ValueError(f"{folder} is not a folder")
    paths = sorted(folder.rglob("*"))
    if links := [path for path in paths if path.is_symlink()]:
        raise ValueError(f"{folder} contains a link, {links[0].name}; choose another folder")
    listed = _listed(folder) if paths else {}
    for path in paths:
        if not path.is_dir() and path != folder / LIST and not _is_known(folder, path, listed):
            raise ValueError(
                f"{folder} contains something else, {path.name}; choose another folder"
            )


def write_site(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files into a checked folder, and remove those of an earlier export.

    The list has old and new files until all are written, so that an export into the same folder
    is possible after one that was stopped.
    """
    new: Sums = {name: [checksum(content)] for name, content in files.items()}
    old = _listed(folder)
    both = {name: [*old.get(name, []), *new.get(name, [])] for name in {**old, **new}}
    _write_list(folder, both)
    for name in old.keys() - new.keys():
        if _is_known(folder, folder / name, old):
            (folder / name).unlink()
    for name, content in files.items():
        write_bytes(folder / name, content)
    _write_list(folder, new)


def _write_list(folder: Path, sums: Sums) -> None:
    write_bytes(folder / LIST, json.dumps(sums, indent=1, sort_keys=True).encode())


def _is_known(folder: Path, path: Path, checksums: Sums) -> bool:
    """Return True if a file in the folder is listed with its present content."""
    if not path.is_relative_to(folder) or ".." in path.parts or path.is_symlink():
        return False
    sums = checksums.get(path.relative_to(folder).as_posix(), [])
    try:
        return bool(sums) and checksum(read_bytes(path, MAX_SITE_BYTES)) in sums
    except (CheckpointError, OSError):
        return False


def _listed(folder: Path) -> Sums:
    """Return the files that an earlier export lists; none if there is no such list."""
    try:
        listed = json.loads(read_bytes(folder / LIST, MAX_LIST_BYTES))
    except (CheckpointError, OSError, ValueError, RecursionError):
        return {}
    if not isinstance(listed, dict):
        return {}
    return {name: sums for name, sums in listed.items() if isinstance(sums, list)}
