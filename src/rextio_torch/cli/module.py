"""The native module of a project's last build: of which source it is, and whether it loads."""

from __future__ import annotations

from pathlib import Path

from rextio_torch.cli import source
from rextio_torch.cli.build import python_path
from rextio_torch.cli.doctor.check import Check
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError, quoted
from rextio_torch.cli.workers import quick
from rextio_torch.runtime.source_mark import marked_source_ids, shortened

NAME = "native module"


def present_module(project: Path) -> Path | None:
    """Return the native module of a project's last build, if it has one."""
    return next(iter(sorted(python_path(project).glob("_rextio_native*"))), None)


def why_not_loaded(project: Path, environment: Environment) -> CliError | None:
    """Return why the module of a project's last build does not load, or None."""
    orders = {"do": "load", "path": str(python_path(project))}
    outcome = quick("rextio_torch.verify.worker", orders, environment)
    if outcome.is_done:
        return None
    # A damaged file may end the process that loads it.
    return outcome.error or CliError(
        "the native module does not load: every function would run in Python",
        expected=f"_rextio_native in {python_path(project)}",
        found=outcome.ending,
        detail="\n".join(outcome.printed[-20:]) or None,
        repair=f"rextio-torch doctor {quoted(project)}, then rextio-torch build {quoted(project)}",
    )


def check_module(project: Path, environment: Environment) -> list[Check]:
    """Load the module of a project's last build as a program would; no check without a build.

    One that does not load is easily taken for one that works: Rextio then runs Python.
    """
    module = present_module(project)
    if module is None:
        return []
    expected = "the last build loads and is of the present source"
    repair = f"rextio-torch build {quoted(project)}"
    problem = why_not_loaded(project, environment)
    if problem is not None:
        return [Check(NAME, "fail", expected, f"{problem.message}: {problem.found}", repair)]
    marks = marked_source_ids(module)
    if marks == [source.source_id(project, environment)]:
        return [Check(NAME, "ok", expected, f"{module} (source {marks[0][:12]})")]
    found = f"{module} is of another source ({shortened(marks)})"
    return [Check(NAME, "warn", expected, found, repair)]
