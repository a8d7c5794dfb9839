"""The types that PyTorch gives where Rextio knows none: of what follows a form that it refuses."""

from __future__ import annotations

from rextio_torch.analysis.decide import CudaRejection, Rejection
from rextio_torch.ops.tensor_types import TENSOR_TYPES
from rextio_torch.syntax.types import NUMBERS, TENSOR, is_tensor

_CPU_KEYS = {item.key for item in TENSOR_TYPES}
_FLOATS = {item.key for item in TENSOR_TYPES if item.is_floating}


class Likely(str):
    """The type of a tensor that PyTorch gives, but Rextio does not know: of a form before it.

    So an operation that follows is judged as it would be once that form is gone.
    """

    __slots__ = ()


def unchanged(type_key: str | None) -> str | None:
    """Return the type of an operation on one tensor that keeps its type, such as `-x`."""
    return Likely(type_key) if type_key in _CPU_KEYS else type_key


def with_number(types: list[str | None]) -> str:
    """Return the type of an elementwise operation on a tensor and a number."""
    tensors = [item for item in types if is_tensor(item)]
    if len(tensors) == 1 and tensors[0] in _FLOATS and NUMBERS.issuperset(set(types) - {*tensors}):
        return Likely(tensors[0])
    return TENSOR


def after_rejection(decision: Rejection | CudaRejection, types: list[str | None]) -> str:
    """Return the type of a rejected operation, where all its signatures for the operands agree."""
    if isinstance(decision, CudaRejection):
        return TENSOR
    operator = decision.operator
    tensors = [item for item in types if is_tensor(item)]
    results = {
        signature.result.key
        for signature in operator.signatures
        if [operand.key for operand in signature.operands if operand is not None] == tensors
    }
    if len(results) == 1:
        return Likely(results.pop())
    return with_number(types) if operator.fusion == "elementwise" else TENSOR
