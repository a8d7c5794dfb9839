"""A project's configuration: what `init` writes there and what a build requires of it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.toml_document import TOMLDocument

from rextio_torch import versions
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.files import read_toml, read_toml_text, write_atomically
from rextio_torch.cli.layout import CACHE_VARIABLE, BuildFolder, is_ours

REXTIO_FILE = "rextio.toml"
CARGO_FILE = Path(".cargo") / "config.toml"
#: A first build compiles libtorch's C++ bindings, which core's default of 600 s may not allow.
MINIMUM_TIMEOUT_SECONDS = 3600
#: torch-sys then takes libtorch from the active environment's wheel.
LINK_VARIABLE = "LIBTORCH_USE_PYTORCH"
GITIGNORE_LINES = (".rextio/", ".cargo/config.toml")


@dataclass
class Change:
    """A file that `init` will write, and why, line by line."""

    path: Path
    text: str
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class InitResult:
    """What `init` did."""

    project: Path
    build_folder: BuildFolder
    lines: tuple[str, ...]


def initialise(path: Path, environment: Environment, *, force: bool = False) -> InitResult:
    """Make a folder a project that builds and rebuilds fast; all files are planned first."""
    if path.exists() and not path.is_dir():
        raise CliError(
            f"{path} is not a folder",
            expected="a folder, or a path where one can be made",
            found="a file",
            repair="name the project's folder",
        )
    project = path.resolve()
    if environment.torch is None:
        raise CliError(
            "torch is not installed, and the build folder is named after it",
            expected=f"torch {versions.TORCH_VERSION} in {environment.interpreter.prefix}",
            found="no torch",
            repair=f"{environment.interpreter.executable} -m pip install "
            f'"torch=={versions.TORCH_VERSION}"',
        )
    folder = BuildFolder.of(project, environment)
    changes = [
        _plan_rextio(project),
        _plan_cargo(
            project, folder, keep_root=not environment.variables.get(CACHE_VARIABLE), force=force
        ),
        _plan_gitignore(project),
    ]
    lines: list[str] = []
    if not project.exists():
        lines.append(f"created {project}")
    for change in changes:
        if change is not None and change.reasons:
            write_atomically(change.path, change.text)
            lines.extend(f"{_relative(change.path, project)}: {why}" for why in change.reasons)
    return InitResult(project, folder, tuple(lines))


def _relative(path: Path, project: Path) -> str:
    return path.relative_to(project).as_posix()


def _document(path: Path) -> TOMLDocument | None:
    text = read_toml_text(path)
    return None if text is None else tomlkit.parse(text)


def _table(document: TOMLDocument, name: str, path: Path) -> MutableMapping[str, Any]:
    if name not in document:
        document[name] = tomlkit.table()
    table: Any = document[name]
    if not isinstance(table, MutableMapping):
        raise CliError(
            f"{path}: {name!r} is not a table; nothing was written",
            expected=f"[{name}]",
            found=f"{name} = {table!r}"[:80],
            repair=f"make it a table, [{name}]",
        )
    return table


def _plan_rextio(project: Path) -> Change:
    path = project / REXTIO_FILE
    document = _document(path)
    fresh = document is None
    document = tomlkit.document() if document is None else document
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
    enabled = plugins.get("enabled")
    if enabled is not None and not isinstance(enabled, list):
        raise CliError(
            f"{path}: [plugins] enabled is not a list; nothing was written",
            expected=f'enabled = ["{versions.PLUGIN_ID}"]',
            found=f"enabled = {enabled!r}",
            repair="make it a list of plugin names",
        )
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
    document = _document(path)
    fresh = document is None
    document = tomlkit.document() if document is None else document
    reasons: list[str] = []
    wanted = str(folder.cargo)

    build = _table(document, "build", path)
    present = build.get("build-dir")
    kept = keep_root and folder.at(present) is not None
    if present != wanted and not kept:
        if present is not None and not force and not is_ours(Path(str(present))):
            raise CliError(
                f"{path} already has a build folder of its own; nothing was written",
                expected=f'build-dir = "{wanted}", which belongs to this project, interpreter '
                "and torch alone",
                found=f'build-dir = "{present}"',
                repair=f"rextio-torch init --force {project} (replaces it), or remove that line; "
                "a folder that two projects or two environments share gives wrong modules",
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
        reasons.insert(0, "created; paths of this machine, so keep it out of version control")
    return Change(path, tomlkit.dumps(document), reasons)


def _env_value(entry: Any) -> str | None:
    """Return the value of an entry of cargo's [env], which may be a table with options."""
    if isinstance(entry, dict):
        entry = entry.get("value")
    return None if entry is None else str(entry)


def _plan_gitignore(project: Path) -> Change | None:
    path = project / ".gitignore"
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError):
        return None
    if not path.exists() and not (project / ".git").exists():
        return None
    present = {line.strip() for line in text.splitlines()}
    missing = [line for line in GITIGNORE_LINES if not _ignored(line, present)]
    if not missing:
        return None
    if text and not text.endswith("\n"):
        text += "\n"
    return Change(
        path, text + "".join(f"{line}\n" for line in missing), [f"added {line}" for line in missing]
    )


def _ignored(line: str, present: Iterable[str]) -> bool:
    known = {entry.strip("/") for entry in present}
    parts = line.strip("/").split("/")
    return any("/".join(parts[: count + 1]) in known for count in range(len(parts)))


def check_initialised(project: Path, environment: Environment) -> CliError | None:
    """Return what is wrong with a project's configuration for a build here, or None."""
    repair = f"rextio-torch init {project}"
    try:
        settings = read_toml(project / REXTIO_FILE)
        cargo = read_toml(project / CARGO_FILE)
    except CliError as error:
        return error
    enabled = settings.get("plugins", {}).get("enabled", ())
    if versions.PLUGIN_ID not in enabled:
        return CliError(
            f"{project} does not enable this plugin",
            expected=f'"{versions.PLUGIN_ID}" in [plugins] enabled of {REXTIO_FILE}',
            found=f"no {REXTIO_FILE}" if not settings else f"enabled = {list(enabled)}",
            repair=repair,
        )
    folder = BuildFolder.of(project, environment)
    present = cargo.get("build", {}).get("build-dir")
    if folder.at(present) is None:
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
    if _env_value(cargo.get("env", {}).get(LINK_VARIABLE)) != "1":
        return CliError(
            f"{project} does not tell cargo to link the installed torch",
            expected=f'{LINK_VARIABLE} = "1" in [env] of {CARGO_FILE}',
            found="no such line",
            repair=repair,
        )
    return None


def build_folder(project: Path, environment: Environment) -> BuildFolder:
    """Return the folder that a project is configured to build in, or the one it should have."""
    folder = BuildFolder.of(project, environment)
    try:
        settings = read_toml(project / CARGO_FILE)
    except CliError:
        return folder
    return folder.at(settings.get("build", {}).get("build-dir")) or folder


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
