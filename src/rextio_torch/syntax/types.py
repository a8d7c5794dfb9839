"""Types of expressions: keys of tensor types, and the names of Python's own types."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from rextio_torch.ops.tensor_types import TYPES_BY_KEY

#: A tensor whose dtype or rank is not known, because an operation before it is not claimed.
TENSOR = "tensor"
NUMBERS = frozenset({"int", "float", "bool"})
#: The operators that Rextio offers to plugins.
SYMBOLS: dict[type[cst.BaseBinaryOp], str] = {
    cst.Add: "+",
    cst.Subtract: "-",
    cst.Multiply: "*",
    cst.Divide: "/",
    cst.MatrixMultiply: "@",
}


def is_tensor(type_key: str | None) -> bool:
    """Whether a type is that of a tensor, known or unknown."""
    return type_key == TENSOR or type_key in TYPES_BY_KEY


def arithmetic(operator: cst.BaseBinaryOp, types: Sequence[str | None]) -> str | None:
    """Return the type of an operator's result on numbers, `None` if an operand is no number."""
    if not all(item in NUMBERS for item in types):
        return None
    return "float" if "float" in types or isinstance(operator, cst.Divide) else "int"
