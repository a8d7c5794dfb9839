"""The calls that a function is verified with: sizes, scalars, layouts and values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from rextio_torch.ops.model import Shape
from rextio_torch.verify.inputs import LAYOUTS
from rextio_torch.verify.parameters import Parameter, Scalar
from rextio_torch.verify.problems import VerifyError
from rextio_torch.verify.shapes import Dimension, Solution, solve

KINDS = ("normal", "small", "large", "special", "sprinkled", "denormal")
#: On both sides of the widths of vectors and of the tiles of products.
WIDTHS = (1, 2, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65)
#: Where large products and several threads begin.
_LARGE_CASE = "large"
_LARGE = (130, 97, 260, 71)
_SMALL = (3, 5, 7, 2, 6, 4)
#: What a parameter is called with where the user says nothing.
SCALARS: Mapping[str, tuple[Scalar, ...]] = {
    "int": (2, 0, 1, 5),
    "bool": (True, False),
    "float": (0.5, -1.25, 0.0),
}
_MOST_COMBINATIONS = 8
#: Dimensions that are made empty, and such that are made 1 to be broadcast.
_MOST_VARIANTS = 8


@dataclass(frozen=True)
class Request:
    """What the user said about a function's inputs."""

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, Scalar] = field(default_factory=dict)
    #: Recorded inputs by parameter.
    recorded: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One call: its name and its arguments in order."""

    name: str
    arguments: tuple[torch.Tensor | Scalar, ...]
    #: Whether it is large enough for several threads.
    is_large: bool = False


def cases_of(
    function: Callable[..., Any], name: str, parameters: Sequence[Parameter], request: Request
) -> Iterator[Case]:
    """Yield the calls to verify a function with; raises `VerifyError` where none can be made."""
    if request.recorded:
        yield from _recorded(name, parameters, request)
        return
    fixed = _fixed(name, parameters, request.shapes)
    for number, scalars in enumerate(_combinations(name, parameters, request.values)):
        solution = solve(function, name, parameters, scalars, fixed)
        suffix = "".join(f"-{key}={value}" for key, value in scalars.items())
        plans = _plans(function, name, parameters, scalars, solution, brief=number > 0)
        for plan in plans:
            arguments = [
                scalars[item.name] if item.tensor is None else plan.tensor(item, position)
                for position, item in enumerate(parameters)
            ]
            yield Case(plan.name + suffix, tuple(arguments), plan.sizes == _LARGE_CASE)


def call_of(
    function: Callable[..., Any],
    name: str,
    parameters: Sequence[Parameter],
    request: Request,
    size: int,
) -> tuple[tuple[torch.Tensor | Scalar, ...], bool]:
    """Return ordinary arguments of one size, and whether the request fixes all sizes."""
    if request.recorded:
        return next(_recorded(name, parameters, request)).arguments, True
    fixed = _fixed(name, parameters, request.shapes)
    scalars = next(_combinations(name, parameters, request.values))
    solution = solve(function, name, parameters, scalars, fixed)
    shapes = solution.shapes(parameters, [size] * len(solution.groups))
    plan = _Plan("", shapes, ["contiguous"], "normal")
    arguments = [
        scalars[item.name] if item.tensor is None else plan.tensor(item, position)
        for position, item in enumerate(parameters)
    ]
    return tuple(arguments), solution.is_fixed


@dataclass(frozen=True)
class _Plan:
    """The shapes of a call, and the layouts and the kind of its values."""

    sizes: str
    shapes: Mapping[str, Shape]
    layouts: Sequence[str]
    kind: str

    @property
    def name(self) -> str:
        layouts = dict.fromkeys(self.layouts)
        return f"{self.sizes}-{next(iter(layouts)) if len(layouts) == 1 else 'mixed'}-{self.kind}"

    def tensor(self, parameter: Parameter, position: int) -> torch.Tensor:
        assert parameter.tensor is not None
        shape = self.shapes[parameter.name]
        layout = LAYOUTS[self.layouts[position % len(self.layouts)]]
        if parameter.tensor.is_floating:
            return layout(shape, self.kind, position)
        return layout(shape, "large", position).long()


def _plans(
    function: Callable[..., Any],
    name: str,
    parameters: Sequence[Parameter],
    scalars: Mapping[str, Scalar],
    solution: Solution,
    *,
    brief: bool,
) -> Iterator[_Plan]:
    count = len(solution.groups)

    def cycled(sizes: Sequence[int], start: int = 0, step: int = 1) -> dict[str, Shape]:
        chosen = [sizes[(start + step * index) % len(sizes)] for index in range(count)]
        return solution.shapes(parameters, chosen)

    small = cycled(_SMALL)
    for kind in KINDS:
        yield _Plan("small", small, ["contiguous"], kind)
    if brief:
        return
    every = list(LAYOUTS)
    for layout, kind in itertools.product(every[1:], KINDS):
        yield _Plan("small", small, [layout], kind)
    for start, kind in enumerate(KINDS):
        yield _Plan("small", small, every[start + 1 :] + every[: start + 1], kind)
    if solution.is_fixed:
        return
    kinds, layouts = itertools.cycle(KINDS), itertools.cycle(every)
    for start, width in enumerate(WIDTHS):
        for step in (1, 5):
            shapes = cycled(WIDTHS, start, step)
            yield _Plan(f"width{width}.{step}", shapes, [next(layouts)], next(kinds))
        yield _Plan(f"square{width}", cycled([width]), [next(layouts)], "normal")
    for layout in ("contiguous", "transposed"):
        yield _Plan(_LARGE_CASE, cycled(_LARGE), [layout], "normal")
    for index in range(min(count, _MOST_VARIANTS)):
        sizes = [0 if i == index else _SMALL[i % len(_SMALL)] for i in range(count)]
        for layout in ("contiguous", "sliced"):
            yield _Plan(f"empty{index}", solution.shapes(parameters, sizes), [layout], "normal")
    yield _Plan("empty", cycled([0]), ["contiguous"], "normal")
    for number, broadcast in enumerate(_broadcasts(function, name, parameters, scalars, solution)):
        chosen = [_SMALL[index % len(_SMALL)] for index in range(len(broadcast.groups))]
        shapes = broadcast.shapes(parameters, chosen)
        for layout, kind in (("contiguous", "normal"), ("transposed", "sprinkled")):
            yield _Plan(f"broadcast{number}", shapes, [layout], kind)


def _broadcasts(
    function: Callable[..., Any],
    name: str,
    parameters: Sequence[Parameter],
    scalars: Mapping[str, Scalar],
    solution: Solution,
) -> Iterator[Solution]:
    """Yield solutions in which a dimension is 1 that otherwise equals others which are not."""
    found = 0
    for group in solution.groups:
        for dimension in group if len(group) > 1 else ():
            try:
                other = solve(function, name, parameters, scalars, {**solution.fixed, dimension: 1})
            except VerifyError:
                continue
            if any(other.fixed.get(member) != 1 for member in group) and found < _MOST_VARIANTS:
                found += 1
                yield other


def _fixed(
    name: str, parameters: Sequence[Parameter], shapes: Mapping[str, tuple[int, ...]]
) -> dict[Dimension, int]:
    found = {}
    for item in parameters:
        shape = shapes.get(item.name)
        if shape is None:
            continue
        rank = item.tensor.rank if item.tensor else 0
        if len(shape) != rank:
            raise VerifyError(
                f"{name}: --shape {item.name}={'x'.join(map(str, shape))} is of rank {len(shape)}",
                expected=f"{rank} sizes, as {item.text} has",
                found=f"{len(shape)} sizes",
                repair=f"--shape {item.name}={'x'.join(['8'] * rank)}"
                if rank
                else f"--value {item.name}=1",
            )
        found.update({(item.name, axis): size for axis, size in enumerate(shape)})
    return found


def _combinations(
    name: str, parameters: Sequence[Parameter], values: Mapping[str, Scalar]
) -> Iterator[dict[str, Scalar]]:
    choices: dict[str, tuple[Scalar, ...]] = {}
    for item in parameters:
        if item.scalar is None:
            continue
        if item.name in values:
            choices[item.name] = (values[item.name],)
        elif item.scalar in SCALARS:
            choices[item.name] = SCALARS[item.scalar]
        else:
            raise VerifyError(
                f"{name}: parameter {item.name} needs a value",
                expected=f"a {item.scalar}",
                found="none",
                repair=f"--value {item.name}=…",
            )
    total = math.prod(map(len, choices.values()))
    if total <= _MOST_COMBINATIONS:
        for chosen in itertools.product(*choices.values()):
            yield dict(zip(choices, chosen, strict=True))
        return
    # Each value at least once, in changing company.
    for number in range(_MOST_COMBINATIONS):
        yield {
            key: options[(number * (position + 1) + position) % len(options)]
            for position, (key, options) in enumerate(choices.items())
        }


def _recorded(name: str, parameters: Sequence[Parameter], request: Request) -> Iterator[Case]:
    arguments: list[torch.Tensor | Scalar] = []
    for item in parameters:
        given = request.recorded.get(item.name, request.values.get(item.name))
        if item.tensor is None and isinstance(given, torch.Tensor) and given.numel() == 1:
            given = given.item()
        if given is None or not _fits(item, given):
            raise VerifyError(
                f"{name}: the recorded inputs do not fit parameter {item.name}",
                expected=item.text,
                found=_described(given),
                repair="record one value of that type, rank and dtype for each parameter, by its "
                "name (a float64 array becomes float32 with .astype('float32') or .float())",
            )
        arguments.append(given)
    yield Case("recorded", tuple(arguments))
    for layout in ("transposed", "sliced", "gapped"):
        moved = [_laid_out(a, layout) if isinstance(a, torch.Tensor) else a for a in arguments]
        yield Case(f"recorded-{layout}", tuple(moved))


def _fits(item: Parameter, given: torch.Tensor | Scalar) -> bool:
    if item.tensor is None:
        return not isinstance(given, torch.Tensor)
    if not isinstance(given, torch.Tensor):
        return False
    dtype: torch.dtype = getattr(torch, item.tensor.dtype)
    return given.dim() == item.tensor.rank and given.dtype == dtype


def _described(given: torch.Tensor | Scalar | None) -> str:
    if given is None:
        return "nothing of that name"
    if isinstance(given, torch.Tensor):
        return f"a tensor of {given.dtype} and shape {list(given.shape)}"
    return f"a Python {type(given).__name__}"


def _laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """Return the same values in memory of another layout."""
    strides = LAYOUTS[layout](tuple(tensor.shape), "normal", 0).stride()
    moved = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype)
    return moved.copy_(tensor)
