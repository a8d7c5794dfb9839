"""A project's files, each annotated function rewritten where it is not in the dialect yet."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

import libcst as cst

from rextio_torch.normalize.annotations import marker
from rextio_torch.normalize.bindings import bindings
from rextio_torch.normalize.body import Bodies, LeftAloneError
from rextio_torch.normalize.code import Code, Mark, Origin, joined
from rextio_torch.normalize.constants import module_constants, rebound
from rextio_torch.normalize.function import Normal, normalize
from rextio_torch.normalize.imports import importable
from rextio_torch.normalize.module_level import left_out
from rextio_torch.syntax.output import output_calls
from rextio_torch.syntax.source import Function, SourceFile, Span, line_starts, split_lines

_FUTURE = "from __future__ import annotations"

#: What marks a function that Rextio is to leave on Python, under a name that nothing else has.
_EXEMPT = "_rextio_torch_exempt"
_EXEMPT_IMPORT = f"from rextio import exempt as {_EXEMPT}"


@dataclass(frozen=True)
class Part:
    """Lines of a staged text: as they are in the user's file, or written for a function."""

    first_line: int
    text: str
    #: Of lines that are kept, the first line in the user's file.
    kept_from: int | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class NormalFile:
    """A file of the staged copy: its text, and what each of its functions became."""

    file: SourceFile
    parts: tuple[Part, ...]
    #: By name in the file; those that stay as they are written are not there.
    functions: Mapping[str, Normal]
    #: Why functions with tensor annotations were left alone, by name in the file.
    left_alone: Mapping[str, str]
    #: Functions with tensor annotations that are not in the staged text.
    set_aside: tuple[Function, ...] = ()

    @property
    def text(self) -> str:
        """The staged text."""
        return "".join(part.text for part in self.parts)

    @property
    def changed(self) -> bool:
        """Whether the staged text is another than the user's."""
        return self.text != self.file.text

    def origin(self, span: Span) -> Origin:
        """Return where a range of the staged text comes from in the user's files."""
        lines = [part.first_line for part in self.parts]
        part = self.parts[max(bisect_right(lines, span.line) - 1, 0)]
        if part.kept_from is not None:
            moved = part.kept_from - part.first_line
            return Origin(
                self.file,
                Span(span.line + moved, span.column, span.end_line + moved, span.end_column),
            )
        start = _offset(part.text, span.line - part.first_line, span.column)
        end = _offset(part.text, span.end_line - part.first_line, span.end_column)
        around = [mark for mark in part.marks if mark.start <= start < mark.end]
        # The smallest text that covers the range, else the smallest that covers its start.
        best = min(
            around,
            key=lambda mark: (mark.end < end, mark.end - mark.start),
            default=Mark(0, 0, Origin(self.file, Span(1, 1, 1, 1))),
        )
        return _exact(best, part.text, start, end)


def _exact(mark: Mark, text: str, start: int, end: int) -> Origin:
    """Return where a range inside a mark comes from: its part, if it stands there as written."""
    file, span = mark.origin.file, mark.origin.span
    first = file.offset(span.line, span.column)
    written = file.text[first : file.offset(span.end_line, span.end_column)]
    if end > mark.end or written != text[mark.start : mark.end]:
        return mark.origin
    moved = first - mark.start
    return Origin(file, file.between(start + moved, end + moved))


def _offset(text: str, line: int, column: int) -> int:
    """Return the place of a line, counted from 0, and a column, counted from 1."""
    return line_starts(text)[line] + column - 1


def normalize_files(files: Iterable[SourceFile], kept: Container[str] = ()) -> list[NormalFile]:
    """Rewrite the functions with tensor annotations of a project's parsed files.

    The files must have been joined, so that names are resolved across them. The functions `kept`,
    `module.function`, are also marked to stay on Python.
    """
    files = list(files)
    functions = {file.path: list(file.functions()) for file in files}
    elsewhere = rebound(files)
    again = elsewhere | {
        f"{file.module}.{name}" for file in files for name in bindings(file).unsettled
    }
    modules = Counter(file.module for file in files)
    for file in files:
        if modules[file.module] > 1:
            # Two files of one name, such as `model.py` and `src/model.py`: either may be meant.
            again |= {f"{file.module}.{name}" for name in bindings(file).names}
    callable_functions = {
        name: (file, function)
        for file in files
        for function in functions[file.path]
        if not function.parents and (name := f"{file.module}.{function.name}") not in again
        if not any(output_calls(file, function.node))
    }
    bodies = Bodies(callable_functions, module_constants(files, again))
    return [_file(bodies, file, functions[file.path], elsewhere, kept) for file in files]


def _file(
    bodies: Bodies,
    file: SourceFile,
    functions: list[Function],
    elsewhere: Set[str],
    kept: Container[str],
) -> NormalFile:
    done: dict[str, Normal] = {}
    left_alone: dict[str, str] = {}
    edits: list[tuple[int, int, Code]] = []
    imports: set[str] = set()
    for function in functions:
        if function.parents:
            continue
        try:
            found = normalize(bodies, file, function)
        except LeftAloneError as error:
            left_alone[function.name] = str(error)
            continue
        except RecursionError:
            left_alone[function.name] = "nested too deeply"
            continue
        if not found.applied:
            continue
        done[function.name] = found
        imports |= found.imports
        edits.append((*file.statement_range(function.node), joined("\n", found.lines) + "\n"))
    for name, statement in _named_annotations(file):
        marked = marker(file, file.names.annotations[name])
        if marked is not None:
            # Rextio trusts a plain name, not a subscript that runs when the module is loaded.
            written, needed = importable(file, marked.name)
            imports |= needed
            origin = Origin(file, file.span(statement))
            edits.append(
                (*file.statement_range(statement), Code(f"{name} = {written}\n").at(origin))
            )
    plain = {name for name, it in done.items() if not it.lines[0].text.startswith("@")}
    level = left_out(file, functions, plain, elsewhere)
    for function in level.set_aside:
        done.pop(function.name, None)
    without = {(start, end) for start, end, _ in level.edits}
    edits = [*(edit for edit in edits if edit[:2] not in without), *level.edits]
    for node in file.tree.body:
        if isinstance(node, cst.FunctionDef) and f"{file.module}.{node.name.value}" in kept:
            place = file.statement_range(node)
            if place not in without:
                imports.add(_EXEMPT_IMPORT)
                mark = Code(f"@{_EXEMPT}\n").at(Origin(file, file.span(node)))
                edits.append((place[0], place[0], mark))
    first = [_FUTURE] if level.future else []
    if first or imports:
        at = file.statement_range(_after_imports(file.tree))[0]
        lines = "".join(f"{line}\n" for line in (*first, *sorted(imports)))
        # Before a mark at the same place.
        edits.insert(0, (at, at, Code(lines)))
    parts = tuple(_parts(file.text, sorted(edits, key=_start)))
    return NormalFile(file, parts, done, left_alone, level.set_aside)


def _named_annotations(file: SourceFile) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield the statements that give an annotation a name, on a line of their own."""
    for line in file.tree.body:
        if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
            match line.body[0]:
                case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
                    pass
                case cst.AnnAssign(target=cst.Name(value=name)):
                    pass
                case _:
                    continue
            if name in file.names.annotations:
                yield name, line


def _start(edit: tuple[int, int, Code]) -> tuple[int, int]:
    return edit[:2]


def _parts(text: str, edits: list[tuple[int, int, Code]]) -> Iterator[Part]:
    """Yield the parts of a file whose ranges of whole lines are replaced."""
    line, at = 1, 0
    for start, end, code in [*edits, (len(text), len(text), Code(""))]:
        kept = text[at:start]
        if kept:
            yield Part(line, kept, kept_from=len(split_lines(text[:at])))
            line += len(split_lines(kept)) - 1
        if code.text:
            yield Part(line, code.text, marks=code.marks)
            line += len(split_lines(code.text)) - 1
        at = end


def _after_imports(tree: cst.Module) -> cst.CSTNode:
    """Return the first statement that is no docstring and no import from `__future__`."""
    for statement in tree.body:
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        docstring = isinstance(small, cst.Expr)
        module = small.module if isinstance(small, cst.ImportFrom) else None
        future = isinstance(module, cst.Name) and module.value == "__future__"
        if not docstring and not future:
            return statement
    raise AssertionError("a file with functions has statements")
