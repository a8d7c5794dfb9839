"""Random objects at the boundary, in a process of their own: one that ends is a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.fuzz import examples
from support.native import NativeProject, variables

PROGRAM = Path(__file__).parent / "fuzz" / "boundary.py"


@pytest.mark.parametrize("engine", ["fused", "libtorch"])
def test_any_object(native_project: NativeProject, tmp_path: Path, engine: str) -> None:
    log = tmp_path / "cases"
    built = native_project.path / ".rextio" / "build" / "python"
    arguments = [built, native_project.path, log, engine, examples(400)]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        env=variables(REXTIO_NATIVE_MODE="native"),
        capture_output=True,
        text=True,
        check=False,
    )
    cases = log.read_text(encoding="utf-8").splitlines() if log.exists() else ["none"]
    assert done.returncode == 0, f"{done.stderr}\nstatus {done.returncode}, last case:\n{cases[-1]}"
    assert len(cases) >= examples(400)
