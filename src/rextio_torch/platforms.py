"""Where this release runs, as data: a host's status is looked up, never probed."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Literal

from rextio_torch.versions import PYTHON_VERSION, TORCH_VERSION

Status = Literal["certified", "expected", "unavailable", "unsupported", "deferred"]

#: A build is allowed here; every other status is refused.
USABLE: frozenset[Status] = frozenset({"certified", "expected"})


@dataclass(frozen=True)
class Platform:
    """One row of the platform table: a host and what this release promises there."""

    system: str
    machine: str
    status: Status
    reason: str
    #: Whether the build-only CUDA candidate may be generated here.
    cuda_candidate: bool = False

    @property
    def host(self) -> str:
        """The host as its users call it."""
        return f"{_NAMES.get(self.system, self.system)} {self.machine}"

    @property
    def usable(self) -> bool:
        """Whether a native build is allowed on this host."""
        return self.status in USABLE


class UnsupportedPlatformError(RuntimeError):
    """A native build was asked for on a host that this release does not serve."""

    def __init__(self, row: Platform) -> None:
        self.platform = row
        super().__init__(
            f"rextio-torch does not build native modules on {row.host} ({row.status}): {row.reason}"
        )


_NAMES = {"Darwin": "macOS"}
_CERTIFIED = "built and certified in this project's continuous integration"
_EXPECTED = "the same code without any x86-only path; expected to work, not certified here"
_NO_WHEEL = f"there is no torch {TORCH_VERSION} wheel for CPython {PYTHON_VERSION} on this host"
_32_BIT = f"32-bit host: there is no torch {TORCH_VERSION} wheel and no libtorch for it"
_WINDOWS = "deferred: not verified, and nothing is claimed for it"

PLATFORMS: tuple[Platform, ...] = (
    Platform("Linux", "x86_64", "certified", _CERTIFIED, cuda_candidate=True),
    Platform("Linux", "aarch64", "expected", _EXPECTED),
    Platform("Linux", "i686", "unsupported", _32_BIT),
    Platform("Linux", "armv7l", "unsupported", _32_BIT),
    Platform("Darwin", "arm64", "expected", _EXPECTED),
    Platform("Darwin", "x86_64", "unavailable", _NO_WHEEL),
    Platform("Darwin", "i686", "unsupported", _32_BIT),
    Platform("Darwin", "armv7l", "unsupported", _32_BIT),
    Platform("Windows", "x86_64", "deferred", _WINDOWS),
    Platform("Windows", "arm64", "deferred", _WINDOWS),
    Platform("Windows", "i686", "deferred", _WINDOWS),
    Platform("Windows", "armv7l", "deferred", _WINDOWS),
)

_SYSTEMS = {"macos": "Darwin", "win32": "Windows"}
_MACHINES = {
    "amd64": "x86_64",
    "x64": "x86_64",
    "i386": "i686",
    "i486": "i686",
    "i586": "i686",
    "x86": "i686",
    "armv7": "armv7l",
    "armv8l": "armv7l",
}
#: Linux and macOS name the same 64-bit ARM differently.
_ARM64 = {"Linux": "aarch64", "Darwin": "arm64", "Windows": "arm64"}

_TABLE = {(row.system, row.machine): row for row in PLATFORMS}


def lookup(system: str | None = None, machine: str | None = None) -> Platform:
    """Return the row of a host (by default this one); unknown hosts are unsupported."""
    raw_system = platform.system() if system is None else system
    raw_machine = platform.machine() if machine is None else machine
    name = _SYSTEMS.get(raw_system.lower(), raw_system.capitalize())
    kind = _MACHINES.get(raw_machine.lower(), raw_machine.lower())
    if kind in {"arm64", "aarch64"}:
        kind = _ARM64.get(name, kind)
    row = _TABLE.get((name, kind))
    if row is not None:
        return row
    return Platform(
        name, kind, "unsupported", "this host is not in the table of supported platforms"
    )


def require_supported(system: str | None = None, machine: str | None = None) -> Platform:
    """Return the row of a usable host, or raise `UnsupportedPlatformError`."""
    row = lookup(system, machine)
    if not row.usable:
        raise UnsupportedPlatformError(row)
    return row
