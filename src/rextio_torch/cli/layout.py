"""Where build folders are: one per project, interpreter and torch build, never shared.

```
<cache>/builds/<project>-<path>-<environment>/cargo/      cargo's build-dir of one project
<cache>/builds/<project>-<path>-<environment>/origin.json what it belongs to
<cache>/dependencies/<environment>-<manifest>/cargo/      warm copy: compiled dependencies only
<cache>/locks/                                            one small file per lock
```

Two projects in one build folder give each other's modules, silently: every generated crate has
the same name. Two environments in one do too: libtorch's build script does not notice another
torch. So the project's path and everything about the environment is part of the name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rextio_torch import versions
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.files import write_atomically

CACHE_VARIABLE = "REXTIO_TORCH_CACHE_DIR"
CARGO_FOLDER = "cargo"
ORIGIN_FILE = "origin.json"


def cache_root(variables: Mapping[str, str]) -> Path:
    """Return the folder that holds all build folders of this user."""
    chosen = variables.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = variables.get("XDG_CACHE_HOME")
    # The XDG specification: a relative path there is invalid and to be ignored.
    if base and os.path.isabs(base):
        return Path(base) / "rextio-torch"
    home = variables.get("HOME")
    return (Path(home) if home else Path.home()) / ".cache" / "rextio-torch"


def _digest(*parts: str) -> str:
    text = json.dumps(parts)
    return hashlib.sha256(text.encode()).hexdigest()


def environment_digest(environment: Environment) -> str:
    """Digest what compiled dependencies depend on: interpreter, torch and pinned crates."""
    torch = environment.torch
    return _digest(
        environment.interpreter.prefix,
        os.path.realpath(environment.interpreter.executable),
        environment.interpreter.version,
        "none" if torch is None else torch.version,
        "none" if torch is None else os.path.realpath(torch.location),
        versions.TCH_VERSION,
        environment.system,
        environment.machine,
    )


@dataclass(frozen=True)
class BuildFolder:
    """The build folder of one project in one environment, and its locks."""

    root: Path
    project: Path
    name: str
    path_digest: str
    environment_digest: str

    @classmethod
    def of(cls, project: Path, environment: Environment) -> BuildFolder:
        """Return the folder that this project must build in, here and now."""
        resolved = project.resolve()
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", resolved.name).strip("-.") or "project"
        return cls(
            root=cache_root(environment.variables),
            project=resolved,
            name=name[:40],
            path_digest=_digest(str(resolved))[:10],
            environment_digest=environment_digest(environment)[:10],
        )

    def at(self, build_dir: object) -> BuildFolder | None:
        """Return this folder under the cache root of a configured build-dir, if it is this one.

        A project keeps its build folder when the variable that chose the cache root is gone.
        """
        if not isinstance(build_dir, str):
            return None
        path = Path(build_dir)
        if not path.is_absolute() or len(path.parents) < 3:
            return None
        moved = replace(self, root=path.parents[2])
        return moved if moved.cargo == path else None

    @property
    def folder(self) -> Path:
        """The folder as `rextio-torch cache` lists it."""
        return self.root / "builds" / f"{self.name}-{self.path_digest}-{self.environment_digest}"

    @property
    def cargo(self) -> Path:
        """Cargo's build-dir."""
        return self.folder / CARGO_FOLDER

    @property
    def lock(self) -> Path:
        """Held by whoever builds this project, in whatever environment."""
        return self.root / "locks" / f"{self.name}-{self.path_digest}.lock"

    def warm(self, key: str) -> WarmCopy:
        """Return the warm copy for this environment and a manifest's dependencies."""
        return WarmCopy(self.root, f"{self.environment_digest}-{key[:10]}")


@dataclass(frozen=True)
class WarmCopy:
    """Compiled dependencies of one environment, to seed new build folders from."""

    root: Path
    name: str

    @property
    def folder(self) -> Path:
        """The folder as `rextio-torch cache` lists it."""
        return self.root / "dependencies" / self.name

    @property
    def cargo(self) -> Path:
        """A build-dir that holds the dependencies and nothing else."""
        return self.folder / CARGO_FOLDER

    @property
    def lock(self) -> Path:
        """Held while the copy is written, shared while it is read."""
        return self.root / "locks" / f"dependencies-{self.name}.lock"


def lock_of_folder(root: Path, folder: Path) -> Path:
    """Return the lock that guards a folder under `builds` or `dependencies`."""
    if folder.parent.name == "dependencies":
        return root / "locks" / f"dependencies-{folder.name}.lock"
    name, _, _ = folder.name.rpartition("-")
    return root / "locks" / f"{name or folder.name}.lock"


def now() -> str:
    """Return the time of day in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_origin(folder: Path, environment: Environment, project: Path | None) -> None:
    """Note what a folder belongs to and that it was used now; keep when it was created."""
    torch = environment.torch
    stamp = now()
    data = {
        "project": None if project is None else str(project),
        "python": environment.interpreter.executable,
        "python_version": environment.interpreter.version,
        "torch": None if torch is None else torch.version,
        "torch_location": None if torch is None else torch.location,
        "created": read_origin(folder).get("created", stamp),
        "used": stamp,
    }
    write_atomically(folder / ORIGIN_FILE, json.dumps(data, indent=2) + "\n")


def read_origin(folder: Path) -> dict[str, Any]:
    """Return what `write_origin` noted, empty where it is missing or unreadable."""
    with contextlib.suppress(OSError, ValueError):
        data = json.loads((folder / ORIGIN_FILE).read_text(encoding="utf-8"))
        if isinstance(data, dict):
            return data
    return {}


def is_ours(path: Path) -> bool:
    """Whether a build-dir is one that `rextio-torch init` chose, for whatever environment."""
    return re.search(r"/builds/[^/]+-[0-9a-f]{10}-[0-9a-f]{10}/cargo$", path.as_posix()) is not None


def require_project(path: Path) -> Path:
    """Return a project folder's resolved path, or refuse what is none."""
    if not path.is_dir():
        raise CliError(
            f"{path} is not a folder",
            expected="the folder of a Rextio project",
            found="nothing" if not path.exists() else "a file",
            repair=f"rextio-torch init {path}" if not path.exists() else "name its folder",
        )
    return path.resolve()
