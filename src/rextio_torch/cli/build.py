"""`rextio-torch build`: `rextio build` with its dependencies, its lock and its proof.

In this order: checks that need no build, the lock, the dependencies, `rextio build`, and then the
proof that the module was built from this source. The lock is held from before anything touches the
build folder until the module has been copied and checked.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rextio_torch.cli import doctor, source
from rextio_torch.cli.dependencies import Dependencies
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.layout import require_project, write_origin
from rextio_torch.cli.locks import locked
from rextio_torch.cli.progress import Display
from rextio_torch.cli.project import build_folder, check_initialised
from rextio_torch.cli.report import Function, error_tail, failure_text, functions, read_report
from rextio_torch.cli.toolchain import Toolchain


@dataclass(frozen=True)
class BuildResult:
    """What a build gave."""

    project: Path
    source_id: str
    functions: list[Function]
    module: Path | None
    dependencies: str
    seconds: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data."""
        return {
            "project": str(self.project),
            "source_id": self.source_id,
            "functions": [function.to_dict() for function in self.functions],
            "module": None if self.module is None else str(self.module),
            "dependencies": self.dependencies,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }


def build(path: Path, environment: Environment, display: Display) -> BuildResult:
    """Build a project, or raise `CliError`."""
    started = time.monotonic()
    project = require_project(path)
    tools = Toolchain.of(environment.for_building(), project)
    problem = check_initialised(project, tools.environment)
    if problem is not None:
        raise problem
    failed = doctor.failures(doctor.run_checks(tools, deep=False))
    if failed:
        raise doctor.UnfitEnvironmentError(failed)
    folder = build_folder(project, tools.environment)
    seconds = {"checks": time.monotonic() - started}

    waited = time.monotonic()
    with locked(folder.lock, waiting=display.waiting(f"another build of {project}")) as lock:
        seconds["lock"] = time.monotonic() - waited
        folder.folder.mkdir(parents=True, exist_ok=True)
        write_origin(folder.folder, tools.environment, project)

        begun = time.monotonic()
        how = Dependencies(project, folder, tools, display, lock).prepare()
        seconds["dependencies"] = time.monotonic() - begun

        begun = time.monotonic()
        source_id = source.source_id(project, environment)
        _run_rextio(project, tools, source_id, display, lock)
        seconds["build"] = time.monotonic() - begun

        listed = functions(read_report(project, "check.json"))
        module = built_module(project, read_report(project, "build.json"))
        verify(module, listed, source_id, project)
        if source.source_id(project, environment) != source_id:
            raise CliError(
                "the source changed while it was being built",
                expected="the same files before and after",
                found="an edit in between",
                repair=f"rextio-torch build {path}",
            )
    seconds["total"] = time.monotonic() - started
    return BuildResult(project, source_id, listed, module, how, seconds)


def _run_rextio(
    project: Path, tools: Toolchain, source_id: str, display: Display, lock: int
) -> None:
    status, output = display.run(
        "building the project",
        [tools.rextio.path, "build", str(project), "--fallback=cpython"],
        variables={**tools.variables, source.SOURCE_ID_VARIABLE: source_id},
        cwd=project,
        # Rextio keeps the lock even if this process is killed: it is what copies the module.
        keep=(lock,),
    )
    if status == 0:
        return
    detail: str | None = None
    with contextlib.suppress(CliError):
        detail = failure_text(read_report(project, "build.json"))
    raise CliError(
        f"rextio build failed with exit status {status}",
        expected="a built module",
        detail=detail or error_tail(output),
        repair=f"rextio-torch doctor {project}; all of it is in .rextio/reports/build.json there",
    )


def built_module(project: Path, report: Mapping[str, Any]) -> Path | None:
    """Return the native module that this build installed, or None where it built none."""
    native = report.get("native_build")
    if not isinstance(native, dict) or native.get("status") != "built":
        return None
    folder = project / ".rextio" / "build" / "python"
    found = sorted(folder.glob("_rextio_native*"))
    if not found:
        raise CliError(
            "the built module is missing",
            expected=str(folder / "_rextio_native….so"),
            found="no such file",
            repair=f"rextio-torch build {project}",
        )
    return found[0]


def verify(module: Path | None, listed: list[Function], source_id: str, project: Path) -> None:
    """Require that the module carries the mark of this source and of no other, or remove it."""
    expected = any(function.uses_this_plugin for function in listed)
    marks = [] if module is None else source.marked_source_ids(module)
    if marks == [source_id] or (not expected and not marks):
        return
    if module is not None:
        # Better no module than another source's: the functions then run in Python.
        for name in ("build", "generated"):
            (project / ".rextio" / name / "python" / module.name).unlink(missing_ok=True)
    if not marks:
        found = "no module" if module is None else f"{module} without a mark"
    elif marks == [source.NO_SOURCE_ID]:
        found = f"{module}, built without this command"
    else:
        found = f"{module} of source {', '.join(mark[:12] for mark in marks)}"
    raise CliError(
        "the built module is not this source's"
        + ("" if module is None else "; it was removed, and the functions run in Python"),
        expected=f"a module of source {source_id[:12]}",
        found=found,
        repair=f"let no other build run in {project}, then rextio-torch build {project}; if it "
        f"stays, rextio-torch cache clear --project {project}",
    )
