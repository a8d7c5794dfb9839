"""In which order the parts of an expression are evaluated, and which cannot stay in it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from rextio_torch.normalize.equivalents import IDENTITY_NAMES
from rextio_torch.normalize.statements import Expr, Var, parts


def is_compound(receiver: cst.BaseExpression) -> bool:
    """Whether Rextio takes no method of an expression, whatever is left out around it."""
    if isinstance(receiver, cst.Call):
        function = receiver.func
        name = function.attr if isinstance(function, cst.Attribute) else function
        if isinstance(name, cst.Name) and name.value in IDENTITY_NAMES:
            operands = [item.value for item in receiver.args[:1]]
            if isinstance(function, cst.Attribute):
                operands.append(function.value)
            return any(map(is_compound, operands))
    return isinstance(receiver, (cst.BinaryOperation, cst.Comparison))


def reassigns(found: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether an assignment expression changes what a name before it stands for."""
    if not isinstance(found, cst.NamedExpr) or not isinstance(node, cst.Name):
        return False
    return isinstance(found.target, cst.Name) and found.target.value == node.value


def evaluated_before(
    expr: Expr, node: cst.CSTNode, found: cst.CSTNode
) -> Iterator[cst.BaseExpression]:
    """Yield the largest parts of a node that are evaluated before another part of it."""
    given = expr.given.get(node)
    if given is not None and not isinstance(given, Var):
        node = given
    if node is found:
        # Its own parts are what it consists of: arguments are bound in their order.
        return
    for part in _parts_with_receiver(node):
        if _contains(expr, part, found):
            yield from evaluated_before(expr, part, found)
            return
        if isinstance(part, cst.BaseExpression):
            yield part


def _parts_with_receiver(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for part in parts(node):
        function = isinstance(node, cst.Call) and part is node.func
        if isinstance(part, cst.Arg) or (function and isinstance(part, cst.Attribute)):
            yield part.value
        else:
            yield part


def _contains(expr: Expr, node: cst.CSTNode, found: cst.CSTNode) -> bool:
    if node is found:
        return True
    given = expr.given.get(node)
    if isinstance(given, Var):
        return False
    if given is not None:
        return _contains(expr, given, found)
    return any(_contains(expr, part, found) for part in parts(node))
