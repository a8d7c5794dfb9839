"""What the build folders hold: listed, and removed under the locks that builds take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rextio_torch.cli.files import TEMPORARY_MARK, remove_tree, tree_size
from rextio_torch.cli.layout import lock_of_folder, read_origin
from rextio_torch.cli.locks import locked


@dataclass(frozen=True)
class Entry:
    """One build folder or warm copy."""

    kind: str
    folder: Path
    size: int
    project: str | None
    python: str | None
    torch: str | None
    created: str | None
    used: str | None

    @property
    def project_is_gone(self) -> bool:
        """Whether the project that it was built for no longer exists."""
        return self.project is not None and not Path(self.project).is_dir()

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON-ready data."""
        return {
            "kind": self.kind,
            "folder": str(self.folder),
            "bytes": self.size,
            "project": self.project,
            "project_is_gone": self.project_is_gone,
            "python": self.python,
            "torch": self.torch,
            "created": self.created,
            "used": self.used,
        }


def entries(root: Path) -> list[Entry]:
    """Return what the cache holds, build folders first, the last used first."""
    result: list[Entry] = []
    for kind, parent in (("project", root / "builds"), ("dependencies", root / "dependencies")):
        if not parent.is_dir():
            continue
        found = [_entry(kind, folder) for folder in parent.iterdir() if folder.is_dir()]
        result.extend(
            sorted(found, key=lambda entry: (entry.used or "", entry.folder), reverse=True)
        )
    return result


def _entry(kind: str, folder: Path) -> Entry:
    origin = read_origin(folder)

    def text(key: str) -> str | None:
        value = origin.get(key)
        return value if isinstance(value, str) else None

    return Entry(
        kind=kind,
        folder=folder,
        size=tree_size(folder),
        project=text("project"),
        python=text("python"),
        torch=text("torch"),
        created=text("created"),
        used=text("used"),
    )


def select(found: list[Entry], project: Path | None, *, everything: bool) -> list[Entry]:
    """Return what `clear` removes: all build folders, or one project's; with warm copies or not."""
    if project is not None:
        wanted = str(project.resolve())
        found = [e for e in found if e.kind == "dependencies" or e.project == wanted]
    return [entry for entry in found if everything or entry.kind == "project"]


def clear(root: Path, chosen: list[Entry], waiting: Callable[[str], None] | None = None) -> int:
    """Remove entries, each under its lock, and return the bytes freed."""
    freed = 0
    for entry in chosen:
        folder = entry.folder
        name, mark, _ = folder.name.partition(TEMPORARY_MARK)
        lock = lock_of_folder(root, folder.with_name(name) if mark else folder)
        with locked(lock, waiting=waiting):
            if folder.exists():
                # Renamed first: a build that starts after an interrupted removal finds nothing.
                partial = folder.with_name(f"{name}{TEMPORARY_MARK}removed")
                remove_tree(partial)
                folder.rename(partial)
                remove_tree(partial)
                freed += entry.size
    return freed
