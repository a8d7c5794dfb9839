import json
import multiprocessing
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
from cli_environment import make_environment
from click.testing import CliRunner
from support.lock_holder import hold

from rextio_torch.cli import cache
from rextio_torch.cli.app import cli
from rextio_torch.cli.files import TEMPORARY_MARK, copy_tree, human_size, remove_partial
from rextio_torch.cli.layout import BuildFolder, read_origin, write_origin
from rextio_torch.cli.locks import locked


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two projects' folders and a warm copy, in a cache of their own."""
    monkeypatch.setenv("REXTIO_TORCH_CACHE_DIR", str(tmp_path / "cache"))
    environment = make_environment(tmp_path)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        folder = BuildFolder.of(tmp_path / name, environment)
        folder.cargo.mkdir(parents=True)
        (folder.cargo / "artifact").write_bytes(b"x" * 10_000)
        write_origin(folder.folder, environment, tmp_path / name)
    warm = BuildFolder.of(tmp_path / "one", environment).warm("0123456789ab")
    warm.cargo.mkdir(parents=True)
    (warm.cargo / "artifact").write_bytes(b"x" * 5_000)
    write_origin(warm.folder, environment, None)
    return tmp_path / "cache"


def run(*arguments: str, answer: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["cache", *arguments], input=answer)
    return result.exit_code, result.output


def kinds(root: Path) -> list[str]:
    return sorted(entry.kind for entry in cache.entries(root))


def test_show_lists_what_is_there(root: Path, tmp_path: Path) -> None:
    status, output = run("--json")
    data = json.loads(output)
    assert status == 0
    assert data["root"] == str(root)
    assert [folder["kind"] for folder in data["folders"]] == ["project", "project", "dependencies"]
    one = next(f for f in data["folders"] if f["project"] == str(tmp_path / "one"))
    assert one["bytes"] >= 10_000
    assert one["torch"] == "2.11.0+cpu"
    assert one["python"].endswith("/venv/bin/python")
    assert one["used"]
    assert not one["project_is_gone"]
    assert data["bytes"] == sum(folder["bytes"] for folder in data["folders"])


def test_show_as_text_names_projects_that_are_gone(root: Path, tmp_path: Path) -> None:
    (tmp_path / "one").rmdir()
    status, output = run()
    assert status == 0
    assert f"{tmp_path / 'one'} (gone)" in output
    assert f"{tmp_path / 'two'} (gone)" not in output
    assert "warm copy, to seed new build folders from" in output
    assert all(str(entry.folder) in output for entry in cache.entries(root))


def test_show_of_an_empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REXTIO_TORCH_CACHE_DIR", str(tmp_path / "none"))
    status, output = run()
    assert status == 0
    assert "0 B in 0 folders" in output
    assert run("clear") == (0, f"{tmp_path / 'none'}: nothing to remove\n")
    assert not (tmp_path / "none").exists()


def test_clear_asks_and_takes_no_for_an_answer(root: Path) -> None:
    status, output = run("clear", answer="n\n")
    assert status == 1
    assert "remove 2 folders" in output
    assert len(kinds(root)) == 3


def test_clear_removes_builds_and_keeps_warm_copies(root: Path) -> None:
    status, output = run("clear", answer="y\n")
    assert status == 0
    assert "removed 2 folders" in output
    assert kinds(root) == ["dependencies"]


def test_clear_all_leaves_only_locks(root: Path) -> None:
    status, output = run("clear", "--all", "--yes", "--json")
    data = json.loads(output)
    assert status == 0
    assert data["ok"]
    assert data["bytes"] >= 25_000
    assert kinds(root) == []
    assert {path.name for path in root.rglob("*") if path.is_file()} == {
        path.name for path in (root / "locks").iterdir()
    }


def test_clear_of_one_project(root: Path, tmp_path: Path) -> None:
    status, _ = run("clear", "--project", str(tmp_path / "two"), "--yes")
    assert status == 0
    left = [entry.project for entry in cache.entries(root)]
    assert left == [str(tmp_path / "one"), None]


def test_what_an_interrupted_removal_left_is_removed(root: Path, tmp_path: Path) -> None:
    folder = BuildFolder.of(tmp_path / "one", make_environment(tmp_path)).folder
    folder.rename(folder.with_name(f"{folder.name}{TEMPORARY_MARK}removed"))
    status, _ = run("clear", "--project", str(tmp_path / "one"), "--yes")
    assert status == 0
    assert [entry.project for entry in cache.entries(root)] == [str(tmp_path / "two"), None]


def test_json_does_not_ask(root: Path) -> None:
    status, output = run("clear", "--json")
    assert status == 1
    assert json.loads(output)["error"]["repair"] == "rextio-torch cache clear --json --yes"
    assert len(kinds(root)) == 3


def test_clear_waits_for_a_build(root: Path, tmp_path: Path) -> None:
    folder = BuildFolder.of(tmp_path / "one", make_environment(tmp_path))
    chosen = [entry for entry in cache.entries(root) if entry.folder == folder.folder]
    said: list[str] = []
    with locked(folder.lock):
        thread = threading.Thread(target=cache.clear, args=(chosen, said.append))
        thread.start()
        deadline = time.monotonic() + 10
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
        assert folder.folder.is_dir(), "removed while it was locked"
    thread.join(10)
    assert said == [f"process {os.getpid()}"]
    assert not folder.folder.exists()


def test_a_lock_keeps_another_process_out_and_names_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    entered, leave = context.Event(), context.Event()
    process = context.Process(target=hold, args=(tmp_path / "lock", entered, leave))
    process.start()
    assert entered.wait(60)
    said: list[str] = []

    def waiting(holder: str) -> None:
        said.append(holder)
        leave.set()

    with locked(tmp_path / "lock", waiting=waiting):
        pass
    process.join(20)
    assert said == [f"process {process.pid}"]


def test_a_lock_outlives_its_holder_in_a_child(tmp_path: Path) -> None:
    with locked(tmp_path / "lock") as descriptor:
        child = subprocess.Popen(["sleep", "0.5"], pass_fds=(descriptor,))
    said: list[str] = []
    with locked(tmp_path / "lock", waiting=said.append):
        assert child.poll() is not None
    assert said


def test_copies_keep_times_and_links(tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.mkdir()
    (source / "file").write_text("x")
    os.utime(source / "file", ns=(1_000_000_001, 1_234_567_890_123_456_789))
    (source / "link").symlink_to("file")
    (source / "skipped").write_text("")
    copy_tree(source, tmp_path / "b", ignore=lambda folder, names: {"skipped"})
    assert (tmp_path / "b" / "file").stat().st_mtime_ns == 1_234_567_890_123_456_789
    assert os.readlink(tmp_path / "b" / "link") == "file"
    assert not (tmp_path / "b" / "skipped").exists()


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(KeyboardInterrupt):
        copy_tree(tmp_path / "a", tmp_path / "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


def test_remains_of_a_killed_copy_are_removed(tmp_path: Path) -> None:
    (tmp_path / f"cargo{TEMPORARY_MARK}77").mkdir()
    (tmp_path / "cargo").mkdir()
    remove_partial(tmp_path, "cargo")
    assert [path.name for path in tmp_path.iterdir()] == ["cargo"]


def test_origin_keeps_when_it_was_created(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    write_origin(tmp_path / "f", environment, tmp_path)
    first = read_origin(tmp_path / "f")
    (tmp_path / "f" / "origin.json").write_text(json.dumps({**first, "created": "2020"}))
    write_origin(tmp_path / "f", environment, tmp_path)
    assert read_origin(tmp_path / "f")["created"] == "2020"
    (tmp_path / "f" / "origin.json").write_text("{")
    assert read_origin(tmp_path / "f") == {}


def test_sizes_for_people() -> None:
    assert [human_size(n) for n in (0, 999, 1_000, 279_400_000, 3_800_000_000)] == [
        "0 B",
        "999 B",
        "1 KB",
        "279 MB",
        "3.8 GB",
    ]
