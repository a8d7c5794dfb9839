"""A project's configuration: what `init` writes there and what a build requires of it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.toml_document import TOMLDocument

from rextio_torch import versions
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError, quoted
from rextio_torch.cli.files import (
    read_toml,
    read_toml_text,
    table,
    why_not_writable,
    write_atomically,
)
from rextio_torch.cli.layout import CACHE_VARIABLE, BuildFolder, require_project

REXTIO_FILE = "rextio.toml"
CARGO_FILE = Path(".cargo") / "config.toml"
#: A first build compiles libtorch's C++ bindings, which core's default of 600 s may not allow.
MINIMUM_TIMEOUT_SECONDS = 3600
#: torch-sys then takes libtorch from the active environment's wheel.
LINK_VARIABLE = "LIBTORCH_USE_PYTORCH"


@dataclass
class Change:
    """A file that `init` will write, and why, line by line."""

    path: Path
    text: str
    reasons: list[str] = field(default_factory=list)


def initialise(path: Path, environment: Environment, *, force: bool = False) -> list[str]:
    """Make a folder a project that builds and rebuilds fast; return what was changed.

    Everything is planned before anything is written.
    """
    project = require_project(path, may_be_missing=True)
    if environment.torch is None:
        raise CliError(
            "torch is not installed, and the build folder is named after it",
            expected=f"torch {versions.TORCH_VERSION} in {environment.interpreter.prefix}",
            found="no torch",
            repair=environment.interpreter.pip_install(f"torch=={versions.TORCH_VERSION}"),
        )
    changes = [
        _plan_rextio(project),
        _plan_cargo(
            project,
            BuildFolder.of(project, environment),
            keep_root=not environment.variables.get(CACHE_VARIABLE),
            force=force,
        ),
    ]
    lines = [] if project.exists() else [f"created {project}"]
    for change in changes:
        if change.reasons:
            write_atomically(change.path, change.text)
            name = change.path.relative_to(project).as_posix()
            lines.extend(f"{name}: {why}" for why in change.reasons)
    return lines


def _document(path: Path) -> tuple[TOMLDocument, bool]:
    """Return a file's contents, and whether there is no such file yet."""
    text = read_toml_text(path)
    return tomlkit.parse(text or ""), text is None


def _table(document: TOMLDocument, name: str, path: Path) -> MutableMapping[str, Any]:
    if name not in document:
        document[name] = tomlkit.table()
    found: MutableMapping[str, Any] = table(document, name, path)
    return found


def _enabled(plugins: Mapping[str, Any], path: Path) -> list[str] | None:
    """Return the plugins that a project enables, or refuse what is no list of names."""
    enabled = plugins.get("enabled")
    if enabled is None or (
        isinstance(enabled, list) and all(isinstance(name, str) for name in enabled)
    ):
        return enabled
    raise CliError(
        f"{path}: [plugins] enabled is not a list of names; nothing was written",
        expected=f'enabled = ["{versions.PLUGIN_ID}"]',
        found=f"enabled = {enabled!r}",
        repair=f"make it a list of plugin names in {path}",
    )


def _plan_rextio(project: Path) -> Change:
    path = project / REXTIO_FILE
    document, fresh = _document(path)
    reasons: list[str] = []

    build = _table(document, "build", path)
    timeout = build.get("build_timeout_seconds")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float)):
        raise CliError(
            f"{path}: build_timeout_seconds is not a number; nothing was written",
            expected="a number of seconds",
            found=repr(timeout),
            repair=f"build_timeout_seconds = {MINIMUM_TIMEOUT_SECONDS}",
        )
    if timeout is None or timeout < MINIMUM_TIMEOUT_SECONDS:
        before = "" if timeout is None else f" (was {timeout})"
        reasons.append(
            f"[build] build_timeout_seconds = {MINIMUM_TIMEOUT_SECONDS}{before}, "
            "a first build compiles libtorch's bindings"
        )
        build["build_timeout_seconds"] = MINIMUM_TIMEOUT_SECONDS

    plugins = _table(document, "plugins", path)
    enabled = _enabled(plugins, path)
    if enabled is None or versions.PLUGIN_ID not in enabled:
        if enabled is None:
            plugins["enabled"] = [versions.PLUGIN_ID]
        else:
            enabled.append(versions.PLUGIN_ID)
        reasons.append(f'[plugins] enabled includes "{versions.PLUGIN_ID}"')
    if fresh:
        reasons.insert(0, "created")
    return Change(path, tomlkit.dumps(document), reasons)


def _plan_cargo(project: Path, folder: BuildFolder, *, keep_root: bool, force: bool) -> Change:
    path = project / CARGO_FILE
    legacy = path.with_name("config")
    if legacy.is_file():
        raise CliError(
            f"{legacy} is read by cargo instead of {path.name}; nothing was written",
            expected=str(path),
            found=f"cargo's old file name, {legacy}",
            repair=f"mv {legacy} {path}",
        )
    document, fresh = _document(path)
    reasons: list[str] = []
    wanted = str(folder.cargo)

    build = _table(document, "build", path)
    present = build.get("build-dir")
    ours = BuildFolder.parse(present)
    kept = keep_root and ours is not None and ours.name == folder.name
    if present != wanted and not kept:
        if present is not None and not force and ours is None:
            raise CliError(
                f"{path} already has a build folder of its own; nothing was written",
                expected=f'build-dir = "{wanted}", which belongs to this project, interpreter '
                "and torch alone",
                found=f'build-dir = "{present}"',
                repair=f"rextio-torch init --force {quoted(project)} (replaces it), or remove that "
                "line; a folder that two projects or two environments share gives wrong modules",
            )
        problem = why_not_writable(folder.root)
        if problem is not None:
            raise CliError(
                "build folders cannot be kept there; nothing was written",
                expected=f"a folder that can be written: {folder.root}",
                found=problem,
                repair=f"export {CACHE_VARIABLE}=<a folder of yours>",
            )
        build["build-dir"] = wanted
        before = "" if present is None else f" (was {present})"
        reasons.append(f"[build] build-dir = {wanted}{before}")

    variables = _table(document, "env", path)
    if _env_value(variables.get(LINK_VARIABLE)) != "1":
        before = "" if LINK_VARIABLE not in variables else f" (was {variables[LINK_VARIABLE]!r})"
        variables[LINK_VARIABLE] = "1"
        reasons.append(f'[env] {LINK_VARIABLE} = "1"{before}, link the torch that is installed')
    if fresh:
        reasons.insert(
            0, "created; it and .rextio/ are of this machine only and belong into .gitignore"
        )
    return Change(path, tomlkit.dumps(document), reasons)


def _env_value(entry: Any) -> str | None:
    """Return the value of an entry of cargo's [env], which may be a table with options."""
    if isinstance(entry, dict):
        entry = entry.get("value")
    return None if entry is None else str(entry)


def check_initialised(project: Path, environment: Environment) -> CliError | None:
    """Return what is wrong with a project's configuration for a build here, or None."""
    repair = f"rextio-torch init {quoted(project)}"
    settings, configuration = project / REXTIO_FILE, project / CARGO_FILE
    try:
        enabled = _enabled(table(read_toml(settings), "plugins", settings), settings) or []
        cargo = read_toml(configuration)
        present = table(cargo, "build", configuration).get("build-dir")
        link = table(cargo, "env", configuration).get(LINK_VARIABLE)
    except CliError as error:
        return error
    if versions.PLUGIN_ID not in enabled:
        return CliError(
            f"{project} does not enable this plugin",
            expected=f'"{versions.PLUGIN_ID}" in [plugins] enabled of {REXTIO_FILE}',
            found=f"enabled = {enabled}" if settings.is_file() else f"no {REXTIO_FILE}",
            repair=repair,
        )
    folder = BuildFolder.of(project, environment)
    ours = BuildFolder.parse(present)
    if ours is None or ours.name != folder.name:
        return CliError(
            f"{project} has no build folder for this interpreter and torch"
            if present is not None
            else f"{project} has no build folder",
            expected=f'build-dir = "{folder.cargo}" in {CARGO_FILE}',
            found="no build-dir"
            if present is None
            else f'build-dir = "{present}", which belongs to another project, interpreter or torch',
            repair=repair,
        )
    if _env_value(link) != "1":
        return CliError(
            f"{project} does not tell cargo to link the installed torch",
            expected=f'{LINK_VARIABLE} = "1" in [env] of {CARGO_FILE}',
            found="no such line",
            repair=repair,
        )
    return None


def build_folder(project: Path, environment: Environment) -> BuildFolder:
    """Return the folder that a project is configured to build in, or the one it should have.

    A project keeps its build folder when the variable that chose the cache root is gone.
    """
    folder = BuildFolder.of(project, environment)
    try:
        settings = table(read_toml(project / CARGO_FILE), "build", project / CARGO_FILE)
    except CliError:
        return folder
    ours = BuildFolder.parse(settings.get("build-dir"))
    return folder if ours is None or ours.name != folder.name else ours


def cargo_configurations(project: Path, variables: Mapping[str, str]) -> list[tuple[Path, Any]]:
    """Return the cargo configuration files that apply in a project, nearest first."""
    folders = [parent / ".cargo" for parent in (project, *project.parents)]
    home = variables.get("CARGO_HOME") or os.path.join(variables.get("HOME", ""), ".cargo")
    folders.append(Path(home))
    found: list[tuple[Path, Any]] = []
    for folder in dict.fromkeys(folders):
        for name in ("config", "config.toml"):
            path = folder / name
            if path.is_file():
                try:
                    found.append((path, tomllib.loads(path.read_text(encoding="utf-8"))))
                except (OSError, ValueError):
                    found.append((path, {}))
                break
    return found
