"""One native project for all tests, built once per session."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from support.programs import all_programs, module_text

REPOSITORY = Path(__file__).parent.parent.parent
SOURCES = REPOSITORY / "tests" / "native" / "sources"
CACHE = REPOSITORY / ".cache"
# Python bodies only: they never become native, and their module says so.
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


def command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the project's command line with the tests' cache folder."""
    environment = dict(os.environ)
    environment.setdefault("REXTIO_TORCH_CACHE_DIR", str(CACHE / "rextio-torch"))
    return subprocess.run(
        [sys.executable, "-m", "rextio_torch.cli", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        check=False,
    )


def build_project(path: Path) -> dict[str, object]:
    """Initialise and build a project; fail with the command's output if that fails."""
    for arguments in (["init", str(path)], ["build", str(path), "--json"]):
        done = command(*arguments)
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    report: dict[str, object] = json.loads(done.stdout)
    return report


@pytest.fixture(scope="session")
def project() -> Iterator[NativeProject]:
    """Build the surface, the handwritten sources and import them in native mode."""
    path = CACHE / "native" / "surface"
    path.mkdir(parents=True, exist_ok=True)
    (path / "surface.py").write_text(module_text(all_programs()))
    for source in SOURCES.glob("*.py"):
        shutil.copy(source, path)
    report = build_project(path)
    functions = report["functions"]
    assert isinstance(functions, list)
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
