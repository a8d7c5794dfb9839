"""What a native build needs, one check a line: expected, found, and the repair.

Every check is a function of an `Environment` (and a project) and of nothing else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rextio_torch import platforms, versions
from rextio_torch.cli.environment import Completed, Environment, version_tuple
from rextio_torch.cli.files import human_size
from rextio_torch.cli.layout import cache_root
from rextio_torch.cli.project import (
    CARGO_FILE,
    REXTIO_FILE,
    build_folder,
    cargo_configurations,
    check_initialised,
)

Status = Literal["ok", "warn", "fail"]

ENTRY_POINT = "rextio_torch.plugin:plugin"
#: What a build folder and a warm copy of its dependencies take, with room for both.
NEEDED_SPACE = 1_000_000_000

#: Says where an interpreter belongs and which torch it imports, as torch-sys will ask it.
_PROBE_DEEP = """
import json, os, sys
result = {"prefix": os.path.realpath(sys.prefix), "torch": None, "error": None}
try:
    import torch
    result["torch"] = torch.__version__
except Exception as error:
    result["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(result))
"""
#: The same without importing torch: quick enough for every build.
_PROBE_QUICK = """
import importlib.util, json, os, re, sys
result = {"prefix": os.path.realpath(sys.prefix), "torch": None, "error": None}
spec = importlib.util.find_spec("torch")
if spec is None or spec.origin is None:
    result["error"] = "no torch"
else:
    path = os.path.join(os.path.dirname(spec.origin), "version.py")
    found = re.search(r"__version__ = '([^']+)'", open(path).read())
    result["torch"] = found.group(1) if found else None
print(json.dumps(result))
"""


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    status: Status
    expected: str
    found: str
    repair: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """Return the check as JSON-ready data."""
        return asdict(self)


def run_checks(
    environment: Environment, project: Path | None = None, *, deep: bool = True
) -> list[Check]:
    """Run every check; `deep` also imports torch in the interpreter that a build will use."""
    checks: list[Check] = [
        check_platform(environment),
        check_python(environment),
        check_headers(environment),
        check_torch(environment),
        check_rextio(environment),
        check_plugin(environment),
        check_cargo(environment, project),
        check_rustc(environment, project),
        check_compiler(environment),
        check_build_python(environment, deep=deep),
        *check_variables(environment),
    ]
    if project is not None:
        checks.append(check_cargo_configuration(environment, project))
        checks.append(check_build_folder(environment, project))
    checks.append(check_space(environment, project))
    return checks


def failures(checks: list[Check]) -> list[Check]:
    """Return the checks that a native build would fail on."""
    return [check for check in checks if check.status == "fail"]


def check_platform(environment: Environment) -> Check:
    """Look this host up in the platform table."""
    row = platforms.lookup(environment.system, environment.machine)
    status: Status = "ok" if row.status == "certified" else "warn" if row.usable else "fail"
    return Check(
        "platform",
        status,
        "Linux x86_64 (certified); Linux aarch64 or macOS arm64 (expected to work)",
        f"{row.system} {row.machine}: {row.status}, {row.reason}",
        None if row.usable else "build on one of the hosts named",
    )


def check_python(environment: Environment) -> Check:
    """CPython of the one supported minor version."""
    interpreter = environment.interpreter
    right = interpreter.implementation == "CPython" and version_tuple(interpreter.version)[
        :2
    ] == version_tuple(versions.PYTHON_VERSION)
    return Check(
        "Python",
        "ok" if right else "fail",
        f"CPython {versions.PYTHON_VERSION}",
        f"{interpreter.implementation} {interpreter.version} ({interpreter.executable})",
        None
        if right
        else f"python{versions.PYTHON_VERSION} -m venv .venv && "
        '.venv/bin/pip install "rextio-torch[cli]"',
    )


def check_headers(environment: Environment) -> Check:
    """Python's C headers, which libtorch's bindings include."""
    include = Path(environment.interpreter.include)
    right = (include / "Python.h").is_file()
    return Check(
        "Python headers",
        "ok" if right else "fail",
        "Python.h",
        str(include / "Python.h") if right else f"no Python.h in {include}",
        None if right else f"apt-get install python{versions.PYTHON_VERSION}-dev",
    )


def _pip(environment: Environment, requirement: str) -> str:
    return f'{environment.interpreter.executable} -m pip install "{requirement}"'


def check_torch(environment: Environment) -> Check:
    """The one torch release whose libtorch the binding links."""
    torch = environment.torch
    right = torch is not None and torch.release == versions.TORCH_VERSION
    return Check(
        "torch",
        "ok" if right else "fail",
        f"torch {versions.TORCH_VERSION}, any build",
        "not installed" if torch is None else f"torch {torch.version} ({torch.location})",
        None if right else _pip(environment, f"torch=={versions.TORCH_VERSION}"),
    )


def check_rextio(environment: Environment) -> Check:
    """Rextio itself and the plugin API that it offers."""
    version = environment.distributions.get("rextio")
    wanted = version_tuple(versions.PLUGIN_API_VERSION)
    offered = version_tuple(environment.plugin_api or "")
    right = (
        version is not None
        and len(offered) >= 2
        and offered[0] == wanted[0]
        and offered[1] >= wanted[1]
    )
    return Check(
        "Rextio",
        "ok" if right else "fail",
        f"rextio >=0.1.7,<0.2 with plugin API {wanted[0]}, at least {versions.PLUGIN_API_VERSION}",
        "not installed"
        if version is None
        else f"rextio {version}, plugin API {environment.plugin_api or 'not readable'}",
        None if right else _pip(environment, "rextio>=0.1.7,<0.2"),
    )


def check_plugin(environment: Environment) -> Check:
    """This plugin, as Rextio will discover it."""
    version = environment.distributions.get("rextio-torch")
    right = version is not None and environment.entry_point == ENTRY_POINT
    return Check(
        "plugin",
        "ok" if right else "fail",
        f"entry point {versions.PLUGIN_ID} = {ENTRY_POINT}",
        f"rextio-torch {version or 'not installed'}, "
        f"entry point {environment.entry_point or 'missing'}",
        None if right else _pip(environment, "rextio-torch"),
    )


_INSTALL_RUST = "curl -sSf https://sh.rustup.rs | sh -s -- -y && . ~/.cargo/env"


def _check_rust(environment: Environment, program: str, project: Path | None) -> Check:
    expected = f"{program} {versions.MINIMUM_RUST_VERSION} or newer"
    path = environment.which(program)
    if path is None:
        return Check(program, "fail", expected, "not on PATH", _INSTALL_RUST)
    # Where it runs matters: rustup chooses a toolchain by folder.
    cwd = project if project is not None and project.is_dir() else None
    done = environment.run(path, "--version", cwd=cwd)
    found = re.search(r"\d+\.\d+\.\d+", done.stdout)
    if done.returncode != 0 or found is None:
        return Check(
            program, "fail", expected, f"{path}: {done.first_line}", "rustup default stable"
        )
    right = version_tuple(found.group(0)) >= version_tuple(versions.MINIMUM_RUST_VERSION)
    return Check(
        program,
        "ok" if right else "fail",
        expected,
        f"{done.first_line} ({path})",
        None if right else "rustup update stable && rustup default stable",
    )


def check_cargo(environment: Environment, project: Path | None = None) -> Check:
    """Cargo, new enough to honour `build.build-dir`."""
    return _check_rust(environment, "cargo", project)


def check_rustc(environment: Environment, project: Path | None = None) -> Check:
    """The Rust compiler."""
    return _check_rust(environment, "rustc", project)


def check_compiler(environment: Environment) -> Check:
    """A C++ compiler for libtorch's bindings, and the linker driver that rustc calls."""
    compiler = environment.variables.get("CXX") or "c++"
    repair = "apt-get install g++ (macOS: xcode-select --install)"
    if environment.variables.get("CXX"):
        repair = f"unset CXX, or {repair}"
    found: list[str] = []
    for program in (compiler, "cc"):
        # CXX may carry a launcher or options: `ccache c++`.
        words = program.split()
        path = environment.which(words[0])
        if path is None:
            return Check(
                "C++ compiler", "fail", "c++ (or CXX) and cc", f"{words[0]} is not on PATH", repair
            )
        done = environment.run(path, *words[1:], "--version")
        if done.returncode != 0:
            return Check(
                "C++ compiler", "fail", "c++ (or CXX) and cc", f"{path}: {done.first_line}", repair
            )
        found.append(f"{done.first_line} ({path})")
    return Check("C++ compiler", "ok", "c++ (or CXX) and cc", found[0])


def check_build_python(environment: Environment, *, deep: bool = True) -> Check:
    """The interpreter that libtorch's build script will ask for torch."""
    name = "python" if environment.variables.get("VIRTUAL_ENV") is not None else "python3"
    interpreter = environment.interpreter
    label = f"{name} of the build"
    expected = f"{name} on PATH is {interpreter.prefix} with torch {versions.TORCH_VERSION}"
    if interpreter.is_virtual:
        repair = f". {interpreter.scripts}/activate (rextio-torch build does this by itself)"
    else:
        repair = (
            f'export PATH="{interpreter.scripts}:$PATH" (rextio-torch build does this by itself)'
        )
    path = environment.which(name)
    if path is None:
        return Check(label, "fail", expected, f"{name} is not on PATH", repair)
    done = environment.run(path, "-c", _PROBE_DEEP if deep else _PROBE_QUICK)
    answer = _probe_answer(done)
    if answer is None:
        return Check(label, "fail", expected, f"{path}: {done.first_line or 'no answer'}", repair)
    prefix, torch, error = answer
    if prefix != interpreter.prefix:
        tail = f"torch {torch}" if torch else "no torch"
        return Check(label, "fail", expected, f"{path} of {prefix}, {tail}", repair)
    if torch is None or torch.partition("+")[0] != versions.TORCH_VERSION:
        return Check(
            label,
            "fail",
            expected,
            f"{path}: torch {torch}" if torch else f"{path}: torch does not import: {error}",
            _pip(environment, f"torch=={versions.TORCH_VERSION}"),
        )
    other = environment.variables.get("PYO3_PYTHON")
    if other:
        done = environment.run(other, "-c", _PROBE_QUICK)
        answer = _probe_answer(done)
        if answer is None or answer[0] != interpreter.prefix:
            return Check(
                label,
                "fail",
                f"PYO3_PYTHON unset, or an interpreter of {interpreter.prefix}",
                f"PYO3_PYTHON={other}",
                "unset PYO3_PYTHON",
            )
    return Check(label, "ok", expected, f"{path}, torch {torch}")


def _probe_answer(done: Completed) -> tuple[str, str | None, str | None] | None:
    if done.returncode != 0:
        return None
    try:
        # The last line: an interpreter may greet, torch may warn.
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        return str(answer["prefix"]), answer["torch"], answer["error"]
    except (ValueError, KeyError, IndexError, TypeError):
        return None


@dataclass(frozen=True)
class _Rule:
    """An environment variable that a build must not see, or that is worth a word."""

    name: str
    status: Status
    why: str
    allowed: Callable[[str], bool] = lambda value: False


_TRUE_STATIC = re.compile(r"0|false|FALSE")

_VARIABLES: tuple[_Rule, ...] = (
    _Rule(
        versions.BYPASS_VARIABLE,
        "fail",
        "it disables the check that torch and the binding fit each other",
    ),
    _Rule(
        "LIBTORCH_STATIC",
        "fail",
        "it links libtorch's archives, which the wheel does not have",
        lambda value: _TRUE_STATIC.fullmatch(value) is not None,
    ),
    _Rule("LIBTORCH", "warn", "ignored: the installed torch is linked"),
    _Rule("LIBTORCH_INCLUDE", "warn", "ignored: the installed torch is linked"),
    _Rule("LIBTORCH_LIB", "warn", "ignored: the installed torch is linked"),
    _Rule("LIBTORCH_CXX11_ABI", "warn", "ignored: the installed torch is asked"),
    _Rule("CARGO_TARGET_DIR", "fail", "Rextio looks for the module in the crate's own target"),
    _Rule(
        "CARGO_BUILD_TARGET_DIR", "fail", "Rextio looks for the module in the crate's own target"
    ),
    _Rule("CARGO_BUILD_TARGET", "fail", "Rextio looks for the module in target/release"),
    _Rule("CARGO_BUILD_BUILD_DIR", "fail", "it overrides the project's own build folder"),
    _Rule("PYO3_CONFIG_FILE", "fail", "it replaces the interpreter that PyO3 builds for"),
    _Rule("PYO3_CROSS", "fail", "it makes PyO3 build for another host"),
    _Rule("PYO3_CROSS_LIB_DIR", "fail", "it makes PyO3 build for another host"),
    _Rule("PYO3_NO_PYTHON", "fail", "it keeps PyO3 from asking the interpreter"),
    _Rule("RUSTFLAGS", "warn", "dependencies compile again whenever it changes"),
    _Rule("CARGO_ENCODED_RUSTFLAGS", "warn", "dependencies compile again whenever it changes"),
    _Rule("CXXFLAGS", "warn", "libtorch's bindings compile again whenever it changes"),
    _Rule(
        "REXTIO_PLUGINS_ENABLED",
        "fail",
        f"it replaces [plugins] enabled of {REXTIO_FILE}, and this plugin is not in it",
        lambda value: versions.PLUGIN_ID in value,
    ),
    _Rule(
        "LIBTORCH_USE_PYTORCH",
        "warn",
        "any value links the installed torch, and a changed one compiles its bindings again",
        lambda value: value == "1",
    ),
)


def check_variables(environment: Environment) -> Iterator[Check]:
    """Yield a check for each variable that stands in the way, or one that says none does."""
    wrong = False
    for rule in _VARIABLES:
        value = environment.variables.get(rule.name)
        # The bypass and the static switch count as set even when empty.
        if value is None or (value == "" and not rule.name.startswith("LIBTORCH")):
            continue
        if rule.allowed(value):
            continue
        wrong = True
        yield Check(
            f"variable {rule.name}",
            rule.status,
            f"{rule.name} unset" if rule.status == "fail" else f"{rule.name} unset: {rule.why}",
            f"{rule.name}={value}" + (f": {rule.why}" if rule.status == "fail" else ""),
            f"unset {rule.name}",
        )
    if not wrong:
        yield Check(
            "environment variables",
            "ok",
            f"{versions.BYPASS_VARIABLE} and others that divert a build are unset",
            "none of them is set",
        )


def check_cargo_configuration(environment: Environment, project: Path) -> Check:
    """Cargo's configuration files, of this project and of every folder above it."""
    expected = f"no target-dir, target or {versions.BYPASS_VARIABLE} in the files that apply"
    for path, data in cargo_configurations(project, environment.variables):
        build = data.get("build", {}) if isinstance(data, dict) else {}
        for key in ("target-dir", "target"):
            if isinstance(build, dict) and key in build:
                return Check(
                    "cargo configuration",
                    "fail",
                    expected,
                    f"{path}: {key} = {build[key]!r}; Rextio looks for the module in the crate's "
                    "own target/release",
                    f"remove {key} from {path}",
                )
        variables = data.get("env", {}) if isinstance(data, dict) else {}
        if isinstance(variables, dict) and versions.BYPASS_VARIABLE in variables:
            return Check(
                "cargo configuration",
                "fail",
                expected,
                f"{path}: [env] sets {versions.BYPASS_VARIABLE}",
                f"remove {versions.BYPASS_VARIABLE} from {path}",
            )
    return Check("cargo configuration", "ok", expected, "none")


def check_build_folder(environment: Environment, project: Path) -> Check:
    """The project's build folder: its own, of this interpreter and torch."""
    folder = build_folder(project, environment)
    problem = check_initialised(project, environment)
    if problem is not None:
        return Check(
            "build folder",
            "fail",
            problem.expected or "an initialised project",
            problem.found or problem.message,
            problem.repair,
        )
    filled = folder.cargo.is_dir()
    state = "dependencies compiled" if filled else "empty: a first build compiles the dependencies"
    return Check(
        "build folder",
        "ok",
        f"the one of this project, interpreter and torch in {CARGO_FILE}",
        f"{folder.folder} ({state})",
    )


def free_space(path: Path) -> int | None:
    """Return the free bytes where a path is or would be."""
    for folder in (path, *path.parents):
        if folder.is_dir():
            try:
                return shutil.disk_usage(folder).free
            except OSError:
                return None
    return None


def check_space(environment: Environment, project: Path | None = None) -> Check:
    """Room for a build folder, and permission to make one."""
    root = cache_root(environment.variables)
    name, expected = "disk space", f"{human_size(NEEDED_SPACE)} free for build folders in {root}"
    nearest = next((folder for folder in (root, *root.parents) if folder.exists()), root)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        return Check(
            name,
            "fail",
            expected,
            f"{nearest} is not a folder that can be written",
            "export REXTIO_TORCH_CACHE_DIR=<a folder of yours>",
        )
    free = free_space(root)
    if free is None:
        return Check(name, "warn", expected, "not known")
    if free >= NEEDED_SPACE:
        return Check(name, "ok", expected, f"{human_size(free)} free")
    filled = project is not None and build_folder(project, environment).cargo.is_dir()
    return Check(
        name,
        "warn" if filled else "fail",
        expected,
        f"{human_size(free)} free",
        "rextio-torch cache clear, or export REXTIO_TORCH_CACHE_DIR=<a folder with room>",
    )
