"""A project: its settings, cargo's configuration, its build folder, and room for it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from rextio_torch import versions
from rextio_torch.cli.dependencies import compiled
from rextio_torch.cli.doctor.check import Check, checked
from rextio_torch.cli.doctor.interpreter import ELSEWHERE
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import quoted
from rextio_torch.cli.files import human_size, why_not_writable
from rextio_torch.cli.layout import cache_root
from rextio_torch.cli.project import (
    CARGO_FILE,
    REXTIO_FILE,
    build_folder,
    cargo_configurations,
    check_initialised,
)
from rextio_torch.cli.toolchain import Toolchain

#: What a build folder and a warm copy of its dependencies take, with room for both.
NEEDED_SPACE = 1_000_000_000


def check_writable(project: Path) -> Check:
    """Permission to write where Rextio keeps what it builds."""
    problem = why_not_writable(project / ".rextio")
    return checked(
        "project folder",
        problem is None,
        "a folder that can be written",
        problem or str(project),
        f"make {project} writable, or copy it and build the copy",
    )


def check_settings(tools: Toolchain, settings: Path) -> Check:
    """Whether Rextio accepts the project's settings: asked of it, with no source to analyse."""
    if not tools.rextio.path:
        return Check(REXTIO_FILE, "warn", "settings that Rextio accepts", "no rextio to ask")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(settings, folder)
        done = tools.environment.run(tools.rextio.path, "check", folder, cwd=ELSEWHERE)
    return checked(
        REXTIO_FILE,
        done.returncode == 0,
        "settings that Rextio accepts",
        str(settings) if done.returncode == 0 else done.first_line,
        f"correct that in {settings} (or a REXTIO_ variable)",
    )


def check_cargo_configuration(environment: Environment, project: Path) -> Check:
    """Cargo's configuration files, of this project and of every folder above it."""
    name = "cargo configuration"
    expected = f"no target-dir, target or {versions.BYPASS_VARIABLE} in the files that apply"
    diverting = (
        ("build", "target-dir", "Rextio looks for the module in the crate's own target"),
        ("build", "target", "Rextio looks for the module in target/release"),
        ("env", versions.BYPASS_VARIABLE, "it disables the check that torch and the binding fit"),
    )
    for path, data in cargo_configurations(project, environment.variables):
        for table, key, why in diverting:
            entries = data.get(table)
            if isinstance(entries, dict) and key in entries:
                found = f"{path}: [{table}] {key} = {entries[key]!r}; {why}"
                return Check(name, "fail", expected, found, f"remove {key} from {path}")
    return Check(name, "ok", expected, "none")


def check_build_folder(environment: Environment, project: Path) -> Check:
    """The project's build folder: its own, of this interpreter and torch."""
    folder = build_folder(project, environment)
    problem = check_initialised(project, environment)
    if problem is not None:
        return Check(
            "build folder",
            "fail",
            problem.expected or "an initialised project",
            problem.found or problem.message,
            problem.repair,
        )
    state = "dependencies compiled" if compiled(folder) else "dependencies not compiled yet"
    return Check(
        "build folder",
        "ok",
        f"the one of this project, interpreter and torch in {CARGO_FILE}",
        f"{folder.folder} ({state})",
    )


def free_space(folder: Path) -> int | None:
    """Return the free bytes where a folder is."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def check_space(environment: Environment, project: Path | None = None) -> Check:
    """Room for a build folder, and permission to make one."""
    folder = None if project is None else build_folder(project, environment)
    root = cache_root(environment.variables) if folder is None else folder.root
    name, expected = "disk space", f"{human_size(NEEDED_SPACE)} free for build folders in {root}"
    problem = why_not_writable(root)
    if problem is not None:
        repair = "export REXTIO_TORCH_CACHE_DIR=<a folder of yours>"
        repair += "" if project is None else f", then rextio-torch init {quoted(project)}"
        return Check(name, "fail", expected, problem, repair)
    free = free_space(next(place for place in (root, *root.parents) if place.exists()))
    if free is None:
        return Check(name, "warn", expected, "not known")
    return checked(
        name,
        free >= NEEDED_SPACE,
        expected,
        f"{human_size(free)} free",
        "rextio-torch cache clear, or export REXTIO_TORCH_CACHE_DIR=<a folder with room>",
        otherwise="warn" if folder is not None and compiled(folder) else "fail",
    )
