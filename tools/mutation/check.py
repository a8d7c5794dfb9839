"""Run the test of each row against its mistake; each must fail, and all pass without one."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from tools.cargo import BuildError, test_programs
from tools.mutation.model import Mutation
from tools.mutation.rust import VARIABLE, write_crate
from tools.paths import CRATE, PACKAGE, REPOSITORY

FOLDER = REPOSITORY / ".cache" / "mutation"
#: The tests take seconds; a mistake that never ends is a bad row.
TIMEOUT = 120


class MutationError(Exception):
    """The check itself cannot be done: a row, the copy or the tests are not as they must be."""


def _run(
    command: Sequence[str],
    *,
    cwd: Path,
    timeout: int = TIMEOUT,
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def survivors_in_kernels(rows: Sequence[Mutation]) -> Iterator[tuple[Mutation, bool]]:
    """Yield each row of the runtime crate, and whether its mistake went unnoticed."""
    crate = FOLDER / "crate"
    write_crate(CRATE, crate, rows)
    try:
        programs = test_programs(crate, {"CARGO_TARGET_DIR": str(FOLDER / "target")})
    except BuildError as error:
        raise MutationError(f"the copy with mistakes does not compile:\n{error}") from error

    def command(row: Mutation) -> list[str]:
        target, _, test = row.test.partition("::")
        if target not in programs:
            raise MutationError(f"{row}: no test program {target}")
        return [programs[target], test, "--exact"]

    def survives(numbered: tuple[int, Mutation]) -> tuple[Mutation, bool]:
        number, row = numbered
        done = _run(command(row), cwd=crate, variables={VARIABLE: str(number)})
        if re.search("test result: FAILED. 0 passed; 1 failed", done.stdout):
            return row, False
        if re.search("test result: ok. 1 passed", done.stdout):
            return row, True
        raise MutationError(f"{row}: status {done.returncode}\n{done.stdout}\n{done.stderr}")

    for row in {row.test: row for row in rows}.values():
        done = _run(command(row), cwd=crate)
        if not re.search("test result: ok. 1 passed", done.stdout):
            raise MutationError(f"{row.test} fails without a mistake:\n{done.stdout}{done.stderr}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(survives, enumerate(rows, start=1))


def survivors_in_native(rows: Sequence[Mutation]) -> Iterator[tuple[Mutation, bool]]:
    """Yield each row of the code that needs libtorch, and whether its mistake went unnoticed."""
    folder = FOLDER / "native"
    package = folder / PACKAGE.name
    crate = package / CRATE.relative_to(PACKAGE)
    without = shutil.ignore_patterns("target", "__pycache__", CRATE.name)
    shutil.copytree(PACKAGE, package, ignore=without, dirs_exist_ok=True)
    write_crate(CRATE, crate, rows)
    variables = {"PYTHONPATH": str(folder), "REXTIO_TORCH_TEST_CACHE": str(folder / "cache")}
    where = "import rextio_torch.runtime.loader as it; it.helpers(); print(it.__file__)"

    def run(tests: Sequence[str], number: int) -> subprocess.CompletedProcess[str]:
        found = _run([sys.executable, "-c", where], cwd=folder, variables=variables)
        if not found.stdout.startswith(str(package)) or not (crate / "src").is_dir():
            raise MutationError(f"the tests import {found.stdout.strip()}, not {package}")
        return _run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
            cwd=REPOSITORY,
            timeout=1800,
            variables={**variables, VARIABLE: str(number)},
        )

    done = run(sorted({row.test for row in rows}), 0)
    if done.returncode != 0:
        raise MutationError(f"the tests fail without a mistake:\n{done.stdout}{done.stderr}")
    # One after the other: each run builds the one project again, of which nothing has changed.
    for number, row in enumerate(rows, start=1):
        done = run([row.test], number)
        # Below zero: a signal ended the process, which nobody overlooks.
        if done.returncode > 1:
            raise MutationError(f"{row}: the tests did not run:\n{done.stdout}{done.stderr}")
        yield row, done.returncode == 0


def survivors_in_rules(rows: Sequence[Mutation]) -> Iterator[tuple[Mutation, bool]]:
    """Yield each row of the Python package, and whether its mistake went unnoticed."""
    # Each row has a process of its own, forked from one that has imported what does not change.
    context = multiprocessing.get_context("forkserver")
    preloaded = ["hypothesis", "pytest", "rextio.plugins.api", "syrupy"]
    if any(row.test.startswith("tests/torch") for row in rows):
        preloaded += ["torch", "libcst.metadata", "jaxtyping"]
    context.set_forkserver_preload(preloaded)
    copies = [FOLDER / "python" / str(number) for number in range(len(rows) + 1)]
    for copy, row in zip(copies, (None, *rows), strict=True):
        shutil.rmtree(copy, ignore_errors=True)
        without = shutil.ignore_patterns("target", "__pycache__")
        shutil.copytree(PACKAGE, copy / PACKAGE.name, ignore=without)
        if row is not None:
            path = copy / PACKAGE.name / row.path
            source = path.read_text(encoding="utf-8")
            begin, end = row.span(source)
            path.write_text(source[:begin] + row.wrong + source[end:], encoding="utf-8")
    with ProcessPoolExecutor(mp_context=context, max_tasks_per_child=1) as pool:
        everything = pool.submit(_pytest, copies[0], sorted({row.test for row in rows}))
        results = [
            pool.submit(_pytest, copy, [row.test])
            for copy, row in zip(copies[1:], rows, strict=True)
        ]
        status, output = everything.result()
        if status != 0:
            raise MutationError(f"the tests fail without a mistake:\n{output}")
        for row, result in zip(rows, results, strict=True):
            status, output = result.result()
            if status not in (0, 1):
                raise MutationError(f"{row}: the tests did not run:\n{output}")
            yield row, status == 0


def _pytest(package: Path, tests: list[str]) -> tuple[int, str]:
    """Run tests in this process against a copy of the package; return the status and the output."""
    import pytest

    os.chdir(REPOSITORY)
    sys.path.insert(0, str(package))
    sys.dont_write_bytecode = True
    output = StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        # No conftest: it is for tests that need torch.
        status = pytest.main(["-x", "-q", "--noconftest", "-p", "no:cacheprovider", *tests])
    imported = getattr(sys.modules.get("rextio_torch"), "__file__", None)
    if imported is None or not imported.startswith(str(package)):
        found = f"the tests imported {imported}, not the copy in {package}"
        raise MutationError(f"{found}:\n{output.getvalue()}")
    return int(status), output.getvalue()
