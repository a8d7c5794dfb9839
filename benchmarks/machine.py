"""The machine and the versions of a run, without names or paths of the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("rextio-torch", "rextio", "torch", "onnxruntime", "onnx", "numpy")


def describe_machine() -> dict[str, object]:
    """Return processor, cores, memory and system."""
    import torch

    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(_memory_bytes() / 2**30, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "torch_capability": torch.backends.cpu.get_cpu_capability(),
    }


def describe_versions() -> dict[str, str]:
    """Return the version of each package and compiler that takes part."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    for tool in ("rustc", os.environ.get("CXX", "c++")):
        found[Path(tool).name] = _first_line(tool, "--version")
    return found


def load_average() -> float | None:
    """Return how many processes wanted to run in the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return _first_line("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "not installed"
    return (done.stdout.splitlines() or [""])[0]
