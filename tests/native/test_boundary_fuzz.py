"""Random objects at the boundary, in a process of their own: one that ends is a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.fuzz import examples
from support.native import variables

PROGRAM = Path(__file__).parent / "fuzz" / "boundary.py"


@pytest.mark.parametrize("engine", ["fused", "libtorch"])
def test_any_object(native_project, tmp_path, engine) -> None:
    log = tmp_path / "cases"
    built = native_project.path / ".rextio" / "build" / "python"
    done = subprocess.run(
        [
            *(sys.executable, str(PROGRAM), str(built), str(native_project.path)),
            *(str(log), engine, str(examples(500))),
        ],
        env=variables(REXTIO_NATIVE_MODE="native"),
        capture_output=True,
        text=True,
        check=False,
    )
    last = log.read_text().splitlines()[-1] if log.exists() else "none"
    assert done.returncode == 0, f"{done.stderr}\nlast case: {last}"
    print(done.stdout)
