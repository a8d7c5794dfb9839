"""What a native result must be: eager's own, and how far off it may be.

On the libtorch engine a result is bit-equal to eager. On the fused engine the bounds of the
operator table hold. For a function of one operation that is the bound of its row, around the same
operation in float64. For several operations the errors travel on: the function runs some times in
eager with each operation's result moved by as much as its row allows, and how far the end result
moves is how far it may be off. Where the runs do not even agree about NaN, infinity or an index,
rounding decides the value, and any is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import torch
from torch.overrides import TorchFunctionMode

from rextio_torch.ops.model import Numerics, Operator
from rextio_torch.ops.table import OPERATORS
from rextio_torch.verify.judgement import Expectation, spacing

Function: TypeAlias = Callable[..., torch.Tensor]

#: Runs with moved results, and how much further than in any of them a result may be off: in so few
#: runs errors of several operations seldom add up as badly as they can.
_RUNS = 8
_MARGIN = 4.0
#: One rounding of the result and one of eager's.
_ROUNDINGS = 2.0
_LARGEST = torch.finfo(torch.float32).max


def expect(
    eager: Function, arguments: list[object], operator: Operator | None = None
) -> Expectation:
    """Return what a native function must give; `operator` is its only operation, if it is one.

    What eager raises is raised.
    """
    with torch.no_grad():
        expected = eager(*arguments).detach()
        if operator is not None:
            if operator.numerics.ulp == 0 or expected.dtype != torch.float32:
                return Expectation(expected)
            return _of_one_operation(eager, arguments, operator, expected)
        return _of_several_operations(eager, arguments, expected)


def _of_one_operation(
    eager: Function, arguments: list[object], operator: Operator, expected: torch.Tensor
) -> Expectation:
    numerics = operator.numerics
    operands = [value for value in arguments if isinstance(value, torch.Tensor)]
    if operator.reference is None:
        exact = eager(*map(_wide, arguments))
    else:
        exact = operator.reference(_wide(operands[0]))
    unit = spacing(exact)
    found = Expectation(expected, exact)
    if numerics.of_terms:
        terms = eager(*map(_magnitude, arguments))
        unit = spacing(terms)
        # Whether a sum that leaves float32 on the way ends as infinity or NaN is a matter of order.
        found.overflow = ~(terms <= _LARGEST)
    found.tolerance = numerics.ulp * unit
    if numerics.sums_up:
        # What sums up or divides by a sum may be as far off as eager is, twice.
        found.tolerance = found.tolerance + 2 * _error(expected, exact)
    else:
        (argument,) = operands
        found.special = ~argument.isfinite() | (argument == 0)
        found.single = _one_by_one(eager, argument, found.special)
    return found


def _of_several_operations(
    eager: Function, arguments: list[object], expected: torch.Tensor
) -> Expectation:
    runs = []
    for number in range(_RUNS):
        with _Moved(number):
            runs.append(eager(*arguments).detach())
    if expected.dtype != torch.float32:
        return Expectation(
            expected,
            expected.double(),
            torch.zeros_like(expected, dtype=torch.float64),
            undecided=_any(run != expected for run in runs),
        )
    centre = expected.double()
    spread = torch.zeros_like(centre)
    for run in runs:
        spread = torch.maximum(spread, _error(run, centre))
    exact = eager(*map(_wide, arguments)).detach()
    tolerance = _MARGIN * spread + _error(exact, centre)
    tolerance += _ROUNDINGS * spacing(centre).nan_to_num(0.0, 0.0, 0.0)
    undecided = _any(
        (run.isnan() != expected.isnan())
        | (run.isfinite() != expected.isfinite())
        | (run.isinf() & (run != expected))
        for run in runs
    )
    return Expectation(expected, centre, tolerance, undecided=undecided)


def _any(masks: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.stack(list(masks)).any(0)


def _error(values: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    return (values.double() - exact).abs().nan_to_num(0.0, 0.0, 0.0)


def _wide(value: object) -> object:
    if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
        return value.detach().double()
    return value


def _magnitude(value: object) -> object:
    wide = _wide(value)
    return wide.abs() if isinstance(wide, torch.Tensor) and wide.dtype == torch.float64 else wide


def _finite_magnitude(value: object) -> object:
    wide = _magnitude(value)
    if isinstance(wide, torch.Tensor) and wide.dtype == torch.float64:
        return wide.nan_to_num(0.0, 0.0, 0.0)
    return wide


def _names() -> dict[str, Operator]:
    """Return the rows by the name that PyTorch's functions and methods carry."""
    found = {}
    for operator in OPERATORS:
        found[operator.schema.partition("(")[0].partition(".")[0]] = operator
        for spelling in operator.spellings:
            if spelling.kind != "operator":
                found[spelling.target.rpartition(".")[2]] = operator
    return found


_BY_NAME = _names()


def operator_of(function: object) -> Operator | None:
    """Return the row of one of PyTorch's functions or methods, as a function mode sees them."""
    return _BY_NAME.get(getattr(function, "__name__", ""))


def only_operator(eager: Function, arguments: list[object]) -> Operator | None:
    """Return the row of the only operation of a call, if it has one and its bound can be asked."""
    with torch.no_grad(), _Listed() as listed:
        eager(*arguments)
    operator = operator_of(listed.found[0]) if len(listed.found) == 1 else None
    if operator is None or operator.numerics.ulp == 0 or operator.numerics.sums_up:
        return operator
    # Its special values are looked up in the argument.
    tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
    return operator if len(tensors) == 1 else None


class _Listed(TorchFunctionMode):
    """Lists the operations of a call."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[object] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an operation and note it down."""
        self.found.append(func)
        return func(*args, **(kwargs or {}))


class _Moved(TorchFunctionMode):
    """Moves the result of each operation by as much as its row allows, up or down by chance."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.generator = torch.Generator().manual_seed(number)
        #: What depends on a moved result, alive so that ids stay theirs.
        self.moved: dict[int, torch.Tensor] = {}
        #: Gives the same numbers in each run.
        self.same = torch.Generator().manual_seed(0)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an operation and move what it gives."""
        given = kwargs or {}
        result = func(*args, **given)
        operator = operator_of(func)
        if not isinstance(result, torch.Tensor) or result.dtype != torch.float32:
            return result
        depends = any(id(operand) in self.moved for operand in (*args, *given.values()))
        if operator is None:
            return self._keep(result) if depends else result
        if operator.numerics.ulp == 0:
            if not depends:
                return result
            # It is exact, but operands that differ a little may make it round the other way.
            exact = result.double()
            return self._keep(self._by_chance(result, exact, _unit(exact)))

        def run(convert: Callable[[object], object]) -> torch.Tensor:
            named = {name: convert(value) for name, value in given.items()}
            computed: torch.Tensor = func(*map(convert, args), **named)
            return computed

        operand = args[0] if args else next(iter(given.values()))
        exact = run(_wide) if operator.reference is None else operator.reference(_wide(operand))
        moved = self._moved(operator.numerics, result, exact, run)
        if not operator.numerics.sums_up:
            special = ~operand.isfinite() | (operand == 0)
            moved = torch.where(special, _one_by_one(func, operand, special), moved)
        return self._keep(moved)

    def _keep(self, moved: torch.Tensor) -> torch.Tensor:
        self.moved[id(moved)] = moved
        return moved

    def _moved(
        self,
        numerics: Numerics,
        result: torch.Tensor,
        exact: torch.Tensor,
        run: Callable[[Callable[[object], object]], torch.Tensor],
    ) -> torch.Tensor:
        reference = run(_finite_magnitude) if numerics.of_terms else exact
        amplitude = numerics.ulp * _unit(reference)
        if numerics.sums_up:
            amplitude = amplitude + 2 * _error(result, exact)
        moved = self._by_chance(result, exact, amplitude)
        if numerics.of_terms:
            # The order decides, and in some run each outcome comes.
            overflow = (reference > _LARGEST) & ~exact.isnan()
            pick = (torch.randint(4, exact.shape, generator=self.same) + self.number) % 4
            choices = torch.tensor([0.0, torch.nan, torch.inf, -torch.inf])
            moved = torch.where(overflow, torch.where(pick == 0, result, choices[pick]), moved)
        return moved

    def _by_chance(
        self, result: torch.Tensor, exact: torch.Tensor, amplitude: torch.Tensor
    ) -> torch.Tensor:
        """Return values off by half of the amplitude at least, and never more than all of it."""
        # Never by nothing: errors of two operations would then cancel by accident.
        chance = torch.rand(exact.shape, generator=self.generator, dtype=torch.float64)
        sign = torch.where(chance < 0.5, -1.0, 1.0)
        moved = (exact + sign * (0.5 + chance % 0.5) * amplitude).float()
        return torch.where(exact.isfinite() & (amplitude > 0), moved, result)


def _unit(numbers: torch.Tensor) -> torch.Tensor:
    """Return the unit in the last place; none for what is zero, which it is in any order."""
    return torch.where(numbers == 0, 0.0, spacing(numbers)).nan_to_num(0.0, 0.0, 0.0)


def _one_by_one(eager: Function, argument: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    """Return eager's results for single elements: eager contradicts itself between lengths."""
    single = torch.zeros_like(argument, memory_format=torch.contiguous_format)
    chosen = argument.detach().contiguous().view(torch.int32)[where]
    values, inverse = torch.unique(chosen, return_inverse=True)
    for index, value in enumerate(values.view(torch.float32)):
        chosen[inverse == index] = (
            eager(value.reshape([1] * argument.dim())).reshape(()).view(torch.int32)
        )
    single.view(torch.int32)[where] = chosen
    return single
