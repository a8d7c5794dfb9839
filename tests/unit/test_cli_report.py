"""What is native and why the rest is not; the readable end of a failed build."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from cli_environment import executable, function, make_environment
from click.testing import CliRunner
from rich.console import Console

from rextio_torch.cli import progress, report, toolchain
from rextio_torch.cli.app import cli
from rextio_torch.cli.build import BuildResult, core_wheel
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.rextio import _failure, run_rextio
from rextio_torch.cli.staging import Staged, stage

CHECK = {
    "modules": [
        {
            "functions": [
                {
                    "qualname": "m.native",
                    "native_status": "accepted",
                    "route": "native-plugin:rextio-torch",
                    "native_runtime_semantics": False,
                    "diagnostics": [{"code": "RXT090", "severity": "info", "message": "note"}],
                },
                {
                    "qualname": "m.scalar",
                    "native_status": "accepted",
                    "route": "native-direct",
                    "native_runtime_semantics": False,
                    "diagnostics": [],
                },
                {
                    "qualname": "m.shim",
                    "native_status": "accepted",
                    "route": "native-shim",
                    "native_runtime_semantics": True,
                    "diagnostics": [],
                },
                {
                    "qualname": "m.shim_in_disguise",
                    "native_status": "accepted",
                    "route": "native-plugin:rextio-torch",
                    "native_runtime_semantics": True,
                    "diagnostics": [
                        {
                            "code": "RXT080",
                            "severity": "warning",
                            "message": "runs through Python",
                            "line": 3,
                            "suggestion": "type it",
                        }
                    ],
                },
                {
                    "qualname": "m.rejected",
                    "native_status": "rejected",
                    "route": "fallback-python",
                    "native_runtime_semantics": False,
                    "diagnostics": [
                        {"code": "RXT071", "severity": "warning", "message": "by the way"},
                        {
                            "code": "RXTP-TORCH-001",
                            "severity": "error",
                            "message": "rank 3",
                            "line": 7,
                            "suggestion": "use rank 2",
                        },
                    ],
                },
            ]
        },
        {
            "functions": [
                {
                    "qualname": "n.silent",
                    "native_status": "not-candidate",
                    "route": "fallback-python",
                    "native_runtime_semantics": False,
                    "diagnostics": [],
                },
                {
                    "qualname": "n.jit",
                    "native_status": "not-candidate",
                    "route": "fallback-accelerated:numba",
                    "diagnostics": [],
                },
            ]
        },
        {},
    ]
}


def test_what_is_native_and_why_the_rest_is_not() -> None:
    listed = {f.qualname: f for f in report.functions(CHECK)}
    assert [name for name, f in listed.items() if f.native] == ["m.native", "m.scalar"]
    assert [name for name, f in listed.items() if f.uses_this_plugin] == ["m.native"]
    assert listed["m.native"].reason is None
    assert listed["m.shim"].reason == report.SHIM
    assert listed["m.shim_in_disguise"].reason == "RXT080: line 3: runs through Python"
    assert listed["m.rejected"].reason == "RXTP-TORCH-001: line 7: rank 3"
    assert listed["m.rejected"].suggestion == "use rank 2"
    assert listed["n.silent"].reason == report.NO_DIAGNOSTIC
    assert listed["n.jit"].reason == "compiled by numba"
    assert report.functions({}) == []


TENSORS = """\
import rextio_torch.types as t
from rextio_torch.types import TensorF32Cpu2D

def f(x: TensorF32Cpu2D): ...
def g(n: int) -> t.TensorF32Cpu1D: ...
def h(n: int) -> int: ...
if True:
    async def i(*, x: TensorF32Cpu2D | None = None): ...
class C:
    def f(self, x: list[TensorF32Cpu2D]): ...
    def g(self): ...
"""


def test_functions_with_tensor_annotations(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "m.py").write_text(TENSORS)
    (project / "broken.py").write_text("def f(:")
    (project / "none.py").write_text("def f(n: int) -> int: ...\n")
    staged = stage(project, tmp_path / "copy")
    assert set(staged.tensor_functions()) == {"m.f", "m.g", "m.i", "m.C.f"}


def _check(source: Path, **routes: str) -> dict[str, object]:
    functions = [
        {
            "qualname": f"m.{name}",
            "native_status": "accepted" if route.startswith("native") else "not-candidate",
            "route": route,
            "diagnostics": [{"code": route, "severity": "error"}] if "RXT" in route else [],
        }
        for name, route in routes.items()
    ]
    module = {"module_name": "m", "file_path": str(source), "functions": functions}
    return {"modules": [module]}


def test_a_function_that_rextio_does_not_list_is_pythons_too(tmp_path: Path) -> None:
    python = "fallback-python"
    check = _check(tmp_path / "m.py", f=python, h=python)
    listed = report.functions(check, {name: [] for name in ("m.f", "m.g", "m.C.f", "other.f")})
    assert [f.qualname for f in listed] == ["m.f", "m.h", "m.g"]
    assert [f.has_tensors for f in listed] == [True, False, True]
    assert [f.reason for f in listed] == [report.NO_DIAGNOSTIC] * 3


@pytest.mark.parametrize("native", [True, False])
def test_a_build_may_require_native_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: bool
) -> None:
    listed = [
        replace(function(), has_tensors=True),
        report.Function("m.scalar", False, "fallback-python", report.NO_DIAGNOSTIC),
        report.Function("m.g", native, "fallback-python", "why", has_tensors=True),
    ]
    seconds = {"total": 1.0, "dependencies": 0.0}
    result = BuildResult(tmp_path, "ab" * 32, listed, None, "ready", seconds)
    monkeypatch.setattr("rextio_torch.cli.app.build_project", lambda *_, **__: result)
    arguments = ["build", str(tmp_path), "--require-native"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == (0 if native else 1)
    assert done.stderr == ("" if native else "error: not native: m.g\n")
    assert f"use it: PYTHONPATH={tmp_path}/.rextio/build/python python -P" in done.stdout
    done = CliRunner().invoke(cli, [*arguments, "--json"])
    data = json.loads(done.stdout)
    assert data["ok"] is native
    assert data["not_native"] == ([] if native else ["m.g"])
    assert CliRunner().invoke(cli, ["build", str(tmp_path)]).exit_code == 0


def test_a_build_says_what_the_wheel_of_rextio_is(tmp_path: Path, monkeypatch) -> None:
    wheel = core_wheel({"wheel_build": {"status": "built", "path": f"{tmp_path}/dist/m.whl"}})
    result = BuildResult(tmp_path, "ab" * 32, [], None, "ready", {"total": 1.0}, wheel)
    result.seconds["dependencies"] = 0.0
    monkeypatch.setattr("rextio_torch.cli.app.build_project", lambda *_, **__: result)
    (line,) = (
        line
        for line in CliRunner().invoke(cli, ["build", str(tmp_path)]).stdout.splitlines()
        if line.startswith("wheel: ")
    )
    assert line.startswith(f"wheel: {tmp_path}/dist/m.whl is Rextio's: ")
    assert "overwrite each other" in line
    assert f"rextio-torch wheel {tmp_path} " in line
    data = json.loads(CliRunner().invoke(cli, ["build", str(tmp_path), "--json"]).stdout)
    assert data["core_wheel"] == f"{tmp_path}/dist/m.whl"
    assert core_wheel({"wheel_build": {"status": "skipped", "path": None}}) is None


def test_the_readable_end_of_a_failure() -> None:
    text = "   Compiling a v1.0.0\nwarning: x\nerror[E0308]: mismatched\n --> src/lib.rs:1\n"
    build_report = {"native_build": {"status": "failed", "stderr": text, "message": "RXT060"}}
    assert report.failure_text(build_report) == "error[E0308]: mismatched\n --> src/lib.rs:1"
    long = "error: a\n" + "\n".join(f"line {n}" for n in range(100))
    tail = report.error_tail(long, limit=10).splitlines()
    assert tail[0] == "error: a"
    assert tail[-1] == "… 91 more lines"
    assert report.failure_text({"error": {"message": "RXT060 plugin"}}) == "RXT060 plugin"
    assert report.failure_text({}) is None


@pytest.fixture
def failing(tmp_path: Path, project: Path) -> Callable[[str], CliError]:
    """Run a shell script in the place of Rextio, and return the error."""
    environment = replace(make_environment(tmp_path), variables=dict(os.environ))

    def fail(script: str) -> CliError:
        stub = executable(tmp_path / "stub" / "rextio")
        stub.write_text(f"#!/bin/sh\n{script}\nexit 1\n")
        tools = replace(
            toolchain.Toolchain.of(environment, project), rextio=toolchain.Tool(str(stub))
        )
        display = progress.Display(Console(file=StringIO()))
        with open(os.devnull) as lock, pytest.raises(CliError) as error:
            run_rextio("build", Staged(project, project, {}), tools, display, lock.fileno(), {})
        return error.value

    return fail


def test_a_file_that_does_not_parse_is_named(
    project: Path, failing: Callable[[str], CliError]
) -> None:
    bad = project / "bad.py"
    diagnostic = {"code": "RXT000", "file_path": str(bad), "line": 3, "message": "invalid syntax"}
    written = json.dumps({"diagnostics": [diagnostic, {"code": "RXT010"}]})
    error = failing(f"echo '{written}' > .rextio/reports/check.json")
    # That of an earlier run is not read.
    assert error.message == "rextio build failed with exit status 1"
    (project / ".rextio" / "reports").mkdir(parents=True)
    error = failing(f"echo '{written}' > .rextio/reports/check.json")
    assert error.message == f"{project} has files that are not Python: bad.py"
    assert error.detail == f"{bad}:3: invalid syntax"
    assert f"line 3 of {bad}" in (error.repair or "")
    assert "not Python" not in failing("true").message


def test_a_file_with_a_null_byte_has_no_line(
    project: Path, failing: Callable[[str], CliError]
) -> None:
    found = {"code": "RXT000", "file_path": "a.py", "line": None, "message": "null bytes"}
    (project / ".rextio" / "reports").mkdir(parents=True)
    written = json.dumps({"diagnostics": [found]})
    error = failing(f"echo '{written}' > .rextio/reports/check.json")
    assert error.detail == "a.py:1: null bytes"
    assert error.repair == "correct a.py, or name the file in .rextioignore"


def test_a_file_that_rextio_cannot_read_is_named(
    project: Path, failing: Callable[[str], CliError]
) -> None:
    (project / "latin.py").write_bytes(b"# caf\xe9\n")
    script = "echo 'Traceback (most recent call last):'; echo 'UnicodeDecodeError: 0xe9'"
    assert failing(script).message == f"{project / 'latin.py'} cannot be read"
    (project / "latin.py").unlink()
    assert "exit status 1" in failing(script).message


def test_what_rextio_says_before_it_stops_is_left_out(
    project: Path, failing: Callable[[str], CliError]
) -> None:
    error = failing("echo 'Rextio generate'; echo '  fallback: cpython'; echo 'RXT050 Codegen'")
    assert error.detail == "RXT050 Codegen"
    assert error.repair == f"rextio-torch explain {project}"


def test_a_file_of_the_copy_is_shown_as_the_users(project: Path) -> None:
    staged = Staged(project, project / ".rextio" / "staged" / "p", {})
    staged.folder.mkdir(parents=True)
    written = f"fix {staged.folder}/rextio.toml, see {staged.folder}/.rextio/generated/x"
    error = _failure("generate", staged, 1, written)
    assert error.detail == f"fix {project}/rextio.toml, see {staged.folder}/.rextio/generated/x"


def test_of_a_traceback_the_last_line_is_shown(
    project: Path, failing: Callable[[str], CliError]
) -> None:
    lines = ["before", "Traceback (most recent call last):", '  File "x"', "OSError: no space"]
    error = failing("\n".join(f"echo '{line}'" for line in lines))
    assert error.detail == "before\nOSError: no space"
    whole = project / ".rextio" / "reports" / "build.txt"
    assert str(whole) in (error.repair or "")
    assert whole.read_text().splitlines() == lines
