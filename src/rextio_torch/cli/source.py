"""The source id of a project, and the files that it is made of."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import rextio_torch
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.project import REXTIO_FILE

#: Folders that Rextio never scans.
_SKIPPED = frozenset(
    {
        ".git",
        ".hg",
        ".mypy_cache",
        ".pytest_cache",
        ".rextio",
        ".ruff_cache",
        ".tox",
        ".venv",
        "__pycache__",
        "build",
        "dist",
        "node_modules",
        "venv",
    }
)
#: Folders of this package that do not decide what Rextio gets of a source, and those of caches.
NOT_TRANSLATING = frozenset(
    {"bench", "cli", "explain", "verify", "wheels", "__pycache__", "target"}
)


def source_files(project: Path) -> Iterator[Path]:
    """Yield the files that decide what a build gives, in a stable order.

    Rextio reads the Python files and the stubs beside them. Files that `.rextioignore` excludes
    are included here: the source id may change too often, never too seldom.
    """
    for name in (REXTIO_FILE, ".rextioignore"):
        if (project / name).is_file():
            yield project / name
    for parent, folders, names in os.walk(project):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in sorted(names):
            path = Path(parent) / name
            # Not a link to nothing, nor a pipe, which would be waited for.
            if name.endswith((".py", ".pyi")) and path.is_file():
                yield path


def linked_folders(project: Path) -> Iterator[Path]:
    """Yield the links to folders with Python files: `source_files`, as Rextio, does not follow."""
    for parent, folders, _ in os.walk(project):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for folder in (Path(parent, name) for name in folders):
            if folder.is_symlink() and any(folder.glob("*.py")):
                yield folder


def project_folders(folder: Path) -> Iterator[Path]:
    """Yield the projects under a folder; what is in a project is its own."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        if REXTIO_FILE in names:
            folders.clear()
            yield Path(parent)


def source_id(project: Path, environment: Environment) -> str:
    """Return 64 hexadecimal digits: the project's source and the versions that translate it."""
    digest = hashlib.sha256()
    for name, version in _versions(environment).items():
        _feed(digest, name.encode(), version.encode())
    for path in source_files(project):
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue
        _feed(digest, path.relative_to(project).as_posix().encode(), content)
    return digest.hexdigest()


def _versions(environment: Environment) -> Mapping[str, str]:
    return {
        "rextio": environment.distributions.get("rextio") or "none",
        "rextio-torch": environment.distributions.get("rextio-torch") or "none",
        "rextio-torch-files": translator_digest(),
    }


@functools.cache
def translator_digest() -> str:
    """Digest this package's own files, so that an edit of the plugin is a new source too.

    What only looks at builds changes none.
    """
    digest = hashlib.sha256()
    root = Path(rextio_torch.__file__).parent
    for parent, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in NOT_TRANSLATING)
        for name in sorted(names):
            if name.endswith((".py", ".rs", ".toml")):
                path = Path(parent) / name
                _feed(digest, path.relative_to(root).as_posix().encode(), path.read_bytes())
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, *parts: bytes) -> None:
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
