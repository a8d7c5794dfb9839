"""The runtime crate by itself: format, lints and cargo tests, with and without libtorch."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
from support.native import CACHE, REPOSITORY, NativeProject, run

from tools.mutation.check import survivors_in_kernels
from tools.mutation.kernels import KERNELS

CRATE = REPOSITORY / "src" / "rextio_torch" / "runtime" / "rust"


def cargo(*arguments: str, crate: Path = CRATE, **changes: str) -> None:
    """Run cargo on the crate."""
    target = str(CACHE / "runtime-crate")
    run(["cargo", *arguments], cwd=crate, **{"CARGO_TARGET_DIR": target, **changes})


@pytest.fixture(scope="module")
def build_dir(native_project: NativeProject) -> str:
    """Return a build folder with libtorch's bindings compiled: a copy of the project's."""
    configuration = tomllib.loads((native_project.path / ".cargo" / "config.toml").read_text())
    warm = Path(configuration["build"]["build-dir"])
    copy = CACHE / "runtime-crate-build" / warm.parent.name
    if not copy.exists():
        shutil.copytree(warm, copy, symlinks=True)
    return str(copy)


def test_format() -> None:
    cargo("fmt", "--check")


def test_lints_without_libtorch() -> None:
    cargo("clippy", "--all-targets", "--", "-D", "warnings")


def test_lints_with_libtorch(build_dir: str) -> None:
    cargo(
        "clippy", "--release", "--features", "libtorch", "--", "-D", "warnings",
        CARGO_BUILD_BUILD_DIR=build_dir, LIBTORCH_USE_PYTORCH="1",
    )  # fmt: skip


def test_cargo_tests() -> None:
    cargo("test")


def test_cargo_tests_without_x86_code() -> None:
    """A copy as other processors compile it: the x86 files are gone, not only switched off."""
    copy = CACHE / "runtime-crate-portable"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(CRATE, copy, ignore=shutil.ignore_patterns("target", "simd_avx*.rs"))
    condition = 'target_arch = "x86_64"'
    for path in copy.rglob("*.rs"):
        text = path.read_text().replace(condition, "any()")  # true nowhere
        assert "x86_64::" not in text, path
        path.write_text(text)
    kernels = copy / "src" / "rxt_kernels"
    assert "#[cfg(any())]\nmod simd_avx2;" in (kernels / "mod.rs").read_text()
    library = copy / "src" / "lib.rs"
    library.write_text(f"#![deny(warnings)] // also code that only x86 uses\n{library.read_text()}")
    cargo("test", "--lib", "--tests", crate=copy)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("LIBTORCH_BYPASS_VERSION_CHECK", "1", "LIBTORCH_BYPASS_VERSION_CHECK is set"),
        ("REXTIO_TORCH_SOURCE_ID", "short", "must be 64 hexadecimal digits"),
    ],
)
def test_a_wrong_variable_stops_compilation(tmp_path, variable, value, message) -> None:
    command = ["rustc", "--edition", "2021", "--crate-type", "lib", "--emit", "metadata"]
    command += ["--out-dir", str(tmp_path), str(CRATE / "src" / "rxt_torch" / "identity.rs")]
    run(command, **{variable: None})
    done = run(command, check=False, **{variable: value})
    assert done.returncode != 0
    assert message in done.stderr


def test_mistakes_in_kernels_are_noticed() -> None:
    assert [str(row) for row, survives in survivors_in_kernels(KERNELS) if survives] == []
