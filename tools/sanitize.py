"""Run the tests of the runtime crate under memory checkers.

    python -m tools.sanitize [CHECK...]

`address` is the sanitizer that comes with the stable toolchain, leaks included: the flag that asks
for it is not stable, so the compiler is told to accept it (RUSTC_BOOTSTRAP). Only this crate is
compiled with it, not the standard library. `memcheck` is valgrind, which also finds reads of
memory that nobody wrote; it has no AVX-512, so it runs AVX2 and portable code, on fewer cases.

Both run with buffers of the exact size, none used again (REXTIO_TORCH_EXACT_MEMORY).
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.cargo import BuildError, test_programs

REPOSITORY = Path(__file__).parent.parent
CRATE = REPOSITORY / "src" / "rextio_torch" / "runtime" / "rust"
CACHE = REPOSITORY / ".cache"
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


def compile_for(check: Check) -> dict[str, str]:
    """Build the test programs for a checker."""
    folder = CACHE / "sanitize"
    folder.mkdir(parents=True, exist_ok=True)
    # A wrapper's path is part of cargo's key, so each checker has programs of its own, and the
    # dependencies are compiled once, for the ordinary tests too.
    wrapper = folder / f"rustc-{check.name}"
    wrapper.write_text(f'#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec "$@" {" ".join(check.flags)}\n')
    wrapper.chmod(0o755)
    return test_programs(
        CRATE,
        {
            "CARGO_TARGET_DIR": str(CACHE / "runtime-crate"),
            "REXTIO_TORCH_EXACT_MEMORY": "1",
            "RUSTC_WORKSPACE_WRAPPER": str(wrapper),
        },
    )


def run(check: Check, name: str, program: str, cases: int | None = None) -> tuple[bool, str]:
    """Run a test program under a checker; return whether it found nothing, and what it said."""
    variables = {
        "PROPTEST_FAILURE_PERSISTENCE": "off",
        **check.variables,
        **({} if cases is None else {"PROPTEST_CASES": str(cases)}),
    }
    skipped = [part for name in WITHOUT for part in ("--skip", name)]
    done = subprocess.run(
        [*check.command, program, *check.tests.get(name, ()), *skipped],
        cwd=CRATE,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        timeout=TIMEOUT,
    )
    return done.returncode == 0, done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen checks; return 1 on a finding, 2 if one cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m tools.sanitize", description=__doc__)
    parser.add_argument("check", nargs="*", help=f"one of {', '.join(BY_NAME)}; all if none")
    chosen = parser.parse_args(arguments).check or list(BY_NAME)
    if unknown := sorted(set(chosen) - set(BY_NAME)):
        parser.error(f"no such check: {', '.join(unknown)}")
    findings = 0
    for check in (BY_NAME[name] for name in chosen):
        if check.command and shutil.which(check.command[0]) is None:
            print(f"error: {check.command[0]} is not installed", file=sys.stderr)
            return 2
        print(f"{check.name}: compiling", flush=True)
        began = time.monotonic()
        try:
            programs = compile_for(check)
        except BuildError as error:
            print(f"error: the tests do not compile for {check.name}:\n{error}", file=sys.stderr)
            return 2
        print(f"{check.name}: compiled in {time.monotonic() - began:.0f} s", flush=True)
        for name, program in sorted(programs.items()):
            if check.tests.get(name) == ():
                continue
            began = time.monotonic()
            clean, output = run(check, name, program)
            passed = sum(map(int, re.findall(r"^test result: .* (\d+) passed", output, re.M)))
            clean = clean and passed > 0
            findings += not clean
            print(
                f"{'clean   ' if clean else 'FINDING '}  {check.name} {name}: {passed} tests, "
                f"{time.monotonic() - began:.0f} s",
                flush=True,
            )
            if not clean:
                print(output, flush=True)
    print("no findings" if findings == 0 else f"findings in {findings} programs")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
