import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from cli_environment import make_environment
from click.testing import CliRunner
from rextio.analyzer.project_namespace import BUILTIN_IGNORED_PARTS
from rextio.build.cargo_builder import _should_retry_offline
from rextio.build.toolchain import resolve_tool
from rich.console import Console

from rextio_torch import versions
from rextio_torch.cli import dependencies, doctor, processes, progress, report, source, toolchain
from rextio_torch.cli.app import cli
from rextio_torch.cli.build import BuildResult, build, built_module, last_build_kept, verify
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.layout import BuildFolder
from rextio_torch.cli.project import initialise
from rextio_torch.cli.rextio import run_rextio
from rextio_torch.cli.tensors import tensor_functions

# The source id


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "p"
    (folder / "package").mkdir(parents=True)
    (folder / "rextio.toml").write_text('[plugins]\nenabled = ["rextio-torch"]\n')
    (folder / "package" / "model.py").write_text("def f(): ...\n")
    return folder


def test_the_source_id_changes_with_every_input(tmp_path: Path, project: Path) -> None:
    environment = make_environment(tmp_path)
    seen = {source.source_id(project, environment)}
    assert all(len(source_id) == 64 for source_id in seen)
    edits = {
        "package/model.py": "def f(): return 1\n",
        "package/stub.pyi": "",
        "new.py": "",
        "rextio.toml": "[plugins]\n",
        ".rextioignore": "x\n",
    }
    for name, text in edits.items():
        (project / name).write_text(text)
        seen.add(source.source_id(project, environment))
    (project / "new.py").rename(project / "renamed.py")
    seen.add(source.source_id(project, environment))
    newer = {**environment.distributions, "rextio": "0.1.9"}
    seen.add(source.source_id(project, replace(environment, distributions=newer)))
    assert len(seen) == len(edits) + 3


def test_the_source_id_does_not_change_with_anything_else(tmp_path: Path, project: Path) -> None:
    environment = make_environment(tmp_path)
    before = source.source_id(project, environment)
    for name in ("README.md", *(f"{folder}/x.py" for folder in BUILTIN_IGNORED_PARTS)):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("")
    os.utime(project / "package" / "model.py", (1, 1))
    assert source.source_id(project, environment) == before
    project.rename(tmp_path / "moved")
    assert source.source_id(tmp_path / "moved", environment) == before


def test_skipped_folders_are_those_that_rextio_never_scans() -> None:
    assert source._SKIPPED == BUILTIN_IGNORED_PARTS


def test_moving_bytes_between_files_is_a_change(tmp_path: Path, project: Path) -> None:
    environment = make_environment(tmp_path)
    (project / "a.py").write_text("x")
    (project / "b.py").write_text("y")
    before = source.source_id(project, environment)
    (project / "a.py").write_text("xy")
    (project / "b.py").write_text("")
    assert source.source_id(project, environment) != before


def function(native: bool = True) -> report.Function:
    route = "native-plugin:rextio-torch" if native else "fallback-python"
    return report.Function("m.f", native, route, None)


def test_the_mark_in_a_module(tmp_path: Path) -> None:
    mine, other = "ab" * 32, "cd" * 32
    module = tmp_path / "_rextio_native.so"
    module.write_bytes(b"\x7fELF\0" + source.MARKER + mine.encode() + b"more" + source.MARKER)
    assert source.marked_source_ids(module) == [mine]
    verify(module, [function()], mine, tmp_path)
    with pytest.raises(CliError, match="not this source's") as error:
        verify(module, [function()], other, tmp_path)
    assert f"source {mine[:12]}" in (error.value.found or "")
    assert f"source {other[:12]}" in (error.value.expected or "")


def test_another_source_s_module_is_removed(tmp_path: Path) -> None:
    for name in ("build", "generated"):
        folder = tmp_path / ".rextio" / name / "python"
        folder.mkdir(parents=True)
        (folder / "_rextio_native.so").write_bytes(source.MARKER + b"ab" * 32)
    module = tmp_path / ".rextio" / "build" / "python" / "_rextio_native.so"
    with pytest.raises(CliError, match="it was removed"):
        verify(module, [function()], "cd" * 32, tmp_path)
    assert list(tmp_path.rglob("*.so")) == []


def test_a_module_without_the_mark(tmp_path: Path) -> None:
    module = tmp_path / "_rextio_native.so"
    module.write_bytes(b"\x7fELF")
    with pytest.raises(CliError, match="not this source's"):
        verify(module, [function()], "ab" * 32, tmp_path)
    # Native functions that are not this plugin's, or none at all, carry none.
    verify(module, [function(native=False)], "ab" * 32, tmp_path)
    verify(None, [], "ab" * 32, tmp_path)
    with pytest.raises(CliError, match="not this source's"):
        verify(None, [function()], "ab" * 32, tmp_path)


def test_a_module_that_was_built_without_the_command(tmp_path: Path) -> None:
    module = tmp_path / "_rextio_native.so"
    module.write_bytes(source.MARKER + source.NO_SOURCE_ID.encode())
    with pytest.raises(CliError) as error:
        verify(module, [function()], "ab" * 32, tmp_path)
    assert "built without this command" in (error.value.found or "")


def test_the_module_of_a_report(tmp_path: Path) -> None:
    native = {"status": "built"}
    with pytest.raises(CliError, match="missing"):
        built_module(tmp_path, {"native_build": native})
    installed = tmp_path / ".rextio" / "build" / "python" / "_rextio_native.cpython-311.so"
    installed.parent.mkdir(parents=True)
    installed.touch()
    assert built_module(tmp_path, {"native_build": native}) == installed
    assert built_module(tmp_path, {"native_build": {**native, "status": "skipped"}}) is None
    assert built_module(tmp_path, {}) is None


# Reports: native or not

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
    assert listed["n.silent"].reason == "kept on Python by Rextio without a diagnostic"
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
    source = tmp_path / "m.py"
    source.write_text(TENSORS)
    assert tensor_functions(source) == ["f", "g", "i", "C.f"]
    source.write_text("def f(:")
    assert tensor_functions(source) == []
    assert tensor_functions(tmp_path) == []


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


def test_what_may_keep_a_whole_file_on_python(tmp_path: Path) -> None:
    source, python = tmp_path / "m.py", "fallback-python"
    source.write_text(
        "def f(x: TensorF32Cpu2D): ...\ndef g(x: TensorF32Cpu2D): ...\ndef h(): ...\n"
    )
    listed = report.functions(_check(source, f=python, h=python))
    # A function that Rextio does not list is Python's too.
    assert [f.qualname for f in listed] == ["m.f", "m.h", "m.g"]
    assert [f.has_tensors for f in listed] == [True, False, True]
    whole = report.NO_DIAGNOSTIC + report.WHOLE_FILE
    assert [f.reason for f in listed] == [whole, report.NO_DIAGNOSTIC, whole]
    for other in ("native-plugin:rextio-torch", "RXTP-TORCH-001"):
        listed = report.functions(_check(source, f=python, g=other))
        assert listed[0].reason == report.NO_DIAGNOSTIC


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
    monkeypatch.setattr("rextio_torch.cli.app.build_project", lambda *_: result)
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
            run_rextio("build", project, tools, display, lock.fileno(), {})
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


def test_of_a_traceback_the_last_line_is_shown(
    project: Path, failing: Callable[[str], CliError]
) -> None:
    lines = ["before", "Traceback (most recent call last):", '  File "x"', "OSError: no space"]
    error = failing("\n".join(f"echo '{line}'" for line in lines))
    assert error.detail == "before\nOSError: no space"
    whole = project / ".rextio" / "reports" / "build.txt"
    assert str(whole) in (error.repair or "")
    assert whole.read_text().splitlines() == lines


# The last build


def _write_build(project: Path, source_id: str) -> Path:
    module = project / ".rextio" / "build" / "python" / "_rextio_native.so"
    shutil.rmtree(project / ".rextio" / "build", ignore_errors=True)
    module.parent.mkdir(parents=True)
    module.write_bytes(source.MARKER + source_id.encode())
    return module


def _fail_after(_: Path, error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("error", [CliError("no"), KeyboardInterrupt(), processes.Interrupted(2)])
def test_what_worked_before_a_failed_build_still_works(project: Path, error: BaseException) -> None:
    before, after, out = "ab" * 32, "cd" * 32, StringIO()
    display = progress.Display(Console(file=out))
    module = _write_build(project, before)
    with pytest.raises(type(error)), last_build_kept(project, display):
        _fail_after(_write_build(project, after), error)
    assert source.marked_source_ids(module) == [before]
    assert out.getvalue() == f"the last build is in place again (source {before[:12]})\n"
    with last_build_kept(project, display):
        _write_build(project, after)
    assert source.marked_source_ids(module) == [after]
    assert [path.name for path in (project / ".rextio").iterdir()] == ["build"]


def test_the_last_build_survives_a_run_that_was_killed(project: Path) -> None:
    display = progress.Display(Console(file=StringIO()))
    module = _write_build(project, "ab" * 32)
    (project / ".rextio" / "build").rename(project / ".rextio" / "last-build")
    _write_build(project, "cd" * 32)
    with pytest.raises(CliError), last_build_kept(project, display):
        raise CliError("no")
    assert source.marked_source_ids(module) == ["ab" * 32]


def test_where_nothing_was_built_nothing_is_put_back(project: Path) -> None:
    out = StringIO()
    with pytest.raises(CliError), last_build_kept(project, progress.Display(Console(file=out))):
        raise CliError("no")
    assert out.getvalue() == ""


# Progress

REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def artifact(package: str, kind: str = "lib", fresh: bool = False) -> str:
    return json.dumps(
        {
            "reason": "compiler-artifact",
            "package_id": package,
            "target": {"kind": [kind], "name": "x"},
            "fresh": fresh,
        }
    )


def test_progress_from_what_cargo_says() -> None:
    state = progress.CargoProgress(total=4, root="root_crate")
    assert state.feed("   Compiling libc v0.2.0", 1.0) is None
    assert state.feed("   Compiling torch-sys v0.24.0", 2.0) is None
    assert state.feed("   Compiling root_crate v0.1.0", 2.0) is None
    assert state.feed(artifact(f"{REGISTRY}#libc@0.2.0", "custom-build"), 3.0) is None
    executed = {"reason": "build-script-executed", "package_id": f"{REGISTRY}#libc@0.2.0"}
    assert state.feed(json.dumps(executed), 3.0) is None
    assert state.counter == "0/4"
    # What waits for others after its build script is not what runs; torch's script is.
    assert state.current == "torch-sys (takes minutes)"
    assert state.feed(artifact(f"{REGISTRY}#libc@0.2.0"), 3.0) == "libc"
    assert state.feed(artifact(f"{REGISTRY}#libc@0.2.0"), 3.0) is None
    assert state.feed(artifact(f"{REGISTRY}#quote@1.0.0", fresh=True), 3.0) is None
    assert state.feed(artifact("path+file:///x/root_crate#0.1.0", "cdylib"), 3.0) is None
    assert (state.counter, state.fresh, list(state.running)) == ("2/4", 1, ["torch-sys"])
    for noise in ("", "error: could not compile", "{", "{}", '{"reason":"build-finished"}'):
        assert state.feed(noise, 3.0) is None
    assert state.notes == ["error: could not compile", "{"]


def test_package_names_in_cargo_s_spellings() -> None:
    assert progress.package_name(f"{REGISTRY}#anyhow@1.0.105") == "anyhow"
    assert progress.package_name("path+file:///a/some_name#0.1.0") == "some_name"
    assert progress.package_name("path+file:///a/b#name@0.1.0") == "name"


def test_plain_progress_is_never_long_silent() -> None:
    now = [0.0]
    out = StringIO()
    display = progress.Display(Console(file=out, width=40), clock=lambda: now[0])
    cargo = progress.CargoProgress(total=3, done={"libc"}, running={"torch-sys": 0.0})
    with display.step("compiling", cargo) as step:
        for second in range(1, 36):
            now[0] = float(second)
            if second == 4:
                step.finished("libc")
            step.tick()
    assert out.getvalue().splitlines() == [
        "compiling …",
        "      4 s  [1/3] libc",
        "     14 s  [1/3] still running: torch-sys (takes minutes)",
        "     24 s  [1/3] still running: torch-sys (takes minutes)",
        "     34 s  [1/3] still running: torch-sys (takes minutes)",
    ]


def test_a_step_that_is_not_cargo_s_says_its_title() -> None:
    now = [0.0]
    out = StringIO()
    display = progress.Display(Console(file=out, width=40), clock=lambda: now[0])
    with display.step("translating") as step:
        now[0] = 11.0
        step.tick()
    assert out.getvalue().splitlines()[1] == "     11 s  still running: translating"


def test_a_terminal_gets_a_live_line() -> None:
    out = StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    cargo = progress.CargoProgress(done={"libc"}, running={"crate [x]": 0.0})
    with progress.Display(console).step("compiling", cargo) as step:
        cargo.total = 3
        step.finished("libc")
        step.tick()
    assert "1/3" in out.getvalue()
    assert "crate [x]" in out.getvalue()


# Dependencies

MANIFEST = """# Generated by Rextio. Do not edit manually.

[package]
name = "rextio_generated_native"
version = "0.1.0"
edition = "2021"
rust-version = "1.83"
build = "build.rs"

[lib]
name = "_rextio_native"
crate-type = ["cdylib"]

[profile.release]
overflow-checks = true

[dependencies]
pyo3 = { version = "0.29", features = ["extension-module"] }
tch = { version = "=0.24.0", features = ["python-extension"] }
"""


def test_the_crate_that_compiles_only_dependencies() -> None:
    data = tomllib.loads(dependencies.dependency_manifest(MANIFEST))
    original = tomllib.loads(MANIFEST)
    for same in ("dependencies", "profile"):
        assert data[same] == original[same]
    assert data["package"]["name"] == data["lib"]["name"] == "rextio_torch_dependencies"
    assert data["lib"]["crate-type"] == ["cdylib"]
    assert "build" not in data["package"]
    assert data["workspace"] == {}
    assert dependencies.normalised_manifest(MANIFEST) == {
        "dependencies": original["dependencies"],
        "profile": original["profile"],
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#!/venv/bin/python3\nimport sys\n", "/venv/bin/python3"),
        ("#!/bin/sh\n'''exec' \"/a b/bin/python\" \"$0\" \"$@\"\n' '''\n", "/a b/bin/python"),
        ("\x7fELF", sys.executable),
        ("", sys.executable),
    ],
)
def test_the_interpreter_of_a_script(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "rextio").write_text(text)
    assert toolchain.script_interpreter(tmp_path / "rextio") == expected
    assert toolchain.script_interpreter(tmp_path / "none") == sys.executable


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(0o755)
    return path


def configure(project: Path, text: str) -> None:
    with (project / "rextio.toml").open("a") as stream:
        stream.write(f"[toolchain]\n{text}\n")


def test_tools_that_a_project_configures(tmp_path: Path, project: Path) -> None:
    environment = make_environment(tmp_path)
    script = executable(Path(environment.interpreter.scripts) / "rextio")
    script.write_text("#!/venv/bin/python3\n")
    tools = toolchain.Toolchain.of(environment, project)
    assert (tools.rextio.path, tools.cargo.path) == (str(script), "/bin/cargo")
    assert tools.variables["PYO3_PYTHON"] == "/venv/bin/python3"
    assert "RUSTUP_TOOLCHAIN" not in tools.variables

    cargo = executable(project / "rust" / "bin" / "cargo")
    python = executable(project / "python" / "bin" / "python3")
    configure(project, 'cargo = "rust"\npython = "python"\nrust_toolchain = "1.95.0"')
    tools = toolchain.Toolchain.of(environment, project)
    assert tools.cargo.path == str(cargo)
    assert tools.variables["PYO3_PYTHON"] == str(python)
    assert tools.variables["RUSTUP_TOOLCHAIN"] == "1.95.0"
    # Variables come before the file, as in Rextio.
    variables = {**environment.variables, "REXTIO_CARGO": "none"}
    tools = toolchain.Toolchain.of(replace(environment, variables=variables), project)
    assert tools.cargo.path == ""
    assert "configured as 'none'" in tools.cargo.problem


@pytest.mark.parametrize("chosen", ["cargo", "home", "nested", "plain", "empty", "none", "."])
def test_configured_tools_resolve_as_in_rextio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    """A file or the folder it is in; what is not there or not executable is not sought on PATH."""
    executable(tmp_path / "cargo")
    executable(tmp_path / "home" / "bin" / "cargo")
    executable(tmp_path / "nested" / "bin" / "cargo")
    (tmp_path / "nested" / "cargo").touch(0o644)
    (tmp_path / "plain").touch(0o644)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    for text in (chosen, str(tmp_path / chosen)):
        path, error = resolve_tool("cargo", text)
        tool = toolchain.resolve(tmp_path, text, "cargo")
        assert (tool.path or None) == path
        assert bool(tool.problem) == bool(error)


@pytest.mark.parametrize(
    "text",
    [
        "error: failed to get `tch` as a dependency of package",
        "warning: spurious network error (3 tries remaining): [6] Could not resolve host: x",
        "[7] Couldn't connect to server",
        "error: failed to download from `https://x`\n[28] Timeout was reached",
        "error: Unable to update registry `crates-io`",
        "error: download of config.json failed",
        "error[E0308]: mismatched types",
        "",
    ],
)
def test_what_is_tried_again_off_line_is_what_rextio_tries_again(text: str) -> None:
    assert dependencies.needs_network(text) == _should_retry_offline(text)


def _dependencies(tmp_path: Path, project: Path, cargo: str) -> dependencies.Dependencies:
    """Dependencies whose cargo is a shell script."""
    script = executable(tmp_path / "stub" / "cargo")
    script.write_text(f"#!/bin/sh\n{cargo}\n")
    environment = replace(make_environment(tmp_path), variables=dict(os.environ))
    tools = replace(toolchain.Toolchain.of(environment, project), cargo=toolchain.Tool(str(script)))
    out = Console(file=StringIO())
    folder = BuildFolder.of(project, environment)
    with open(os.devnull) as lock:
        return dependencies.Dependencies(
            project, folder, tools, progress.Display(out), os.dup(lock.fileno())
        )


def test_without_a_network_cargo_runs_once_more_off_line(tmp_path: Path, project: Path) -> None:
    stub = (
        'echo "$*" >> ../../calls; case "$*" in *--offline*) '
        f"echo '{artifact(f'{REGISTRY}#libc@0.2.0')}'; exit 0;; esac; "
        'echo "error: failed to get tch" >&2; exit 101'
    )
    assert _dependencies(tmp_path, project, stub)._compile(MANIFEST) == 1
    calls = (project / "calls").read_text().splitlines()
    assert [line.endswith("--offline") for line in calls] == [False, True]


def test_an_error_that_no_network_mends_is_shown_at_once(tmp_path: Path, project: Path) -> None:
    stub = 'echo "$*" >> ../../calls; echo "error[E0308]: mismatched types" >&2; exit 101'
    with pytest.raises(CliError, match="did not compile") as error:
        _dependencies(tmp_path, project, stub)._compile(MANIFEST)
    assert error.value.detail == "error[E0308]: mismatched types"
    assert "memory" in (error.value.repair or "")
    assert len((project / "calls").read_text().splitlines()) == 1


def test_warm_copies_hold_nothing_of_a_project() -> None:
    names = [
        "librextio_generated_native.d",
        "rextio_generated_native-0123",
        "lib_rextio_native.so",
        "rextio_torch_dependencies-0123",
        "incremental",
        "torch-sys-0123",
        "libpyo3-0123.rlib",
    ]
    assert dependencies._ignore_own("", names) == set(names[:5])


# Processes


def test_output_comes_line_by_line(tmp_path: Path) -> None:
    seen: list[str] = []
    status = processes.run_lines(
        ["sh", "-c", "echo out; echo err >&2; exit 3"],
        variables=os.environ,
        cwd=tmp_path,
        on_line=seen.append,
        on_tick=lambda: None,
    )
    assert status == 3
    assert seen == ["out", "err"]


def test_a_program_that_left_its_output_open_is_not_waited_for(tmp_path: Path) -> None:
    began = time.monotonic()
    status = processes.run_lines(
        ["sh", "-c", "sleep 5 & exit 0"],
        variables=os.environ,
        cwd=tmp_path,
        on_line=lambda line: None,
        on_tick=lambda: None,
    )
    assert status == 0
    assert time.monotonic() - began < 4


@pytest.mark.parametrize("stubborn", [False, True])
def test_an_interrupt_ends_everything_that_was_started(tmp_path: Path, stubborn: bool) -> None:
    # The grandchild is in a session of its own, as cargo is under Rextio.
    trap = "trap '' TERM; " if stubborn else ""
    child = ["sh", "-c", f"{trap}echo started; while :; do sleep 0.1; done"]
    script = (
        "import subprocess, time\n"
        f"child = subprocess.Popen({child}, start_new_session=True, stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    pids: list[int] = []

    def on_line(line: str) -> None:
        pids.append(int(line))
        raise processes.Interrupted(2)

    began = time.monotonic()
    with pytest.raises(processes.Interrupted):
        processes.run_lines(
            [sys.executable, "-c", script],
            variables=os.environ,
            cwd=tmp_path,
            on_line=on_line,
            on_tick=lambda: None,
        )
    assert time.monotonic() - began < 10
    assert pids[0] not in processes._running()


# The command


def test_an_environment_that_would_fail_starts_no_build(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    initialise(tmp_path / "p", environment)
    variables = {**environment.variables, "LIBTORCH_BYPASS_VERSION_CHECK": "1"}
    display = progress.Display(Console(file=StringIO()))
    with pytest.raises(doctor.UnfitEnvironmentError) as error:
        build(tmp_path / "p", replace(environment, variables=variables), display)
    assert [check.name for check in error.value.checks] == [
        "variable LIBTORCH_BYPASS_VERSION_CHECK"
    ]
    assert not (tmp_path / "p" / ".rextio").exists()
    assert not (tmp_path / "cache").exists()
    (check,) = error.value.to_dict()["checks"]
    assert check["status"] == "fail"
    assert any("unset LIBTORCH_BYPASS_VERSION_CHECK" in line for line in error.value.lines())


def test_a_project_that_was_not_initialised_starts_no_build(tmp_path: Path) -> None:
    display = progress.Display(Console(file=StringIO()))
    (tmp_path / "p").mkdir()
    with pytest.raises(CliError) as error:
        build(tmp_path / "p", make_environment(tmp_path), display)
    assert error.value.repair == f"rextio-torch init {tmp_path / 'p'}"
    with pytest.raises(CliError, match="is not a folder"):
        build(tmp_path / "none", make_environment(tmp_path), display)


def test_errors_as_text_and_as_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["build", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert [line.split(":")[0].strip() for line in result.stderr.splitlines()] == [
        "error",
        "expected",
        "found",
        "repair",
    ]
    result = CliRunner().invoke(cli, ["build", str(tmp_path / "none"), "--json"])
    data = json.loads(result.stdout)
    assert result.exit_code == 1
    assert data["ok"] is False
    assert data["error"]["found"] == "nothing"


def test_every_command_reports_alike(tmp_path: Path) -> None:
    """The same words for the same mistake, and `ok` in whatever is printed as JSON."""
    (tmp_path / "file").touch()
    environment = {"REXTIO_TORCH_CACHE_DIR": str(tmp_path / "cache")}
    for command in (["init"], ["build"], ["doctor"]):
        arguments = [*command, str(tmp_path / "file"), "--json"]
        result = CliRunner(env=environment).invoke(cli, arguments)
        assert result.exit_code == 1
        data = json.loads(result.stdout)
        assert data["ok"] is False
        assert data["error"]["message"] == f"{tmp_path / 'file'} is not a folder"
    for command in (["init", str(tmp_path / "p")], ["cache"], ["cache", "clear", "--yes"]):
        result = CliRunner(env=environment).invoke(cli, [*command, "--json"])
        assert result.exit_code == 0
        assert json.loads(result.stdout)["ok"] is True
    result = CliRunner(env=environment).invoke(cli, ["cache", "--json", "clear"])
    assert result.exit_code == 2


def test_what_the_system_refuses_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/cache")

    monkeypatch.setattr("rextio_torch.cli.cache.entries", refuse)
    result = CliRunner().invoke(cli, ["cache"])
    assert result.exit_code == 1
    assert "the system refused: Permission denied (/cache)" in result.stderr


def test_version() -> None:
    result = CliRunner().invoke(cli, ["--version"])
    assert result.output == f"rextio-torch, version {versions.__version__}\n"


def test_without_its_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import importlib.util as u, sys\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name in ('rich', 'click') else real(name, *a)\n"
        "from rextio_torch.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert 'install "rextio-torch[cli]"' in done.stderr


def test_the_command_line_imports_neither_torch_nor_numpy() -> None:
    code = "import rextio_torch.cli.app, sys; print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
