"""An explanation as lines for a terminal, with excerpts of the source as compilers show them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from rich.cells import cell_len

from rextio_torch.explain.model import Explained, Explanation, Finding
from rextio_torch.syntax.source import Span, split_lines

_TAB = "    "


def lines(
    answer: Explanation, width: int, *, source: Mapping[str, list[str]], show: bool = False
) -> Iterator[str]:
    """Yield the answer as styled lines; `source` holds the lines of each file.

    With `show` also what functions were rewritten to.
    """
    for function in answer.functions:
        yield from _function(function, width, source, show=show)
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


def _function(
    function: Explained, width: int, source: Mapping[str, list[str]], *, show: bool
) -> Iterator[str]:
    good = function.outcome in ("native", "inlined")
    mark = click.style(function.outcome if good else "python", bold=True)
    mark = click.style(mark, fg="green" if good else "yellow")
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
    if function.rewritten:
        yield from _wrapped(f"rewritten: {', '.join(function.rewritten)}", width, "      ")
    if show and function.normal_form is not None:
        yield from (f"      | {_shown(line)}" for line in function.normal_form.split("\n"))
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
