"""docs/tutorial.md: its files are written and its commands run, in the order of the page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.elsewhere import torch_folder
from support.native import CACHE, REPOSITORY, variables

PAGE = REPOSITORY / "docs" / "tutorial.md"
#: Always the same one: the build folder of a project belongs to its path.
FOLDER = CACHE / "native" / "tutorial"
#: Where the page installs the wheel.
ELSEWHERE = FOLDER / "elsewhere"


@dataclass(frozen=True)
class File:
    """A file of the page, named in its first line."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command of the page, and the lines that the page shows of what it prints."""

    text: str
    shown: list[str]


def steps(page: str) -> Iterator[File | Command]:
    """Yield what a page says to write and to run: each of its fenced blocks is one or the other."""
    for language, text in re.findall(r"^```(.*)\n((?:.*\n)*?)```$", page, re.M):
        if language == "python":
            name = re.match(r"# (\S+\.py)\n", text)
            assert name is not None, f"a file without a name:\n{text}"
            yield File(name[1], text)
            continue
        assert language == "console", f"neither a file nor commands:\n{text}"
        before, *commands = re.split(r"^\$ ", text, flags=re.M)
        assert not before, f"output without a command:\n{text}"
        for command in commands:
            first, *shown = command.splitlines()
            yield Command(first, shown)


def matches(shown: list[str], printed: str) -> bool:
    """Whether a command printed what is shown.

    `…` stands for any text of a line, or for any lines on a line of its own. Spaces count as one.
    """
    pattern = ""
    for line in shown:
        parts = [re.escape(" ".join(part.split())) for part in line.split("…")]
        pattern += r"(?:.*\n)*" if line == "…" else " ?.* ?".join(parts) + r"\n"
    lines = [" ".join(line.split()) + "\n" for line in printed.splitlines()]
    return re.fullmatch(pattern, "".join(lines)) is not None


def test_the_tutorial() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    scripts = Path(sys.executable).parent
    environment = variables(
        PATH=f"{scripts}{os.pathsep}{os.environ['PATH']}",
        VIRTUAL_ENV=sys.prefix,
        COLUMNS="100",
        # The wheel's torch is there already: nothing is downloaded.
        PIP_NO_INDEX="1",
    )
    ran = 0
    for step in steps(PAGE.read_text(encoding="utf-8")):
        if isinstance(step, File):
            path = FOLDER / step.name
            path.parent.mkdir(exist_ok=True)
            path.write_text(step.text, encoding="utf-8")
            continue
        begun = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", step.text],
            cwd=FOLDER,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        print(f"{time.monotonic() - begun:5.1f} s  {step.text}")
        assert done.returncode == 0, f"{step.text}\n{done.stdout}\n{done.stderr}"
        wanted = "\n".join(step.shown)
        assert matches(step.shown, done.stdout), f"{step.text}\n{done.stdout}\nshown:\n{wanted}"
        ran += 1
        if ELSEWHERE.is_dir():
            packages = sysconfig.get_path("purelib", vars={"base": str(ELSEWHERE)})
            Path(packages, "torch.pth").write_text(f"{torch_folder()}\n")
    assert ran > 10
    shutil.rmtree(ELSEWHERE)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ([], "more\n"),
        (["a b"], "a c\n"),
        (["a", "b"], "a\n"),
        (["a", "…", "b"], "a\nc\n"),
        (["native …"], "python  f\n"),
        (["… 0 failed"], "8 calls, 1 failed\n"),
    ],
)
def test_a_wrong_page_is_noticed(shown: list[str], printed: str) -> None:
    assert not matches(shown, printed)


def test_what_a_page_may_leave_out() -> None:
    printed = "native  f\n\n   1  line 3\nmodule: /a/b.so (source 12)\n"
    assert matches(printed.splitlines(), printed)
    assert matches(["…"], printed)
    assert matches(["native f", "…", "module: …/b.so (…)"], printed)
    with pytest.raises(AssertionError, match="without a name"):
        list(steps("```python\nx = 1\n```\n"))
