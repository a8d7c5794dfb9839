"""Builds the programs natively, and times builds: cold, and after an edit."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.cases import Program

SOURCES = Path(__file__).with_name("sources")
CACHE_VARIABLE = "REXTIO_TORCH_CACHE_DIR"
#: Stands for cargo during a build and notes how long cargo itself takes.
_CARGO_WRAPPER = """#!{python}
import subprocess, sys, time
begun = time.monotonic()
status = subprocess.run([{cargo!r}, *sys.argv[1:]]).returncode
with open({log!r}, "a") as log:
    log.write(f"{{time.monotonic() - begun:.3f}} {{(sys.argv[1:] or ['-'])[0]}}\\n")
sys.exit(status)
"""


class BuildError(Exception):
    """The programs could not be built natively."""


def project_folder(folder: Path) -> Path:
    """Return the project of the benchmark's programs in a work folder."""
    return folder / "project"


def build(folder: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    """Build all programs natively and return the build's report."""
    project = project_folder(folder)
    _write_sources(project, SOURCES.glob("*.py"))
    report = _build(project, variables)
    python = [f["qualname"] for f in report["functions"] if not f["native"]]
    if python:
        raise BuildError(f"not native: {', '.join(python)}")
    return report


def time_builds(folder: Path, variables: Mapping[str, str], *, cold: bool) -> dict[str, Any]:
    """Time builds of a small project: the first one, one more, and one after an edit.

    `cold` begins with an empty cache, so that the dependencies are compiled.
    """
    project = folder / "build-time"
    shutil.rmtree(project, ignore_errors=True)
    _write_sources(project, [SOURCES / "programs.py"])
    variables = dict(variables)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        if cold:
            variables[CACHE_VARIABLE] = str(Path(scratch) / "cache")
        log = Path(scratch) / "cargo.log"
        wrapper = Path(scratch) / "cargo"
        cargo = shutil.which("cargo", path=variables.get("PATH"))
        if cargo is not None:
            text = _CARGO_WRAPPER.format(python=sys.executable, cargo=cargo, log=str(log))
            wrapper.write_text(text, encoding="utf-8")
            wrapper.chmod(0o755)
            variables["REXTIO_CARGO"] = str(wrapper)
        first = _timed(project, variables, log)
        edited = project / "programs.py"
        text = edited.read_text(encoding="utf-8")
        assert ".relu()" in text
        edited.write_text(text.replace(".relu()", ".tanh()", 1), encoding="utf-8")
        after = _timed(project, variables, log)
    return {"cold" if cold else "first": first, "after_edit": after}


def _timed(project: Path, variables: Mapping[str, str], log: Path) -> dict[str, Any]:
    log.write_text("", encoding="utf-8")
    begun = time.monotonic()
    report = _build(project, variables)
    total = time.monotonic() - begun
    cargo = [
        float(line.split()[0])
        for line in log.read_text(encoding="utf-8").splitlines()
        if line.endswith(" build")
    ]
    return {
        "seconds": round(total, 2),
        # The last one compiles the project; those before it, the dependencies.
        "cargo_seconds": round(cargo[-1], 2) if cargo else None,
        "dependencies_seconds": round(report["seconds"]["dependencies"], 2),
        "dependencies": report["dependencies"],
        "functions": len(report["functions"]),
    }


def _write_sources(project: Path, sources: Any) -> None:
    project.mkdir(parents=True, exist_ok=True)
    for source in sources:
        target = project / source.name
        text = source.read_text(encoding="utf-8")
        if not target.is_file() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def _build(project: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "rextio_torch.cli"]
    for arguments in (["init", str(project)], ["build", str(project), "--json"]):
        # Progress goes to the terminal (standard error), the report to standard output.
        done = subprocess.run(
            [*command, *arguments], env=dict(variables), stdout=subprocess.PIPE, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise BuildError(f"rextio-torch {arguments[0]} failed:\n{done.stdout[-2000:]}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def environment(work: Path) -> dict[str, str]:
    """Return the variables that builds and measuring processes run with."""
    variables = dict(os.environ)
    variables.setdefault(CACHE_VARIABLE, str(work / "rextio-torch"))
    # torch's build script asks the `python` on PATH for the installed torch.
    variables["VIRTUAL_ENV"] = sys.prefix
    variables["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), variables["PATH"]))
    # In native mode a module that does not load is an error.
    variables["REXTIO_NATIVE_MODE"] = "native"
    for name in ("REXTIO_TORCH_ENGINE", "REXTIO_TORCH_SIMD"):
        variables.pop(name, None)
    return variables


def load_eager(folder: Path, program: Program) -> Callable[..., Any]:
    """Return the program's function in eager PyTorch: the source file itself, imported."""
    name = f"eager_{program.module}"
    if name not in sys.modules:
        path = project_folder(folder) / f"{program.module}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return _function(sys.modules[name], program)


def load_native(folder: Path, program: Program) -> Callable[..., Any]:
    """Return the program's function of the built module."""
    path = str(project_folder(folder) / ".rextio" / "build" / "python")
    if path not in sys.path:
        sys.path.insert(0, path)
    return _function(importlib.import_module(program.module), program)


def _function(module: ModuleType, program: Program) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(module, program.function)
    return function
