"""Sizes that fit a function: which dimensions of its parameters are one and the same.

The function's own Python source is run on zeros, in tensors whose dimensions have sizes that occur
nowhere else. Where PyTorch refuses an operation, the smallest set of equations between the
operation's sizes under which it accepts them is looked for, and the function runs again with the
dimensions of its parameters made equal. So PyTorch itself is the rule of every operation, in loops
and branches as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.overrides import TorchFunctionMode

from rextio_torch.ops.model import Shape
from rextio_torch.verify.parameters import Parameter, Scalar
from rextio_torch.verify.problems import VerifyError

#: A dimension: the parameter and the number of the dimension.
Dimension: TypeAlias = tuple[str, int]
#: Equations between sizes that one operation may ask for: a product and a bias need three.
_MOST_EQUATIONS = 3
#: Dimensions have sizes from here on while they are being solved.
_FIRST_SIZE = 101


@dataclass(frozen=True)
class Solution:
    """The dimensions of a function's tensors, in groups of equal size, and those that are fixed."""

    groups: tuple[tuple[Dimension, ...], ...]
    fixed: Mapping[Dimension, int]

    @property
    def is_fixed(self) -> bool:
        """Whether no size is left to choose."""
        return not self.groups

    def shapes(self, parameters: Sequence[Parameter], sizes: Sequence[int]) -> dict[str, Shape]:
        """Return the shape of each tensor, given a size for each group."""
        known = dict(self.fixed)
        for group, size in zip(self.groups, sizes, strict=True):
            known.update(dict.fromkeys(group, size))
        return {
            item.name: tuple(known[item.name, axis] for axis in range(item.tensor.rank))
            for item in parameters
            if item.tensor is not None
        }


class _RefusedError(Exception):
    """PyTorch refuses an operation on these operands."""

    def __init__(self, operation: Callable[[Any], Any], given: Any, error: Exception) -> None:
        super().__init__(str(error))
        self.operation = operation
        self.given = given
        self.error = error
        self.name = "an operation"

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of its tensors."""
        return [tuple(tensor.shape) for tensor in _tensors(self.given)]


class _Watch(TorchFunctionMode):
    """Tells an operation's own error from any other, and counts operations."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an operation."""
        given = (args, kwargs or {})
        try:
            return func(*args, **given[1])
        except Exception as error:
            refused = _RefusedError(lambda given: func(*given[0], **given[1]), given, error)
            refused.name = str(getattr(func, "__name__", func))
            raise refused from error


def _tensors(given: Any) -> Iterator[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        yield given
    elif isinstance(given, dict):
        yield from _tensors(list(given.values()))
    elif isinstance(given, tuple | list):
        for item in given:
            yield from _tensors(item)


def _resized(given: Any, sizes: Mapping[int, int]) -> Any:
    if isinstance(given, torch.Tensor):
        shape = [sizes.get(size, size) for size in given.shape]
        return torch.zeros(shape, dtype=given.dtype)
    if isinstance(given, dict):
        return {name: _resized(item, sizes) for name, item in given.items()}
    if isinstance(given, tuple | list):
        return type(given)(_resized(item, sizes) for item in given)
    return given


def solve(
    function: Callable[..., Any],
    name: str,
    parameters: Sequence[Parameter],
    scalars: Mapping[str, Scalar],
    fixed: Mapping[Dimension, int],
) -> Solution:
    """Return which dimensions are equal, or raise `VerifyError` naming what must be given."""
    groups = _Groups(parameters, fixed)
    while True:
        arguments = [
            scalars[item.name]
            if item.tensor is None
            else torch.zeros(
                groups.shape(item.name, item.tensor.rank), dtype=getattr(torch, item.tensor.dtype)
            )
            for item in parameters
        ]
        try:
            with torch.no_grad(), _Watch():
                function(*arguments)
        except _RefusedError as refused:
            equations = _equations(refused, groups)
            if equations is None:
                raise _unsolved(refused, groups, name) from refused
            for left, right in equations:
                groups.equate(left, right)
            continue
        # What the function itself raises, for these scalars, is a result like any other.
        except Exception:
            pass
        return groups.solution()


class _Groups:
    """Groups of dimensions, each with a size of its own, or with a fixed one."""

    def __init__(self, parameters: Sequence[Parameter], fixed: Mapping[Dimension, int]) -> None:
        self.fixed = set(fixed.values())
        free = (prime for prime in _primes(_FIRST_SIZE) if prime not in self.fixed)
        self.size: dict[Dimension, int] = {}
        for item in parameters:
            for axis in range(item.tensor.rank if item.tensor else 0):
                dimension = (item.name, axis)
                self.size[dimension] = fixed[dimension] if dimension in fixed else next(free)

    def shape(self, name: str, rank: int) -> Shape:
        return tuple(self.size[name, axis] for axis in range(rank))

    @property
    def unknown(self) -> set[int]:
        """The sizes of groups that are not fixed."""
        return set(self.size.values()) - self.fixed

    def equate(self, old: int, new: int) -> None:
        """Give the group of one size the other; a size of nothing known becomes fixed."""
        if new not in self.size.values():
            self.fixed.add(new)
        for dimension, size in self.size.items():
            if size == old:
                self.size[dimension] = new

    def owners(self, sizes: set[int]) -> list[str]:
        """Return the parameters that have unknown dimensions of these sizes."""
        return list(dict.fromkeys(d[0] for d, s in self.size.items() if s in sizes & self.unknown))

    def solution(self) -> Solution:
        unknown = self.unknown
        groups: dict[int, list[Dimension]] = {}
        for dimension, size in self.size.items():
            if size in unknown:
                groups.setdefault(size, []).append(dimension)
        known = {d: size for d, size in self.size.items() if size not in unknown}
        return Solution(tuple(map(tuple, groups.values())), known)


def _equations(refused: _RefusedError, groups: _Groups) -> list[tuple[int, int]] | None:
    """Return the fewest equations under which PyTorch accepts an operation; old size, new size."""
    sizes = list(dict.fromkeys(size for shape in refused.shapes for size in shape))
    unknown = groups.unknown
    # A size that an operation computed from others changes with them: nothing can be made equal
    # to it. One that the source says, such as the 1 of keepdim, is smaller than any of ours.
    known = unknown | groups.fixed | {size for size in sizes if size < _FIRST_SIZE}
    pairs = [
        (left, right) if left in unknown else (right, left)
        for left, right in itertools.combinations([size for size in sizes if size in known], 2)
        if left in unknown or right in unknown
    ]
    # Equal dimensions before fixed ones: that says less.
    pairs.sort(key=lambda pair: pair[1] not in unknown)
    for count in range(1, _MOST_EQUATIONS + 1):
        for chosen in itertools.combinations(pairs, count):
            changed: dict[int, int] = {}
            for old, new in chosen:
                changed[_followed(changed, old)] = _followed(changed, new)
            if any(old not in unknown for old, new in changed.items() if old != new):
                continue
            followed = {old: _followed(changed, old) for old in changed}
            try:
                refused.operation(_resized(refused.given, followed))
            except Exception:
                continue
            return list(followed.items())
    return None


def _followed(changed: Mapping[int, int], size: int) -> int:
    while changed.get(size, size) != size:
        size = changed[size]
    return size


def _unsolved(refused: _RefusedError, groups: _Groups, name: str) -> VerifyError:
    sizes = {size for shape in refused.shapes for size in shape}
    wanted = groups.owners(sizes)
    shapes = ", ".join(
        str([size if size in groups.fixed or size not in groups.size.values() else "?"
             for size in shape])
        for shape in refused.shapes
    )  # fmt: skip
    found = f"{refused.name} on shapes {shapes.replace(chr(39), '')}: {refused.error}"
    found = found.splitlines()[0][:300]
    if not wanted:
        return VerifyError(
            f"{name}: the given shapes do not fit together",
            expected="shapes that eager PyTorch accepts",
            found=found,
            repair="correct --shape or the recorded inputs",
        )
    ranks: dict[str, int] = {}
    for parameter, axis in groups.size:
        ranks[parameter] = max(ranks.get(parameter, 0), axis + 1)
    options = " ".join(f"--shape {item}={'x'.join(['8'] * ranks[item])}" for item in wanted)
    unknown = f"the sizes of {', '.join(wanted)} do not follow from its operations"
    if groups.fixed:
        unknown = f"the given shapes do not fit together, or {unknown}"
    return VerifyError(
        f"{name}: {unknown}",
        expected="sizes that fit together, given by hand",
        found=found,
        repair=f"{options}, with sizes that fit",
    )


def _primes(start: int) -> Iterator[int]:
    for number in itertools.count(start):
        if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
            yield number
