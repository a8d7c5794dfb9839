"""The engines and instruction sets that native tests run on, and how results are judged on each.

On the libtorch engine a result is bit-equal to eager. On the fused engine it stays within the bound
of its row, measured against the same operation in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

from rextio_torch.ops.model import Numerics, Operator
from rextio_torch.runtime.native import configure, engine
from support.inputs import assert_same
from support.native import NativeProject

VARIANTS = ("libtorch", "fused-avx512", "fused-avx2", "fused-portable")
#: The engine that runs now, last: asking the library for each result would take longer.
RUNNING = ["fused"]
#: For programs of several operations on values of moderate size.
SEVERAL_OPERATIONS = Numerics(nan="", signed_zero="", ulp=256.0, sums_up=True)


def is_available(variant: str) -> bool:
    """Whether this machine has the instruction set of a variant; needs a loaded native module."""
    simd = variant.partition("-")[2]
    return not simd or simd in engine().available_simd


@contextmanager
def running_on(variant: str) -> Iterator[None]:
    """Run native functions on an engine and instruction set."""
    name, _, simd = variant.partition("-")
    available = engine().available_simd
    configure(name, simd or available[0])
    RUNNING.append(name)
    try:
        yield
    finally:
        RUNNING.pop()
        configure("fused", available[0])


@pytest.fixture(params=VARIANTS, scope="module")
def variant(request: pytest.FixtureRequest, native_project: NativeProject) -> Iterator[str]:
    """Run the tests of a module on each engine and instruction set that this machine has."""
    native_project.native("boundary").vector(torch.zeros(1))
    chosen: str = request.param
    if not is_available(chosen):
        pytest.skip(f"this machine has {', '.join(engine().available_simd)}, not {chosen}")
    with running_on(chosen):
        yield chosen


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


class Oracle:
    """What a result must be: eager's own, and float64's with the magnitude of its terms."""

    def __init__(
        self, eager: Callable[..., torch.Tensor], arguments: list[object], operator: Operator | None
    ) -> None:
        self.numerics = SEVERAL_OPERATIONS if operator is None else operator.numerics
        self.expected = eager(*arguments).detach()
        self.is_exact = self.numerics.ulp == 0 or self.expected.dtype != torch.float32
        if self.is_exact:
            return
        self.exact = eager(*_double(arguments))
        unit = _spacing(self.exact)
        self.overflow = torch.zeros_like(self.exact, dtype=torch.bool)
        if self.numerics.of_terms:
            terms = eager(*_double(arguments, magnitudes=True))
            unit = _spacing(terms)
            # Whether a sum that leaves float32 on the way ends as infinity or NaN is a matter of
            # order.
            self.overflow = ~(terms <= torch.finfo(torch.float32).max)
        self.tolerance = self.numerics.ulp * unit
        self.special: torch.Tensor | None = None
        if self.numerics.sums_up:
            # What sums up or divides by a sum may be as far off as eager is, twice.
            error = (self.expected.double() - self.exact).abs()
            self.tolerance = self.tolerance + 2 * error.nan_to_num(0.0, 0.0, 0.0)
        else:
            (argument,) = (value for value in arguments if isinstance(value, torch.Tensor))
            self.special = ~argument.isfinite() | (argument == 0)
            self.single = _one_by_one(eager, argument, self.special)

    def check(self, result: torch.Tensor, what: object) -> None:
        """Assert that a result is right on the engine that computed it."""
        expected = self.expected
        if RUNNING[-1] == "libtorch" or self.is_exact:
            _assert_same_but_nan(result, expected, what)
            return
        assert type(result) is torch.Tensor, what
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape), what
        right = (
            ((result.double() - self.exact).abs() <= self.tolerance)
            | (result == expected)
            | (result == self.exact.float())
            | (result.isnan() & (expected.isnan() | self.exact.isnan()))
            | (self.overflow & ~result.isfinite())
        )
        if self.special is not None:
            # NaN, infinities and the sign of zero: exactly as eager gives them for one element.
            same = (result == self.single) & (result.signbit() == self.single.signbit())
            same |= result.isnan() & self.single.isnan()
            right = torch.where(self.special, same, right)
        if not bool(right.all()):
            index = tuple((~right).nonzero()[0].tolist())
            raise AssertionError((what, index, result[index].item(), self.exact[index].item()))


def _one_by_one(
    eager: Callable[..., torch.Tensor], argument: torch.Tensor, where: torch.Tensor
) -> torch.Tensor:
    """Return eager's results for single elements: eager contradicts itself between lengths."""
    single = torch.zeros_like(argument, memory_format=torch.contiguous_format)
    chosen = argument.detach().contiguous().view(torch.int32)[where]
    values, inverse = chosen.unique(return_inverse=True)
    for index, value in enumerate(values.view(torch.float32)):
        chosen[inverse == index] = (
            eager(value.reshape([1] * argument.dim())).reshape(()).view(torch.int32)
        )
    single.view(torch.int32)[where] = chosen
    return single


def assert_agrees(
    result: torch.Tensor,
    eager: Callable[..., torch.Tensor],
    arguments: list[object],
    operator: Operator | None = None,
    what: object = "",
) -> None:
    """Assert that a native result is right on the engine that computed it."""
    Oracle(eager, arguments, operator).check(result, what)


def _assert_same_but_nan(result: torch.Tensor, expected: torch.Tensor, what: object) -> None:
    """As `assert_same`; a NaN is a NaN, whatever its bits."""
    if RUNNING[-1] == "fused" and result.dtype == torch.float32:
        assert torch.equal(result.isnan(), expected.isnan()), what
        result, expected = result.nan_to_num(7.0, 8.0, 9.0), expected.nan_to_num(7.0, 8.0, 9.0)
    assert_same(result, expected, what)
