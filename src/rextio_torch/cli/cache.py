"""What the build folders hold: listed, and removed under the locks that builds take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rextio_torch.cli.files import TEMPORARY_MARK, human_size, remove_tree, tree_size
from rextio_torch.cli.layout import CACHE_VARIABLE, KINDS, BuildFolder, read_origin
from rextio_torch.cli.locks import locked


@dataclass(frozen=True)
class Entry:
    """One build folder or warm copy."""

    place: BuildFolder
    size: int
    #: What it belongs to, as far as that was noted.
    origin: Mapping[str, str | None]

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self.place.folder

    @property
    def kind(self) -> str:
        """`project`, or `dependencies` of a warm copy."""
        return "project" if self.place.kind == "builds" else "dependencies"

    @property
    def project(self) -> str | None:
        """The project that it was built for, if that is known."""
        return self.origin["project"]

    @property
    def project_is_gone(self) -> bool:
        """Whether that project no longer exists."""
        return self.project is not None and not Path(self.project).is_dir()

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON-ready data."""
        return {
            "kind": self.kind,
            "folder": str(self.folder),
            "bytes": self.size,
            **self.origin,
            "project_is_gone": self.project_is_gone,
        }


def entries(root: Path) -> list[Entry]:
    """Return what the cache holds, build folders first, the last used first."""
    result: list[Entry] = []
    for kind in KINDS:
        parent = root / kind
        names = [path.name for path in parent.iterdir() if path.is_dir()] if parent.is_dir() else []
        found = [_entry(BuildFolder(root, kind, name)) for name in names]
        result += sorted(
            found, key=lambda entry: (entry.origin["used"] or "", entry.folder), reverse=True
        )
    return result


def _entry(place: BuildFolder) -> Entry:
    noted = read_origin(place.folder)
    origin = {
        key: value if isinstance(value := noted.get(key), str) else None
        for key in ("project", "python", "torch", "created", "used")
    }
    return Entry(place, tree_size(place.folder), origin)


def lines(root: Path, found: list[Entry]) -> Iterator[str]:
    """Yield what the cache holds as lines of text."""
    total = sum(entry.size for entry in found)
    columns = " (size, last used, torch, project)" if found else ""
    yield f"{root}: {human_size(total)} in {len(found)} folders{columns}"
    if not found:
        yield f"empty (set {CACHE_VARIABLE} to keep it elsewhere)"
    for entry in found:
        owner = entry.project or "warm copy, to seed new build folders from"
        if entry.kind == "project" and entry.project is None:
            owner = "of an unknown project"
        if entry.project_is_gone:
            owner += " (gone)"
        used = (entry.origin["used"] or "unknown").replace("T", " ")[:16]
        torch = entry.origin["torch"] or "unknown"
        yield f"{human_size(entry.size):>8}  {used}  torch {torch}  {owner}"
        yield f"{'':8}  {entry.folder}"
        yield f"{'':8}  {entry.origin['python'] or 'unknown Python'}"


def select(found: list[Entry], project: Path | None, *, everything: bool) -> list[Entry]:
    """Return what `clear` removes: all build folders, or one project's; with warm copies or not."""
    if project is not None:
        wanted = str(project.resolve())
        found = [e for e in found if e.kind == "dependencies" or e.project == wanted]
    return [entry for entry in found if everything or entry.kind == "project"]


def clear(chosen: list[Entry], waiting: Callable[[str], None] | None = None) -> int:
    """Remove entries, each under its lock, and return the bytes freed."""
    freed = 0
    for entry in chosen:
        # What an interrupted removal left is under the lock of the folder that it was.
        place = replace(entry.place, name=entry.place.name.partition(TEMPORARY_MARK)[0])
        with locked(place.lock, waiting=waiting):
            if entry.folder.exists():
                # Renamed first: a build that starts after an interrupted removal finds nothing.
                partial = entry.folder.with_name(f"{place.name}{TEMPORARY_MARK}removed")
                if partial != entry.folder:
                    remove_tree(partial)
                    entry.folder.rename(partial)
                remove_tree(partial)
                freed += entry.size
    return freed
