"""What runs code when a module is loaded, as far as Rextio takes it to.

Rextio trusts an import only while nothing at module level could have bound the name again. It takes
that for possible wherever a statement runs code that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from rextio_torch.syntax.source import SourceFile
from rextio_torch.syntax.tree import children, dotted_name, parameters, statements

_PURE_DECORATORS = frozenset(
    {
        "rextio.native",
        "rextio.exempt",
        "staticmethod",
        "classmethod",
        "property",
        "functools.cached_property",
    }
)
_GENERIC = frozenset({"list", "dict", "tuple", "set", "frozenset", "type"})
#: A call that Rextio knows: the usual way to make a logger.
_KNOWN_CALLS = frozenset({"logging.getLogger", "range"})


def _executed(file: SourceFile) -> Iterator[cst.CSTNode]:
    """Yield the statements that importing the module runs, those of class bodies included."""
    for statement in statements(file.tree.body):
        yield statement
        if isinstance(statement, cst.ClassDef):
            yield from _class_body(statement)


def _class_body(node: cst.ClassDef) -> Iterator[cst.CSTNode]:
    for statement in statements(node.body.body):
        yield statement
        if isinstance(statement, cst.ClassDef):
            yield from _class_body(statement)


def _evaluated(file: SourceFile, statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the expressions that a statement evaluates itself."""
    match statement:
        case cst.FunctionDef(params=params):
            yield from (item.default for item in parameters(params) if item.default)
        case cst.ClassDef():
            return
        case cst.BaseCompoundStatement():
            for name in ("test", "iter", "subject"):
                part = getattr(statement, name, None)
                if part is not None:
                    yield part
            for item in getattr(statement, "items", ()):
                yield item.item
        case cst.AnnAssign(value=value):
            yield from () if value is None else (value,)
        case cst.AugAssign(value=value) | cst.Assign(value=value):
            yield value
        case cst.Import() | cst.ImportFrom() | cst.Del() | cst.Global():
            return
        case _:
            yield from (c for c in children(statement) if isinstance(c, cst.BaseExpression))


def _inside(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    if isinstance(node, (cst.Lambda, cst.GeneratorExp)):
        return
    for child in children(node):
        yield from _inside(child)


def calls(file: SourceFile) -> Iterator[cst.CSTNode]:
    """Yield calls of what Rextio does not know."""
    for statement in _executed(file):
        for expression in _evaluated(file, statement):
            for node in _inside(expression):
                name = dotted_name(node.func) if isinstance(node, cst.Call) else ""
                target = file.resolver.target(name or "") or name
                if isinstance(node, cst.Call) and target not in _KNOWN_CALLS:
                    yield node
                    break


def decorators(file: SourceFile) -> Iterator[cst.CSTNode]:
    """Yield decorators, of functions and of classes, that Rextio does not know."""
    for statement in _executed(file):
        for item in getattr(statement, "decorators", ()):
            node = item.decorator.func if isinstance(item.decorator, cst.Call) else item.decorator
            name = dotted_name(node) or ""
            target = file.resolver.target(name) or name
            local = target in {
                other.name.value
                for other in statements(file.tree.body)
                if isinstance(other, cst.FunctionDef)
            }
            if target not in _PURE_DECORATORS and not local:
                yield item.decorator


def base_classes(file: SourceFile) -> Iterator[cst.CSTNode]:
    """Yield what classes are made from."""
    for statement in _executed(file):
        if isinstance(statement, cst.ClassDef):
            yield from (*statement.bases, *statement.keywords)


def star_imports(file: SourceFile) -> Iterator[cst.CSTNode]:
    """Yield `from … import *`."""
    for statement in _executed(file):
        if isinstance(statement, cst.ImportFrom) and isinstance(statement.names, cst.ImportStar):
            yield statement


def evaluated_annotations(file: SourceFile) -> Iterator[cst.CSTNode]:
    """Yield annotations that are evaluated with an operator or a subscript on unknown objects."""
    if file.future_annotations:
        return
    for statement in _executed(file):
        nodes: list[cst.Annotation] = []
        if isinstance(statement, cst.FunctionDef):
            nodes = [item.annotation for item in parameters(statement.params) if item.annotation]
            nodes += [statement.returns] if statement.returns is not None else []
        elif isinstance(statement, cst.AnnAssign):
            nodes = [statement.annotation]
        for node in nodes:
            if any(_runs_code(file, inner) for inner in _inside(node.annotation)):
                yield node.annotation


def _runs_code(file: SourceFile, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return not all(_is_plain_type(file, side) for side in (node.left, node.right))
    if isinstance(node, cst.Subscript):
        return dotted_name(node.value) not in _GENERIC
    return isinstance(node, cst.Call)


def _is_plain_type(file: SourceFile, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return all(_is_plain_type(file, side) for side in (node.left, node.right))
    if isinstance(node, cst.Subscript):
        return dotted_name(node.value) in _GENERIC
    name = dotted_name(node)
    return name in {*_GENERIC, "int", "float", "bool", "str", "bytes", "complex", "None", "object"}


def changes(file: SourceFile) -> Iterator[cst.CSTNode]:
    """Yield `with`, augmented assignments and assignments to an index."""
    for statement in _executed(file):
        if isinstance(statement, (cst.With, cst.AugAssign)):
            yield statement
        elif isinstance(statement, cst.Assign):
            targets = [item.target for item in statement.targets]
            if any(isinstance(target, cst.Subscript) for target in targets):
                yield statement


def project_uses(file: SourceFile) -> Iterator[cst.CSTNode]:
    """Yield what may bind attributes of the project's modules: assignments and calls."""
    for statement in _executed(file):
        targets = [t.target for t in statement.targets] if isinstance(statement, cst.Assign) else []
        for target in targets:
            head = (dotted_name(target) or "").partition(".")[0]
            if isinstance(target, cst.Attribute) and file.imports_from_project(head):
                yield statement
        for expression in _evaluated(file, statement):
            for node in _inside(expression):
                name = dotted_name(node.func) if isinstance(node, cst.Call) else None
                if name is not None and file.imports_from_project(name.partition(".")[0]):
                    yield node
