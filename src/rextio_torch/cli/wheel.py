"""`rextio-torch wheel`: a wheel of a built project that stands beside others of its kind.

`rextio_torch.wheels.content` says what is in it; here it gets its name, requirements and file.
"""

from __future__ import annotations

import configparser
import dataclasses
import io
import json
import os
import re
import sysconfig
import tempfile
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pyproject_metadata
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version
from pyproject_metadata import StandardMetadata
from wheel.wheelfile import WheelFile

from rextio_torch import versions
from rextio_torch.cli.build import python_path
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError, quoted
from rextio_torch.cli.files import TEMPORARY_MARK, read_toml, table
from rextio_torch.cli.layout import require_project
from rextio_torch.cli.native import present_build
from rextio_torch.cli.progress import Display
from rextio_torch.cli.toolchain import Toolchain
from rextio_torch.runtime.source_mark import source_ids
from rextio_torch.wheels import licenses
from rextio_torch.wheels.content import Content, assemble

#: Where the wheel goes, in the project: `rextio build` writes its own into `dist`.
FOLDER = "wheelhouse"
PROJECT_FILE = "pyproject.toml"
#: As Rextio calls a project without one.
DEFAULT_VERSION = "0.1.0"
#: What the wheel brings along, or requires exactly.
_OWN_REQUIREMENTS = frozenset({"rextio", "rextio-torch", "torch"})


@dataclass(frozen=True)
class Options:
    """What the command was asked for."""

    name: str | None = None
    version: str | None = None
    out: Path | None = None


@dataclass(frozen=True)
class WheelResult:
    """A wheel and what is in it."""

    wheel: Path
    metadata: StandardMetadata
    content: Content
    source_id: str

    @property
    def requires(self) -> list[str]:
        """What is installed with it."""
        return [str(requirement) for requirement in self.metadata.dependencies]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data."""
        return {
            "wheel": str(self.wheel),
            "name": self.metadata.name,
            "version": str(self.metadata.version),
            "requires": self.requires,
            "requires_python": str(self.metadata.requires_python),
            "source_id": self.source_id,
            "top_level": list(self.content.top_level),
            "native_package": self.content.package,
            "missing": list(self.content.missing),
        }


def make_wheel(
    path: Path, options: Options, environment: Environment, display: Display
) -> WheelResult:
    """Build a project where that is needed, and write its wheel, or raise `CliError`."""
    project = require_project(path)
    metadata = read_metadata(project, options)
    source_id = present_build(project, environment, display)
    built = built_files(project)
    try:
        content = assemble(built, metadata.name)
    except ValueError as error:
        raise CliError(
            f"no wheel can be made of {python_path(project)}",
            expected="the modules that rextio-torch build wrote",
            found=str(error),
            repair=f"rextio-torch build {quoted(project)}",
        ) from error
    native = next(data for path, data in built.items() if path.startswith("_rextio_native."))
    if source_ids(native) != [source_id]:
        raise _changed(project)
    others = other_licenses(project, environment)
    wheel = write_wheel(options.out or project / FOLDER, project, metadata, content, others)
    return WheelResult(wheel, metadata, content, source_id)


def built_files(project: Path) -> dict[str, bytes]:
    """Return the files of a project's last build by their paths there."""
    folder = python_path(project)
    try:
        before = folder.stat().st_ino
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and "__pycache__" not in path.relative_to(folder).parts
        }
        after = folder.stat().st_ino
    except FileNotFoundError as error:
        raise _changed(project) from error
    # A build is replaced as a whole.
    if after != before:
        raise _changed(project)
    return files


def _changed(project: Path) -> CliError:
    return CliError(
        "another build changed the module while the wheel was being made",
        expected="no other build while it is read",
        repair=f"let no other build run in {project}, then rextio-torch wheel {quoted(project)}",
    )


def other_licenses(project: Path, environment: Environment) -> str:
    """Return the licences of what others wrote in a project's wheel."""
    tools = Toolchain.of(environment.for_building(), project)
    crate = project / ".rextio" / "generated" / "rust"
    # Without a platform, crates of all of them count, and those are not here.
    host = tools.environment.run(tools.rustc.path, "--print=host-tuple").first_line
    options = ("--format-version=1", "--locked", "--offline", f"--filter-platform={host}")
    done = tools.environment.run(tools.cargo.path, "metadata", *options, cwd=crate)
    if done.returncode != 0:
        raise CliError(
            "the licences of the crates in the native module are not known",
            expected="cargo metadata to list them in the crate that the last build generated",
            found=done.stderr.strip() or f"exit status {done.returncode}",
            repair=f"rextio-torch build {project}",
        )
    return licenses.third_party_licenses(
        [
            *licenses.distributions("rextio", "rextio-torch"),
            licenses.STANDARD_LIBRARY,
            *licenses.crates(json.loads(done.stdout)),
        ]
    )


def read_metadata(project: Path, options: Options) -> StandardMetadata:
    """Return a wheel's metadata: that of pyproject.toml, if there is one, and what it requires."""
    file = project / PROJECT_FILE
    data = dict(table(read_toml(file), "project", file))
    given = {"name": options.name, "version": options.version}
    data |= {key: value for key, value in given.items() if value is not None}
    dynamic = data.get("dynamic", [])
    if not isinstance(dynamic, list) or not all(isinstance(key, str) for key in dynamic):
        raise _invalid(file, f"dynamic = {dynamic!r}, which is no list of names")
    # What the options say is not left to a build backend.
    data["dynamic"] = dynamic = [key for key in dynamic if given.get(key) is None]
    if dynamic:
        names = ", ".join(dynamic)
        raise CliError(
            f"{file} leaves {names} to its build backend, which does not run here",
            expected="values in [project]",
            found=f"dynamic = {dynamic}",
            repair="rextio-torch wheel --version VERSION"
            if dynamic == ["version"]
            else f"write {names} into [project] of {file}",
        )
    # As Rextio does, with what a name cannot hold left out.
    data.setdefault("name", re.sub("[^A-Za-z0-9._-]+", "-", project.name).strip("-._") or "project")
    data.setdefault("version", DEFAULT_VERSION)
    try:
        canonicalize_name(data["name"], validate=True)
        Version(data["version"])
        metadata = StandardMetadata.from_pyproject({"project": data}, project_dir=project)
    except (InvalidName, InvalidVersion, pyproject_metadata.ConfigurationError, TypeError) as error:
        raise _invalid(file, str(error)) from error
    if (taken := canonicalize_name(metadata.name)) in _OWN_REQUIREMENTS:
        raise CliError(
            f"the wheel would be installed in the place of {taken}",
            expected="a name of its own",
            found=f"name = {metadata.name!r}",
            repair="rextio-torch wheel --name NAME",
        )
    _require_fitting(metadata, file)
    others = [
        it for it in metadata.dependencies if canonicalize_name(it.name) not in _OWN_REQUIREMENTS
    ]
    metadata.dependencies = [*others, Requirement(f"torch=={versions.TORCH_VERSION}")]
    metadata.requires_python = SpecifierSet(f"=={versions.PYTHON_VERSION}.*")
    return metadata


def _invalid(file: Path, found: str) -> CliError:
    return CliError(
        "the wheel has no valid name, version or other metadata",
        expected=f"a [project] table as packages have it in {file}, or --name and --version",
        found=found,
        repair=f"correct {file}, or name them: rextio-torch wheel --name NAME --version VERSION",
    )


def _require_fitting(metadata: StandardMetadata, file: Path) -> None:
    """Refuse metadata that asks for another torch or Python than the native module was built for.

    What a marker makes conditional is not looked at.
    """
    minor = versions.PYTHON_VERSION
    releases = [f"{minor}.{patch}" for patch in range(100)]
    asked = [("requires-python", metadata.requires_python or SpecifierSet(), minor, releases)]
    asked += [
        ("dependency torch", it.specifier, versions.TORCH_VERSION, [versions.TORCH_VERSION])
        for it in metadata.dependencies
        if canonicalize_name(it.name) == "torch" and it.marker is None
    ]
    for what, specifier, version, candidates in asked:
        if not any(specifier.contains(candidate) for candidate in candidates):
            raise CliError(
                f"{file} rules out what the native module was built for",
                expected=f"{what} that allows {version}",
                found=str(specifier),
                repair=f"correct {what} in {file}",
            )


def write_wheel(
    folder: Path, project: Path, metadata: StandardMetadata, content: Content, others: str
) -> Path:
    """Write a wheel, whole or not at all, and return its path; `others` are others' licences."""
    interpreter = f"cp{versions.PYTHON_VERSION.replace('.', '')}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    tag = f"{interpreter}-{interpreter}-{platform}"
    stem = f"{canonicalize_name(metadata.name).replace('-', '_')}-{metadata.version}"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder.resolve() / f"{stem}-{tag}.whl"
    with tempfile.TemporaryDirectory(prefix=f"wheel{TEMPORARY_MARK}", dir=folder) as scratch:
        partial = Path(scratch, target.name)
        with WheelFile(partial, "w") as archive:
            information = _information(project, metadata, tag, others)
            for path, data in sorted(content.files.items()):
                archive.writestr(path, data)
            for path, data in information.items():
                archive.writestr(f"{archive.dist_info_path}/{path}", data)
        os.replace(partial, target)
    return target


def _information(
    project: Path, metadata: StandardMetadata, tag: str, others: str
) -> dict[str, bytes]:
    """Return the files beside RECORD by their names."""
    wheel = EmailMessage()
    wheel["Wheel-Version"] = "1.0"
    wheel["Generator"] = f"rextio-torch {versions.__version__}"
    wheel["Root-Is-Purelib"] = "false"
    wheel["Tag"] = tag
    files = {
        f"licenses/{path.as_posix()}": (project / path).read_bytes()
        for path in metadata.license_files or ()
    }
    files[f"licenses/{licenses.FILE}"] = others.encode()
    # A `license` table, as metadata had it before version 2.4, stands beside no `license-files`.
    if not isinstance(metadata.license, pyproject_metadata.License):
        named = [*(metadata.license_files or ()), Path(licenses.FILE)]
        metadata = dataclasses.replace(metadata, license_files=named)
    points = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    points.optionxform = str  # type: ignore[assignment,method-assign]
    groups = {"console_scripts": metadata.scripts, "gui_scripts": metadata.gui_scripts}
    points.read_dict(
        {name: group for name, group in (groups | metadata.entrypoints).items() if group}
    )
    if points.sections():
        text = io.StringIO()
        points.write(text)
        files["entry_points.txt"] = text.getvalue().encode()
    return {**files, "WHEEL": bytes(wheel), "METADATA": bytes(metadata.as_rfc822())}
