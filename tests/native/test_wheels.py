"""Wheels of built projects in other environments: Rextio's own, and those of `rextio-torch wheel`.

Each environment is a virtual one with torch or without, no Rust, no numpy and nothing of the
repository; a program in it tells what the installed functions do (`support/observe.py`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.metadata import Metadata
from support.elsewhere import FOLDER, TORCH, torch_folder, uv
from support.native import CACHE, REPOSITORY, cli, run
from wheel.wheelfile import WheelFile

from rextio_torch import versions
from rextio_torch.wheels.licenses import FILE as LICENSES

SOURCES = REPOSITORY / "tests" / "native"
OBSERVER = REPOSITORY / "tests" / "support" / "observe.py"
MODEL = ("model.grown", "model.largest", "model.asking")
SHOP = ("shop.prices.doubled", "shop.prices.total", "shop.prices.named")
#: What another wheel's module lacks.
OTHER = "loaded but has no function"


@dataclass(frozen=True)
class Wheels:
    """Both wheels of a project."""

    project: Path
    core: Path
    own: Path
    package: str

    @property
    def native(self) -> str:
        """The native module of the wheel that does not collide."""
        return f"{self.package}._rextio_native"


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", vars={"base": str(self.folder)}))

    def pip(self, command: str, *arguments: str | Path) -> None:
        uv("pip", command, "--python", self.python, *arguments)

    def observe(self, *modules: str, mode: str | None = None) -> dict[str, Any]:
        """Return what the functions of installed modules do, imported in this order."""
        done = self.run(["-P", OBSERVER, *modules], REXTIO_NATIVE_MODE=mode)
        # Not by a signal either.
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def run(
        self, arguments: list[str | Path], **changes: str | None
    ) -> subprocess.CompletedProcess[str]:
        nothing = {
            name: None
            for name in os.environ
            if name.startswith(("REXTIO", "PYTHON", "CARGO", "RUST"))
        }
        settings = {"PATH": "/nonexistent", "HOME": "/nonexistent", "VIRTUAL_ENV": None, **changes}
        cache = {"REXTIO_TORCH_CACHE_DIR": "/nonexistent"}
        command = [self.python, *arguments]
        return run(command, cwd=FOLDER, check=False, **{**nothing, **cache, **settings})


def all_right(functions: tuple[str, ...], native: str | None) -> dict[str, list[str | None]]:
    return {name: [native, "right"] for name in functions}


def make_project(name: str, *sources: str) -> Path:
    folder = CACHE / "native" / name
    for source in sources:
        place = SOURCES / source
        if place.is_dir():
            shutil.copytree(place, folder / place.name, dirs_exist_ok=True)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(place, folder)
    run(cli("init", folder))
    return folder


def make_wheels(name: str, *sources: str) -> Wheels:
    """Return the wheels of a project: `rextio build`, which is a part of it, has written one."""
    project = make_project(name, *sources)
    made = json.loads(run(cli("wheel", project, "--json")).stdout)
    (core,) = (project / "dist").glob("*.whl")
    return Wheels(project, core, Path(made["wheel"]), made["native_package"])


@pytest.fixture(scope="module")
def model() -> Wheels:
    """Those of the project that `test_verify` builds too: a module at the top."""
    return make_wheels("verify", "verify/model.py")


@pytest.fixture(scope="module")
def shop() -> Wheels:
    """Those of a project with a package."""
    return make_wheels("shop", "wheels/shop")


@pytest.fixture(scope="module")
def torch_packages() -> Path:
    return torch_folder()


@pytest.fixture
def empty() -> Iterator[Environment]:
    """An environment without torch."""
    folder = FOLDER / "environment"
    uv("venv", "--clear", "--python", sys.executable, folder)
    yield Environment(folder)
    shutil.rmtree(folder)


@pytest.fixture
def clean(empty: Environment, torch_packages: Path) -> Environment:
    """An environment with torch and nothing else."""
    (empty.packages / "torch.pth").write_text(f"{torch_packages}\n")
    return empty


@pytest.fixture
def no_build(model: Wheels) -> Iterator[None]:
    """Put the build of the project away."""
    build, aside = model.project / ".rextio", FOLDER / "away"
    FOLDER.mkdir(exist_ok=True)
    # Of a run that was killed.
    shutil.rmtree(aside, ignore_errors=True)
    build.rename(aside)
    yield
    aside.rename(build)


@pytest.mark.usefixtures("no_build")
def test_a_wheel_brings_its_torch_and_runs_natively(model: Wheels, empty: Environment) -> None:
    """Neither Rust nor the build, and its module is imported before torch."""
    empty.pip("install", model.own)
    seen = empty.observe("model", mode="native")
    assert seen == {"failed": {}, "seen": all_right(MODEL, model.native), "warnings": []}


def test_a_wheel_is_complete(model: Wheels) -> None:
    with WheelFile(model.own) as archive:
        names = archive.namelist()
        # Reading compares with RECORD.
        files = {name: archive.read(name) for name in names}
        folder = archive.dist_info_path
        assert archive.testzip() is None
    assert len(set(names)) == len(names)
    metadata = Metadata.from_email(files[f"{folder}/METADATA"])
    assert [str(it) for it in metadata.requires_dist or ()] == [TORCH]
    assert str(metadata.requires_python) == f"=={versions.PYTHON_VERSION}.*"
    assert {name.partition("/")[0] for name in names} == {
        "model.py", "_fallback_model.py", model.package, folder
    }  # fmt: skip
    assert f"tch {versions.TCH_VERSION}: MIT" in files[f"{folder}/licenses/{LICENSES}"].decode()
    tag = model.own.stem.partition("-0.1.0-")[2]
    assert f"Tag: {tag}\n" in files[f"{folder}/WHEEL"].decode()
    assert model.core.stem.endswith(tag)


def test_rextio_s_wheel_needs_rextio_torch_beside_it(shop: Wheels, clean: Environment) -> None:
    clean.pip("install", "--no-deps", shop.core)
    done = clean.run(["-c", "import shop.prices"])
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'rextio_torch'\n")
    add_rextio_torch(clean)
    seen = clean.observe("torch", "shop.prices", mode="native")
    assert seen["seen"] == all_right(SHOP, "_rextio_native")
    # The order that a native module of Rextio's needs.
    late = clean.observe("shop.prices", "torch")
    assert {native for native, _ in late["seen"].values()} == {None}
    assert {result for _, result in late["seen"].values()} == {"right"}
    assert all("will fall back to Python" in text for text in late["warnings"])
    assert "libtorch" in late["warnings"][0]


def add_rextio_torch(environment: Environment) -> None:
    """As `pip install --no-deps rextio-torch` does: with Rextio it would overwrite the wheel."""
    shutil.copytree(REPOSITORY / "src" / "rextio_torch", environment.packages / "rextio_torch")


def test_without_torch(model: Wheels, shop: Wheels, empty: Environment) -> None:
    empty.pip("install", "--no-deps", model.own, shop.own)
    for mode in (None, "native"):
        failed = empty.observe("model", "shop.prices", mode=mode)["failed"]
        assert failed["shop.prices"] == (
            f'ModuleNotFoundError: shop needs {TORCH}, and there is no torch: pip install "{TORCH}"'
        )
        assert failed["model"].startswith("ModuleNotFoundError: verify needs torch")
    fallback = empty.observe("shop.prices", mode="fallback")
    assert fallback["seen"] == {"shop.prices.total": [None, "right"]}
    assert fallback["warnings"] == []
    empty.pip("uninstall", "shop")
    empty.pip("install", "--no-deps", shop.core)
    add_rextio_torch(empty)
    seen = empty.observe("shop.prices")
    assert seen["seen"] == {"shop.prices.total": [None, "right"]}
    assert "will fall back to Python" in seen["warnings"][0]


@pytest.fixture
def another_torch(empty: Environment, request: pytest.FixtureRequest) -> Environment:
    """An environment with another torch: a real one (`--another-torch`), or its libraries, empty.

    The libraries have these names, whatever the version: those of another one lack some of the
    symbols that a native module needs, these every one.
    """
    if request.param != "libraries":
        empty.pip("install", f"torch=={request.param}")
        return empty
    package = empty.packages / "torch"
    package.mkdir()
    for name in ("libtorch_python.so", "libtorch_cpu.so", "libc10.so"):
        run(["cc", "-shared", "-x", "c", "/dev/null", f"-Wl,-soname,{name}", "-o", package / name])
    (package / "__init__.py").write_text(
        "import ctypes, pathlib\n"
        '__version__ = "2.10.0+cpu"\n'
        "for file in pathlib.Path(__file__).parent.glob('*.so'):\n"
        "    ctypes.CDLL(str(file), ctypes.RTLD_GLOBAL)\n"
    )
    return empty


def test_beside_another_torch(model: Wheels, shop: Wheels, another_torch: Environment) -> None:
    environment = another_torch
    environment.pip("install", "--no-deps", shop.own)
    text = f"the native part of shop does not load: it was built for {TORCH}"
    quiet = environment.observe("shop.prices", mode="fallback")
    assert quiet["warnings"] == []
    seen = environment.observe("shop.prices")
    assert {tuple(found) for found in seen["seen"].values()} == {(None, "right")}
    (warning,) = seen["warnings"]
    assert warning.startswith(text)
    assert f'pip install "{TORCH}"' in warning
    failed = environment.observe("shop.prices", mode="native")["failed"]
    assert failed["shop.prices"].startswith(f"ImportError: {text}")

    environment.pip("uninstall", "shop")
    environment.pip("install", "--no-deps", shop.core)
    add_rextio_torch(environment)
    seen = environment.observe("torch", "shop.prices")
    if seen["warnings"]:
        # The loader finds a symbol missing, before anything of ours can run.
        assert "will fall back to Python" in seen["warnings"][0]
        assert "undefined symbol" in seen["warnings"][0]
        assert {tuple(found) for found in seen["seen"].values()} == {(None, "right")}
    else:
        native, result = seen["seen"]["shop.prices.doubled"]
        assert native == "_rextio_native"
        assert "RuntimeError: this native module was built for torch" in result


def test_a_module_that_loads_beside_another_torch_refuses_its_tensors(
    shop: Wheels, clean: Environment
) -> None:
    clean.pip("install", "--no-deps", shop.core)
    add_rextio_torch(clean)
    program = (
        "import torch; torch.__version__ = '2.11.1'\n"
        "from shop.prices import doubled\n"
        "try: doubled(torch.ones(1, 1))\n"
        "except RuntimeError as error: print(error)"
    )
    done = clean.run(["-c", program])
    assert done.stdout.startswith(
        f"this native module was built for torch {versions.TORCH_VERSION}, and torch 2.11.1 is"
    ), done.stderr


def test_rextio_s_wheels_overwrite_each_other(
    model: Wheels, shop: Wheels, clean: Environment
) -> None:
    add_rextio_torch(clean)
    clean.pip("install", "--no-deps", model.core)
    clean.pip("install", "--no-deps", shop.core)
    expect_only_the_last(clean, MODEL, SHOP)
    clean.pip("install", "--no-deps", "--reinstall", model.core)
    expect_only_the_last(clean, SHOP, MODEL)


def expect_only_the_last(
    environment: Environment, first: tuple[str, ...], last: tuple[str, ...]
) -> None:
    """The first wheel's functions run in Python and say so: nothing runs another's code."""
    seen = environment.observe("torch", "model", "shop.prices")
    python = {name: [None, "right"] for name in first}
    assert seen["seen"] == {**python, **all_right(last, "_rextio_native")}
    assert seen["warnings"]
    assert all(OTHER in text for text in seen["warnings"])


@pytest.mark.parametrize("first", ["rextio", "wheel"])
def test_rextio_s_wheel_takes_rextio_with_it(shop: Wheels, empty: Environment, first: str) -> None:
    order: list[str | Path] = [f"rextio=={version('rextio')}", shop.core]
    for package in order if first == "rextio" else reversed(order):
        empty.pip("install", "--no-deps", package)
    plugins = ["-c", "import rextio.plugins.api, rextio; rextio.native"]
    assert empty.run(plugins).returncode == 0
    empty.pip("uninstall", "shop")
    done = empty.run(plugins)
    assert done.returncode == 1
    assert "rextio" in done.stderr.splitlines()[-1]


def test_wheels_side_by_side(model: Wheels, shop: Wheels, clean: Environment) -> None:
    """Beside each other, beside Rextio and beside a wheel of Rextio's, in both orders."""
    both = {**all_right(MODEL, model.native), **all_right(SHOP, shop.native)}
    clean.pip("install", "--no-deps", model.own)
    clean.pip("install", "--no-deps", shop.own)
    seen = clean.observe("model", "shop.prices", mode="native")
    assert seen == {"failed": {}, "seen": both, "warnings": []}
    clean.pip("install", "--no-deps", f"rextio=={version('rextio')}")
    seen = clean.observe("shop.prices", "model", mode="native")
    assert seen == {"failed": {}, "seen": both, "warnings": []}
    # A wheel of Rextio's takes the place of one of ours.
    clean.pip("uninstall", "shop", "rextio")
    clean.pip("install", "--no-deps", shop.core)
    add_rextio_torch(clean)
    mixed = {**all_right(MODEL, model.native), **all_right(SHOP, "_rextio_native")}
    for order in (("model", "shop.prices"), ("torch", "shop.prices", "model")):
        seen = clean.observe(*order, mode="native")
        assert seen == {"failed": {}, "seen": mixed, "warnings": []}
    clean.pip("uninstall", "shop")
    clean.pip("install", "--no-deps", shop.core, f"rextio=={version('rextio')}")
    clean.pip("install", "--no-deps", "--reinstall", model.own)
    assert clean.observe("model", mode="native")["seen"] == all_right(MODEL, model.native)
    clean.pip("uninstall", "verify")
    left = [path.name for path in clean.packages.rglob("*") if model.package in str(path)]
    assert left == []
