"""Both ends of the range of Rextio that pyproject.toml allows.

The other tests run against the newest, which requirements.lock names. Here the tests of what
Rextio is offered and what it answers run once more against the oldest.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from support.native import CACHE, REPOSITORY, run

REQUIREMENT = Path(__file__).parent / "rextio-oldest.txt"
#: Those that ask Rextio, without its command line, which the others start many times.
TESTS = ("analysis", "records", "lowering", "imports", "types", "versions", "table")


def _pinned(path: Path) -> str:
    found = re.search(r"^rextio==(\S+)", path.read_text(encoding="utf-8"), re.M)
    assert found is not None
    return found[1]


def oldest_version() -> str:
    """Return the version of the oldest Rextio."""
    return _pinned(REQUIREMENT)


@pytest.fixture(scope="module")
def oldest() -> Path:
    """Install the oldest Rextio into a folder of its own and return the folder."""
    folder = CACHE / f"rextio-{oldest_version()}"
    if not (folder / "rextio").is_dir():
        command = [sys.executable, "-m", "uv", "pip", "install", "--no-deps", "--require-hashes"]
        run([*command, "--target", folder, "-r", REQUIREMENT])
    return folder


def test_the_ends_of_the_range() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    (requirement,) = (
        text for text in project["project"]["dependencies"] if text.startswith("rextio")
    )
    assert requirement == f"rextio>={oldest_version()},<0.2"
    assert version("rextio") == _pinned(REPOSITORY / "requirements.lock")


def test_the_oldest(oldest: Path) -> None:
    path = os.pathsep.join([str(oldest), str(REPOSITORY / "src")])
    asked = "import importlib.metadata, rextio; print(importlib.metadata.version('rextio'))"
    answer = run([sys.executable, "-c", asked], PYTHONPATH=path).stdout.strip()
    assert answer == oldest_version()
    tests = [f"tests/unit/test_{name}.py" for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = run(command, cwd=REPOSITORY, PYTHONPATH=path)
    assert re.search(r"\b\d{3,} passed", done.stdout), done.stdout
