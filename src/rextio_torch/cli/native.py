"""The native side of a project: its module, built where it is not of the present source."""

from __future__ import annotations

from pathlib import Path

from rextio_torch.cli import source
from rextio_torch.cli.build import build, python_path
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError, quoted
from rextio_torch.cli.locks import locked
from rextio_torch.cli.module import present_module
from rextio_torch.cli.progress import Display
from rextio_torch.cli.project import build_folder
from rextio_torch.cli.publish import finish, unfinished
from rextio_torch.cli.report import functions, read_report
from rextio_torch.normalize.annotations import tensor_parameters
from rextio_torch.runtime.source_mark import marked_source_ids, shortened
from rextio_torch.syntax.files import parse_files
from rextio_torch.verify.function import SourceFunction


def present_build(
    project: Path, environment: Environment, display: Display, *, may_build: bool = True
) -> str:
    """Build a project unless its module is of the present source; return the source id."""
    if unfinished(project):
        waiting = display.waiting(f"another build of {project}")
        with locked(build_folder(project, environment).lock, waiting=waiting):
            finish(project)
    source_id = source.source_id(project, environment)
    found = present_module(project)
    marks = [] if found is None else marked_source_ids(found)
    if marks == [source_id]:
        return source_id
    if may_build:
        result = build(project, environment, display)
        if result.module is None:
            raise _nothing_native(project)
        return result.source_id
    where = "no module" if found is None else f"{found} of source {shortened(marks)}"
    raise CliError(
        "the native module was not built from the present source",
        expected=f"a module of source {source_id[:12]} in {python_path(project)}",
        found=where,
        repair=f"rextio-torch build {quoted(project)}, or leave out --no-build",
    )


def native_functions(project: Path) -> list[SourceFunction]:
    """Return the native functions of a project's last build; raises `CliError` without any."""
    report = read_report(project, "check.json")
    modules = {Path(module["file_path"]): module["module_name"] for module in report["modules"]}
    files = parse_files(modules)
    found = []
    for module in report["modules"]:
        file = Path(module["file_path"])
        tensors = tensor_parameters(files[file]) if file in files else {}
        for item in functions({"modules": [module]}):
            name = item.qualname.rpartition(".")[2]
            if item.uses_this_plugin:
                own = tensors.get(name, {})
                found.append(SourceFunction(module["module_name"], name, file, own))
    if not found:
        raise _nothing_native(project)
    return found


def _nothing_native(project: Path) -> CliError:
    return CliError(
        f"no function of {project} is native",
        expected="a native function",
        found="functions that run in Python",
        repair=f"rextio-torch build {quoted(project)}, which says why each function runs in Python",
    )
