"""The engines and instruction sets that native tests run on, and how results are judged on each.

On the libtorch engine a result is bit-equal to eager. On the fused engine it stays within the bound
of its row, measured against the same operation in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from rextio_torch.ops.model import Numerics, Operator
from rextio_torch.runtime.native import configure, engine
from support.inputs import assert_same
from support.native import NativeProject

VARIANTS = ("libtorch", "fused-avx512", "fused-avx2", "fused-portable")
#: For programs of several operations on values of moderate size.
SEVERAL_OPERATIONS = Numerics(nan="", signed_zero="", ulp=256.0, sums_up=True)


@pytest.fixture(params=VARIANTS, scope="module")
def variant(request: pytest.FixtureRequest, native_project: NativeProject) -> Iterator[str]:
    """Run the tests of a module on each engine and instruction set that this machine has."""
    native_project.native("boundary").vector(torch.zeros(1))
    chosen: str = request.param
    name, _, simd = chosen.partition("-")
    available = engine().available_simd
    if simd and simd not in available:
        pytest.skip(f"this machine has {', '.join(available)}, not {simd}")
    configure(name, simd or available[0])
    yield chosen
    configure("fused", available[0])


def _spacing(values: torch.Tensor) -> torch.Tensor:
    """Return the distance of neighbouring float32 numbers at float64 values."""
    exponent = torch.frexp(values.abs()).exponent
    return torch.ldexp(torch.ones_like(values), (exponent - 24).clamp(min=-149))


def _double(arguments: list[object], *, magnitudes: bool = False) -> list[object]:
    changed: list[object] = []
    for argument in arguments:
        if isinstance(argument, torch.Tensor) and argument.dtype == torch.float32:
            wide = argument.detach().double()
            changed.append(wide.abs() if magnitudes else wide)
        else:
            changed.append(argument)
    return changed


def assert_agrees(
    result: torch.Tensor,
    eager: Callable[..., torch.Tensor],
    arguments: list[object],
    operator: Operator | None = None,
    what: object = "",
) -> None:
    """Assert that a native result is right on the engine that computed it."""
    expected = eager(*arguments).detach()
    numerics = SEVERAL_OPERATIONS if operator is None else operator.numerics
    if engine().engine == "libtorch" or numerics.ulp == 0 or expected.dtype != torch.float32:
        _assert_same_but_nan(result, expected, what)
        return
    assert type(result) is torch.Tensor, what
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape), what
    exact = eager(*_double(arguments))
    pointwise = operator is not None and not numerics.sums_up
    if pointwise:
        _assert_special_values(result, eager, arguments, what)
    got = result.double()
    unit = _spacing(exact)
    overflow = torch.zeros_like(exact, dtype=torch.bool)
    if numerics.of_terms:
        terms = eager(*_double(arguments, magnitudes=True))
        unit = _spacing(terms)
        # Whether a sum that leaves float32 on the way ends as infinity or NaN is a matter of order.
        overflow = ~(terms <= torch.finfo(torch.float32).max) & ~result.isfinite()
    tolerance = numerics.ulp * unit
    if not pointwise:
        # What sums up or divides by a sum may be as far off as eager is, twice.
        tolerance = tolerance + 2 * (expected.double() - exact).abs().nan_to_num(0.0, 0.0, 0.0)
    right = (
        ((got - exact).abs() <= tolerance)
        | (result == expected)
        | (result == exact.float())
        | (result.isnan() & (expected.isnan() | exact.isnan()))
        | overflow
    )
    if pointwise:
        (argument,) = (value for value in arguments if isinstance(value, torch.Tensor))
        right |= ~argument.isfinite()
    wrong = (~right).nonzero()
    assert not len(wrong), (
        what, wrong[0].tolist(), result[tuple(wrong[0])].item(), exact[tuple(wrong[0])].item()
    )  # fmt: skip


def _assert_same_but_nan(result: torch.Tensor, expected: torch.Tensor, what: object) -> None:
    """As `assert_same`; a NaN is a NaN, whatever its bits."""
    if engine().engine == "fused" and result.dtype == torch.float32:
        assert torch.equal(result.isnan(), expected.isnan()), what
        result, expected = result.nan_to_num(7.0, 8.0, 9.0), expected.nan_to_num(7.0, 8.0, 9.0)
    assert_same(result, expected, what)


def _assert_special_values(
    result: torch.Tensor, eager: Callable[..., torch.Tensor], arguments: list[object], what: object
) -> None:
    """Assert what eager gives for one element: NaN, infinities and the sign of zero."""
    (argument,) = (value for value in arguments if isinstance(value, torch.Tensor))
    for index in (~argument.isfinite() | (argument == 0)).nonzero().tolist():
        position = tuple(index)
        one = argument[position].detach().reshape([1] * argument.dim()).contiguous()
        single = eager(one).reshape(())
        got = result[position]
        same = got == single and got.signbit() == single.signbit()
        assert bool(same) or bool(got.isnan() and single.isnan()), (what, position, got, single)
