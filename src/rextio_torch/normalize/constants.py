"""Literal constants of modules, such as `DIM = 1`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import libcst as cst

from rextio_torch.normalize.statements import Frame
from rextio_torch.ops.model import OptionValue
from rextio_torch.syntax.names import Names
from rextio_torch.syntax.source import SourceFile
from rextio_torch.syntax.tree import dotted_name, literal

_NAMED_LITERALS = ("None", "True", "False")


@dataclass(frozen=True)
class Literal:
    """The value of a literal."""

    value: OptionValue | float


def written_literal(node: cst.BaseExpression) -> Literal | None:
    """Return the literal that an expression is, or None."""
    found, value = literal(node)
    if found:
        return Literal(value)
    match node:
        case cst.Float():
            number = node.evaluated_value
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.Float() as positive):
            number = -positive.evaluated_value
        case _:
            return None
    # What overflows has no literal of its own.
    return Literal(number) if math.isfinite(number) else None


@dataclass(frozen=True)
class Constants:
    """The literal constants of a project's modules, by `module.NAME`."""

    values: Mapping[str, Literal]
    #: Names of modules that have more than one value.
    unsettled: frozenset[str]


def defined(file: SourceFile, name: str, unsettled: frozenset[str]) -> Iterator[str]:
    """Yield what an imported name stands for: `module.NAME`, there or where that imports it."""
    target = file.resolver.target(name)
    seen: set[str] = set()
    while target is not None and target not in unsettled | seen:
        yield target
        seen.add(target)
        module, _, last = target.rpartition(".")
        names = file.resolver.project.get(module)
        target = None if names is None else names.imports.get(last)


def module_literal(
    file: SourceFile, node: cst.BaseExpression, constants: Constants
) -> Literal | None:
    """Return the literal that an expression at module level is or names, or None."""
    name = dotted_name(node)
    if name is None or name in _NAMED_LITERALS:
        return written_literal(node)
    if f"{file.module}.{name.partition('.')[0]}" in constants.unsettled:
        return None
    if file.resolver.target(name) is not None:
        targets = defined(file, name, constants.unsettled)
        return next((constants.values[t] for t in targets if t in constants.values), None)
    # With a dot it is an attribute of something that the module makes.
    return None if "." in name else constants.values.get(f"{file.module}.{name}")


def literal_value(frame: Frame, node: cst.BaseExpression, constants: Constants) -> Literal | None:
    """Return the literal that an expression inside a function is or names, or None."""
    name = dotted_name(node)
    if name in frame.literals:
        return Literal(frame.literals[name])
    if name is not None and name.partition(".")[0] in frame.local_names:
        return None
    return module_literal(frame.file, node, constants)


def module_constants(files: Iterable[SourceFile], again: set[str]) -> Constants:
    """Return the literals that modules assign at top level, but names with more values, `again`."""
    found: dict[str, Literal] = {}
    for file in files:
        for statement in _top_level(file):
            match statement:
                case cst.Assign(targets=targets, value=value):
                    names = [t.target.value for t in targets if isinstance(t.target, cst.Name)]
                case cst.AnnAssign(target=cst.Name(value=name), value=value) if value is not None:
                    names = [name]
                case _:
                    continue
            constant = written_literal(value)
            keys = {f"{file.module}.{name}" for name in names} - again
            found |= dict.fromkeys(keys, constant) if constant is not None else {}
    return Constants(found, frozenset(again))


def _top_level(file: SourceFile) -> Iterator[cst.CSTNode]:
    """Yield the small statements of a module that run whenever it is loaded."""
    for line in file.tree.body:
        if isinstance(line, cst.SimpleStatementLine):
            yield from line.body


class _Rebound(cst.CSTVisitor):
    """Collects `global NAME`, and `module.NAME` where it is assigned or deleted, anywhere."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.names: set[str] = set()
        #: Also those inside functions.
        self.imports = dict(file.names.imports)

    def visit_Import(self, node: cst.Import) -> None:
        self._imported(node)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        self._imported(node)

    def _imported(self, node: cst.Import | cst.ImportFrom) -> None:
        line = cst.Module([cst.SimpleStatementLine([node])])
        packaged = self.file.path.name == "__init__.py"
        self.imports |= Names.of(line, self.file.module, is_package=packaged).imports

    def visit_Global(self, node: cst.Global) -> None:
        self.names.update(f"{self.file.module}.{item.name.value}" for item in node.names)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._assigned(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._assigned(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._assigned(node.target)

    def visit_For(self, node: cst.For) -> None:
        self._assigned(node.target)

    def visit_Del(self, node: cst.Del) -> None:
        self._assigned(node.target)

    def visit_Call(self, node: cst.Call) -> None:
        if dotted_name(node.func) in ("setattr", "delattr") and len(node.args) > 1:
            name = node.args[1].value
            module = dotted_name(node.args[0].value)
            text = name.evaluated_value if isinstance(name, cst.SimpleString) else None
            if module is not None and isinstance(text, str):
                self._name(f"{module}.{text}")

    def _assigned(self, target: cst.BaseExpression) -> None:
        if isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._assigned(element.value)
        else:
            self._name(dotted_name(target) or "")

    def _name(self, dotted: str) -> None:
        head, dot, rest = dotted.partition(".")
        if dot and head in self.imports:
            self.names.add(f"{self.imports[head]}.{rest}")


#: What `_Rebound` looks for; a visit takes as long as parsing, and most files have neither.
_MAY_REBIND = re.compile(
    r"\b(?:global|del)\s|\b(?:set|del)attr\(|\bfor\s[^:\n]*\w\.\w+[^:\n]*\sin\s"
    r"|\w\.\w+\s*(?::[^=\n]+)?[-+*/%@&|^<>]*=(?!=)|^\s*[\w., ()\[\]]+\.[\w., ()\[\]]+=(?!=)",
    re.MULTILINE,
)


def rebound(files: Iterable[SourceFile]) -> set[str]:
    """Return the names of modules, `module.NAME`, that functions or other modules assign."""
    names: set[str] = set()
    for file in files:
        if _MAY_REBIND.search(file.text):
            visitor = _Rebound(file)
            file.tree.visit(visitor)
            names |= visitor.names
    return names
