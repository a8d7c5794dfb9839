"""Run the tests of the runtime crate under memory checkers.

    python -m tools.sanitize [CHECK...]

`address` is the sanitizer that comes with the stable toolchain, leaks included: the flag that asks
for it is not stable, so the compiler is told to accept it (RUSTC_BOOTSTRAP). Only this crate is
compiled with it, not the standard library. `memcheck` is valgrind, which also finds reads of
memory that nobody wrote; it has no AVX-512, so it runs AVX2 and portable code, on fewer cases.

`module` is AddressSanitizer in a native module inside Python: random objects are given to its
functions (tests/native/fuzz/boundary.py). PyTorch itself is not instrumented, and leaks are not
looked for: the interpreter has many.

All run with buffers of the exact size, none used again (REXTIO_TORCH_EXACT_MEMORY).
Exit 1 on a finding, 2 if a check cannot be done.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tools.cargo import BuildError, test_programs
from tools.paths import CACHE, CRATE, REPOSITORY

#: Tests of memory that is used again, which exact buffers are not.
WITHOUT = ("memory_is_used_again", "small_block_is_used_again", "keeps_few_small_blocks")
TIMEOUT = 1800


@dataclass(frozen=True)
class Check:
    """A checker: how the tests are compiled and run for it."""

    name: str
    #: Flags of rustc, for this crate alone.
    flags: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    #: Tests by program; a program that is not named runs all of its tests.
    tests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


CHECKS = (
    Check(
        "address",
        flags=("-Zsanitizer=address",),
        variables={"ASAN_OPTIONS": "allocator_may_return_null=1:detect_stack_use_after_return=1"},
    ),
    Check(
        "memcheck",
        command=(
            "valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full",
            "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite",
        ),
        variables={"PROPTEST_CASES": "8"},
        # Sweeps over millions of values would take hours.
        tests={
            "engine": ("broadcasting", "used_twice", "a_matrix_times", "handed_out", "product_"),
            "matmul": ("any_", "empty_", "nan_", "vectors"),
            "reduce": ("any_", "_cases", "empty_", "cancel", "maximum_"),
            "unary": ("any_", "edges_", "nan_", "binary_", "gather_"),
        },
    ),
)  # fmt: skip
BY_NAME = {check.name: check for check in CHECKS}
MODULE = "module"
#: Of random objects, for each engine.
EXAMPLES = 1000


def wrapper(name: str, flags: tuple[str, ...]) -> str:
    """Return a program that cargo calls in place of rustc for the crate itself.

    Its path is part of cargo's key, so each checker has programs of its own, and the dependencies
    are compiled once, for the ordinary tests too.
    """
    folder = CACHE / "sanitize"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"rustc-{name}"
    program.write_text(f'#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec "$@" {" ".join(flags)}\n')
    program.chmod(0o755)
    return str(program)


def compile_for(check: Check) -> dict[str, str]:
    """Build the test programs for a checker."""
    return test_programs(
        CRATE,
        {
            "CARGO_TARGET_DIR": str(CACHE / "runtime-crate"),
            "REXTIO_TORCH_EXACT_MEMORY": "1",
            "RUSTC_WORKSPACE_WRAPPER": wrapper(check.name, check.flags),
        },
    )


def check_module(examples: int) -> tuple[bool, str]:
    """Build a native module with AddressSanitizer and give it random objects."""
    project = CACHE / "sanitize" / "project"
    project.mkdir(parents=True, exist_ok=True)
    shutil.copy(REPOSITORY / "tests" / "native" / "sources" / "boundary.py", project)
    build = {
        **os.environ,
        "REXTIO_TORCH_EXACT_MEMORY": "1",
        "RUSTC_WORKSPACE_WRAPPER": wrapper("module", ("-Zsanitizer=address",)),
    }
    cli = [sys.executable, "-m", "rextio_torch.cli"]
    for command in ("init", "build"):
        done = _run([*cli, command, str(project)], build)
        if done.returncode != 0:
            raise BuildError(done.stdout)
    # A library that Python loads finds the checker in the process; the C compiler has one. It wants
    # the library that throws C++ exceptions beside it.
    libraries = [
        _run(["gcc", f"-print-file-name={name}"], dict(os.environ)).stdout.strip()
        for name in ("libasan.so", "libstdc++.so.6")
    ]
    variables = {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_segv=0",
        "REXTIO_NATIVE_MODE": "native",
    }
    built = project / ".rextio" / "build" / "python"
    log = CACHE / "sanitize" / "cases"
    fuzz = REPOSITORY / "tests" / "native" / "fuzz" / "boundary.py"
    for engine in ("fused", "libtorch"):
        arguments = [str(fuzz), str(built), str(project), str(log), engine, str(examples)]
        done = _run([sys.executable, *arguments], variables)
        if done.returncode != 0:
            return False, f"{done.stdout}\nlast case: {log.read_text().splitlines()[-1:]}"
    return True, done.stdout


def _run(command: Sequence[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=CRATE,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        timeout=TIMEOUT,
    )


def run(check: Check, name: str, program: str) -> tuple[bool, str]:
    """Run a test program under a checker; return whether it found nothing, and what it said."""
    variables = {**os.environ, "PROPTEST_FAILURE_PERSISTENCE": "off", **check.variables}
    skipped = [part for name in WITHOUT for part in ("--skip", name)]
    done = _run([*check.command, program, *check.tests.get(name, ()), *skipped], variables)
    return done.returncode == 0, done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen checks; return 1 on a finding, 2 if one cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m tools.sanitize", description=__doc__)
    parser.add_argument(
        "check", nargs="*", help=f"one of {', '.join((*BY_NAME, MODULE))}; all if none"
    )
    chosen = parser.parse_args(arguments).check or [*BY_NAME, MODULE]
    if unknown := sorted(set(chosen) - {*BY_NAME, MODULE}):
        parser.error(f"no such check: {', '.join(unknown)}")
    findings = 0
    try:
        for name in chosen:
            for program, clean, said, output in _results(name):
                findings += not clean
                print(f"{'clean  ' if clean else 'FINDING'}  {name} {program}: {said}", flush=True)
                if not clean:
                    print(output, flush=True)
    except (BuildError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("no findings" if findings == 0 else f"findings in {findings} programs")
    return 1 if findings else 0


def _results(name: str) -> Iterator[tuple[str, bool, str, str]]:
    """Yield each program of a check: its name, whether it is clean, in words, and its output."""
    began = time.monotonic()
    print(f"{name}: compiling", flush=True)
    if name == MODULE:
        clean, output = check_module(EXAMPLES)
        yield "boundary", clean, f"{EXAMPLES} cases, {time.monotonic() - began:.0f} s", output
        return
    check = BY_NAME[name]
    programs = compile_for(check)
    print(f"{name}: compiled in {time.monotonic() - began:.0f} s", flush=True)
    for program, path in sorted(programs.items()):
        began = time.monotonic()
        clean, output = run(check, program, path)
        passed = sum(map(int, re.findall(r"^test result: .* (\d+) passed", output, re.M)))
        yield (
            program,
            # Nothing ran, nothing is known.
            clean and passed > 0,
            f"{passed} tests, {time.monotonic() - began:.0f} s",
            output,
        )


if __name__ == "__main__":
    sys.exit(main())
