"""What a native build needs, one check a line: expected, found, and the repair.

Every check reads an `Environment`, a project's files and the disk; none leaves a change.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import click

from rextio_torch import platforms, versions
from rextio_torch.cli import hiding_file
from rextio_torch.cli.dependencies import compiled
from rextio_torch.cli.environment import Completed, Environment, version_tuple
from rextio_torch.cli.errors import CliError, quoted
from rextio_torch.cli.files import human_size, why_not_writable
from rextio_torch.cli.layout import cache_root
from rextio_torch.cli.project import (
    CARGO_FILE,
    REXTIO_FILE,
    build_folder,
    cargo_configurations,
    check_initialised,
)
from rextio_torch.cli.toolchain import Tool, Toolchain

Status = Literal["ok", "warn", "fail"]
_MARKS: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "red"}

ENTRY_POINT = "rextio_torch.plugin:plugin"
#: What a build folder and a warm copy of its dependencies take, with room for both.
NEEDED_SPACE = 1_000_000_000

#: Says where an interpreter belongs and which torch it has, as torch-sys will ask it.
_PROBE = """
import json, os, sys
result = {"prefix": os.path.realpath(sys.prefix), "torch": None, "error": None}
try:
    %s
except Exception as error:
    result["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(result))
"""
_PROBE_DEEP = _PROBE % 'import torch; result["torch"] = torch.__version__'
#: Without importing torch: quick enough for every build.
_PROBE_QUICK = _PROBE % 'import importlib.metadata as m; result["torch"] = m.version("torch")'
#: Where nothing hides a module of Python: the build scripts do not run in the project either.
_ELSEWHERE = Path("/")


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


def lines(checks: list[Check]) -> list[str]:
    """Return one line per check, and two more where it is not well."""
    width = max(len(check.name) for check in checks)
    result = []
    for check in checks:
        mark = click.style(f"{check.status:<4}", fg=_MARKS[check.status], bold=True)
        result.append(f"{mark}  {check.name:<{width}}  {check.found}")
        if check.status != "ok":
            result.append(f"      {'':<{width}}  expected: {check.expected}")
            if check.repair is not None:
                result.append(f"      {'':<{width}}  repair:   {check.repair}")
    return result


class UnfitEnvironmentError(CliError):
    """No build was started: it would fail. Carries the checks that say why."""

    def __init__(self, checks: list[Check]) -> None:
        super().__init__("a native build would fail, so none was started")
        self.checks = checks

    def lines(self) -> list[str]:
        """Return the error and its checks as lines of text."""
        return [*super().lines(), *lines(self.checks)]

    def to_dict(self) -> dict[str, Any]:
        """Return the error and its checks as JSON-ready data."""
        return {**super().to_dict(), "checks": [check.to_dict() for check in self.checks]}


def run_checks(tools: Toolchain, shell: Environment | None = None) -> list[Check]:
    """Run every check, with the programs and variables of `rextio-torch build`.

    With the environment of the `shell` also those that a build can do without: import torch, let
    Rextio read the project's settings, look at what a plain `rextio build` would find.
    """
    environment, project = tools.environment, tools.project
    checks: list[Check] = [
        check_platform(environment),
        check_python(environment),
        check_headers(environment),
        check_torch(environment),
        check_rextio(tools),
        check_plugin(environment),
        check_rust(tools, "cargo", tools.cargo),
        check_rust(tools, "rustc", tools.rustc),
        check_compiler(environment),
        check_build_python(tools, deep=shell is not None),
        *([] if shell is None else [check_shell(shell)]),
        *check_variables(environment),
    ]
    if project is not None:
        checks.append(check_writable(project))
        if shell is not None and (project / REXTIO_FILE).is_file():
            checks.append(check_settings(tools, project / REXTIO_FILE))
        checks.append(check_cargo_configuration(environment, project))
        checks.append(check_build_folder(environment, project))
    checks.append(check_space(environment, project))
    return checks


def _check(
    name: str,
    right: bool,
    expected: str,
    found: str,
    repair: str | None,
    *,
    otherwise: Status = "fail",
) -> Check:
    """Return a check that is ok and needs no repair, or `otherwise` and does."""
    return Check(name, "ok" if right else otherwise, expected, found, None if right else repair)


def failures(checks: list[Check]) -> list[Check]:
    """Return the checks that a native build would fail on."""
    return [check for check in checks if check.status == "fail"]


def check_platform(environment: Environment) -> Check:
    """Look this host up in the platform table."""
    row = platforms.lookup(environment.system, environment.machine)
    status: Status = "ok" if row.status == "certified" else "warn" if row.usable else "fail"
    usable = [row for row in platforms.PLATFORMS if row.usable]
    return Check(
        "platform",
        status,
        ", ".join(f"{row.host} ({row.status})" for row in usable),
        f"{row.host}: {row.status}, {row.reason}",
        None if row.usable else "build on one of the hosts named",
    )


def check_python(environment: Environment) -> Check:
    """CPython of the one supported minor version."""
    interpreter = environment.interpreter
    minor = version_tuple(interpreter.version)[:2]
    return _check(
        "Python",
        interpreter.implementation == "CPython" and minor == version_tuple(versions.PYTHON_VERSION),
        f"CPython {versions.PYTHON_VERSION}",
        f"{interpreter.implementation} {interpreter.version} ({interpreter.executable})",
        f"python{versions.PYTHON_VERSION} -m venv .venv && "
        '.venv/bin/pip install "rextio-torch[cli]"',
    )


def check_headers(environment: Environment) -> Check:
    """Python's C headers, which libtorch's bindings include."""
    include = Path(environment.interpreter.include)
    right = (include / "Python.h").is_file()
    return _check(
        "Python headers",
        right,
        "Python.h",
        str(include / "Python.h") if right else f"no Python.h in {include}",
        f"apt-get install python{versions.PYTHON_VERSION}-dev",
    )


def _pip(environment: Environment, requirement: str) -> str:
    return f'{environment.interpreter.executable} -m pip install "{requirement}"'


def check_torch(environment: Environment) -> Check:
    """The one torch release whose libtorch the binding links."""
    torch = environment.torch
    return _check(
        "torch",
        torch is not None and torch.release == versions.TORCH_VERSION,
        f"torch {versions.TORCH_VERSION}, any build",
        "not installed" if torch is None else f"torch {torch.version} ({torch.location})",
        _pip(environment, f"torch=={versions.TORCH_VERSION}"),
    )


def check_rextio(tools: Toolchain) -> Check:
    """Rextio itself, its command, and the plugin API that it offers."""
    environment = tools.environment
    version = environment.distributions.get("rextio")
    api = environment.plugin_api or "not readable"
    found = "not installed" if version is None else f"rextio {version}, plugin API {api}"
    repair = _pip(environment, versions.REXTIO_REQUIREMENT)
    if not tools.rextio.path:
        found += f", no command rextio in {environment.interpreter.scripts} or on PATH"
        repair += " --force-reinstall"
    return _check(
        "Rextio",
        version is not None and versions.plugin_api_fits(api) and bool(tools.rextio.path),
        f"{versions.REXTIO_REQUIREMENT} with plugin API {versions.PLUGIN_API_VERSION} or a later "
        "minor",
        found,
        repair,
    )


def check_plugin(environment: Environment) -> Check:
    """This plugin, as Rextio will discover it."""
    version = environment.distributions.get("rextio-torch")
    return _check(
        "plugin",
        version is not None and environment.entry_point == ENTRY_POINT,
        f"entry point {versions.PLUGIN_ID} = {ENTRY_POINT}",
        f"rextio-torch {version or 'not installed'}, "
        f"entry point {environment.entry_point or 'missing'}",
        _pip(environment, "rextio-torch"),
    )


_INSTALL_RUST = "curl -sSf https://sh.rustup.rs | sh -s -- -y && . ~/.cargo/env"


def check_rust(tools: Toolchain, program: str, tool: Tool) -> Check:
    """Cargo, new enough to honour `build.build-dir`, or the compiler beside it."""
    expected = f"{program} {versions.MINIMUM_RUST_VERSION} or newer"
    if not tool.path:
        configured = tool.problem.startswith("configured")
        repair = f"correct {program} in [toolchain] of {REXTIO_FILE} (or REXTIO_{program.upper()})"
        return Check(
            program, "fail", expected, tool.problem, repair if configured else _INSTALL_RUST
        )
    # Where it runs matters: rustup chooses a toolchain by folder.
    cwd = tools.project if tools.project is not None and tools.project.is_dir() else None
    done = tools.environment.run(tool.path, "--version", cwd=cwd)
    found = re.search(r"\d+\.\d+\.\d+", done.stdout)
    if done.returncode != 0 or found is None:
        return Check(
            program, "fail", expected, f"{tool.path}: {done.first_line}", "rustup default stable"
        )
    channel = tools.environment.variables.get("RUSTUP_TOOLCHAIN")
    return _check(
        program,
        version_tuple(found.group(0)) >= version_tuple(versions.MINIMUM_RUST_VERSION),
        expected,
        f"{done.first_line} ({tool.path})",
        f"choose a newer toolchain than {channel} (rust_toolchain in {REXTIO_FILE}, or "
        "RUSTUP_TOOLCHAIN)"
        if channel
        else "rustup update stable && rustup default stable",
    )


def check_compiler(environment: Environment) -> Check:
    """A C++ compiler for libtorch's bindings, and the linker driver that rustc calls."""
    compiler = environment.variables.get("CXX") or "c++"
    repair = "apt-get install g++ (macOS: xcode-select --install)"
    if environment.variables.get("CXX"):
        repair = f"unset CXX, or {repair}"
    right, found = True, ""
    for program in ("cc", compiler):
        # CXX may carry a launcher or options: `ccache c++`.
        words = program.split()
        path = environment.which(words[0])
        if path is None:
            right, found = False, f"{words[0]} is not on PATH"
            break
        done = environment.run(path, *words[1:], "--version")
        right, found = done.returncode == 0, f"{done.first_line} ({path})"
        if not right:
            break
    return _check("C++ compiler", right, "c++ (or CXX) and cc", found, repair)


def check_build_python(tools: Toolchain, *, deep: bool = True) -> Check:
    """The interpreter that libtorch's build script will ask for torch, and the one of PyO3."""
    environment, interpreter = tools.environment, tools.environment.interpreter
    name = "python" if environment.variables.get("VIRTUAL_ENV") is not None else "python3"
    expected = f"{name} on PATH is {interpreter.prefix} with torch {versions.TORCH_VERSION}"
    link = f"ln -s {interpreter.executable} {interpreter.scripts}/{name}"

    def wrong(found: str, repair: str = link, expected: str = expected) -> Check:
        hiding = hiding_file(environment.variables.get("PYTHONPATH", ""))
        if hiding is not None:
            found += f"; {hiding}, on PYTHONPATH, hides the module of that name"
            repair = f"unset PYTHONPATH, or rename {hiding}"
        return Check(f"{name} of the build", "fail", expected, found, repair)

    path = environment.which(name)
    if path is None:
        return wrong(f"{name} is not on PATH")
    done = environment.run(path, "-c", _PROBE_DEEP if deep else _PROBE_QUICK, cwd=_ELSEWHERE)
    answer = _probe_answer(done)
    if answer is None:
        return wrong(f"{path}: {done.first_line or 'no answer'}")
    prefix, torch, error = answer
    if prefix != interpreter.prefix:
        return wrong(f"{path} of {prefix}, {f'torch {torch}' if torch else 'no torch'}")
    if torch is None or torch.partition("+")[0] != versions.TORCH_VERSION:
        return wrong(
            f"{path}: torch {torch}" if torch else f"{path}: torch does not import: {error}",
            _pip(environment, f"torch=={versions.TORCH_VERSION}"),
        )
    other = environment.variables.get("PYO3_PYTHON")
    if tools.python is not None and not tools.python.path:
        found, right = f"[toolchain] python {tools.python.problem}", False
    elif other:
        answer = _probe_answer(environment.run(other, "-c", _PROBE_QUICK, cwd=_ELSEWHERE))
        found, right = f"PYO3_PYTHON={other}", bool(answer and answer[0] == interpreter.prefix)
    else:
        found, right = "", True
    if not right:
        return wrong(
            found,
            "unset PYO3_PYTHON"
            if tools.python is None
            else f"remove python from [toolchain] of {REXTIO_FILE} (or REXTIO_PYTHON)",
            f"PYO3_PYTHON unset, or an interpreter of {interpreter.prefix}",
        )
    return Check(f"{name} of the build", "ok", expected, f"{path}, torch {torch}")


def check_shell(shell: Environment) -> Check:
    """What plain `rextio build` needs and `rextio-torch build` does by itself: activation."""
    interpreter = shell.interpreter
    name = "python" if shell.variables.get("VIRTUAL_ENV") is not None else "python3"
    path = shell.which(name)
    prefix = None
    if path is not None:
        answer = _probe_answer(shell.run(path, "-c", _PROBE_QUICK, cwd=_ELSEWHERE))
        prefix = None if answer is None else answer[0]
    if interpreter.is_virtual:
        activate = f". {interpreter.scripts}/activate"
    else:
        activate = f'export PATH="{interpreter.scripts}:$PATH"'
    return _check(
        "plain rextio build",
        prefix == interpreter.prefix,
        f"{name} on PATH is {interpreter.prefix}",
        f"{path} of {prefix or 'nothing known'}" if path else f"no {name} on PATH",
        f"{activate} (rextio-torch build does this by itself)",
    )


def check_writable(project: Path) -> Check:
    """Permission to write where Rextio keeps what it builds."""
    problem = why_not_writable(project / ".rextio")
    return _check(
        "project folder",
        problem is None,
        "a folder that can be written",
        problem or str(project),
        f"make {project} writable, or copy it and build the copy",
    )


def check_settings(tools: Toolchain, settings: Path) -> Check:
    """Whether Rextio accepts the project's settings: asked of it, with no source to analyse."""
    if not tools.rextio.path:
        return Check(REXTIO_FILE, "warn", "settings that Rextio accepts", "no rextio to ask")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(settings, folder)
        done = tools.environment.run(tools.rextio.path, "check", folder, cwd=_ELSEWHERE)
    return _check(
        REXTIO_FILE,
        done.returncode == 0,
        "settings that Rextio accepts",
        str(settings) if done.returncode == 0 else done.first_line,
        f"correct that in {settings} (or a REXTIO_ variable)",
    )


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
    """Environment variables that a build must not see, or that are worth a word."""

    names: tuple[str, ...]
    status: Status
    why: str
    allowed: Callable[[str], bool] = lambda value: False
    #: Whether set to nothing is set, to the program that reads it.
    empty_counts: bool = False


_VARIABLES: tuple[_Rule, ...] = (
    _Rule(
        (versions.BYPASS_VARIABLE,),
        "fail",
        "it disables the check that torch and the binding fit each other",
        empty_counts=True,
    ),
    _Rule(
        ("LIBTORCH_STATIC",),
        "fail",
        "it links libtorch's archives, which the wheel does not have",
        # The values that torch-sys takes for "no".
        lambda value: value in {"0", "false", "FALSE"},
        empty_counts=True,
    ),
    _Rule(
        ("LIBTORCH", "LIBTORCH_INCLUDE", "LIBTORCH_LIB", "LIBTORCH_CXX11_ABI"),
        "warn",
        "ignored: the installed torch is linked",
        empty_counts=True,
    ),
    _Rule(
        ("CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_TARGET"),
        "fail",
        "Rextio looks for the module in target/release of the crate",
    ),
    _Rule(("CARGO_BUILD_BUILD_DIR",), "fail", "it overrides the project's own build folder"),
    _Rule(("PYO3_CONFIG_FILE",), "fail", "it replaces the interpreter that PyO3 builds for"),
    _Rule(("PYO3_CROSS", "PYO3_CROSS_LIB_DIR"), "fail", "it makes PyO3 build for another host"),
    _Rule(("PYO3_NO_PYTHON",), "fail", "it keeps PyO3 from asking the interpreter"),
    _Rule(
        ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CXXFLAGS"),
        "warn",
        "dependencies compile again whenever it changes",
    ),
    _Rule(
        ("REXTIO_PLUGINS_ENABLED",),
        "fail",
        f"it replaces [plugins] enabled of {REXTIO_FILE}, and this plugin is not in it",
        lambda value: versions.PLUGIN_ID in value,
    ),
    _Rule(
        ("LIBTORCH_USE_PYTORCH",),
        "warn",
        "any value links the installed torch, and a changed one compiles its bindings again",
        lambda value: value == "1",
        empty_counts=True,
    ),
)


def check_variables(environment: Environment) -> list[Check]:
    """Return a check for each variable that stands in the way, or one that says none does."""
    wrong = []
    for rule in _VARIABLES:
        for name in rule.names:
            value = environment.variables.get(name)
            if value is None or (not value and not rule.empty_counts) or rule.allowed(value):
                continue
            found = f"{name}={value}: {rule.why}"
            check = Check(f"variable {name}", rule.status, f"{name} unset", found, f"unset {name}")
            wrong.append(check)
    if environment.generated_paths:
        found = ", ".join(environment.generated_paths)
        check = Check(
            "variable PYTHONPATH",
            "warn",
            "no folder of built modules",
            f"{found}: hides Rextio itself; left out here and by rextio-torch build",
            "unset PYTHONPATH, and set it only for the program that uses the build",
        )
        wrong.append(check)
    expected = f"{versions.BYPASS_VARIABLE} and others that divert a build are unset"
    return wrong or [Check("environment variables", "ok", expected, "none of them is set")]


def check_cargo_configuration(environment: Environment, project: Path) -> Check:
    """Cargo's configuration files, of this project and of every folder above it."""
    name = "cargo configuration"
    expected = f"no target-dir, target or {versions.BYPASS_VARIABLE} in the files that apply"
    diverting = (
        ("build", "target-dir", "Rextio looks for the module in the crate's own target"),
        ("build", "target", "Rextio looks for the module in target/release"),
        ("env", versions.BYPASS_VARIABLE, "it disables the check that torch and the binding fit"),
    )
    for path, data in cargo_configurations(project, environment.variables):
        for table, key, why in diverting:
            entries = data.get(table)
            if isinstance(entries, dict) and key in entries:
                found = f"{path}: [{table}] {key} = {entries[key]!r}; {why}"
                return Check(name, "fail", expected, found, f"remove {key} from {path}")
    return Check(name, "ok", expected, "none")


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
    state = "dependencies compiled" if compiled(folder) else "dependencies not compiled yet"
    return Check(
        "build folder",
        "ok",
        f"the one of this project, interpreter and torch in {CARGO_FILE}",
        f"{folder.folder} ({state})",
    )


def free_space(folder: Path) -> int | None:
    """Return the free bytes where a folder is."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def check_space(environment: Environment, project: Path | None = None) -> Check:
    """Room for a build folder, and permission to make one."""
    folder = None if project is None else build_folder(project, environment)
    root = cache_root(environment.variables) if folder is None else folder.root
    name, expected = "disk space", f"{human_size(NEEDED_SPACE)} free for build folders in {root}"
    problem = why_not_writable(root)
    if problem is not None:
        repair = "export REXTIO_TORCH_CACHE_DIR=<a folder of yours>"
        repair += "" if project is None else f", then rextio-torch init {quoted(project)}"
        return Check(name, "fail", expected, problem, repair)
    free = free_space(next(place for place in (root, *root.parents) if place.exists()))
    if free is None:
        return Check(name, "warn", expected, "not known")
    return _check(
        name,
        free >= NEEDED_SPACE,
        expected,
        f"{human_size(free)} free",
        "rextio-torch cache clear, or export REXTIO_TORCH_CACHE_DIR=<a folder with room>",
        otherwise="warn" if folder is not None and compiled(folder) else "fail",
    )
