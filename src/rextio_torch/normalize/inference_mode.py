"""What only says that nothing is to be differentiated: native functions compute so in any case."""

from __future__ import annotations

import libcst as cst

from rextio_torch.syntax.annotations import Resolver
from rextio_torch.syntax.tree import dotted_name

_CONTEXTS = frozenset({"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad"})
_CONTEXTS_WITHOUT_CALL = frozenset({"torch.no_grad", "torch.inference_mode"})


def is_inference_context(node: cst.BaseExpression, resolver: Resolver) -> bool:
    """Whether an expression is `torch.no_grad()` or `torch.inference_mode()`, as decorator too."""
    if isinstance(node, cst.Call):
        if node.args and not (
            len(node.args) == 1
            and isinstance(node.args[0].value, cst.Name)
            and node.args[0].value.value == "True"
        ):
            return False
        return resolver.target(dotted_name(node.func) or "") in _CONTEXTS
    return resolver.target(dotted_name(node) or "") in _CONTEXTS_WITHOUT_CALL


def is_inference_mode(node: cst.BaseExpression, resolver: Resolver) -> bool:
    """Whether a context makes tensors that cannot be changed in place outside of it."""
    function = node.func if isinstance(node, cst.Call) else node
    return resolver.target(dotted_name(function) or "") == "torch.inference_mode"
