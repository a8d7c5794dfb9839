"""A copy of a project in which its functions are in the dialect that Rextio compiles.

Rextio analyses and builds the copy. What it says is brought back to the user's files, and what it
builds runs the user's own functions wherever native code does not.
"""

from __future__ import annotations

import codecs
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rextio_torch.cli.files import remove_tree
from rextio_torch.cli.source import source_files
from rextio_torch.explain.forms.table import BY_ID
from rextio_torch.explain.join import explain_unseen
from rextio_torch.explain.model import Explained, Explanation, Finding, Operation
from rextio_torch.normalize.function import Normal
from rextio_torch.normalize.project import NormalFile, normalize_files
from rextio_torch.syntax.files import module_name, parse_files
from rextio_torch.syntax.source import Function, SourceFile, Span, label_of, split_lines

#: What Rextio reads of a project beside its sources.
_SETTINGS = ("pyproject.toml",)


@dataclass(frozen=True)
class Staged:
    """A project and its copy."""

    project: Path
    folder: Path
    #: By the path of the copy; files without tensor functions are copied as they are.
    files: Mapping[Path, NormalFile]
    #: The functions that stay on Python though Rextio accepts them, `module.function`, and why.
    kept: Mapping[str, str] = field(default_factory=dict)

    def tensor_functions(self) -> dict[str, list[str]]:
        """Return the functions with tensor annotations, `module.function`.

        With each, its tensor parameters whose default is a constant, and so no tensor.
        """
        return {
            f"{normal.file.module}.{function.name}": [
                item.name.value for item in normal.file.constant_defaults(function.node)
            ]
            for normal in self.files.values()
            for function in normal.file.functions()
        }

    def unseen(self) -> dict[str, tuple[SourceFile, Function]]:
        """Return the functions with tensor annotations that the copy does not have."""
        return {
            f"{normal.file.module}.{function.name}": (normal.file, function)
            for normal in self.files.values()
            for function in normal.set_aside
        }


def stage(
    project: Path,
    folder: Path,
    *,
    normalize: bool = True,
    kept: Mapping[str, str] = MappingProxyType({}),
) -> Staged:
    """Copy a project's sources into a folder, rewritten; what was there is removed."""
    project, folder = project.resolve(), folder.resolve()
    remove_tree(folder)
    folder.mkdir(parents=True)
    sources = [*source_files(project), *(project / name for name in _SETTINGS)]
    for path in sources:
        if path.is_file():
            target = folder / path.relative_to(project)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            text = path.read_bytes() if normalize and path.suffix == ".py" else b""
            if text.startswith(codecs.BOM_UTF8):
                # It is Python, but Rextio does not read it.
                target.write_bytes(text.removeprefix(codecs.BOM_UTF8))
    if not normalize:
        return Staged(project, folder, {})
    modules = {path: module_name(path, project) for path in sources if path.suffix == ".py"}
    files = {}
    marked = {name.rpartition(".")[0] for name in kept}
    for normal in normalize_files(parse_files(modules, more_modules=marked).values(), kept):
        target = folder / normal.file.path.relative_to(project)
        if normal.changed:
            target.write_text(normal.text, encoding="utf-8", newline="")
        files[target] = normal
    return Staged(project, folder, files, kept)


# Back to the user's files


def users_explanation(
    answer: Explanation, staged: Staged, chosen: Callable[[Path], bool] = lambda path: True
) -> Explanation:
    """Return an explanation of the copy as one of the project, `chosen` of the user's files."""
    found = _Back(staged).explanation(answer)
    names = staged.tensor_functions().keys()
    unseen = [
        explain_unseen(file, function, names)
        for file, function in staged.unseen().values()
        if chosen(file.path)
    ]
    functions = sorted((*found.functions, *unseen), key=lambda it: (it.file, it.span))
    return replace(found, functions=tuple(functions) if unseen else found.functions)


def users_report(report: Mapping[str, Any], staged: Staged) -> dict[str, Any]:
    """Return a report of Rextio's about the copy as one about the project."""
    found: dict[str, Any] = _Back(staged).report(report)
    return found


class _Back:
    def __init__(self, staged: Staged) -> None:
        self.staged = staged
        self.labels = {label_of(path): normal for path, normal in staged.files.items()}

    def place(self, file: str, span: Span) -> tuple[str, Span]:
        """Return the user's file and range of a place in the copy."""
        normal = self.labels.get(file)
        if normal is None:
            return self.path(file), span
        origin = normal.origin(span)
        return origin.file.label, origin.span

    def path(self, file: str) -> str:
        """Return the user's path of a file of the copy that is as it was."""
        path = Path(file).absolute()
        if not path.is_relative_to(self.staged.folder):
            return file
        return label_of(self.staged.project / path.relative_to(self.staged.folder))

    def explanation(self, answer: Explanation) -> Explanation:
        """Return it with the user's places."""
        inlined = self.inlined(answer.functions)
        return replace(
            answer,
            projects=(str(self.staged.project),),
            functions=tuple(
                _inlined(self.function(item)) if item.qualname in inlined else self.function(item)
                for item in answer.functions
            ),
            files={
                self.path(file): tuple(self.finding(item, file) for item in findings)
                for file, findings in answer.files.items()
            },
            everywhere=tuple(self.finding(item, item.file) for item in answer.everywhere),
        )

    def function(self, function: Explained) -> Explained:
        """Return a function with the user's places, and what was rewritten in it."""
        file, span = self.place(function.file, function.span)
        found = replace(
            function,
            file=file,
            span=span,
            operations=tuple(self.operation(item, function.file) for item in function.operations),
            findings=tuple(self.finding(item, function.file) for item in function.findings),
        )
        normal = self.normal(function)
        if normal is None:
            reason = self.left_alone(function)
            if reason is None or function.native:
                return found
            notes = (*found.notes, *([f"not rewritten: {reason}"] if reason else ()))
            return replace(found, notes=notes, findings=_without_followers(found.findings))
        titles = sorted(BY_ID[form].title for form in normal.applied)
        text = "\n".join(line.text for line in normal.lines)
        findings = _without_followers(found.findings)
        return replace(found, rewritten=tuple(titles), normal_form=text, findings=findings)

    def normal(self, function: Explained) -> Normal | None:
        """Return what a function became, if it was rewritten."""
        file = self.labels.get(function.file)
        if file is None:
            return None
        return file.functions.get(function.qualname.removeprefix(f"{file.file.module}."))

    def left_alone(self, function: Explained) -> str | None:
        """Return why a function was not rewritten, if something in it is not understood."""
        file = self.labels.get(function.file)
        if file is None:
            return None
        return file.left_alone.get(function.qualname.removeprefix(f"{file.file.module}."))

    def inlined(self, functions: tuple[Explained, ...]) -> set[str]:
        """Return the functions that run natively inside the native ones."""
        normals = (self.normal(function) for function in functions if function.native)
        return {name for normal in normals if normal is not None for name in normal.inlined}

    def operation(self, operation: Operation, file: str) -> Operation:
        """Return an operation with the text that the user wrote for it."""
        normal = self.labels.get(file)
        if normal is None:
            return operation
        origin = normal.origin(operation.span)
        text = origin.file.slice(origin.span)
        return replace(operation, span=origin.span, source=text)

    def finding(self, finding: Finding, file: str | None) -> Finding:
        """Return a finding with the user's place; it names its file where that is another."""
        if file is None:
            return finding
        found, span = self.place(file, finding.span)
        other = found if finding.file is not None or found != self.path(file) else None
        return replace(finding, span=span, file=other)

    def report(self, data: Any, file: str | None = None) -> Any:
        """Return reported data with the user's paths and places."""
        if isinstance(data, Mapping):
            own = data.get("file_path")
            file = own if isinstance(own, str) else file
            found = {key: self.report(value, file) for key, value in data.items()}
            found.update(self.position(data, file))
            return found
        if isinstance(data, list):
            return [self.report(item, file) for item in data]
        if isinstance(data, str) and str(self.staged.folder) in data:
            return data.replace(str(self.staged.folder), str(self.staged.project))
        return data

    def position(self, data: Mapping[str, Any], file: str | None) -> dict[str, Any]:
        """Return the user's place of a reported one: lines from 1, columns from 0 in bytes."""
        line, byte = data.get("line"), data.get("column")
        normal = self.staged.files.get(Path(file)) if file else None
        if normal is None or type(line) is not int or type(byte) is not int or line < 1:
            return {}
        lines = split_lines(normal.text)
        text = lines[line - 1] if line <= len(lines) else ""
        column = len(text.encode()[:byte].decode(errors="ignore")) + 1
        origin = normal.origin(Span(line, column, line, column + 1))
        before = origin.file.line(origin.span.line)[: origin.span.column - 1]
        return {"line": origin.span.line, "column": len(before.encode())}


def _without_followers(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return what keeps a function on Python, without what is rewritten once that is gone."""
    return tuple(item for item in findings if not item.is_rewritten) or findings


def _inlined(function: Explained) -> Explained:
    """Return a function that only its signature keeps on Python, and that its callers contain."""
    signature = {BY_ID[form].code for form in ("tuple_result", "optional_tensor")}
    if any(finding.code not in signature for finding in function.findings):
        return function
    if function.native or function.notes:
        return function
    note = "native inside the functions that call it; called from Python it is Python"
    return replace(function, outcome="inlined", findings=(), notes=(note,))
