"""The source id of a project, and its mark in a built module."""

from __future__ import annotations

import ast
import os
from dataclasses import replace
from pathlib import Path

import pytest
from cli_environment import function, make_environment
from rextio.analyzer.project_namespace import BUILTIN_IGNORED_PARTS

import rextio_torch
from rextio_torch.cli import source
from rextio_torch.cli.build import built_module, require_source_mark
from rextio_torch.cli.errors import CliError
from rextio_torch.runtime import source_mark


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


def test_what_is_no_file_is_no_source(project: Path) -> None:
    before = list(source.source_files(project))
    os.mkfifo(project / "pipe.py")
    (project / "broken.py").symlink_to("nowhere")
    (project / "loop.py").symlink_to("loop.py")
    (project / "folder.py").mkdir()
    assert list(source.source_files(project)) == before


def test_links_to_folders_are_known(project: Path) -> None:
    before = list(source.source_files(project))
    assert list(source.linked_folders(project)) == []
    (project / "linked").symlink_to("package")
    (project / "data").symlink_to("..")
    assert list(source.linked_folders(project)) == [project / "linked"]
    assert list(source.source_files(project)) == before


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


def test_what_translates_is_part_of_the_source_id() -> None:
    """The front end imports nothing from the folders that the digest leaves out."""
    root = Path(rextio_torch.__file__).parent
    imported = {
        node.module
        for folder in ("normalize", "syntax", "ops", "analysis", "lowering")
        for path in (root / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module is not None
    }
    folders = {name.split(".")[1] for name in imported if name.startswith("rextio_torch.")}
    assert {"syntax", "ops"} <= folders
    assert not folders & source.NOT_TRANSLATING


def test_the_mark_in_a_module(tmp_path: Path) -> None:
    mine, other = "ab" * 32, "cd" * 32
    module = tmp_path / "_rextio_native.so"
    module.write_bytes(
        b"\x7fELF\0" + source_mark.PREFIX + mine.encode() + b"more" + source_mark.PREFIX
    )
    assert source_mark.marked_source_ids(module) == [mine]
    require_source_mark(module, [function()], mine, tmp_path)
    with pytest.raises(CliError, match="not this source's") as error:
        require_source_mark(module, [function()], other, tmp_path)
    assert f"source {mine[:12]}" in (error.value.found or "")
    assert f"source {other[:12]}" in (error.value.expected or "")


def test_a_module_without_the_mark(tmp_path: Path) -> None:
    module = tmp_path / "_rextio_native.so"
    module.write_bytes(b"\x7fELF")
    with pytest.raises(CliError, match="not this source's"):
        require_source_mark(module, [function()], "ab" * 32, tmp_path)
    # Native functions that are not this plugin's, or none at all, carry none.
    require_source_mark(module, [function(native=False)], "ab" * 32, tmp_path)
    require_source_mark(None, [], "ab" * 32, tmp_path)
    with pytest.raises(CliError, match="not this source's"):
        require_source_mark(None, [function()], "ab" * 32, tmp_path)


def test_a_module_that_was_built_without_the_command(tmp_path: Path) -> None:
    module = tmp_path / "_rextio_native.so"
    module.write_bytes(source_mark.PREFIX + source_mark.NO_SOURCE_ID.encode())
    with pytest.raises(CliError) as error:
        require_source_mark(module, [function()], "ab" * 32, tmp_path)
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
