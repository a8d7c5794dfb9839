"""Run the cargo tests of the runtime's part without libtorch as AArch64 code, under qemu.

`python -m tools.arm64` on Debian 12 (x86_64). A standard library must come from the compiler's own
build, so the compiler is Debian's `rustc-web` too; cargo is the one on PATH. apt downloads the
packages that the system lacks, with lists and archives in `.cache/arm64`, where they are unpacked:
nothing is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.paths import CACHE, CRATE

FOLDER = CACHE / "arm64"
TARGET = "aarch64-unknown-linux-gnu"
#: The compiler, the linker and the C library for AArch64, and the emulator.
PACKAGES = ("rustc-web", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user-static")
#: Only itself: its dependencies would be AArch64 programs.
LIBRARY = "libstd-rust-web-dev:arm64"

_APT = """\
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; "arm64"; }};
APT::Sandbox::User "root";
Dir::State "{folder}/state";
Dir::State::status "/var/lib/dpkg/status";
Dir::Cache "{folder}/cache";
"""


def _run(command: Sequence[str], folder: Path, **variables: str) -> None:
    print("$", *command, flush=True)
    subprocess.run(command, cwd=folder, env={**os.environ, **variables}, check=True)


def unpacked() -> Path:
    """Return a folder with the packages' files, downloaded the first time."""
    root = FOLDER / "root"
    if root.exists():
        return root
    archives = FOLDER / "cache" / "archives"
    for folder in (FOLDER / "state" / "lists" / "partial", archives / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    configuration = FOLDER / "apt.conf"
    configuration.write_text(_APT.format(folder=FOLDER))

    def apt(*arguments: str) -> None:
        _run(["apt-get", "--quiet", *arguments], archives, APT_CONFIG=str(configuration))

    apt("update")
    apt("install", "--download-only", "--yes", "--no-install-recommends", *PACKAGES)
    apt("download", LIBRARY)
    part = FOLDER / "root.part"
    shutil.rmtree(part, ignore_errors=True)
    for package in sorted(archives.glob("*.deb")):
        _run(["dpkg", "--extract", str(package), str(part)], archives)
    return part.rename(root)


def main() -> None:
    """Compile the tests, and run them."""
    root = unpacked()
    programs = root / "usr" / "bin"
    variables = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(root / "usr" / "lib" / "x86_64-linux-gnu"),
        "RUSTC": str(programs / "rustc"),
        "CARGO_TARGET_DIR": str(FOLDER / "target"),
        "CARGO_BUILD_TARGET": TARGET,
    }
    cargo = f"CARGO_TARGET_{TARGET.upper().replace('-', '_')}_"
    variables |= {
        cargo + "LINKER": str(programs / "aarch64-linux-gnu-gcc"),
        # libc.so is a text with absolute names.
        cargo + "RUSTFLAGS": f"-Clink-arg=--sysroot={root}",
        cargo + "RUNNER": f"qemu-aarch64-static -L {root / 'usr' / 'aarch64-linux-gnu'}",
    }
    _run([str(programs / "rustc"), "--version"], CRATE, **variables)
    _run(["cargo", "test", "--lib", "--tests", "--no-fail-fast"], CRATE, **variables)


if __name__ == "__main__":
    main()
