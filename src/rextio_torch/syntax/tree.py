"""Parts of a syntax tree: what is inside a node, and the names that it binds and mentions."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import fields

import libcst as cst

from rextio_torch.ops.model import OptionValue


def dotted_name(node: cst.CSTNode | None) -> str | None:
    """Return `a.b.c` of a name or a chain of attributes, else None."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        before = dotted_name(node.value)
        return None if before is None else f"{before}.{node.attr.value}"
    return None


@functools.cache
def _child_fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    layout = ("whitespace", "lpar", "rpar", "comma", "semicolon", "equal", "header", "footer")
    names = (field.name for field in fields(kind))
    return tuple(name for name in names if not name.startswith((*layout, "leading_", "trailing_")))


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the parts of a node without layout; libcst's own `children` takes ten times as long."""
    for name in _child_fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, cst.CSTNode))


def parameters(node: cst.Parameters) -> list[cst.Param]:
    """Return all parameters, `*args` and `**kwargs` last."""
    stars = [star for star in (node.star_arg, node.star_kwarg) if isinstance(star, cst.Param)]
    return [*node.posonly_params, *node.params, *node.kwonly_params, *stars]


def statements(body: object) -> Iterator[cst.CSTNode]:
    """Yield the statements that run when a block runs, those of nested blocks included."""
    for statement in body if isinstance(body, (list, tuple)) else ():
        if isinstance(statement, cst.SimpleStatementLine):
            yield from statement.body
            continue
        yield statement
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            continue
        for part in blocks(statement):
            yield from statements(part.body)


def blocks(statement: cst.CSTNode) -> Iterator[cst.BaseSuite]:
    """Yield the blocks of a compound statement."""
    for name in ("body", "orelse", "finalbody"):
        part = getattr(statement, name, None)
        if isinstance(part, cst.BaseSuite):
            yield part
        elif isinstance(part, cst.CSTNode):
            if isinstance(part, cst.If):
                yield from blocks(part)
            elif isinstance(getattr(part, "body", None), cst.BaseSuite):
                yield part.body  # type: ignore[attr-defined]
    for name in ("handlers", "cases"):
        for part in getattr(statement, name, ()):
            yield part.body


def own_nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and what is in it, without annotations and what has a scope of its own."""
    yield node
    if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.Import, cst.ImportFrom)):
        return
    for child in children(node):
        if not isinstance(child, cst.Annotation):
            yield from own_nodes(child)


def target_names(target: cst.CSTNode) -> Iterator[str]:
    """Yield the names that an assignment to a target binds."""
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from target_names(element.value)


def assigned_names(node: cst.CSTNode, *, imports: bool = True) -> Iterator[str]:
    """Yield the names that a statement or block assigns, blocks inside included."""
    for item in own_nodes(node):
        match item:
            case cst.AssignTarget(target=target) | cst.AnnAssign(target=target):
                yield from target_names(target)
            case cst.AugAssign(target=target) | cst.For(target=target):
                yield from target_names(target)
            case cst.NamedExpr(target=target):
                yield from target_names(target)
            case cst.FunctionDef(name=name) | cst.ClassDef(name=name) if item is not node:
                yield name.value
            case cst.MatchAs(name=cst.Name(value=name)) | cst.MatchStar(name=cst.Name(value=name)):
                yield name
            case cst.MatchMapping(rest=cst.Name(value=name)):
                yield name
            case cst.Import() | cst.ImportFrom() if imports:
                yield from imported_names(item)
            case cst.AsName(name=name):
                yield from target_names(name)
            case cst.Del(target=target):
                yield from target_names(target)


def imported_names(node: cst.Import | cst.ImportFrom) -> Iterator[str]:
    """Yield the names that an import binds."""
    if not isinstance(node.names, cst.ImportStar):
        for alias in node.names:
            yield alias.evaluated_alias or alias.evaluated_name.partition(".")[0]


def names_in(node: cst.CSTNode) -> set[str]:
    """Return every name that a node mentions."""
    return {item.value for item in own_nodes(node) if isinstance(item, cst.Name)}


def literal(node: cst.BaseExpression) -> tuple[bool, OptionValue]:
    """Return whether an expression is a literal that Rextio hands over, and its value."""
    match node:
        case cst.Integer():
            return True, node.evaluated_value
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer() as number):
            return True, -number.evaluated_value
        case cst.Name(value="None" | "True" | "False" as name):
            return True, {"None": None, "True": True, "False": False}[name]
        case cst.SimpleString(evaluated_value=str() as text):
            return True, text
        case cst.Tuple(elements=elements):
            values = [literal(element.value) for element in elements]
            if all(found and type(value) is int for found, value in values):
                return True, tuple(value for _, value in values if isinstance(value, int))
    return False, None
