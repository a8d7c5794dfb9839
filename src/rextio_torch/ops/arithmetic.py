"""Rows of elementwise arithmetic on two tensors, with broadcasting.

Each operator has a second row, named as PyTorch names its in-place variant, for the value of
`h += x` on a tensor that nothing else has: the same operation, with a result of h's shape.
"""

from __future__ import annotations

from dataclasses import dataclass

from rextio_torch.ops import shapes
from rextio_torch.ops.model import (
    CudaForm,
    Diagnostic,
    Numerics,
    Operator,
    Sample,
    ShapeError,
    Signature,
    binary_operator,
    function,
    tensor,
)
from rextio_torch.ops.tensor_types import AFTER_ADD, AFTER_MATMUL, CUDA_1D, F32_1D, F32_2D

_SIGNATURES = (
    Signature((F32_2D, F32_2D), F32_2D),
    Signature((F32_1D, F32_1D), F32_1D),
    Signature((F32_2D, F32_1D), F32_2D),
    Signature((F32_1D, F32_2D), F32_2D),
)

_PARAMETERS = (tensor("input"), tensor("other"))
_NUMERICS = Numerics(nan="a NaN operand gives NaN", signed_zero="as IEEE 754 arithmetic")
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
#: Sizes that broadcast to nothing.
_NO_BROADCAST = (
    ((2, 3), (2, 4)),
    ((3,), (4,)),
    ((2, 3), (2,)),
    ((2,), (2, 3)),
    ((0,), (2,)),
)


def _samples(signature: Signature) -> tuple[Sample, ...]:
    left, right = signature.operands
    assert left is not None
    assert right is not None
    return tuple(Sample(pair) for pair in _SHAPES_BY_RANK[left.rank, right.rank])


@dataclass(frozen=True)
class _Arithmetic:
    """What an operator and its in-place variant share; `in_place_code` is the variant's own."""

    name: str
    code: str
    in_place_code: str
    symbol: str
    option: str | None = None
    schema_options: str = ""
    cuda: Signature | None = None

    @property
    def refused(self) -> str:
        """What it does not take, though PyTorch does."""
        if self.option is None:
            return "numbers and int64 tensors"
        return f"numbers, int64 tensors and {self.option}"


def _row(of: _Arithmetic) -> Operator:
    return Operator(
        id=of.name,
        schema=f"{of.name}.Tensor(Tensor self, Tensor other{of.schema_options}) -> Tensor",
        spellings=(binary_operator(of.symbol), function(f"torch.{of.name}")),
        parameters=_PARAMETERS,
        signatures=_SIGNATURES,
        shape_rule=shapes.broadcast,
        numerics=_NUMERICS,
        samples=_samples,
        error_samples=tuple(map(Sample, _NO_BROADCAST)),
        diagnostic=Diagnostic(
            code=of.code,
            why=(
                f"{of.name} is native for two float32 CPU tensors of rank 1 or 2; {of.refused} are "
                "not supported."
            ),
            example=f"x {of.symbol} 2.0",
            instead=f"x {of.symbol} factors  # factors: TensorF32Cpu1D, broadcast over the rows",
        ),
        fusion="elementwise",
        in_place=f"{of.name}_",
        cuda=None if of.cuda is None else CudaForm(binary_operator(of.symbol), of.cuda),
    )


# In place the result has the type and the sizes of the first operand. The rest is as above.
_IN_PLACE_SIGNATURES = tuple(s for s in _SIGNATURES if s.operands[0] == s.result)


def _keeps_shape(sample: Sample) -> bool:
    try:
        shapes.broadcast_in_place("", sample.shapes, {})
    except ShapeError:
        return False
    return True


def _in_place_samples(signature: Signature) -> tuple[Sample, ...]:
    return tuple(sample for sample in _samples(signature) if _keeps_shape(sample))


def _in_place_error_samples() -> tuple[Sample, ...]:
    """Sizes that broadcast to nothing, and those that broadcast to more than the first has."""
    ranks = {signature.ranks for signature in _IN_PLACE_SIGNATURES}
    more = [s for signature in _IN_PLACE_SIGNATURES for s in _samples(signature)]
    return (
        *(Sample(pair) for pair in _NO_BROADCAST if tuple(map(len, pair)) in ranks),
        *(sample for sample in more if not _keeps_shape(sample)),
    )


def _in_place_row(of: _Arithmetic) -> Operator:
    name = f"{of.name}_"
    target = f"rextio_torch.in_place.{name}"
    written = f"h {of.symbol}= x"
    return Operator(
        id=name,
        schema=(f"{name}.Tensor(Tensor(a!) self, Tensor other{of.schema_options}) -> Tensor(a!)"),
        spellings=(function(target),),
        parameters=_PARAMETERS,
        signatures=_IN_PLACE_SIGNATURES,
        shape_rule=shapes.broadcast_in_place,
        numerics=_NUMERICS,
        samples=_in_place_samples,
        error_samples=_in_place_error_samples(),
        diagnostic=Diagnostic(
            code=of.in_place_code,
            why=(
                f"{name} is native for `{written}` with float32 CPU tensors of rank 1 or 2, where "
                f"x has no higher rank than h; {of.refused} are not supported."
            ),
            example=f"{target}(x, 2.0)  # x {of.symbol}= 2.0",
            instead=f"{target}(x, factors)  # x {of.symbol}= factors, factors: TensorF32Cpu1D",
        ),
        fusion="elementwise",
        note=(
            f"Written for you by the front end for `{written}` on a tensor that nothing else has: "
            f"the value of `h {of.symbol} x`, and `RuntimeError` where that has not h's shape. "
            "There is no reason to write it by hand."
        ),
    )


_ALPHA = ", *, Scalar alpha=1"
_ALL = (
    _Arithmetic(
        "add",
        "RXTP-TORCH-013",
        "RXTP-TORCH-021",
        "+",
        option="alpha",
        schema_options=_ALPHA,
        cuda=Signature((AFTER_MATMUL, CUDA_1D), AFTER_ADD),
    ),
    _Arithmetic(
        "sub", "RXTP-TORCH-014", "RXTP-TORCH-022", "-", option="alpha", schema_options=_ALPHA
    ),
    _Arithmetic("mul", "RXTP-TORCH-015", "RXTP-TORCH-023", "*"),
    _Arithmetic("div", "RXTP-TORCH-016", "RXTP-TORCH-024", "/", option="rounding_mode"),
)

ROWS = (*map(_row, _ALL), *map(_in_place_row, _ALL))
