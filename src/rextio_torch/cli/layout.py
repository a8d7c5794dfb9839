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
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rextio_torch import versions
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError, quoted
from rextio_torch.cli.files import write_atomically

CACHE_VARIABLE = "REXTIO_TORCH_CACHE_DIR"
CARGO_FOLDER = "cargo"
ORIGIN_FILE = "origin.json"
Kind: TypeAlias = Literal["builds", "dependencies"]
KINDS: tuple[Kind, ...] = ("builds", "dependencies")


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
    """A folder of the cache and its lock: a project's build folder, or a warm copy."""

    root: Path
    kind: Kind
    #: `<project>-<path>-<environment>`, or `<environment>-<manifest>` of a warm copy.
    name: str

    @classmethod
    def of(cls, project: Path, environment: Environment) -> BuildFolder:
        """Return the folder that this project must build in, here and now."""
        resolved = project.resolve()
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", resolved.name).strip("-.") or "project"
        digests = (_digest(str(resolved))[:10], environment_digest(environment)[:10])
        return cls(cache_root(environment.variables), "builds", "-".join((name[:40], *digests)))

    @classmethod
    def parse(cls, build_dir: object) -> BuildFolder | None:
        """Return the folder that a configured build-dir is in, if it is one that `of` names."""
        if not isinstance(build_dir, str) or not os.path.isabs(build_dir):
            return None
        found = _BUILD_DIR.fullmatch(build_dir)
        return None if found is None else cls(Path(found[1]), "builds", found[2])

    @property
    def folder(self) -> Path:
        """The folder as `rextio-torch cache` lists it."""
        return self.root / self.kind / self.name

    @property
    def cargo(self) -> Path:
        """Cargo's build-dir."""
        return self.folder / CARGO_FOLDER

    @property
    def lock(self) -> Path:
        """Held while the folder changes; one for a project, whatever the environment."""
        if self.kind == "dependencies":
            return self.root / "locks" / f"dependencies-{self.name}.lock"
        return self.root / "locks" / f"{self.name.rpartition('-')[0] or self.name}.lock"

    def warm(self, key: str) -> BuildFolder:
        """Return the warm copy for this environment and a manifest's dependencies."""
        name = f"{self.name.rpartition('-')[2]}-{key[:10]}"
        return BuildFolder(self.root, "dependencies", name)


#: As `BuildFolder.of` names it: the cache root, and the name.
_BUILD_DIR = re.compile(rf"(.+)/builds/([^/]+-[0-9a-f]{{10}}-[0-9a-f]{{10}})/{CARGO_FOLDER}")


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
        "torch": None if torch is None else torch.version,
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


def require_project(path: Path, *, may_be_missing: bool = False) -> Path:
    """Return a project folder's resolved path, or refuse what is none."""
    if path.is_dir() or (may_be_missing and not path.exists()):
        return path.resolve()
    missing = not path.exists()
    raise CliError(
        f"{path} is not a folder",
        expected="the folder of a Rextio project",
        found="nothing" if missing else "a file",
        repair=f"rextio-torch init {quoted(path)}" if missing else "name its folder",
    )
