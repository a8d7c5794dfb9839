"""What only says that nothing is to be differentiated: native functions compute so in any case."""

from __future__ import annotations

import libcst as cst

from rextio_torch.syntax.annotations import Resolver
from rextio_torch.syntax.tree import dotted_name

_MODE = "torch.inference_mode"
_CONTEXTS = frozenset({"torch.no_grad", _MODE, "torch.autograd.no_grad"})
_DECORATORS = frozenset({"torch.no_grad", _MODE})


def is_inference_context(node: cst.BaseExpression, resolver: Resolver) -> bool:
    """Whether an expression is `torch.no_grad()` or `torch.inference_mode()`."""
    if not isinstance(node, cst.Call):
        return False
    target = resolver.target(dotted_name(node.func) or "")
    if not node.args:
        return target in _CONTEXTS
    match node.args:
        case [cst.Arg(value=cst.Name(value="True"), keyword=keyword, star="")]:
            return target == _MODE and (keyword is None or keyword.value == "mode")
    return False


def is_inference_decorator(node: cst.BaseExpression, resolver: Resolver) -> bool:
    """Whether a decorator is such a context, or one of the two that need no call there."""
    if is_inference_context(node, resolver):
        return True
    return resolver.target(dotted_name(node) or "") in _DECORATORS


def is_inference_mode(node: cst.BaseExpression, resolver: Resolver) -> bool:
    """Whether a context makes tensors that cannot be changed in place outside of it."""
    function = node.func if isinstance(node, cst.Call) else node
    return resolver.target(dotted_name(function) or "") == _MODE
