"""What runs when a module is loaded, left out of the copy that Rextio analyses.

Rextio trusts the names of a module only while nothing at module level runs code that it does not
know. What is loaded is the user's own file, whole; the copy is for analysis alone. So such a
statement is left out of the copy, and each name that it binds is bound to None there: Rextio then
trusts that name no more, wherever else it comes from, and the others as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

import libcst as cst

from rextio_torch.normalize.bindings import bindings, binds_by_text
from rextio_torch.normalize.code import Code, Origin
from rextio_torch.syntax import on_import
from rextio_torch.syntax.output import output_calls
from rextio_torch.syntax.source import Function, SourceFile
from rextio_torch.syntax.tree import assigned_names

#: The kinds of statements that are left out.
_LEFT_OUT = (
    on_import.calls,
    on_import.decorators,
    on_import.base_classes,
    on_import.changes,
    on_import.project_uses,
)


@dataclass(frozen=True)
class ModuleLevel:
    """What changes in a file around its functions."""

    edits: tuple[tuple[int, int, Code], ...] = ()
    #: Functions with tensor annotations that are left out too: Rextio never sees them.
    set_aside: tuple[Function, ...] = ()
    #: Whether `from __future__ import annotations` keeps annotations from running code.
    future: bool = False


def left_out(
    file: SourceFile, functions: Iterable[Function], undecorated: Set[str], elsewhere: Set[str]
) -> ModuleLevel:
    """Return what to leave out of a file with these functions.

    `undecorated` are those that lost their decorators; `elsewhere` are the names, `module.name`,
    that functions and other modules of the project assign.
    """
    # Where it does not, any name may stand for something else than what the file says.
    trusted = not file.names.stars and not binds_by_text(file)
    found = [
        (file.offsets(node)[0], kind)
        for kind in (_LEFT_OUT if trusted else ())
        for node in kind(file)
        # Assigning to a module of the project binds its name anew for everyone.
        if kind is not on_import.project_uses or isinstance(node, cst.Call)
    ]
    edits = []
    set_aside: list[Function] = []
    for item in file.tree.body:
        start, end = file.statement_range(item)
        kinds = {kind for offset, kind in found if start <= offset < end}
        inside = [it for it in functions if item is it.node or item in it.parents]
        if any(item is it.node and it.name in undecorated for it in inside):
            # Its decorators are gone.
            kinds.discard(on_import.decorators)
        # Rextio has native code for it, which reaches neither Python's handlers nor sys.stdout.
        writes = isinstance(item, cst.FunctionDef) and any(output_calls(file, item))
        if not kinds and not writes:
            continue
        set_aside += inside
        lines = "".join(f"{name} = None\n" for name in dict.fromkeys(_bound(item)))
        edits.append((start, end, Code(lines).at(Origin(file, file.span(item)))))
    again = sorted(it for it in bindings(file).names if f"{file.module}.{it}" in elsewhere)
    if trusted and again:
        end, last = len(file.text), file.tree.body[-1]
        lines = "".join(f"{name} = None\n" for name in again if not name.startswith("__"))
        break_before = "" if file.text.endswith("\n") else "\n"
        code = Code(break_before + lines).at(Origin(file, file.span(last)))
        edits.append((end, end, code))
    future = trusted and any(True for _ in on_import.evaluated_annotations(file))
    return ModuleLevel(tuple(edits), tuple(set_aside), future)


def _bound(item: cst.SimpleStatementLine | cst.BaseCompoundStatement) -> Iterator[str]:
    """Yield the names that a statement binds."""
    module = cst.Module([item])
    yield from (name for name in assigned_names(module) if not name.startswith("__"))
