"""Rows of matrix products: linear and matmul."""

from __future__ import annotations

from rextio_torch.ops import shapes
from rextio_torch.ops.model import (
    CudaForm,
    Diagnostic,
    Numerics,
    Operator,
    Sample,
    Signature,
    binary_operator,
    function,
    method,
    tensor,
)
from rextio_torch.ops.tensor_types import AFTER_MATMUL, CUDA_2D, F32_1D, F32_2D

_NUMERICS = Numerics(
    nan="a NaN operand gives NaN wherever it takes part, also times zero",
    signed_zero="as IEEE 754 arithmetic",
    ulp=8.0,
    of_terms=True,
    sums_up=True,
)


def _linear_samples(signature: Signature) -> tuple[Sample, ...]:
    sizes = ((1, 4, 3), (2, 4, 1), (5, 33, 17), (0, 4, 3), (2, 0, 3), (2, 3, 0))
    samples = []
    for n, inputs, outputs in sizes:
        bias = None if signature.operands[2] is None else (outputs,)
        samples.append(Sample(((n, inputs), (outputs, inputs), bias)))
    if signature.operands[2] is not None:
        samples.append(Sample(((2, 3), (4, 3), (1,))))
    return tuple(samples)


LINEAR = Operator(
    id="linear",
    schema="linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    spellings=(function("torch.nn.functional.linear"),),
    parameters=(tensor("input"), tensor("weight"), tensor("bias", optional=True)),
    signatures=(
        Signature((F32_2D, F32_2D, F32_1D), F32_2D),
        Signature((F32_2D, F32_2D, None), F32_2D),
    ),
    shape_rule=shapes.linear,
    numerics=_NUMERICS,
    samples=_linear_samples,
    error_samples=(
        Sample(((3, 1), (1, 2), None)),
        Sample(((2, 3), (4, 3), (3,))),
        Sample(((2, 3), (3, 4), (3,))),
        Sample(((2, 3), (1, 3), (4,))),
    ),
    diagnostic=Diagnostic(
        code="RXTP-TORCH-011",
        why=(
            "linear is native for a float32 input of rank 2, a weight of rank 2 and a bias of "
            "rank 1 or no bias."
        ),
        example="F.linear(v, weight, bias)  # v: TensorF32Cpu1D",
        instead="F.linear(x, weight, bias)  # x: TensorF32Cpu2D, one row per input",
    ),
    fusion="product",
)

_MATMUL_SHAPES = {
    (2, 2): (
        ((2, 3), (3, 4)),
        ((1, 5), (5, 1)),
        ((17, 33), (33, 9)),
        ((2, 0), (0, 3)),
        ((0, 3), (3, 2)),
    ),
    (2, 1): (((2, 3), (3,)), ((17, 33), (33,)), ((2, 0), (0,)), ((0, 3), (3,))),
    (1, 2): (((3,), (3, 4)), ((33,), (33, 17)), ((0,), (0, 3)), ((3,), (3, 0))),
}


def _matmul_samples(signature: Signature) -> tuple[Sample, ...]:
    left, right = signature.operands
    assert left is not None
    assert right is not None
    return tuple(Sample(pair) for pair in _MATMUL_SHAPES[left.rank, right.rank])


MATMUL = Operator(
    id="matmul",
    schema="matmul(Tensor self, Tensor other) -> Tensor",
    spellings=(binary_operator("@"), function("torch.matmul"), method("matmul")),
    parameters=(tensor("input"), tensor("other")),
    signatures=(
        Signature((F32_2D, F32_2D), F32_2D),
        Signature((F32_2D, F32_1D), F32_1D),
        Signature((F32_1D, F32_2D), F32_1D),
    ),
    shape_rule=shapes.matmul,
    numerics=_NUMERICS,
    samples=_matmul_samples,
    error_samples=(Sample(((2, 3), (4, 3))), Sample(((2, 3), (4,))), Sample(((3,), (4, 3)))),
    diagnostic=Diagnostic(
        code="RXTP-TORCH-012",
        why=(
            "matmul is native for float32 operands of ranks 2 and 2, 2 and 1, or 1 and 2; two "
            "vectors give a tensor of rank 0, which is not supported."
        ),
        example="u @ v  # both TensorF32Cpu1D",
        instead="torch.sum(u * v, dim=0, keepdim=True)  # a tensor of one value",
    ),
    fusion="product",
    transposed="linear",
    cuda=CudaForm(binary_operator("@"), Signature((CUDA_2D, CUDA_2D), AFTER_MATMUL)),
)

ROWS = (LINEAR, MATMUL)
