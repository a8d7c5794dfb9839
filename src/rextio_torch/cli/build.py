"""`rextio-torch build`: `rextio build` with its dependencies, its lock and its proof.

In this order: checks that need no build, the lock, the dependencies, `rextio build`, and then the
proof that the module was built from this source. The lock is held from before anything touches the
build folder until the module has been copied and checked.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rextio_torch.cli import doctor, source
from rextio_torch.cli.dependencies import Dependencies
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError, quoted
from rextio_torch.cli.isolation import Isolation, note_kept
from rextio_torch.cli.layout import require_project, write_origin
from rextio_torch.cli.locks import locked
from rextio_torch.cli.progress import Display
from rextio_torch.cli.project import build_folder, check_initialised
from rextio_torch.cli.publish import finish, publish
from rextio_torch.cli.report import INLINED, Function, functions, read_report, with_reason
from rextio_torch.cli.rextio import run_rextio
from rextio_torch.cli.staging import Staged, stage, users_explanation, users_report
from rextio_torch.cli.toolchain import Toolchain
from rextio_torch.explain.join import explain
from rextio_torch.runtime.source_mark import (
    NO_SOURCE_ID,
    SOURCE_ID_VARIABLE,
    marked_source_ids,
    shortened,
)


@dataclass(frozen=True)
class BuildResult:
    """What a build gave."""

    project: Path
    source_id: str
    functions: list[Function]
    module: Path | None
    dependencies: str
    seconds: dict[str, float]
    #: The wheel that `rextio build` wrote: it collides with others of its kind.
    core_wheel: Path | None = None
    #: The functions that stay on Python so that the rest could be built, and why.
    isolated: Mapping[str, str] = field(default_factory=dict)

    @property
    def not_native(self) -> list[str]:
        """The functions with tensor annotations that run in Python."""
        return [
            f.qualname
            for f in self.functions
            if f.has_tensors and not f.native and f.route != INLINED
        ]

    @property
    def wrong_defaults(self) -> list[str]:
        """The native functions that fail where a call leaves a parameter out."""
        return [f.qualname for f in self.functions if f.native and f.wrong_defaults]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data."""
        return {
            "project": str(self.project),
            "source_id": self.source_id,
            "functions": [function.to_dict() for function in self.functions],
            "not_native": self.not_native,
            "wrong_defaults": self.wrong_defaults,
            "isolated": dict(self.isolated),
            "module": None if self.module is None else str(self.module),
            "python_path": str(python_path(self.project)),
            "core_wheel": None if self.core_wheel is None else str(self.core_wheel),
            "dependencies": self.dependencies,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }


def build(
    path: Path, environment: Environment, display: Display, *, require_native: bool = False
) -> BuildResult:
    """Build a project, or raise `CliError`.

    With `require_native` also where a function would stay on Python so that the rest is built.
    """
    started = time.monotonic()
    project = require_project(path)
    tools = Toolchain.of(environment.for_building(), project)
    problem = check_initialised(project, tools.environment)
    if problem is not None:
        raise problem
    failed = doctor.failures(doctor.run_checks(tools))
    if failed:
        raise doctor.UnfitEnvironmentError(failed)
    folder = build_folder(project, tools.environment)
    seconds = {"checks": time.monotonic() - started}

    waited = time.monotonic()
    with locked(folder.lock, waiting=display.waiting(f"another build of {project}")) as lock:
        seconds["lock"] = time.monotonic() - waited
        folder.folder.mkdir(parents=True, exist_ok=True)
        write_origin(folder.folder, tools.environment, project)
        finish(project)

        begun = time.monotonic()
        source_id = source.source_id(project, environment)
        staged = stage(project, project / ".rextio" / "staged" / project.name)
        for link in source.linked_folders(project):
            display.say(
                f"note: {link} is a link to a folder, which Rextio does not follow: its "
                "modules are not in the build"
            )
        seconds["rewriting"] = time.monotonic() - begun

        begun = time.monotonic()
        isolation = Isolation(tools, display, require_native=require_native)
        how, staged = isolation.run(
            lambda copy: Dependencies(project, copy, folder, tools, display, lock).prepare(), staged
        )
        seconds["dependencies"] = time.monotonic() - begun

        begun = time.monotonic()
        variables = {SOURCE_ID_VARIABLE: source_id}
        _, staged = isolation.run(
            lambda copy: run_rextio("build", copy, tools, display, lock, variables), staged
        )
        note_kept(staged)
        listed = _listed(staged)
        report = read_report(staged.folder, "build.json")
        built = built_module(staged.folder, report)
        require_source_mark(built, listed, source_id, project)
        if source.source_id(project, environment) != source_id:
            raise CliError(
                "the source changed while it was being built",
                expected="the same files before and after",
                found="an edit in between",
                repair=f"rextio-torch build {quoted(path)}",
            )
        published = publish(staged, core_wheel(report))
        seconds["build"] = time.monotonic() - begun
    seconds["total"] = time.monotonic() - started
    module = None if built is None else python_path(project) / built.name
    wheel = None if module is None else published
    return BuildResult(project, source_id, listed, module, how, seconds, wheel, staged.kept)


def _listed(staged: Staged) -> list[Function]:
    """Return the functions as they will run, those in Python with what `explain` says of them."""
    check = read_report(staged.folder, "check.json")
    unseen = staged.unseen().keys()
    answer = explain(staged.folder, check, lambda path: path in staged.files, unseen=unseen)
    said = {it.qualname: it for it in users_explanation(answer, staged).functions}
    listed = functions(users_report(check, staged), staged.tensor_functions())
    return [with_reason(function, said.get(function.qualname)) for function in listed]


def python_path(project: Path) -> Path:
    """Return the folder that the built modules are imported from."""
    return project / ".rextio" / "build" / "python"


def built_module(project: Path, report: Mapping[str, Any]) -> Path | None:
    """Return the native module that this build installed, or None where it built none."""
    native = report.get("native_build")
    if not isinstance(native, dict) or native.get("status") != "built":
        return None
    folder = python_path(project)
    found = sorted(folder.glob("_rextio_native*"))
    if not found:
        raise CliError(
            "the built module is missing",
            expected=str(folder / "_rextio_native….so"),
            found="no such file",
            repair=f"rextio-torch build {quoted(project)}",
        )
    return found[0]


def core_wheel(report: Mapping[str, Any]) -> Path | None:
    """Return the wheel that this `rextio build` wrote, if it did."""
    built = report.get("wheel_build")
    path = built.get("path") if isinstance(built, dict) else None
    return Path(path) if isinstance(path, str) else None


def require_source_mark(
    module: Path | None, listed: list[Function], source_id: str, project: Path
) -> None:
    """Require that the module carries the mark of this source and of no other."""
    expected = any(function.uses_this_plugin for function in listed)
    marks = [] if module is None else marked_source_ids(module)
    if marks == [source_id] or (not expected and not marks):
        return
    if not marks:
        found = "no module" if module is None else f"{module} without a mark"
    elif marks == [NO_SOURCE_ID]:
        found = f"{module}, built without this command"
    else:
        found = f"{module} of source {shortened(marks)}"
    raise CliError(
        "the built module is not this source's",
        expected=f"a module of source {source_id[:12]}",
        found=found,
        repair=f"let no other build run in {project}, then rextio-torch build {quoted(project)}; "
        f"if it stays, rextio-torch cache clear --project {quoted(project)}",
    )
