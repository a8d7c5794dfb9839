"""The command line, and the last build that a failed one leaves in place."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import click
import pytest
from cli_environment import make_environment
from click.testing import CliRunner
from rich.console import Console

from rextio_torch import versions
from rextio_torch.cli import build_text, doctor, progress
from rextio_torch.cli.app import cli
from rextio_torch.cli.build import BuildResult, build
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.files import copy_tree
from rextio_torch.cli.project import initialise
from rextio_torch.cli.publish import finish, module, publish
from rextio_torch.cli.report import Function
from rextio_torch.cli.staging import Staged, stage


def _write_build(project: Path, text: str) -> Path:
    native = project / ".rextio" / "build" / "python" / "_rextio_native.so"
    native.parent.mkdir(parents=True, exist_ok=True)
    native.write_text(text)
    return native


def test_a_build_replaces_the_last_one_once_it_is_whole(project: Path) -> None:
    staged = stage(project, project / ".rextio" / "staged" / "project")
    native = _write_build(project, "before")
    (native.parent / "gone.py").touch()
    # Of a run that was killed while it copied.
    partial = project / ".rextio" / "next.partial-new"
    partial.mkdir()
    _write_build(staged.folder, "after")
    assert publish(staged, None) is None
    assert native.read_text() == "after"
    assert [path.name for path in native.parent.iterdir()] == [native.name]
    assert not partial.exists()


def test_a_build_that_cannot_be_copied_leaves_the_last_one(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = stage(project, project / ".rextio" / "staged" / "project")
    native = _write_build(project, "before")
    _write_build(staged.folder, "after")
    (staged.folder / ".rextio" / "reports").mkdir()
    copied = []

    def full(source: Path, target: Path) -> None:
        # The first fits.
        if copied:
            raise OSError(28, "No space left on device")
        copied.append(source)
        copy_tree(source, target)

    monkeypatch.setattr("rextio_torch.cli.publish.copy_tree", full)
    with pytest.raises(OSError, match="No space left"):
        publish(staged, None)
    assert native.read_text() == "before"
    # What it had copied does not fill the disk further.
    assert sorted(path.name for path in (project / ".rextio").iterdir()) == ["build", "staged"]


def test_modules_whose_names_are_no_identifiers_can_be_imported(project: Path) -> None:
    source = (
        "def f(x: int) -> int:\n    return x + 1\n\n\n"
        # Names that a wrapper must not take for Python's.
        "def list(x):\n    raise ValueError\n\n\ngetattr = isinstance = globals = list\n"
    )
    names = {"my-tool.py": "my-tool", "package/my-part.py": "package.my-part"}
    for name in names:
        (project / name).write_text(source)
    command = [str(Path(sys.executable).with_name("rextio")), "generate", str(project)]
    subprocess.run([*command, "--fallback=cpython"], capture_output=True, check=True)
    folder = project / ".rextio" / "generated" / "python"
    for name in names:
        wrapper = (folder / name).read_bytes()
        with pytest.raises(SyntaxError):
            compile(wrapper, name, "exec")
        (folder / name).write_bytes(module(f"python/{name}", wrapper, Staged(project, project, {})))
    code = f"import importlib as i; print([i.import_module(n).f(1) for n in {[*names.values()]}])"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": str(folder), "REXTIO_NATIVE_MODE": "fallback"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[2, 2]\n", done.stderr


def _stages_of_publishing(project: Path) -> list[dict[str, str]]:
    """Kill publishing at each renaming; return what each left and what the next command made."""
    seen = []
    for fatal in range(1, 20):
        shutil.rmtree(project / ".rextio", ignore_errors=True)
        staged = stage(project, project / ".rextio" / "staged" / "project")
        for text, folder in (("before", project), ("after", staged.folder)):
            _write_build(folder, text)
            report = folder / ".rextio" / "reports" / "build.json"
            report.parent.mkdir()
            report.write_text(json.dumps(text))
        child = os.fork()
        if child == 0:
            renamings = iter(range(1, fatal))

            def kill(event: str, _: object, renamings: Iterator[int] = renamings) -> None:
                if event == "os.rename" and next(renamings, None) is None:
                    os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(kill)
            publish(staged, None)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        finish(project)
        left = (project / ".rextio").iterdir()
        seen.append(
            {
                "module": (project / ".rextio/build/python/_rextio_native.so").read_text(),
                "report": json.loads((project / ".rextio/reports/build.json").read_text()),
                "left": " ".join(sorted(path.name for path in left if "partial" not in path.name)),
            }
        )
        if status == 0:
            break
        publish(staged, None)
        assert not list((project / ".rextio").glob("*partial*"))
    return seen


def test_a_kill_leaves_the_last_build_or_the_new_one_and_no_mixture(project: Path) -> None:
    seen = _stages_of_publishing(project)
    assert {it["left"] for it in seen} == {"build reports staged"}
    modules = [it["module"] for it in seen]
    assert modules == [it["report"] for it in seen]
    assert modules == sorted(modules, reverse=True)
    assert modules[0] == "before"
    # The last run was not killed.
    assert modules[-2:] == ["after", "after"]


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
    (tmp_path / "a p").mkdir()
    with pytest.raises(CliError) as error:
        build(tmp_path / "a p", make_environment(tmp_path), display)
    # As a shell takes it.
    assert error.value.repair == f"rextio-torch init '{tmp_path / 'a p'}'"
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


def test_a_program_says_what_its_stream_cannot_show() -> None:
    """Also that Ctrl-C while it is being loaded is no traceback."""
    code = (
        "import signal, sys; from rextio_torch.cli import main\n"
        "sys.argv = ['rextio-torch', '--version']\n"
        "try: main()\n"
        "except SystemExit: print('\\u2026\\udcff', signal.getsignal(2) == signal.SIG_DFL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "\\u2026\\udcff True"


def test_a_built_module_that_hides_another_is_named(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hiding = _write_build(project, "").with_name("types.py")
    functions = [Function("m.f", True, "native-plugin:rextio-torch", None)]
    seconds = {"total": 1.0, "dependencies": 0.0}
    result = BuildResult(project, "0" * 64, functions, None, "ready", seconds)
    click.echo("\n".join(build_text.lines(result)))
    assert "warning" not in capsys.readouterr().out
    hiding.touch()
    click.echo("\n".join(build_text.lines(result)))
    assert f"warning: {hiding} hides the module of that name" in capsys.readouterr().out


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
