"""Rextio's own command: run as a step of a build, its failures made readable."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rextio_torch.cli.environment import TRACEBACK, Completed
from rextio_torch.cli.errors import CliError, quoted
from rextio_torch.cli.files import write_atomically
from rextio_torch.cli.progress import Display
from rextio_torch.cli.report import (
    ParseError,
    error_tail,
    failure_text,
    parse_errors,
    read_report,
)
from rextio_torch.cli.source import source_files
from rextio_torch.cli.staging import Staged, users_report
from rextio_torch.cli.toolchain import Toolchain


def run_rextio(
    command: str,
    staged: Staged,
    tools: Toolchain,
    display: Display,
    lock: int,
    variables: Mapping[str, str],
) -> None:
    """Run `rextio build` or `rextio generate` on a project's copy, or raise `CliError`.

    Rextio keeps the lock even if this process is killed: it is what copies the module.
    """
    for name in ("build.json", "generate.json", "check.json"):
        # What is read afterwards is of this run.
        (staged.folder / ".rextio" / "reports" / name).unlink(missing_ok=True)
    status, output = display.run(
        "building the project" if command == "build" else "translating the project",
        [tools.rextio.path, command, str(staged.folder), "--fallback=cpython"],
        variables={**tools.variables, **variables},
        cwd=staged.folder,
        keep=(lock,),
    )
    if status != 0:
        raise _failure(command, staged, status, output)


def generate(folder: Path, tools: Toolchain, enabled: Sequence[str]) -> Completed:
    """Run `rextio generate` on a project's copy; it analyses first, and leaves both reports."""
    options = [part for name in enabled for part in ("--enable-plugin", name)]
    command = [tools.rextio.path, "generate", str(folder), "--fallback=cpython", *options]
    return tools.environment.run(*command, cwd=folder)


def generator_failure(done: Completed) -> str | None:
    """Return why Rextio wrote no Rust for what its analysis accepts, or None if it did."""
    if done.returncode == 0:
        return None
    said = (done.stdout + done.stderr).strip().splitlines() or ["it wrote nothing"]
    causes = [line.removeprefix("Cause: ") for line in said if line.startswith("Cause: ")]
    return (causes or said)[-1]


def not_python(project: Path, errors: list[ParseError]) -> CliError:
    """Return the error for files that do not parse."""
    files = sorted({os.path.relpath(error.file, project) for error in errors})
    first = errors[0]
    # A file with a null byte is none as a whole.
    place = first.file if first.line is None else f"line {first.line} of {first.file}"
    return CliError(
        f"{project} has files that are not Python: {', '.join(files)}",
        expected="files that parse",
        detail="\n".join(f"{e.file}:{e.line or 1}: {e.message}" for e in errors),
        repair=f"correct {place}, or name the file in .rextioignore",
    )


def not_readable(project: Path) -> CliError | None:
    """Return the error for a file at which Rextio ends with a traceback, if there is one."""
    for path in source_files(project):
        try:
            path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return CliError(
                f"{path} cannot be read",
                expected="a readable file in UTF-8",
                found=str(reason),
                repair="repair the file, or name it in .rextioignore and run the command again",
            )
    return None


def _failure(command: str, staged: Staged, status: int, output: str) -> CliError:
    project, reports = staged.project, staged.folder / ".rextio" / "reports"
    with contextlib.suppress(CliError):
        errors = parse_errors(users_report(read_report(staged.folder, "check.json"), staged))
        if errors:
            return not_python(project, errors)
    detail = None
    repair = f"rextio check {quoted(project)}"
    if command == "build":
        repair = f"rextio-torch doctor {quoted(project)}; all of it is in {reports / 'build.json'}"
        with contextlib.suppress(CliError):
            detail = failure_text(read_report(staged.folder, "build.json"))
    if detail is None:
        detail = error_tail(output)
        # Rextio's summary of what it did before that says nothing of it.
        stopped = re.search(r"^RXT\d+ ", detail, re.M)
        if stopped is not None:
            detail = detail[stopped.start() :]
            if detail.startswith("RXT050"):
                repair = f"rextio-torch explain {quoted(project)}"
        before, traceback, _ = output.partition(TRACEBACK)
        if traceback:
            unreadable = not_readable(project) if "UnicodeDecodeError" in output else None
            if unreadable is not None:
                return unreadable
            whole = reports / f"{command}.txt"
            with contextlib.suppress(OSError):
                write_atomically(whole, output + "\n")
                repair = f"rextio-torch doctor {quoted(project)}; all of it is in {whole}"
            detail = before + output.rstrip().splitlines()[-1]
    # What it says of a file of the copy is to be corrected in the project; what was generated from
    # the copy is there only.
    inside = re.compile(re.escape(f"{staged.folder}{os.sep}") + r"(?!\.rextio\b)")
    detail = inside.sub(lambda _: f"{project}{os.sep}", detail)
    return CliError(
        f"rextio {command} failed with exit status {status}", detail=detail, repair=repair
    )
