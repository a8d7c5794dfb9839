"""The programs of a build, chosen as Rextio chooses them, and the variables they run with."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.files import read_toml
from rextio_torch.cli.project import REXTIO_FILE


@dataclass(frozen=True)
class Tool:
    """Where a program is, or why there is none to run."""

    path: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Toolchain:
    """What a build of a project runs. Found once: the checks and the build use the same."""

    #: With the variables that the project's [toolchain] stands for.
    environment: Environment
    project: Path | None
    rextio: Tool
    cargo: Tool
    rustc: Tool
    #: The interpreter that the project configures for PyO3, if any.
    python: Tool | None

    @classmethod
    def of(cls, environment: Environment, project: Path | None = None) -> Toolchain:
        """Find the programs for a project, or for none in particular."""
        settings: object = {}
        if project is not None:
            # What is no TOML is reported by the check of the build folder.
            with contextlib.suppress(CliError):
                settings = read_toml(project / REXTIO_FILE).get("toolchain")

        def configured(key: str) -> str | None:
            value = settings.get(key) if isinstance(settings, dict) else None
            value = environment.variables.get(f"REXTIO_{key.upper()}", value)
            return value if isinstance(value, str) else None

        # Rextio runs in the project, so that is where a relative path begins.
        base = project or Path()
        variables = dict(environment.variables)
        if (channel := configured("rust_toolchain")) is not None:
            variables["RUSTUP_TOOLCHAIN"] = channel
        python = None
        if (chosen := configured("python")) is not None:
            python = resolve(base, chosen, "python3", "python")
            if python.path:
                variables["PYO3_PYTHON"] = python.path
        environment = replace(environment, variables=variables)
        if (chosen := configured("cargo")) is not None:
            cargo = resolve(base, chosen, "cargo")
        else:
            cargo = _on_path(environment, "cargo")
        beside = Path(environment.interpreter.scripts) / "rextio"
        return cls(
            environment=environment,
            project=project,
            rextio=Tool(str(beside)) if beside.is_file() else _on_path(environment, "rextio"),
            cargo=cargo,
            rustc=_rustc(environment, cargo),
            python=python,
        )

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables of a build: PyO3 compiles again when the spelling of its Python changes.

        Rextio builds for PYO3_PYTHON, or for the interpreter it runs on, spelled as its script
        spells it.
        """
        python = self.environment.variables.get("PYO3_PYTHON")
        python = python or script_interpreter(Path(self.rextio.path))
        return {**self.environment.variables, "PYO3_PYTHON": python}


def resolve(base: Path, chosen: str, *names: str) -> Tool:
    """Find a configured program: a file, or the folder it is in. As in Rextio never on PATH."""
    place = base.absolute() / Path(chosen).expanduser()
    found = [
        path
        for name in names
        for path in (place, place / name, place / "bin" / name)
        if path.is_file()
    ]
    for path in found:
        if os.access(path, os.X_OK):
            return Tool(str(path))
    what = f"{found[0]} is not executable" if found else f"no {' or '.join(names)} at {place}"
    return Tool(problem=f"configured as {chosen!r}, but {what}")


def _on_path(environment: Environment, name: str) -> Tool:
    path = environment.which(name)
    return Tool(path) if path else Tool(problem="not on PATH")


def _rustc(environment: Environment, cargo: Tool) -> Tool:
    """Find the compiler as cargo does: on PATH, or beside a cargo of rustup, which adds itself."""
    tool = _on_path(environment, environment.variables.get("RUSTC") or "rustc")
    folder = os.path.dirname(cargo.path)
    if not tool.path and folder and environment.find("rustup", folder):
        tool = Tool(environment.find("rustc", folder) or "", tool.problem)
    return tool


def script_interpreter(script: Path) -> str:
    """Return the interpreter that an installed script runs on, as the script spells it."""
    with contextlib.suppress(OSError, ValueError):
        first, second = [*script.read_text(encoding="utf-8").splitlines()[:2], "", ""][:2]
        if first.startswith("#!") and "python" in os.path.basename(first):
            return first[2:].strip()
        if second.startswith("'''exec'"):
            # How pip and uv write a path that is too long, or has a space, for a first line.
            return shlex.split(second.replace("'''exec'", "exec"))[1]
    return sys.executable
