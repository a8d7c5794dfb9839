"""Rows of operators along one dimension: mean, sum, softmax, argmax."""

from __future__ import annotations

from rextio_torch.ops import shapes
from rextio_torch.ops.model import (
    CudaForm,
    Diagnostic,
    Numerics,
    Operator,
    Sample,
    Signature,
    dimension,
    function,
    method,
    option,
    tensor,
)
from rextio_torch.ops.tensor_types import AFTER_RELU, CUDA_1D, F32_1D, F32_2D, I64_1D

_KEEPDIM = option("keepdim", False)


def _samples(signature: Signature) -> tuple[Sample, ...]:
    """Sizes on both sides of SIMD widths, and empty tensors in either dimension."""
    operand = signature.operands[0]
    assert operand is not None
    if operand.rank == 1:
        return tuple(Sample(((size,),)) for size in (0, 1, 7, 33, 257))
    return tuple(
        Sample((shape,)) for shape in ((0, 3), (2, 0), (1, 1), (3, 4), (7, 33), (64, 17), (3, 300))
    )


def _nonempty_samples(signature: Signature) -> tuple[Sample, ...]:
    """As `_samples`, without an empty dimension being reduced."""
    full = tuple(
        sample
        for sample in _samples(signature)
        if all(size for shape in sample.shapes if shape is not None for size in shape)
    )
    operand = signature.operands[0]
    assert operand is not None
    if operand.rank == 1:
        return full
    return (*full, Sample(((0, 3),), {"dim": 1}), Sample(((2, 0),), {"dim": 0}))


def _reduction(name: str, code: str, empty: str, cuda: CudaForm | None = None) -> Operator:
    return Operator(
        id=name,
        schema=(
            f"{name}.{'dim' if name == 'mean' else 'dim_IntList'}(Tensor self, int[1]? dim, "
            "bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"
        ),
        spellings=(method(name), function(f"torch.{name}")),
        parameters=(tensor("input"), dimension("dim", several=True), _KEEPDIM),
        signatures=(
            Signature((F32_2D,), F32_1D, {"dim": (0, 1), "keepdim": (False,)}),
            Signature((F32_2D,), F32_2D, {"dim": (0, 1), "keepdim": (True,)}),
            Signature((F32_1D,), F32_1D, {"dim": (0,), "keepdim": (True,)}),
        ),
        shape_rule=shapes.reduce,
        numerics=Numerics(
            nan=f"a NaN gives NaN; an empty dimension gives {empty}",
            signed_zero="as IEEE 754 addition",
            ulp=2.0,
            of_terms=True,
            sums_up=True,
        ),
        samples=_samples,
        error_samples=(),
        diagnostic=Diagnostic(
            code=code,
            why=(
                f"{name} is native along one dimension of a float32 tensor, given as a literal "
                "dim of 0 or 1, where the result has rank 1 or 2; keepdim is a literal keyword, "
                "dtype is not supported."
            ),
            example=f"x.{name}()",
            instead=f"x.{name}(dim=1)",
        ),
        fusion="rows",
        cuda=cuda,
    )


MEAN = _reduction(
    "mean",
    "RXTP-TORCH-017",
    "NaN",
    CudaForm(method("mean"), Signature((AFTER_RELU,), CUDA_1D, {"dim": (1,)}), ("dim",)),
)
SUM = _reduction("sum", "RXTP-TORCH-018", "0.0")

SOFTMAX = Operator(
    id="softmax",
    schema="softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    spellings=(
        method("softmax"),
        function("torch.softmax"),
        function("torch.nn.functional.softmax", option("dtype", None, positional=False)),
    ),
    parameters=(tensor("input"), dimension("dim")),
    signatures=(
        Signature((F32_2D,), F32_2D, {"dim": (0, 1)}),
        Signature((F32_1D,), F32_1D, {"dim": (0,)}),
    ),
    shape_rule=shapes.same,
    numerics=Numerics(
        nan="a NaN, a +inf, or only -inf along the dimension gives NaN along all of it",
        signed_zero="does not matter",
        ulp=8.0,
        sums_up=True,
    ),
    samples=_samples,
    error_samples=(),
    diagnostic=Diagnostic(
        code="RXTP-TORCH-019",
        why=(
            "softmax is native along a literal dim (0, or 1 for rank 2) of a float32 tensor, "
            "without a dtype."
        ),
        example="x.softmax(dim=-1)",
        instead="x.softmax(dim=1)",
    ),
    fusion="rows",
)

ARGMAX = Operator(
    id="argmax",
    schema="argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    spellings=(method("argmax"), function("torch.argmax")),
    parameters=(tensor("input"), dimension("dim"), _KEEPDIM),
    signatures=(
        Signature((F32_2D,), I64_1D, {"dim": (0, 1), "keepdim": (False,)}),
        Signature((F32_1D,), I64_1D, {"dim": (0,), "keepdim": (True,)}),
    ),
    shape_rule=shapes.reduce_nonempty,
    numerics=Numerics(
        nan="NaN counts as the largest value; the first NaN wins",
        signed_zero="-0.0 and 0.0 are equal",
        ties="the first largest value wins",
    ),
    samples=_nonempty_samples,
    error_samples=(
        Sample(((2, 0),), {"dim": 1, "keepdim": False}),
        Sample(((0, 3),), {"dim": 0, "keepdim": False}),
        Sample(((0,),), {"dim": 0, "keepdim": True}),
    ),
    diagnostic=Diagnostic(
        code="RXTP-TORCH-020",
        why=(
            "argmax is native where its result is an int64 tensor of rank 1: rank 2 along a "
            "literal dim of 0 or 1 without keepdim, or rank 1 along dim 0 with keepdim=True."
        ),
        example="x.argmax()",
        instead="x.argmax(dim=1)",
    ),
    fusion="none",
)

ROWS = (MEAN, SUM, SOFTMAX, ARGMAX)
