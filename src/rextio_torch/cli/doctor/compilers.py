"""The programs that compile: cargo, rustc, and a C++ compiler."""

from __future__ import annotations

import re

from rextio_torch import versions
from rextio_torch.cli.doctor.check import Check, checked
from rextio_torch.cli.environment import Environment, version_tuple
from rextio_torch.cli.project import REXTIO_FILE
from rextio_torch.cli.toolchain import Tool, Toolchain

_INSTALL_RUST = "curl -sSf https://sh.rustup.rs | sh -s -- -y && . ~/.cargo/env"


def check_rust(tools: Toolchain, program: str, tool: Tool) -> Check:
    """Cargo, new enough to honour `build.build-dir`, or the compiler beside it."""
    expected = f"{program} {versions.MINIMUM_RUST_VERSION} or newer"
    if not tool.path:
        configured = tool.problem.startswith("configured")
        repair = f"correct {program} in [toolchain] of {REXTIO_FILE} (or REXTIO_{program.upper()})"
        return Check(
            program, "fail", expected, tool.problem, repair if configured else _INSTALL_RUST
        )
    # Where it runs matters: rustup chooses a toolchain by folder.
    cwd = tools.project if tools.project is not None and tools.project.is_dir() else None
    done = tools.environment.run(tool.path, "--version", cwd=cwd)
    found = re.search(r"\d+\.\d+\.\d+", done.stdout)
    if done.returncode != 0 or found is None:
        return Check(
            program, "fail", expected, f"{tool.path}: {done.first_line}", "rustup default stable"
        )
    channel = tools.environment.variables.get("RUSTUP_TOOLCHAIN")
    return checked(
        program,
        version_tuple(found.group(0)) >= version_tuple(versions.MINIMUM_RUST_VERSION),
        expected,
        f"{done.first_line} ({tool.path})",
        f"choose a newer toolchain than {channel} (rust_toolchain in {REXTIO_FILE}, or "
        "RUSTUP_TOOLCHAIN)"
        if channel
        else "rustup update stable && rustup default stable",
    )


def check_compiler(environment: Environment) -> Check:
    """A C++ compiler for libtorch's bindings, and the linker driver that rustc calls."""
    compiler = environment.variables.get("CXX") or "c++"
    repair = "apt-get install g++ (macOS: xcode-select --install)"
    if environment.variables.get("CXX"):
        repair = f"unset CXX, or {repair}"
    right, found = True, ""
    for program in ("cc", compiler):
        # CXX may carry a launcher or options: `ccache c++`.
        words = program.split()
        path = environment.which(words[0])
        if path is None:
            right, found = False, f"{words[0]} is not on PATH"
            break
        done = environment.run(path, *words[1:], "--version")
        right, found = done.returncode == 0, f"{done.first_line} ({path})"
        if not right:
            break
    return checked("C++ compiler", right, "c++ (or CXX) and cc", found, repair)
