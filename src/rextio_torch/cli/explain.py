"""`rextio-torch explain`: `rextio check`, joined with what the tables know, as text."""

from __future__ import annotations

import json
import shutil
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.cells import cell_len

from rextio_torch import versions
from rextio_torch.cli.environment import TRACEBACK, Completed, Environment
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.files import read_toml
from rextio_torch.cli.project import REXTIO_FILE
from rextio_torch.cli.report import parse_errors
from rextio_torch.cli.rextio import not_python
from rextio_torch.cli.source import project_folders, source_files
from rextio_torch.cli.toolchain import Toolchain
from rextio_torch.explain.join import explain
from rextio_torch.explain.model import Explained, Explanation, Finding, Span
from rextio_torch.explain.source import UnreadableError, split_lines

_TAB = "    "


def explain_path(path: Path, environment: Environment) -> Explanation:
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
    answers = [_explain_in(project, wanted, environment) for project in _projects(wanted)]
    return Explanation(
        tuple(project for answer in answers for project in answer.projects),
        tuple(function for answer in answers for function in answer.functions),
        {file: found for answer in answers for file, found in answer.files.items()},
        tuple(finding for answer in answers for finding in answer.everywhere),
        tuple(note for answer in answers for note in answer.notes),
    )


def _explain_in(project: Path, wanted: Path, environment: Environment) -> Explanation:
    enabled, notes = _enabled(project)
    tools = Toolchain.of(environment.for_building(), project)
    report = check_report(project, tools, enabled)
    listed = {Path(module.get("file_path", "")) for module in report.get("modules", ())}
    if wanted.is_file() and wanted not in listed:
        raise CliError(
            f"{wanted} is left out of the project {project}",
            expected="a file that Rextio reads",
            found="one that .rextioignore or a folder's name (build, dist, venv, …) excludes",
            repair=f"take it out of {project / '.rextioignore'}, or move it",
        )
    try:
        answer = explain(
            project,
            report,
            lambda file: file == wanted or file.is_relative_to(wanted),
            generator_failure(project, tools, enabled) if report.get("accepted_native") else None,
        )
    except UnreadableError as error:
        raise CliError(
            f"{error.path} cannot be explained: libcst does not know some of its syntax",
            expected="syntax that libcst parses",
            found=error.reason[:300],
            repair="write that place another way, or explain another file; a build does not need "
            "libcst",
        ) from error
    return replace(answer, notes=notes)


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
        f"`rextio-torch init {project}`"
    )
    return [*enabled, versions.PLUGIN_ID], (note,)


def check_report(project: Path, tools: Toolchain, enabled: list[str]) -> dict[str, Any]:
    """Return what `rextio check` says of a project, without writing anything."""
    options = [part for name in enabled for part in ("--enable-plugin", name)]
    command = [tools.rextio.path, "check", str(project), "--format", "json", "--no-report"]
    if not tools.rextio.path:
        raise CliError(
            "rextio cannot be run",
            expected="rextio beside this interpreter or on PATH",
            found=tools.rextio.problem,
            repair="rextio-torch doctor",
        )
    done = tools.environment.run(*command, *options, cwd=project)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        raise _no_report(project, done) from None
    errors = parse_errors(report)
    if errors:
        raise not_python(project, errors)
    if not isinstance(report, dict):
        raise _no_report(project, done)
    return report


def generator_failure(project: Path, tools: Toolchain, enabled: list[str]) -> str | None:
    """Return why Rextio writes no Rust for what its analysis accepts, or None if it does.

    It writes beside the source, so it gets a copy.
    """
    options = [part for name in enabled for part in ("--enable-plugin", name)]
    with tempfile.TemporaryDirectory(prefix="rextio-torch-explain-") as folder:
        copy = Path(folder) / project.name
        for path in source_files(project):
            target = copy / path.relative_to(project)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        copy.mkdir(exist_ok=True)
        command = [tools.rextio.path, "generate", str(copy), "--fallback=cpython", *options]
        done = tools.environment.run(*command, cwd=copy)
    if done.returncode == 0:
        return None
    said = (done.stdout + done.stderr).strip().splitlines() or ["it wrote nothing"]
    causes = [line.removeprefix("Cause: ") for line in said if line.startswith("Cause: ")]
    return (causes or said)[-1]


def _no_report(project: Path, done: Completed) -> CliError:
    """Say why Rextio gave no report; it ends with a traceback at a file that it cannot read."""
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
    output = (done.stderr or done.stdout).rstrip()
    before, traceback, _ = output.partition(TRACEBACK)
    detail = before + output.splitlines()[-1] if traceback else output[-2000:]
    return CliError(
        f"rextio check gave no report (exit status {done.returncode})",
        detail=detail or "it wrote nothing",
        repair=f"rextio-torch doctor {project}",
    )


# As text


def lines(answer: Explanation, width: int, *, source: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield the answer as styled lines; `source` holds the lines of each file."""
    for function in answer.functions:
        yield from _function(function, width, source)
    shared = [(f"whole file  {file}", found) for file, found in answer.files.items()]
    for title, findings in [*shared, ("whole project", answer.everywhere)]:
        if findings:
            yield click.style(title, fg="yellow", bold=True)
            for finding in findings:
                yield from _finding(finding, finding.file, width, source)
            yield ""
    for note in answer.notes:
        yield from _wrapped(f"note: {note}", width, "")
    count = len(answer.functions)
    if not count:
        yield "no function with tensor annotations (the types of rextio_torch.types)"
        return
    native = count - len(answer.not_native)
    yield f"{native} of {count} functions with tensor annotations native"


def _function(function: Explained, width: int, source: Mapping[str, list[str]]) -> Iterator[str]:
    mark = click.style("native" if function.native else "python", bold=True)
    mark = click.style(mark, fg="green" if function.native else "yellow")
    place = f"{function.file}:{function.span.line}"
    yield f"{mark}  {function.qualname}  {click.style(place, dim=True)}"
    names = [item.schema.partition("(")[0] for item in function.operations]
    size = max(map(len, names), default=0)
    for index, (item, name) in enumerate(zip(function.operations, names, strict=True), 1):
        text = f"{index:>4}  line {item.span.line:<4} aten::{name:<{size}}  {item.source}"
        yield _cut(text, width)
    if function.native and not function.operations:
        yield "      no operation on tensors"
    for group in function.fused:
        members = "+".join(str(index + 1) for index in group.operations)
        yield from _wrapped(f"fused {members}: {group.how}", width, "      ")
    for note in function.notes:
        yield from _wrapped(f"note: {note}", width, "      ")
    for finding in function.findings:
        yield from _finding(finding, function.file, width, source)
    yield ""


def _finding(
    finding: Finding, file: str | None, width: int, source: Mapping[str, list[str]]
) -> Iterator[str]:
    code = click.style(finding.code, fg="red", bold=True)
    title = textwrap.wrap(finding.title, max(width - len(finding.code) - 2, 20)) or [""]
    yield f"{code}: {click.style(title[0], bold=True)}"
    for more in title[1:]:
        yield " " * (len(finding.code) + 2) + click.style(more, bold=True)
    if file is not None:
        yield from _excerpt(finding.span, file, source.get(file, []), width)
    gutter = " " * len(str(finding.span.line))
    for label, text in (("why", finding.reason), ("instead", finding.instead)):
        if text:
            first = f"{gutter} = {label}: "
            rest = " " * len(first)
            yield from textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest)


def _excerpt(span: Span, file: str, text: list[str], width: int) -> Iterator[str]:
    number = str(span.line)
    gutter = " " * len(number)
    bar = click.style("|", fg="blue")
    yield f"{gutter}{click.style('-->', fg='blue')} {file}:{span.line}:{span.column}"
    if span.line > len(text):
        return
    line = text[span.line - 1]
    before, rest = line[: span.column - 1], line[span.column - 1 :]
    if span.end_line == span.line:
        rest = line[span.column - 1 : span.end_column - 1]
    room = max(width - len(number) - 3, 20)
    yield f"{click.style(number, fg='blue')} {bar} {_cut(_shown(line), room)}".rstrip()
    start = cell_len(_shown(before))
    length = max(min(cell_len(_shown(rest)), room - start), 1)
    if start < room:
        yield f"{gutter} {bar} {' ' * start}{click.style('^' * length, fg='red', bold=True)}"


def _shown(text: str) -> str:
    """Return source text as a terminal can show it: no tabs, nothing that moves the cursor."""
    return "".join(c if c.isprintable() else "·" for c in text.replace("\t", _TAB))


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else text[: width - 1] + "…"


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent + "  ")


def source_lines(answer: Explanation) -> dict[str, list[str]]:
    """Return the lines of each file that something is shown of."""
    files = {function.file for function in answer.functions}
    shared = [*answer.everywhere, *(f for found in answer.files.values() for f in found)]
    files |= {finding.file for finding in shared if finding.file}
    return {file: split_lines(Path(file).read_text(encoding="utf-8")) for file in files}
