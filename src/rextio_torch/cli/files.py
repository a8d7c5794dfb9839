"""Files: atomic writes, sizes, removal, and TOML that is read or refused."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rextio_torch.cli.errors import CliError

#: Marks folders and files that are being written; never read, removed when found.
TEMPORARY_MARK = ".partial-"


def write_atomically(path: Path, text: str) -> None:
    """Write a whole file or nothing: to a temporary name beside it, then renamed.

    A symbolic link is written through, and the mode of an existing file is kept.
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f"{target.name}{TEMPORARY_MARK}", dir=target.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, _mode_for(target))
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _mode_for(target: Path) -> int:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def read_toml_text(path: Path) -> str | None:
    """Return a TOML file's text, checked to parse, or None where there is no file."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            text = stream.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(
            f"{path} cannot be read",
            expected="a readable TOML file in UTF-8",
            found=str(error),
            repair=f"repair or remove {path}, then run the command again",
        ) from error
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CliError(
            f"{path} is not valid TOML; nothing was written",
            expected="a TOML file",
            found=str(error),
            repair=f"repair {path} at that place, then run the command again",
        ) from error
    return text


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file's contents, empty where there is no file."""
    text = read_toml_text(path)
    return {} if text is None else tomllib.loads(text)


def table(data: Mapping[str, Any], name: str, path: Path) -> Any:
    """Return a table of a TOML file, empty where there is none, or refuse what is no table."""
    value = data.get(name, {})
    if not isinstance(value, Mapping):
        raise CliError(
            f"{path}: {name!r} is not a table; nothing was written",
            expected=f"[{name}]",
            found=f"{name} = {value!r}"[:80],
            repair=f"make it a table, [{name}], in {path}",
        )
    return value


def why_not_writable(folder: Path) -> str | None:
    """Write where a folder is or would be made, leave nothing there, and say why that fails."""
    nearest = folder
    try:
        nearest = next((place for place in (folder, *folder.parents) if place.exists()), folder)
        os.rmdir(tempfile.mkdtemp(prefix=f"rextio-torch{TEMPORARY_MARK}", dir=nearest))
    except OSError as error:
        return f"{nearest} cannot be written: {error.strerror or error}"
    return None


def tree_size(folder: Path) -> int:
    """Return the bytes that the files under a folder occupy on disk, each file once."""
    blocks: dict[tuple[int, int], int] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                entry = os.lstat(os.path.join(parent, name))
                blocks[entry.st_dev, entry.st_ino] = entry.st_blocks
    return 512 * sum(blocks.values())


def copy_tree(
    source: Path, target: Path, ignore: Callable[[str, list[str]], set[str]] | None = None
) -> None:
    """Copy a folder so that cargo finds it fresh: times to the nanosecond, links as links.

    The copy appears under its name at once or not at all.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.parent / f"{target.name}{TEMPORARY_MARK}{os.getpid()}"
    remove_tree(partial)
    try:
        shutil.copytree(source, partial, symlinks=True, ignore=ignore)
        os.rename(partial, target)
    except BaseException as error:
        remove_tree(partial)
        if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
            # It lists every file that failed; the first says why.
            raise OSError(str(error.args[0][0][-1])) from error
        raise


def remove_tree(folder: Path) -> None:
    """Remove a folder or file if it is there."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink(missing_ok=True)
    elif folder.exists():
        shutil.rmtree(folder)


def remove_partial(parent: Path, name: str) -> None:
    """Remove what an interrupted copy of `name` left behind; the caller holds its lock."""
    if parent.is_dir():
        for entry in parent.glob(f"{name}{TEMPORARY_MARK}*"):
            remove_tree(entry)


def human_size(count: int) -> str:
    """Return bytes as a short text."""
    value = float(count)
    for unit in ("B", "KB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
