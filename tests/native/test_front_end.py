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


PROGRAM = f"{PACKAGE}.service"


def test_a_program_runs_with_native_functions(built: Path) -> None:
    """It prints its module's name, and what a module-level list says of the calls."""
    command = [sys.executable, "-P", "-m", PROGRAM, "argument"]
    eager = run(command, PYTHONPATH=str(PROJECT))
    native = run(command, PYTHONPATH=str(built), REXTIO_NATIVE_MODE="native")
    assert native.stdout == eager.stdout == "__main__ __main__ [3, 3] [2]\n"


#: What a module of classes and private names is for those who import it.
OBSERVED = f"""import inspect
import pickle
import torch
import {PROGRAM} as service
from rextio_torch import native

print(service.__name__, service.logger.name, service._spread.__module__)
print(service.Settings(), service.Settings.__module__, inspect.signature(service._spread))
model = service.Classifier(3, 4)
print(type(pickle.loads(pickle.dumps(model))) is service.Classifier)
print(inspect.getsource(service.Classifier).splitlines()[0])
print(model(torch.ones(2, 3)).tolist(), service._CALLS)
service.classify = lambda x, weight, bias: "replaced"
print(model(torch.ones(1, 3)))
print({{built}} or native(service._spread))
"""


def test_a_module_is_the_users_own(built: Path) -> None:
    eager = run([sys.executable, "-P", "-c", OBSERVED.format(built=True)], PYTHONPATH=str(PROJECT))
    code = OBSERVED.format(built=False)
    native = run(
        [sys.executable, "-P", "-c", code], PYTHONPATH=str(built), REXTIO_NATIVE_MODE="native"
    )
    *lines, function = native.stdout.splitlines()
    assert [*lines, "True"] == eager.stdout.splitlines()
    assert "built-in function" in function
