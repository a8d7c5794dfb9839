import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from cli_environment import Machine, make_environment, make_machine, python_answer

from rextio_torch.cli import doctor
from rextio_torch.cli.environment import Completed, Environment, Torch
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.project import build_folder, initialise
from rextio_torch.cli.toolchain import Toolchain


def run_checks(environment: Environment, project: Path | None = None) -> list[doctor.Check]:
    """Run the checks as the command does, in a shell with this environment."""
    return doctor.run_checks(Toolchain.of(environment.for_building(), project), environment)


def failed(environment: Environment, project: Path | None = None) -> dict[str, doctor.Check]:
    checks = run_checks(environment, project)
    return {check.name: check for check in doctor.failures(checks)}


def warned(environment: Environment, project: Path | None = None) -> dict[str, doctor.Check]:
    checks = run_checks(environment, project)
    return {check.name: check for check in checks if check.status == "warn"}


def test_a_healthy_environment_is_green(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    initialise(tmp_path / "p", environment)
    checks = run_checks(environment, tmp_path / "p")
    assert [check.status for check in checks] == ["ok"] * len(checks)
    assert {check.name for check in checks} >= {
        "platform",
        "Python",
        "Python headers",
        "torch",
        "Rextio",
        "plugin",
        "cargo",
        "rustc",
        "C++ compiler",
        "python of the build",
        "plain rextio build",
        "environment variables",
        "project folder",
        "rextio.toml",
        "cargo configuration",
        "build folder",
        "disk space",
    }
    assert all(check.expected and check.found for check in checks)


Break = Callable[[Environment, Machine], Environment]


def _without(*names: str) -> Break:
    def break_it(environment: Environment, machine: Machine) -> Environment:
        for name in names:
            machine.programs.pop(name, None)
        return environment

    return break_it


def _program(name: str, answer: Completed) -> Break:
    def break_it(environment: Environment, machine: Machine) -> Environment:
        machine.programs[name] = answer
        return environment

    return break_it


def _variable(name: str, value: str) -> Break:
    def break_it(environment: Environment, machine: Machine) -> Environment:
        return replace(environment, variables={**environment.variables, name: value})

    return break_it


def _interpreter(**changes: str) -> Break:
    def break_it(environment: Environment, machine: Machine) -> Environment:
        return replace(environment, interpreter=replace(environment.interpreter, **changes))

    return break_it


def _torch(version: str) -> Break:
    def break_it(environment: Environment, machine: Machine) -> Environment:
        machine.programs["python"] = python_answer(environment.interpreter.prefix, version)
        return replace(environment, torch=Torch(version, "/torch"))

    return break_it


def _distribution(name: str, version: str | None) -> Break:
    def break_it(environment: Environment, machine: Machine) -> Environment:
        return replace(environment, distributions={**environment.distributions, name: version})

    return break_it


def _old_toolchain(environment: Environment, machine: Machine) -> Environment:
    def answer(command: Sequence[str], variables: Mapping[str, str], cwd: Path | None) -> Completed:
        version = variables.get("RUSTUP_TOOLCHAIN", "1.95.0")
        return Completed(0, f"{command[0]} {version} (0 2024-01-01)\n")

    machine.programs["rustc"] = answer
    return _variable("REXTIO_RUST_TOOLCHAIN", "1.83.0")(environment, machine)


BROKEN: list[tuple[str, Break, str, str, str]] = [
    # what, how, the check that fails, in what it found, in its repair
    ("torch version", _torch("2.10.1+cpu"), "torch", "2.10.1+cpu", '"torch==2.11.0"'),
    (
        "no torch",
        lambda e, m: replace(e, torch=None),
        "torch",
        "not installed",
        '"torch==2.11.0"',
    ),
    ("no cargo", _without("cargo"), "cargo", "not on PATH", "rustup.rs"),
    ("no rextio command", _without("rextio"), "Rextio", "no command rextio", "--force-reinstall"),
    ("no rustc", _without("rustc"), "rustc", "not on PATH", "rustup.rs"),
    (
        "old rustc",
        _program("rustc", Completed(0, "rustc 1.90.0 (abc 2025-09-14)\n")),
        "rustc",
        "rustc 1.90.0",
        "rustup update",
    ),
    ("old configured toolchain", _old_toolchain, "rustc", "1.83.0", "newer toolchain than 1.83.0"),
    (
        "cargo configured where there is none",
        _variable("REXTIO_CARGO", "/no/such/cargo"),
        "cargo",
        "configured as '/no/such/cargo'",
        "correct cargo in [toolchain]",
    ),
    (
        "python configured where there is none",
        _variable("REXTIO_PYTHON", "/no/such/python"),
        "python of the build",
        "configured as '/no/such/python'",
        "remove python from [toolchain]",
    ),
    (
        "old cargo",
        _program("cargo", Completed(0, "cargo 1.83.0 (abc 2024-11-26)\n")),
        "cargo",
        "cargo 1.83.0",
        "rustup update",
    ),
    (
        "rustup without a toolchain",
        _program("cargo", Completed(1, "", "error: no default is configured\n")),
        "cargo",
        "no default is configured",
        "rustup default stable",
    ),
    ("no compiler", _without("c++"), "C++ compiler", "c++ is not on PATH", "g++"),
    ("no linker", _without("cc"), "C++ compiler", "cc is not on PATH", "g++"),
    ("wrong CXX", _variable("CXX", "clang++-99"), "C++ compiler", "clang++-99", "unset CXX"),
    (
        "bypass variable",
        _variable("LIBTORCH_BYPASS_VERSION_CHECK", "1"),
        "variable LIBTORCH_BYPASS_VERSION_CHECK",
        "fit each other",
        "unset LIBTORCH_BYPASS_VERSION_CHECK",
    ),
    (
        "empty bypass variable",
        _variable("LIBTORCH_BYPASS_VERSION_CHECK", ""),
        "variable LIBTORCH_BYPASS_VERSION_CHECK",
        "fit each other",
        "unset LIBTORCH_BYPASS_VERSION_CHECK",
    ),
    (
        "static libtorch",
        _variable("LIBTORCH_STATIC", "1"),
        "variable LIBTORCH_STATIC",
        "archives",
        "unset LIBTORCH_STATIC",
    ),
    (
        "target folder elsewhere",
        _variable("CARGO_TARGET_DIR", "/t"),
        "variable CARGO_TARGET_DIR",
        "CARGO_TARGET_DIR=/t: Rextio looks",
        "unset CARGO_TARGET_DIR",
    ),
    (
        "cross build",
        _variable("CARGO_BUILD_TARGET", "wasm32-wasip1"),
        "variable CARGO_BUILD_TARGET",
        "target/release",
        "unset CARGO_BUILD_TARGET",
    ),
    (
        "build folder overridden",
        _variable("CARGO_BUILD_BUILD_DIR", "/b"),
        "variable CARGO_BUILD_BUILD_DIR",
        "overrides",
        "unset CARGO_BUILD_BUILD_DIR",
    ),
    (
        "plugin disabled by variable",
        _variable("REXTIO_PLUGINS_ENABLED", "rextio-numpy"),
        "variable REXTIO_PLUGINS_ENABLED",
        "not in it",
        "unset REXTIO_PLUGINS_ENABLED",
    ),
    ("no python", _without("python"), "python of the build", "not on PATH", "ln -s"),
    (
        "python that does not run",
        _program("python", Completed(1, "", "pyenv: python: command not found\n")),
        "python of the build",
        "pyenv: python: command not found",
        "ln -s",
    ),
    (
        "torch that does not import",
        lambda e, m: _program(
            "python", python_answer(e.interpreter.prefix, None, "OSError: libc10.so")
        )(e, m),
        "python of the build",
        "libc10.so",
        '"torch==2.11.0"',
    ),
    (
        "PyO3 for another python",
        _variable("PYO3_PYTHON", "/usr/bin/pypy3"),
        "python of the build",
        "PYO3_PYTHON=/usr/bin/pypy3",
        "unset PYO3_PYTHON",
    ),
    ("python version", _interpreter(version="3.12.1"), "Python", "3.12.1", "python3.11 -m venv"),
    ("pypy", _interpreter(implementation="PyPy"), "Python", "PyPy", "python3.11 -m venv"),
    ("no headers", _interpreter(include="/none"), "Python headers", "/none", "python3.11-dev"),
    ("no rextio", _distribution("rextio", None), "Rextio", "not installed", "rextio>=0.1.7"),
    (
        "old plugin API",
        lambda e, m: replace(e, plugin_api="1.6"),
        "Rextio",
        "plugin API 1.6",
        "rextio>=0.1.7",
    ),
    (
        "next plugin API",
        lambda e, m: replace(e, plugin_api="2.0"),
        "Rextio",
        "plugin API 2.0",
        "rextio>=0.1.7",
    ),
    (
        "no entry point",
        lambda e, m: replace(e, entry_point=None),
        "plugin",
        "entry point missing",
        "install",
    ),
    (
        "platform",
        lambda e, m: replace(e, system="Darwin", machine="x86_64"),
        "platform",
        "no torch 2.11.0 wheel",
        "hosts named",
    ),
]


@pytest.mark.parametrize(
    ("how", "name", "found", "repair"),
    [case[1:] for case in BROKEN],
    ids=[case[0] for case in BROKEN],
)
def test_each_broken_environment_is_red_with_its_repair(
    tmp_path: Path, how: Break, name: str, found: str, repair: str
) -> None:
    machine = make_machine(tmp_path)
    failing = failed(how(make_environment(tmp_path, machine), machine))
    assert name in failing, failing
    # Wrong torch is wrong where it is installed and where it is asked: nothing else fails.
    assert set(failing) <= {name, "python of the build", "plain rextio build"}
    assert found in failing[name].found
    assert repair in (failing[name].repair or "")


@pytest.mark.parametrize("rustup", [True, False])
def test_a_project_may_configure_a_cargo_that_is_not_on_path(tmp_path: Path, rustup: bool) -> None:
    """A cargo of rustup finds its own compiler; another one needs rustc on PATH."""
    environment = make_environment(tmp_path)
    project, rust = tmp_path / "p", tmp_path / "p" / "rust" / "bin"
    initialise(project, environment)
    rust.mkdir(parents=True)
    for name in ("cargo", "rustc", *(["rustup"] if rustup else [])):
        executable(rust, name, "exit 0")
    with (project / "rextio.toml").open("a") as stream:
        stream.write('[toolchain]\ncargo = "rust"\n')

    def find(program: str, path: str | None) -> str | None:
        if path == str(rust):
            return str(rust / program) if (rust / program).is_file() else None
        return None if program in ("cargo", "rustc") else environment.find(program, path)

    elsewhere = replace(environment, find=find)
    assert set(failed(elsewhere)) == {"cargo", "rustc"}
    assert set(failed(elsewhere, project)) == (set() if rustup else {"rustc"})


@pytest.mark.parametrize("value", ["0", "false", "FALSE"])
def test_a_static_switch_that_says_no_is_well(tmp_path: Path, value: str) -> None:
    assert failed(make_environment(tmp_path, LIBTORCH_STATIC=value)) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [("LIBTORCH", "/opt/libtorch"), ("RUSTFLAGS", "-Ctarget-cpu=native"), ("CXXFLAGS", "-O3")],
)
def test_what_only_costs_time_is_a_warning(tmp_path: Path, name: str, value: str) -> None:
    environment = make_environment(tmp_path, **{name: value})
    assert failed(environment) == {}
    assert f"variable {name}" in warned(environment)


def test_expected_platform_is_a_warning(tmp_path: Path) -> None:
    environment = replace(make_environment(tmp_path), machine="aarch64")
    assert failed(environment) == {}
    assert "platform" in warned(environment)


@pytest.mark.parametrize("name", ["python", "python3"])
@pytest.mark.parametrize(
    "answer",
    [python_answer("/usr", None), python_answer("/opt/other", "2.10.0"), Completed(1), None],
    ids=["without torch", "another torch", "not running", "none"],
)
def test_a_shell_with_another_python_fails_for_plain_rextio_only(
    tmp_path: Path, name: str, answer: Completed | None
) -> None:
    """A build sets both variables for itself; plain Rextio asks `python3` without VIRTUAL_ENV."""
    machine = make_machine(tmp_path)
    mine = python_answer(str(tmp_path / "venv"), "2.11.0+cpu")
    environment = make_environment(tmp_path, machine)
    variables = {**environment.variables, "PATH": "/usr/bin", "VIRTUAL_ENV": "/other"}
    if name == "python3":
        del variables["VIRTUAL_ENV"]

    def find(program: str, path: str | None) -> str | None:
        if program == name and answer is None and path == "/usr/bin":
            return None
        return machine.find(program, path)

    machine.programs[name] = lambda command, seen, cwd: (
        mine if seen["PATH"] != "/usr/bin" or answer is None else answer
    )
    shell = replace(environment, variables=variables, find=find)
    assert set(failed(shell)) == {"plain rextio build"}
    check = failed(shell)["plain rextio build"]
    assert check.expected == f"{name} on PATH is {tmp_path / 'venv'}"
    assert "activate (rextio-torch build does this by itself)" in (check.repair or "")
    prepared = shell.for_building()
    assert prepared.variables["VIRTUAL_ENV"] == environment.interpreter.prefix
    assert prepared.variables["PATH"].split(os.pathsep)[0] == environment.interpreter.scripts
    assert prepared.for_building() == prepared
    assert failed(prepared) == {}


def test_probes_do_not_run_in_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `random.py` of the project is none of a build's business; one on PYTHONPATH is."""
    folders: list[Path | None] = []
    machine = make_machine(tmp_path)
    well = python_answer(str(tmp_path / "venv"), "2.11.0")

    def answer(command: Sequence[str], variables: Mapping[str, str], cwd: Path | None) -> Completed:
        folders.append(cwd)
        if "PYTHONPATH" in variables:
            return Completed(1, "", "Traceback (most recent call last):\n  x\nImportError: dumps\n")
        return well

    machine.programs["python"] = answer
    (tmp_path / "json.py").touch()
    monkeypatch.chdir(tmp_path)
    assert failed(make_environment(tmp_path, machine)) == {}
    assert set(folders) == {Path("/")}
    check = failed(make_environment(tmp_path, machine, PYTHONPATH=f"/none:{tmp_path}"))[
        "python of the build"
    ]
    assert f"ImportError: dumps; {tmp_path / 'json.py'}, on PYTHONPATH, hides" in check.found
    assert check.repair == f"unset PYTHONPATH, or rename {tmp_path / 'json.py'}"


def test_the_command_names_a_file_that_hides_one_of_python_s(tmp_path: Path) -> None:
    (tmp_path / "random.py").touch()
    done = subprocess.run(
        [sys.executable, "-m", "rextio_torch.cli", "doctor"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert str(tmp_path / "random.py") in done.stderr


def test_project_that_was_not_initialised(tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    check = failed(make_environment(tmp_path), project)["build folder"]
    assert check.repair == f"rextio-torch init {project}"
    assert "no rextio.toml" in check.found
    (project / "rextio.toml").touch()
    assert failed(make_environment(tmp_path), project)["build folder"].found == "enabled = []"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rextio.toml", "plugins = 3"),
        ("rextio.toml", '[plugins]\nenabled = "rextio-torch"'),
        ("rextio.toml", "[plugins]\nenabled = [1]"),
        ("rextio.toml", "x = ["),
        (".cargo/config.toml", "build = 3"),
        (".cargo/config.toml", "env = 3"),
    ],
)
def test_settings_of_another_shape(tmp_path: Path, name: str, text: str) -> None:
    """Named by doctor and refused by init, which changes nothing."""
    environment, project = make_environment(tmp_path), tmp_path / "p"
    initialise(project, environment)
    (project / name).write_text(text)
    check = failed(environment, project)["build folder"]
    assert str(project / name) in (check.repair or "")
    with pytest.raises(CliError, match="nothing was written"):
        initialise(project, environment)
    assert (project / name).read_text() == text


def test_rextio_is_asked_what_it_thinks_of_the_settings(tmp_path: Path) -> None:
    machine = make_machine(tmp_path)
    environment = make_environment(tmp_path, machine)
    initialise(tmp_path / "p", environment)

    def answer(command: Sequence[str], variables: Mapping[str, str], cwd: Path | None) -> Completed:
        assert os.listdir(command[2]) == ["rextio.toml"]
        return Completed(1, "", "RXT060 Configuration error: unsupported config section: [x]\n")

    machine.programs["rextio"] = answer
    check = failed(environment, tmp_path / "p")["rextio.toml"]
    assert check.found == "RXT060 Configuration error: unsupported config section: [x]"
    assert str(tmp_path / "p" / "rextio.toml") in (check.repair or "")


def test_a_project_that_cannot_be_written(tmp_path: Path) -> None:
    environment, project = make_environment(tmp_path), tmp_path / "p"
    initialise(project, environment)
    (project / ".rextio").touch()  # As good as read-only, for root too.
    check = failed(environment, project)["project folder"]
    assert check.found == f"{project / '.rextio'} cannot be written: Not a directory"


def test_built_modules_on_pythonpath_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, python_only, installed = (tmp_path / name for name in ("built", "only", "installed"))
    (built / "rextio").mkdir(parents=True)
    (built / "_rextio_native.so").touch()
    (python_only / "rextio").mkdir(parents=True)
    (installed / "rextio" / "plugins").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (built, installed, python_only))))
    monkeypatch.setattr(sys, "path", [str(built), *sys.path])
    environment = Environment.current()
    assert environment.variables["PYTHONPATH"] == str(installed)
    assert environment.generated_paths == (str(built), str(python_only))
    assert str(built) not in sys.path
    said = replace(make_environment(tmp_path), generated_paths=environment.generated_paths)
    assert failed(said) == {}
    assert str(built) in warned(said)["variable PYTHONPATH"].found


def test_dependencies_are_compiled_once_that_was_noted(tmp_path: Path) -> None:
    environment, project = make_environment(tmp_path), tmp_path / "p"
    initialise(project, environment)
    folder = build_folder(project, environment)
    folder.cargo.mkdir(parents=True)

    def state() -> str:
        checks = {check.name: check for check in run_checks(environment, project)}
        return checks["build folder"].found

    assert "not compiled yet" in state()
    (folder.folder / "state.json").write_text('{"key": "k", "quick": "q"}')
    assert "(dependencies compiled)" in state()


def test_project_of_another_torch(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    initialise(tmp_path / "p", environment)
    other = replace(environment, torch=Torch("2.11.0+cu130", "/torch"))
    check = failed(other, tmp_path / "p")["build folder"]
    assert "another project, interpreter or torch" in check.found
    assert check.repair == f"rextio-torch init {tmp_path / 'p'}"


def test_a_configuration_above_the_project_that_moves_the_target(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    initialise(tmp_path / "deep" / "p", environment)
    (tmp_path / "deep" / ".cargo").mkdir()
    config = tmp_path / "deep" / ".cargo" / "config.toml"
    config.write_text('[build]\ntarget-dir = "/fast/target"\n')
    check = failed(environment, tmp_path / "deep" / "p")["cargo configuration"]
    assert str(config) in check.found
    assert "/fast/target" in check.found
    config.write_text('[env]\nLIBTORCH_BYPASS_VERSION_CHECK = "1"\n')
    check = failed(environment, tmp_path / "deep" / "p")["cargo configuration"]
    assert "LIBTORCH_BYPASS_VERSION_CHECK" in (check.repair or "")


def test_a_cache_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environment = make_environment(tmp_path, REXTIO_TORCH_CACHE_DIR=str(tmp_path / "file" / "c"))
    check = failed(environment)["disk space"]
    assert "REXTIO_TORCH_CACHE_DIR" in (check.repair or "")


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = make_environment(tmp_path)
    monkeypatch.setattr(doctor.project, "free_space", lambda path: 1_000_000)
    assert "1 MB free" in failed(environment)["disk space"].found


# The same through the real command, with stand-ins first on PATH.


def executable(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run_doctor(
    tmp_path: Path, path: str | None = None, **variables: str
) -> tuple[int, dict[str, dict[str, str]]]:
    environment = {
        "HOME": str(tmp_path),
        "REXTIO_TORCH_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": os.environ["PATH"] if path is None else path,
        **variables,
    }
    done = subprocess.run(
        [sys.executable, "-m", "rextio_torch.cli", "doctor", "--json"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    data = json.loads(done.stdout)
    assert data["ok"] == (done.returncode == 0)
    return done.returncode, {check["name"]: check for check in data["checks"]}


def test_the_command_with_another_python_first_on_path(tmp_path: Path) -> None:
    prefix = tmp_path / "elsewhere"
    answer = json.dumps({"prefix": str(prefix), "torch": None, "error": "no torch"})
    executable(tmp_path / "bin", "python", f"echo '{answer}'")
    status, checks = run_doctor(
        tmp_path,
        f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        VIRTUAL_ENV=str(prefix),
    )
    assert status == 1
    assert checks["python of the build"]["status"] == "ok"
    assert checks["plain rextio build"]["status"] == "fail"
    assert "activate" in checks["plain rextio build"]["repair"]
    assert str(tmp_path / "bin" / "python") in checks["plain rextio build"]["found"]


def test_the_command_with_an_old_rustc_and_no_cargo(tmp_path: Path) -> None:
    executable(tmp_path / "bin", "rustc", "echo 'rustc 1.80.0 (0 2024-07-21)'")
    status, checks = run_doctor(tmp_path, str(tmp_path / "bin"))
    assert status == 1
    assert "1.80.0" in checks["rustc"]["found"]
    assert "rustup update" in checks["rustc"]["repair"]
    assert checks["cargo"]["found"] == "not on PATH"
    assert checks["C++ compiler"]["status"] == "fail"


def test_the_command_with_variables_that_divert_a_build(tmp_path: Path) -> None:
    status, checks = run_doctor(
        tmp_path, LIBTORCH_BYPASS_VERSION_CHECK="1", CARGO_TARGET_DIR=str(tmp_path)
    )
    assert status == 1
    assert checks["variable LIBTORCH_BYPASS_VERSION_CHECK"]["status"] == "fail"
    assert checks["variable CARGO_TARGET_DIR"]["repair"] == "unset CARGO_TARGET_DIR"
