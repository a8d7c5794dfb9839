"""What a build depends on, read once: tests replace any of it without touching the machine."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rextio_torch import versions

#: How Python begins to print an exception that nobody caught.
TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True)
class Completed:
    """What a finished program said."""

    returncode: int
    stdout: str = ""
    stderr: str = ""

    @property
    def first_line(self) -> str:
        """Return the first non-empty line it printed, or the last one of a traceback."""
        lines = [line.strip() for line in (self.stdout + "\n" + self.stderr).splitlines()]
        lines = [line for line in lines if line] or [""]
        return lines[-1] if lines[0] == TRACEBACK else lines[0]


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter and the environment it belongs to."""

    version: str
    implementation: str
    executable: str
    prefix: str
    base_prefix: str
    include: str
    scripts: str

    @property
    def is_virtual(self) -> bool:
        """Whether this is a virtual environment's interpreter."""
        return self.prefix != self.base_prefix

    def pip_install(self, requirement: str) -> str:
        """Return the command that installs something for this interpreter."""
        return f'{self.executable} -m pip install "{requirement}"'

    @classmethod
    def current(cls) -> Interpreter:
        """Describe the running interpreter."""
        return cls(
            version=platform.python_version(),
            implementation=platform.python_implementation(),
            executable=sys.executable,
            prefix=os.path.realpath(sys.prefix),
            base_prefix=os.path.realpath(sys.base_prefix),
            include=sysconfig.get_path("include"),
            scripts=sysconfig.get_path("scripts"),
        )


@dataclass(frozen=True)
class Torch:
    """An installed torch, read from its files and never imported."""

    version: str
    location: str

    @property
    def release(self) -> str:
        """The version without its build: `2.11.0` of `2.11.0+cpu`."""
        return self.version.partition("+")[0]


Run = Callable[[Sequence[str], Mapping[str, str], Path | None], Completed]


@dataclass(frozen=True)
class Environment:
    """Everything that a check or a build reads from the outside."""

    variables: Mapping[str, str]
    interpreter: Interpreter
    torch: Torch | None
    #: Versions of installed distributions, `None` for one that is missing.
    distributions: Mapping[str, str | None]
    plugin_api: str | None
    #: The target of this plugin's entry point, as an installed distribution declares it.
    entry_point: str | None
    system: str
    machine: str
    #: Entries of PYTHONPATH that `variables` has no more: they would hide Rextio.
    generated_paths: tuple[str, ...] = ()
    #: Where a program is on a PATH.
    find: Callable[[str, str | None], str | None] = lambda name, path: shutil.which(name, path=path)
    execute: Run = lambda *arguments: _run(*arguments)

    @classmethod
    def current(cls) -> Environment:
        """Read the environment of this process."""
        variables = dict(os.environ)
        generated_paths = leave_out_generated(variables)
        return cls(
            variables=variables,
            interpreter=Interpreter.current(),
            torch=_installed_torch(),
            distributions={name: _version(name) for name in ("rextio", "torch", "rextio-torch")},
            plugin_api=_plugin_api(),
            entry_point=_entry_point(),
            system=platform.system(),
            machine=platform.machine(),
            generated_paths=generated_paths,
        )

    def which(self, program: str) -> str | None:
        """Return where a program is found on this environment's PATH."""
        return self.find(program, self.variables.get("PATH"))

    def run(self, *command: str, cwd: Path | None = None) -> Completed:
        """Run a program in this environment and return what it said."""
        return self.execute(command, self.variables, cwd)

    def for_building(self) -> Environment:
        """Return the environment that builds run in: this interpreter is the one found.

        libtorch's build script runs `python` when VIRTUAL_ENV is set and `python3` otherwise,
        so an interpreter that was started without activating its environment needs both.
        """
        variables = dict(self.variables)
        # What runs when a module is loaded is the user's own file, never code made from a copy.
        variables["REXTIO_NATIVE_TOP_LEVEL"] = "false"
        scripts = self.interpreter.scripts
        if self.interpreter.is_virtual:
            variables["VIRTUAL_ENV"] = self.interpreter.prefix
            variables.pop("PYTHONHOME", None)
        else:
            variables.pop("VIRTUAL_ENV", None)
        parts = variables.get("PATH", os.defpath).split(os.pathsep)
        if parts[0] != scripts:
            variables["PATH"] = os.pathsep.join([scripts, *parts])
        return replace(self, variables=variables)


def is_generated(folder: Path) -> bool:
    """Whether a folder holds built modules: they bring a part of Rextio that hides the whole."""
    package = folder / "rextio"
    return any(folder.glob("_rextio_native*")) or (
        package.is_dir() and not (package / "plugins").is_dir()
    )


def leave_out_generated(variables: dict[str, str]) -> tuple[str, ...]:
    """Take folders of built modules out of PYTHONPATH and this process's path; return them."""
    entries = variables.get("PYTHONPATH", "").split(os.pathsep)
    found = tuple(entry for entry in entries if entry and is_generated(Path(entry)))
    if found:
        kept = os.pathsep.join(entry for entry in entries if entry not in found)
        del variables["PYTHONPATH"]
        if kept:
            variables["PYTHONPATH"] = kept
        gone = {os.path.realpath(entry) for entry in found}
        sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) not in gone]
    return found


def _run(
    command: Sequence[str], variables: Mapping[str, str], cwd: Path | None = None
) -> Completed:
    """Run a short program; one that cannot run at all gives status 127."""
    program = shutil.which(command[0], path=variables.get("PATH")) or command[0]
    try:
        done = subprocess.run(
            [program, *command[1:]],
            env=dict(variables),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Completed(124, stderr=f"{command[0]} did not answer within 120 s")
    except OSError as error:
        return Completed(127, stderr=str(error))
    return Completed(done.returncode, done.stdout, done.stderr)


def _installed_torch() -> Torch | None:
    """Find torch the way an import would, and read its version without importing it."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).resolve().parent
    with contextlib.suppress(OSError):
        text = (folder / "version.py").read_text(encoding="utf-8")
        found = re.search(r"""^__version__\s*=\s*['"]([^'"]+)['"]""", text, re.MULTILINE)
        if found is not None:
            return Torch(found.group(1), str(folder))
    return Torch(_version("torch") or "unknown", str(folder))


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _plugin_api() -> str | None:
    try:
        api = importlib.import_module("rextio.plugins.api")
    except ImportError:
        return None
    return str(getattr(api, "PLUGIN_API_VERSION", "")) or None


def _entry_point() -> str | None:
    group = importlib.metadata.entry_points(group="rextio.plugins")
    return next((entry.value for entry in group if entry.name == versions.PLUGIN_ID), None)


def version_tuple(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, for comparing."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return () if found is None else tuple(int(part) for part in found.group(0).split("."))
