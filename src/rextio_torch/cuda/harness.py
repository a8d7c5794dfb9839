"""Run the candidate on a GPU: for a person who has one and wants to know. Changes no claim."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rextio_torch.cli.build import python_path
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.progress import Display
from rextio_torch.cli.report import error_tail
from rextio_torch.cuda import project
from rextio_torch.cuda.evidence import compile_candidate


def run(
    folder: Path, environment: Environment, display: Display, executable: Path | None = None
) -> dict[str, Any]:
    """Build the candidate for this machine's GPU, run it beside eager, and return the evidence.

    `executable` is the provider's own probe; without it torch is asked what the GPU is. Raises
    `CliError` where there is no GPU.
    """
    probe = probe_of_this_machine()
    _, seen = compile_candidate(folder, environment, display, probe, executable)
    measured = _compare(folder)
    checks = {**seen.pop("checks"), **measured.pop("checks")}
    return {
        "kind": "cuda-candidate-run",
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        **seen,
        **measured,
        "checks": checks,
        "ok": all(checks.values()),
    }


def probe_of_this_machine() -> project.Probe:
    """Return what torch says of the GPUs here, or raise `CliError` if there are none."""
    import torch

    if not torch.cuda.is_available():
        raise CliError(
            "there is no CUDA device, so the candidate cannot run here",
            expected="a GPU that torch can use: torch.cuda.is_available() is True",
            found=f"torch {torch.__version__} (CUDA {torch.version.cuda}) without a usable device",
            repair="python -m rextio_torch.cuda build, which compiles it and runs nothing",
        )
    devices = []
    for ordinal in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(ordinal)
        devices.append(project.Device(ordinal, properties.name, properties.major, properties.minor))
    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return project.Probe("torch.cuda", version.value, tuple(devices))


def _compare(folder: Path) -> dict[str, Any]:
    """Run the comparison in a process of its own: the built modules hide the installed Rextio."""
    paths = [str(python_path(folder.resolve())), os.environ.get("PYTHONPATH", "")]
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "REXTIO_NATIVE_MODE": "native",
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", "rextio_torch.cuda.compare"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CliError(
            f"the candidate failed with exit status {done.returncode}",
            detail=error_tail(done.stderr),
        )
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured
