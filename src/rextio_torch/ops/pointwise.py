"""Rows of one-operand pointwise operators: activations and unary math."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rextio_torch.ops import shapes
from rextio_torch.ops.model import (
    CudaForm,
    Diagnostic,
    Numerics,
    Operator,
    Parameter,
    Sample,
    Signature,
    Spelling,
    function,
    method,
    option,
    tensor,
)
from rextio_torch.ops.tensor_types import AFTER_ADD, AFTER_RELU, F32_1D, F32_2D

_SIGNATURES = (Signature((F32_2D,), F32_2D), Signature((F32_1D,), F32_1D))


def _samples(signature: Signature) -> tuple[Sample, ...]:
    """Sizes on both sides of every SIMD width, a single value, and empty tensors."""
    if signature.result.rank == 1:
        return tuple(Sample(((size,),)) for size in (0, 1, 7, 16, 33, 257))
    return tuple(Sample((shape,)) for shape in ((0, 3), (2, 0), (1, 1), (3, 4), (7, 33), (64, 17)))


def _pointwise(
    name: str,
    code: str,
    *spellings: Spelling,
    options: tuple[Parameter, ...] = (),
    schema_options: str = "",
    nan: str = "NaN stays NaN",
    signed_zero: str,
    ulp: float = 0.0,
    example: str | None = None,
    instead: str | None = None,
    cuda: CudaForm | None = None,
    reference: Callable[[Any], Any] | None = None,
) -> Operator:
    call = spellings[0].target
    short = call.removeprefix("torch.").replace("nn.functional.", "F.")
    written = short if short.startswith("F.") else f"torch.{short}"
    defaults = [*options, *(option for spelling in spellings for option in spelling.fixed)]
    options_text = "".join(f", with {p.name}={p.default!r} or without it" for p in defaults)
    return Operator(
        id=name,
        schema=f"{name}(Tensor self{schema_options}) -> Tensor",
        spellings=spellings,
        parameters=(tensor("input"), *options),
        signatures=_SIGNATURES,
        shape_rule=shapes.same,
        numerics=Numerics(nan=nan, signed_zero=signed_zero, ulp=ulp),
        samples=_samples,
        error_samples=(),
        diagnostic=Diagnostic(
            code=code,
            why=(
                f"{name} is native for one float32 CPU tensor of rank 1 or 2{options_text}, and "
                "for no other operand or option."
            ),
            example=example or f"{written}(labels)  # labels: TensorI64Cpu1D",
            instead=instead or f"{written}(x)  # x: TensorF32Cpu2D",
        ),
        fusion="elementwise",
        cuda=cuda,
        reference=reference,
    )


def _functional(name: str) -> str:
    return f"torch.nn.functional.{name}"


def _gelu(x: Any) -> Any:
    """Return gelu of float64 values: 1 + erf, as PyTorch computes it, cancels in the left tail."""
    from torch.special import erfc

    return 0.5 * x * erfc(x * -(0.5**0.5))


RELU = _pointwise(
    "relu",
    "RXTP-TORCH-001",
    function("torch.relu"),
    method("relu"),
    function(_functional("relu"), option("inplace", False)),
    signed_zero="-0.0 stays -0.0",
    example="F.relu(x, inplace=True)",
    instead="F.relu(x)",
    cuda=CudaForm(method("relu"), Signature((AFTER_ADD,), AFTER_RELU)),
)
SIGMOID = _pointwise(
    "sigmoid",
    "RXTP-TORCH-002",
    function("torch.sigmoid"),
    method("sigmoid"),
    signed_zero="both zeros give 0.5",
    ulp=2.0,
)
TANH = _pointwise(
    "tanh",
    "RXTP-TORCH-003",
    function("torch.tanh"),
    method("tanh"),
    signed_zero="the sign of zero is kept",
    ulp=2.0,
)
ABS = _pointwise(
    "abs",
    "RXTP-TORCH-004",
    function("torch.abs"),
    method("abs"),
    signed_zero="-0.0 gives 0.0",
)
NEG = _pointwise(
    "neg",
    "RXTP-TORCH-005",
    function("torch.neg"),
    function("torch.negative"),
    method("neg"),
    method("negative"),
    signed_zero="the sign of zero is flipped",
)
SQUARE = _pointwise(
    "square",
    "RXTP-TORCH-006",
    function("torch.square"),
    method("square"),
    signed_zero="-0.0 gives 0.0",
)
EXP = _pointwise(
    "exp",
    "RXTP-TORCH-007",
    function("torch.exp"),
    method("exp"),
    signed_zero="both zeros give 1.0",
    ulp=1.5,
)
LOG = _pointwise(
    "log",
    "RXTP-TORCH-008",
    function("torch.log"),
    method("log"),
    nan="NaN stays NaN; a negative value gives NaN",
    signed_zero="both zeros give -inf",
    ulp=1.5,
)
SQRT = _pointwise(
    "sqrt",
    "RXTP-TORCH-009",
    function("torch.sqrt"),
    method("sqrt"),
    nan="NaN stays NaN; a negative value gives NaN",
    signed_zero="-0.0 stays -0.0",
    ulp=0.5,
)
GELU = _pointwise(
    "gelu",
    "RXTP-TORCH-010",
    function(_functional("gelu")),
    options=(option("approximate", "none", positional=False),),
    schema_options=", *, str approximate='none'",
    signed_zero="the sign of zero is kept",
    ulp=8.0,
    example='F.gelu(x, approximate="tanh")',
    instead="F.gelu(x)",
    reference=_gelu,
)

ROWS = (RELU, SIGMOID, TANH, ABS, NEG, SQUARE, EXP, LOG, SQRT, GELU)
