"""The distribution: what wheel and sdist carry, and a native build from the installed wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.native import CACHE, REPOSITORY

FOLDER = CACHE / "packaging"
SOURCE = """\
from rextio_torch.types import TensorF32Cpu2D


def head(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    h = x.relu()
    return h.tanh()
"""


def run(*command: str | Path, **environment: str) -> str:
    """Run a command; its output is the failure message."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        cwd=FOLDER,
        env={**inherited, **environment},
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def distributions() -> tuple[Path, Path]:
    """Build wheel and sdist; return their paths."""
    dist = FOLDER / "dist"
    dist.mkdir(parents=True, exist_ok=True)
    for old in dist.iterdir():
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", dist, REPOSITORY)
    (wheel,) = dist.glob("*.whl")
    (sdist,) = dist.glob("*.tar.gz")
    return wheel, sdist


def test_wheel_and_sdist_carry_the_rust_files_and_the_type_marker(distributions) -> None:
    wheel, sdist = distributions
    package = REPOSITORY / "src" / "rextio_torch"
    expected = {
        path.relative_to(package.parent).as_posix()
        for pattern in (
            "runtime/rust/src/**/*.rs",
            "runtime/rust/Cargo.toml",
            "py.typed",
            "**/*.py",
        )
        for path in package.glob(pattern)
    }
    assert any(name.endswith("rxt_torch/boundary.rs") for name in expected)
    with zipfile.ZipFile(wheel) as archive:
        assert expected <= set(archive.namelist())
        assert not [name for name in archive.namelist() if "/target/" in name]
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in expected} <= names


def test_a_clean_environment_builds_a_function_from_the_wheel(distributions) -> None:
    wheel, _ = distributions
    environment = FOLDER / "venv"
    python = environment / "bin" / "python"
    if not python.exists():
        run("uv", "venv", "--python", sys.executable, environment)
    run("uv", "pip", "install", "--python", python, "--reinstall-package", "rextio-torch",
        f"{wheel}[cli]")  # fmt: skip
    origin = run(python, "-c", "import rextio_torch; print(rextio_torch.__file__)")
    assert origin.startswith(str(environment))

    project = FOLDER / "project"
    project.mkdir(exist_ok=True)
    (project / "heads.py").write_text(SOURCE)
    command = environment / "bin" / "rextio-torch"
    cache = {"REXTIO_TORCH_CACHE_DIR": os.environ.get(
        "REXTIO_TORCH_CACHE_DIR", str(CACHE / "rextio-torch")
    )}  # fmt: skip
    run(command, "init", project, **cache)
    report = json.loads(run(command, "build", project, "--json", **cache))
    assert [entry["native"] for entry in report["functions"]] == [True]
    check = (
        "import sys, torch; sys.path.insert(0, sys.argv[1]); import heads; "
        "x = torch.randn(3, 4); assert torch.equal(heads.head(x), x.relu().tanh()); print('same')"
    )
    built = project / ".rextio" / "build" / "python"
    assert run(python, "-c", check, built, REXTIO_NATIVE_MODE="native") == "same\n"
