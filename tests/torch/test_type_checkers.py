"""Type checkers see marker types as `torch.Tensor`: right code passes, wrong code does not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

TYPED = Path(__file__).parent / "typed"
RIGHT, WRONG = TYPED / "right.py", TYPED / "wrong.py"
#: File name and line of an error.
Errors = set[tuple[str, int]]


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    # A missing tool raises FileNotFoundError: the tests fail, they are never skipped.
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=TYPED)


def _tool(name: str) -> str:
    return str(Path(sys.executable).parent / name)


@cache
def mypy(cache_dir: str) -> Errors:
    done = _run(_tool("mypy"), "--strict", "--cache-dir", cache_dir, str(RIGHT), str(WRONG))
    assert done.returncode in (0, 1), done.stderr
    assert "Found " in done.stdout or "Success" in done.stdout, done.stdout
    found = re.findall(r"^(.+\.py):(\d+): error:", done.stdout, re.M)
    return {(Path(name).name, int(line)) for name, line in found}


@cache
def basedpyright(cache_dir: str) -> Errors:
    done = _run(
        _tool("basedpyright"),
        "--outputjson",
        "--pythonpath",
        sys.executable,
        str(RIGHT),
        str(WRONG),
    )
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 2, report
    return {
        (Path(item["file"]).name, item["range"]["start"]["line"] + 1)
        for item in report["generalDiagnostics"]
        if item["severity"] == "error"
    }


checkers = pytest.mark.parametrize("checker", [mypy, basedpyright], ids=["mypy", "basedpyright"])


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("mypy"))


@checkers
def test_right_code_has_no_errors(checker: Callable[[str], Errors], cache_dir: str) -> None:
    assert {error for error in checker(cache_dir) if error[0] == RIGHT.name} == set()


@checkers
def test_every_mistake_is_found(checker: Callable[[str], Errors], cache_dir: str) -> None:
    lines = WRONG.read_text(encoding="utf-8").splitlines()
    marked = {(WRONG.name, number) for number, line in enumerate(lines, 1) if "# wrong" in line}
    assert len(marked) == 3
    assert {error for error in checker(cache_dir) if error[0] == WRONG.name} == marked
