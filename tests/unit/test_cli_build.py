"""The command line, and the last build that a failed one leaves in place."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from cli_environment import make_environment
from click.testing import CliRunner
from rich.console import Console

from rextio_torch import versions
from rextio_torch.cli import doctor, progress
from rextio_torch.cli.app import cli
from rextio_torch.cli.build import build
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.project import initialise
from rextio_torch.cli.publish import publish
from rextio_torch.cli.staging import stage


def _write_build(project: Path, text: str) -> Path:
    module = project / ".rextio" / "build" / "python" / "_rextio_native.so"
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(text)
    return module


def test_a_build_replaces_the_last_one_once_it_is_whole(project: Path) -> None:
    staged = stage(project, project / ".rextio" / "staged" / "project")
    module = _write_build(project, "before")
    (module.parent / "gone.py").touch()
    # Of a run that was killed while it copied.
    partial = project / ".rextio" / "build~partial-new"
    partial.mkdir()
    _write_build(staged.folder, "after")
    assert publish(staged, None) is None
    assert module.read_text() == "after"
    assert [path.name for path in module.parent.iterdir()] == [module.name]


def test_a_build_that_cannot_be_copied_leaves_the_last_one(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = stage(project, project / ".rextio" / "staged" / "project")
    module = _write_build(project, "before")
    _write_build(staged.folder, "after")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rextio_torch.cli.publish.copy_tree", full)
    with pytest.raises(OSError, match="No space left"):
        publish(staged, None)
    assert module.read_text() == "before"


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
