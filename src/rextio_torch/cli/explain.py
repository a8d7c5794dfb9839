"""`rextio-torch explain`: what `rextio check` says of a project's copy, joined with the tables."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from rextio_torch import versions
from rextio_torch.cli.environment import TRACEBACK, Completed, Environment
from rextio_torch.cli.errors import CliError, quoted
from rextio_torch.cli.files import read_toml
from rextio_torch.cli.isolation import Isolation, kept_lines, noted
from rextio_torch.cli.progress import Display
from rextio_torch.cli.project import REXTIO_FILE
from rextio_torch.cli.report import parse_errors, read_report
from rextio_torch.cli.rextio import generate, generator_failure, not_python, not_readable
from rextio_torch.cli.source import project_folders, source_files
from rextio_torch.cli.staging import Staged, stage, users_explanation, users_report
from rextio_torch.cli.toolchain import Toolchain
from rextio_torch.explain.forms.table import BY_ID
from rextio_torch.explain.join import explain
from rextio_torch.explain.model import Explanation
from rextio_torch.syntax.files import module_name
from rextio_torch.syntax.source import SourceFile, UnreadableError

#: As many functions without tensor types are named.
_MOST_NAMES = 10


def explain_path(path: Path, environment: Environment, *, normalize: bool = True) -> Explanation:
    """Explain the functions of a file, or of the files under a folder; or raise `CliError`."""
    if not path.exists():
        raise CliError(
            f"{path} does not exist",
            expected="a Python file, or the folder of a project",
            found="nothing",
            repair="rextio-torch explain <file or folder>",
        )
    if path.is_file() and path.suffix != ".py":
        raise CliError(
            f"{path} is not a Python file",
            expected="a file named *.py, or a folder",
            found=path.name,
            repair="rextio-torch explain <file or folder>",
        )
    wanted = path.resolve()
    answers = [
        _explain_in(project, wanted, environment, normalize=normalize)
        for project in _projects(wanted)
    ]
    return Explanation(
        tuple(project for answer in answers for project in answer.projects),
        tuple(function for answer in answers for function in answer.functions),
        {file: found for answer in answers for file, found in answer.files.items()},
        tuple(finding for answer in answers for finding in answer.everywhere),
        tuple(note for answer in answers for note in answer.notes),
    )


def _explain_in(
    project: Path, wanted: Path, environment: Environment, *, normalize: bool
) -> Explanation:
    enabled, notes = _enabled(project)
    tools = Toolchain.of(environment.for_building(), project)
    with tempfile.TemporaryDirectory(prefix="rextio-torch-explain-") as folder:
        staged = stage(project, Path(folder) / project.name, normalize=normalize)
        report, stopped = check_report(staged, tools, enabled)
        listed = {Path(module.get("file_path", "")) for module in report.get("modules", ())}
        inside = wanted.relative_to(project) if wanted.is_relative_to(project) else "."
        copied = staged.folder / inside
        if wanted.is_file() and copied not in listed:
            raise CliError(
                f"{wanted} is left out of the project {project}",
                expected="a file that Rextio reads",
                found="one that .rextioignore or a folder's name (build, dist, venv, …) excludes",
                repair=f"take it out of {project / '.rextioignore'}, or move it",
            )
        if stopped is not None and normalize:
            staged, stopped = _isolated(staged, tools, enabled)
        if staged.kept:
            report = noted(check_report(staged, tools, enabled)[0], staged.kept)
        try:
            answer = explain(
                staged.folder,
                report,
                lambda file: file.is_relative_to(copied),
                stopped,
                staged.unseen().keys(),
            )
        except UnreadableError as error:
            path = project / error.path.relative_to(staged.folder)
            raise CliError(
                f"{path} cannot be explained: libcst does not know some of its syntax",
                expected="syntax that libcst parses",
                found=error.reason[:300],
                repair="write that place another way, or explain another file; a build leaves "
                "such a file as it is",
            ) from error
        plain = _plain(staged, wanted, everywhere=not answer.functions)
        notes = (*kept_lines(staged.kept), *plain, *notes)
        found = users_explanation(answer, staged, lambda file: file.is_relative_to(wanted))
        return replace(found, notes=notes)


def _plain(staged: Staged, wanted: Path, *, everywhere: bool) -> Iterator[str]:
    """Say which functions could be native if their annotations said more than `torch.Tensor`.

    `everywhere` also in files that nothing else is to be said of.
    """
    project = staged.project
    files = {normal.file.path: normal.file for normal in staged.files.values()}
    if everywhere:
        for path in source_files(project):
            if path.suffix == ".py" and path not in files and b"Tensor" in path.read_bytes():
                # A file that libcst does not parse has nothing to say here.
                with contextlib.suppress(UnreadableError):
                    files[path] = SourceFile(path, module_name(path, project))
    chosen = (file for path, file in sorted(files.items()) if path.is_relative_to(wanted))
    names = [name for file in chosen for name in file.plain_functions()]
    if names:
        form = BY_ID["plain_tensor"]
        listed = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
        yield f"{form.code}: {form.title}: {listed}. {form.reason} {form.advice}"


def _projects(path: Path) -> list[Path]:
    """Return the project that a path is in, else those under it, else the folder itself."""
    folder = path if path.is_dir() else path.parent
    for parent in (folder, *folder.parents):
        if (parent / REXTIO_FILE).is_file():
            return [parent]
    below = [] if path.is_file() else sorted(project_folders(folder))
    return below or [folder]


def _enabled(project: Path) -> tuple[list[str], tuple[str, ...]]:
    """Return the plugins to enable beside those that the project does, and what to say of it."""
    plugins = read_toml(project / REXTIO_FILE).get("plugins")
    found = plugins.get("enabled") if isinstance(plugins, Mapping) else None
    enabled = [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
    if versions.PLUGIN_ID in enabled:
        return [], ()
    note = (
        f"{project} does not enable {versions.PLUGIN_ID}; explained as after "
        f"`rextio-torch init {quoted(project)}`"
    )
    return [*enabled, versions.PLUGIN_ID], (note,)


def check_report(
    staged: Staged, tools: Toolchain, enabled: list[str]
) -> tuple[dict[str, Any], str | None]:
    """Return what `rextio check` says of a project's copy, and why Rextio writes no Rust for it.

    `rextio generate` leaves that report beside its own: one process and one analysis for both.
    """
    if not tools.rextio.path:
        raise CliError(
            "rextio cannot be run",
            expected="rextio beside this interpreter or on PATH",
            found=tools.rextio.problem,
            repair="rextio-torch doctor",
        )
    done = generate(staged.folder, tools, enabled)
    try:
        report = read_report(staged.folder, "check.json")
    except CliError:
        raise _no_report(staged.project, done) from None
    errors = parse_errors(users_report(report, staged))
    if errors:
        raise not_python(staged.project, errors)
    return report, generator_failure(done) if report.get("accepted_native") else None


def _isolated(staged: Staged, tools: Toolchain, enabled: list[str]) -> tuple[Staged, str | None]:
    """Return the copy that Rextio writes Rust for, or the same and why it writes none."""

    def translate(copy: Staged) -> None:
        failure = generator_failure(generate(copy.folder, tools, enabled))
        if failure is not None:
            raise CliError(failure)

    try:
        # As a build does.
        isolation = Isolation(tools, Display(Console(quiet=True)), enabled)
        return isolation.run(translate, staged)[1], None
    except CliError as error:
        return stage(staged.project, staged.folder), error.message


def _no_report(project: Path, done: Completed) -> CliError:
    """Say why Rextio gave no report; it ends with a traceback at a file that it cannot read."""
    unreadable = not_readable(project)
    if unreadable is not None:
        return unreadable
    output = (done.stderr or done.stdout).rstrip()
    before, traceback, _ = output.partition(TRACEBACK)
    detail = before + output.splitlines()[-1] if traceback else output[-2000:]
    return CliError(
        f"rextio generate gave no report (exit status {done.returncode})",
        detail=detail or "it wrote nothing",
        repair=f"rextio-torch doctor {quoted(project)}",
    )
