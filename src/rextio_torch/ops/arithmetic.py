"""Rows of elementwise arithmetic on two tensors, with broadcasting."""

from __future__ import annotations

from rextio_torch.ops import shapes
from rextio_torch.ops.model import (
    AFTER_ADD,
    AFTER_MATMUL,
    CUDA_1D,
    F32_1D,
    F32_2D,
    CudaForm,
    Diagnostic,
    Numerics,
    Operator,
    Sample,
    Signature,
    binary_operator,
    function,
    tensor,
)

_SIGNATURES = (
    Signature((F32_2D, F32_2D), F32_2D),
    Signature((F32_1D, F32_1D), F32_1D),
    Signature((F32_2D, F32_1D), F32_2D),
    Signature((F32_1D, F32_2D), F32_2D),
)

_SHAPES_BY_RANK = {
    (2, 2): (
        ((3, 4), (3, 4)),
        ((3, 4), (1, 4)),
        ((3, 1), (3, 4)),
        ((3, 1), (1, 4)),
        ((1, 1), (5, 33)),
        ((0, 3), (1, 3)),
        ((7, 33), (7, 33)),
    ),
    (1, 1): (((5,), (5,)), ((1,), (33,)), ((33,), (1,)), ((0,), (1,)), ((257,), (257,))),
    (2, 1): (((3, 4), (4,)), ((3, 1), (4,)), ((3, 4), (1,)), ((2, 0), (1,)), ((7, 33), (33,))),
    (1, 2): (((4,), (3, 4)), ((4,), (3, 1)), ((1,), (3, 4)), ((1,), (2, 0)), ((33,), (7, 33))),
}


def _samples(signature: Signature) -> tuple[Sample, ...]:
    left, right = signature.operands
    assert left is not None
    assert right is not None
    return tuple(Sample(pair) for pair in _SHAPES_BY_RANK[left.rank, right.rank])


def _arithmetic(
    name: str,
    code: str,
    symbol: str,
    *,
    option: str | None = None,
    schema_options: str = "",
    cuda: Signature | None = None,
) -> Operator:
    refused = f"numbers, int64 tensors and {option}" if option else "numbers and int64 tensors"
    return Operator(
        id=name,
        schema=f"{name}.Tensor(Tensor self, Tensor other{schema_options}) -> Tensor",
        spellings=(binary_operator(symbol), function(f"torch.{name}")),
        parameters=(tensor("input"), tensor("other")),
        signatures=_SIGNATURES,
        shape_rule=shapes.broadcast,
        numerics=Numerics(nan="a NaN operand gives NaN", signed_zero="as IEEE 754 arithmetic"),
        samples=_samples,
        error_samples=(
            Sample(((2, 3), (2, 4))),
            Sample(((3,), (4,))),
            Sample(((2, 3), (2,))),
            Sample(((2,), (2, 3))),
            Sample(((0,), (2,))),
        ),
        diagnostic=Diagnostic(
            code=code,
            why=(
                f"{name} is native for two float32 CPU tensors of rank 1 or 2; {refused} are not "
                "supported."
            ),
            example=f"x {symbol} 2.0",
            instead=f"x {symbol} factors  # factors: TensorF32Cpu1D, broadcast over the rows",
        ),
        fusion="elementwise",
        cuda=None if cuda is None else CudaForm(binary_operator(symbol), cuda),
    )


_ALPHA = ", *, Scalar alpha=1"
ADD = _arithmetic(
    "add",
    "RXTP-TORCH-013",
    "+",
    option="alpha",
    schema_options=_ALPHA,
    cuda=Signature((AFTER_MATMUL, CUDA_1D), AFTER_ADD),
)
SUB = _arithmetic("sub", "RXTP-TORCH-014", "-", option="alpha", schema_options=_ALPHA)
MUL = _arithmetic("mul", "RXTP-TORCH-015", "*")
DIV = _arithmetic("div", "RXTP-TORCH-016", "/", option="rounding_mode")

ROWS = (ADD, SUB, MUL, DIV)
