"""The corpus, built from its ordinary code: native results, the fallback, and what callers see."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from support.corpus import CASES, NATIVE, PACKAGE, PROJECT
from support.native import CACHE, REPOSITORY, build, cli, run

BUILT = CACHE / "native" / "corpus"


@pytest.fixture(scope="module")
def built() -> Path:
    shutil.copytree(PROJECT, BUILT, dirs_exist_ok=True)
    run(cli("init", BUILT))
    result = build(BUILT)
    native = {f["qualname"].removeprefix(f"{PACKAGE}.") for f in result["functions"] if f["native"]}
    assert native >= {case.name for case in CASES if case.outcome == NATIVE}
    return BUILT / ".rextio" / "build" / "python"


@pytest.mark.parametrize("mode", ["native", "fallback"])
def test_the_corpus_agrees_with_eager(built: Path, mode: str) -> None:
    """Natively within the bounds of each operator, as fallback bit by bit."""
    command = [sys.executable, "-m", "support.run_corpus", str(built), mode]
    done = run(command, cwd=REPOSITORY / "tests", REXTIO_NATIVE_MODE=mode)
    assert done.stdout == "done\n"


#: A call that fails in the second line of the body, below a docstring that the copy has not.
FAILS = f"""\
import torch
from {PACKAGE}.scoring import ranking_scores

ranking_scores(torch.ones(2, 3), torch.ones(4, 3), torch.ones(5))
"""


def test_a_traceback_of_the_fallback_shows_the_users_line(built: Path) -> None:
    done = run(
        [sys.executable, "-P", "-c", FAILS],
        check=False,
        PYTHONPATH=str(built),
        REXTIO_NATIVE_MODE="fallback",
    )
    wanted = "scores = scores + popularity"
    lines = (PROJECT / PACKAGE / "scoring.py").read_text(encoding="utf-8").splitlines()
    number = lines.index(f"    {wanted}") + 1
    *_, place, line, _, error = done.stderr.splitlines()
    assert place.endswith(f", line {number}, in ranking_scores"), done.stderr
    assert line.strip() == wanted
    assert error.startswith("RuntimeError: The size of tensor a (4)")
