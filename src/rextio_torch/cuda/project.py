"""The candidate's project: its source, the device provider it asks for, and the provider's probe.

The provider decides by the report of a probe, a program that it runs. Here that is a script that
prints a report: an invented one to compile the candidate anywhere, or what torch says of the GPU.
"""

from __future__ import annotations

import importlib.metadata
import json
import runpy
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import tomlkit

from rextio_torch import platforms, versions
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.files import write_atomically
from rextio_torch.cli.project import REXTIO_FILE, initialise
from rextio_torch.cuda import chain

MODULE = "chain"
FUNCTION = "chain.chain"
PROBE = "rextio-cuda-driver-probe"


@dataclass(frozen=True)
class Device:
    """A GPU in the words of the provider's probe."""

    ordinal: int
    name: str
    compute_major: int
    compute_minor: int

    @property
    def sm(self) -> str:
        """Its architecture, e.g. `sm_80`."""
        return f"sm_{self.compute_major}{self.compute_minor}"


@dataclass(frozen=True)
class Probe:
    """What a probe reports: the driver's version (13000 is CUDA 13.0) and the GPUs."""

    origin: str
    driver_version: int
    devices: tuple[Device, ...]

    def report(self) -> str:
        """Return the report, as the provider expects it."""
        return json.dumps(
            {
                "schema_version": "1",
                "probe": PROBE,
                "support_claim": False,
                "target": {"os": "linux", "arch": "x86_64", "environment": "gnu"},
                "platform_supported": True,
                "status": "probe-complete",
                "reason_code": None,
                "driver_loaded": True,
                "driver_version": self.driver_version,
                "device_count": len(self.devices),
                "cuda_result": 0,
                "devices": [{**asdict(device), "sm": device.sm} for device in self.devices],
            }
        )


#: No GPU was looked for: with it the candidate is generated and compiled, never run.
SYNTHETIC = Probe("synthetic", 13000, (Device(0, "synthetic, no device was probed", 8, 0),))


def cuda_version(environment: Environment) -> str:
    """Return the CUDA version of the installed torch, or raise `CliError`; torch stays unloaded."""
    host = platforms.lookup(environment.system, environment.machine)
    if not host.cuda_candidate:
        raise CliError(
            f"there is no CUDA candidate for {host.system} {host.machine}",
            expected="Linux x86_64",
            found=f"{host.system} {host.machine}: {host.reason}",
        )
    torch = environment.torch
    found = None
    if torch is not None:
        found = runpy.run_path(str(Path(torch.location) / "version.py")).get("cuda")
    if torch is None or found is None:
        raise CliError(
            "the candidate is compiled against torch's CUDA wheel",
            expected=f"torch {versions.TORCH_VERSION} with CUDA",
            found="no torch" if torch is None else f"torch {torch.version}, without CUDA",
            repair=f'pip install "torch=={versions.TORCH_VERSION}" from PyPI, whose Linux x86_64 '
            "wheel is the CUDA build",
        )
    return str(found)


def require_provider() -> None:
    """Raise `CliError` unless the device provider is installed."""
    wanted = f"{versions.DEVICE_PROVIDER}=={versions.DEVICE_PROVIDER_VERSION}"
    try:
        version = importlib.metadata.version(versions.DEVICE_PROVIDER)
    except importlib.metadata.PackageNotFoundError:
        version = None
    if version != versions.DEVICE_PROVIDER_VERSION:
        raise CliError(
            "the device provider is not installed, or another version of it",
            expected=wanted,
            found=f"{version or 'none'}",
            repair=f'pip install "{wanted}", or the extra "cuda" of rextio-torch',
        )


def write(
    project: Path, environment: Environment, probe: Probe, executable: Path | None = None
) -> None:
    """Write the project; `executable` is a probe to run instead of printing `probe`'s report."""
    project.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(chain.__file__, project / f"{MODULE}.py")
    if executable is None:
        executable = project.resolve() / PROBE
        write_atomically(executable, f"#!/bin/sh\nprintf '%s' '{_quoted(probe.report())}'\n")
        executable.chmod(0o755)
    settings = tomlkit.document()
    settings["target"] = {
        "device_provider": versions.DEVICE_PROVIDER,
        "device_capability": versions.DEVICE_CAPABILITY,
        "device_options": {
            "probe_executable": str(executable.resolve()),
            "device_ordinal": "0",
            "sm": probe.devices[0].sm,
        },
    }
    write_atomically(project / REXTIO_FILE, tomlkit.dumps(settings))
    initialise(project, environment)


def _quoted(text: str) -> str:
    """Return a text as it stands between single quotes of a shell."""
    return text.replace("'", "'\\''")
