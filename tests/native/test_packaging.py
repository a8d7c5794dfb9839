"""The distribution: what wheel and sdist carry, and a native build from the installed wheel."""

from __future__ import annotations

import json
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.native import CACHE, REPOSITORY, run

FOLDER = CACHE / "packaging"
SOURCE = """\
from rextio_torch.types import TensorF32Cpu2D


def head(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    h = x.relu()
    return h.tanh()
"""


def output(*command: str | Path, **changes: str) -> str:
    """Run a command outside the environment of the tests and return what it prints."""
    return run(command, cwd=FOLDER, VIRTUAL_ENV=None, PYTHONPATH=None, **changes).stdout


@pytest.fixture(scope="module")
def distributions() -> tuple[Path, Path]:
    """Build wheel and sdist; return their paths."""
    dist = FOLDER / "dist"
    dist.mkdir(parents=True, exist_ok=True)
    for old in dist.iterdir():
        old.unlink()
    output(sys.executable, "-m", "build", "--outdir", dist, REPOSITORY)
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
        output("uv", "venv", "--python", sys.executable, environment)
    output("uv", "pip", "install", "--python", python, "--reinstall-package", "rextio-torch",
        f"{wheel}[cli]")  # fmt: skip
    origin = output(python, "-c", "import rextio_torch; print(rextio_torch.__file__)")
    assert origin.startswith(str(environment))

    project = FOLDER / "project"
    project.mkdir(exist_ok=True)
    (project / "heads.py").write_text(SOURCE)
    command = environment / "bin" / "rextio-torch"
    output(command, "init", project)
    report = json.loads(output(command, "build", project, "--json"))
    assert [entry["native"] for entry in report["functions"]] == [True]
    check = (
        "import sys, torch; sys.path.insert(0, sys.argv[1]); import heads; "
        "x = torch.randn(3, 4); "
        "assert torch.allclose(heads.head(x), x.relu().tanh()); print('same')"
    )
    built = project / ".rextio" / "build" / "python"
    assert output(python, "-c", check, built, REXTIO_NATIVE_MODE="native") == "same\n"
