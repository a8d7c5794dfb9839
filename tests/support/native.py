"""One native project for all tests, built once per session."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.programs import all_programs, module_text
from support.random_programs import module_text as random_module_text

REPOSITORY = Path(__file__).parent.parent.parent
SOURCES = REPOSITORY / "tests" / "native" / "sources"
#: The mutation check builds projects of its own.
CACHE = Path(os.environ.get("REXTIO_TORCH_TEST_CACHE", REPOSITORY / ".cache"))
#: How many random programs the native project holds.
RANDOM_PROGRAMS = 120
#: Python bodies only: they never become native, and their module says so.
NOT_NATIVE = {"callbacks.note"}


@dataclass(frozen=True)
class NativeProject:
    """A built project: native functions beside the same functions in eager Python."""

    path: Path

    def native(self, module: str) -> ModuleType:
        """Return the built module, whose functions run natively."""
        return importlib.import_module(module)

    def eager(self, module: str) -> ModuleType:
        """Return the source module itself, which runs in eager PyTorch."""
        return _load(f"eager_{module}", self.path / f"{module}.py")

    def pair(self, name: str) -> tuple[Callable[..., object], Callable[..., object]]:
        """Return the native and the eager function `module.name`."""
        module, function = name.split(".")
        return getattr(self.native(module), function), getattr(self.eager(module), function)


def _load(name: str, path: Path) -> ModuleType:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def variables(**changes: str | None) -> dict[str, str]:
    """Return this process's variables with the tests' cache folder; `None` takes one away."""
    cache = {"REXTIO_TORCH_CACHE_DIR": str(CACHE / "rextio-torch")}
    changed = {**cache, **os.environ, **changes}
    return {name: value for name, value in changed.items() if value is not None}


def cli(*arguments: str | Path) -> list[str]:
    """Return the command line of this package, by the interpreter that runs the tests."""
    return [sys.executable, "-m", "rextio_torch.cli", *map(str, arguments)]


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    check: bool = True,
    **changes: str | None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; with `check` its output is the message of a failure."""
    done = subprocess.run(
        [str(part) for part in command],
        env=variables(**changes),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def build(project: Path) -> dict[str, Any]:
    """Build a project and return what the command says of it."""
    report: dict[str, Any] = json.loads(run(cli("build", project, "--json")).stdout)
    assert report["ok"]
    return report


@pytest.fixture(scope="session")
def native_project() -> Iterator[NativeProject]:
    """Build the surface, the handwritten sources and import them in native mode."""
    path = CACHE / "native" / "surface"
    path.mkdir(parents=True, exist_ok=True)
    # What an earlier run wrote and this one does not.
    for old in path.glob("*.py"):
        old.unlink()
    (path / "surface.py").write_text(module_text(all_programs()))
    (path / "random_programs.py").write_text(random_module_text(RANDOM_PROGRAMS))
    for source in SOURCES.glob("*.py"):
        shutil.copy(source, path)
    run(cli("init", path))
    functions = build(path)["functions"]
    python = {entry["qualname"] for entry in functions if not entry["native"]}
    assert python == NOT_NATIVE, python
    built = str(path / ".rextio" / "build" / "python")
    import torch  # noqa: F401  (a native module needs libtorch in the process)

    os.environ["REXTIO_NATIVE_MODE"] = "native"
    sys.path.insert(0, built)
    try:
        yield NativeProject(path)
    finally:
        sys.path.remove(built)
        del os.environ["REXTIO_NATIVE_MODE"]
