"""A source file: its tree with positions, its names and its functions with tensor annotations."""

from __future__ import annotations

import os
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from rextio_torch.syntax.annotations import ONE_TENSOR, Annotation, Resolver
from rextio_torch.syntax.names import Names
from rextio_torch.syntax.tree import children, parameters


@dataclass(frozen=True, order=True)
class Span:
    """A half-open range of a file: lines from 1, columns in characters from 1."""

    line: int
    column: int
    end_line: int
    end_column: int

    def covers(self, line: int, column: int) -> bool:
        """Whether a position lies in the range."""
        return (self.line, self.column) <= (line, column) < (self.end_line, self.end_column)


_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Function:
    """A function with tensor annotations, and where it is defined."""

    node: cst.FunctionDef
    #: As Rextio writes it, without the module; `f.<locals>.g` inside a function.
    name: str
    parents: tuple[cst.CSTNode, ...]


class UnreadableError(Exception):
    """A file that libcst does not parse, though Rextio may."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class SourceFile:
    """One parsed file of a project; raises `UnreadableError`."""

    def __init__(self, path: Path, module: str) -> None:
        self.path = path
        self.module = module
        try:
            parsed = cst.parse_module(path.read_bytes())
            wrapper = MetadataWrapper(parsed, unsafe_skip_copy=True)
            self._positions = wrapper.resolve(PositionProvider)
        except (cst.ParserSyntaxError, ValueError, RecursionError) as error:
            raise UnreadableError(path, " ".join(str(error).split())) from error
        self.tree = wrapper.module
        for name in _other_names(parsed.code, self._positions):
            raise UnreadableError(path, f"Python reads {name} as another name")
        self.text = parsed.code
        self.lines = split_lines(self.text)
        self.names = Names.of(self.tree, module, is_package=path.name == "__init__.py")
        self.resolver = Resolver(self.names, {})
        #: The functions with tensor annotations of the whole project, `module.function`.
        self.tensor_functions: set[str] = set()

    def join(self, project: Mapping[str, Names]) -> None:
        """Let names be resolved through the other modules of the project."""
        self.resolver = Resolver(self.names, project)

    @cached_property
    def future_annotations(self) -> bool:
        """Whether annotations are not evaluated."""
        return self.names.imports.get("annotations") == "__future__.annotations"

    def span(self, node: cst.CSTNode) -> Span:
        """Return the range of a node; of a compound statement, its first line."""
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            node = node.name
        found = self._positions[node]
        start, end = found.start, found.end
        if isinstance(node, cst.BaseCompoundStatement) and end.line > start.line:
            return Span(start.line, start.column + 1, start.line, len(self.line(start.line)) + 1)
        return Span(start.line, start.column + 1, end.line, end.column + 1)

    def end_of(self, line: int, column: int) -> tuple[int, int]:
        """Return the end of the longest expression or statement that starts at a place.

        What begins with a parenthesis begins one column later here.
        """
        return max(self._ends.get((line, column), (line, 0)), (line, column + 2))

    @cached_property
    def _ends(self) -> dict[tuple[int, int], tuple[int, int]]:
        ends: dict[tuple[int, int], tuple[int, int]] = {}
        for node in self._positions:
            if isinstance(node, (cst.BaseExpression, cst.BaseSmallStatement)):
                span = self.span(node)
            elif isinstance(node, cst.BaseCompoundStatement):
                start = self._positions[node].start
                text = self.line(start.line)
                span = Span(start.line, start.column + 1, start.line, len(text) + 1)
            else:
                continue
            start_of = (span.line, span.column)
            ends[start_of] = max(ends.get(start_of, start_of), (span.end_line, span.end_column))
        return ends

    def offsets(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the range of a node in the text, without parentheses around it."""
        found = self._positions[node]
        starts = self._line_starts
        return (
            starts[found.start.line - 1] + found.start.column,
            starts[found.end.line - 1] + found.end.column,
        )

    def offset(self, line: int, column: int) -> int:
        """Return the place of a line and a column in the text."""
        return self._line_starts[line - 1] + column - 1

    def between(self, start: int, end: int) -> Span:
        """Return a range of the text as lines and columns."""
        places = []
        for offset in (start, end):
            line = bisect_right(self._line_starts, offset)
            places += [line, offset - self._line_starts[line - 1] + 1]
        return Span(*places)

    def statement_range(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the range of whole lines of a statement at module level, decorators included."""
        first, last = self._positions[node].start.line, self._positions[node].end
        decorators = getattr(node, "decorators", ())
        if decorators:
            first = min(first, *(self._positions[item].start.line for item in decorators))
        starts = self._line_starts
        end_line = last.line if last.column else last.line - 1
        end = starts[end_line] if end_line < len(starts) else len(self.text)
        return starts[first - 1], end

    @cached_property
    def _line_starts(self) -> list[int]:
        return line_starts(self.text)

    def line(self, number: int) -> str:
        """Return a line of the source."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def column(self, line: int, byte: int) -> int:
        """Return a column in characters from 1, of Rextio's in bytes of UTF-8 from 0."""
        return len(self.line(line).encode()[:byte].decode(errors="ignore")) + 1

    def slice(self, span: Span) -> str:
        """Return a range as it is written, on one line."""
        lines = self.lines[span.line - 1 : span.end_line]
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        return " ".join(" ".join(lines).split())

    def word_end(self, line: int, column: int) -> int:
        """Return the column after the word at a place, at least the next one."""
        word = re.match(r"\w+", self.line(line)[column - 1 :])
        return column + (len(word[0]) if word else 1)

    def is_tensor_function(self, dotted: str) -> bool:
        """Whether a name is that of a function of the project with tensor annotations."""
        target = self.resolver.target(dotted) or f"{self.module}.{dotted}"
        return target in self.tensor_functions

    def imports_from_project(self, name: str) -> bool:
        """Whether a name is imported from the project."""
        target = self.names.imports.get(name)
        if target is None:
            return False
        return target in self.resolver.project or target.rpartition(".")[0] in self.resolver.project

    def functions(self) -> Iterator[Function]:
        """Yield the functions with tensor annotations, in source order, wherever they are."""
        for node, parents in _definitions(self.tree, ()):
            if any(found.tensor or found.kind == "unsized" for found in self.signature(node)):
                yield Function(node, _qualified(node, parents), parents)

    def plain_functions(self) -> Iterator[str]:
        """Yield the names of functions whose tensors are `torch.Tensor` and no more."""
        for node, parents in _definitions(self.tree, ()):
            annotations = self.signature(node)
            if any(found.kind == "plain" for found in annotations) and not any(
                found.tensor for found in annotations
            ):
                yield f"{self.module}.{_qualified(node, parents)}"

    def signature(self, node: cst.FunctionDef) -> list[Annotation]:
        """Return the annotations of a function's parameters and of its result."""
        annotations = [parameter.annotation for parameter in parameters(node.params)]
        return [self.resolver.annotation(item) for item in (*annotations, node.returns)]

    def constant_defaults(self, node: cst.FunctionDef) -> Iterator[cst.Param]:
        """Yield the tensor parameters whose default is a constant, and so no tensor."""
        constants = (cst.BaseNumber, cst.BaseString)
        for item in parameters(node.params):
            default = item.default
            name = default.value if isinstance(default, cst.Name) else None
            constant = isinstance(default, constants) or name in ("None", "True", "False")
            if constant and self.resolver.annotation(item.annotation).kind in ONE_TENSOR:
                yield item

    @property
    def label(self) -> str:
        """The file relative to where the user is, if it is there."""
        return label_of(self.path)


def label_of(path: Path) -> str:
    """Return a path relative to where the user is, if it is there."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def split_lines(text: str) -> list[str]:
    """Split text where Python ends a line; `str.splitlines` also does at form feeds and more."""
    return _LINE_END.split(text)


def line_starts(text: str) -> list[int]:
    """Return where each line of a text begins."""
    return [0, *(match.end() for match in _LINE_END.finditer(text))]


def _other_names(text: str, nodes: Iterable[object]) -> Iterator[str]:
    """Yield the names that Python normalises to others, such as those with ligatures."""
    if not unicodedata.is_normalized("NFKC", text):
        for node in nodes:
            if isinstance(node, cst.Name) and not unicodedata.is_normalized("NFKC", node.value):
                yield node.value


def _definitions(
    node: cst.CSTNode, parents: tuple[cst.CSTNode, ...]
) -> Iterator[tuple[cst.FunctionDef, tuple[cst.CSTNode, ...]]]:
    for child in children(node):
        if isinstance(child, cst.FunctionDef):
            yield child, parents
        if isinstance(child, cst.BaseStatement | cst.BaseSuite) or hasattr(child, "body"):
            inner = isinstance(child, cst.BaseCompoundStatement)
            yield from _definitions(child, (*parents, child) if inner else parents)


def _qualified(node: cst.FunctionDef, parents: tuple[cst.CSTNode, ...]) -> str:
    parts = []
    for parent in parents:
        if isinstance(parent, cst.FunctionDef):
            parts += [parent.name.value, "<locals>"]
        elif isinstance(parent, cst.ClassDef):
            parts.append(parent.name.value)
    return ".".join([*parts, node.name.value])
