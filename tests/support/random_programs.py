"""Random programs from the operator table: chains, diamonds, loops, branches, broadcasts.

A program is drawn operation by operation. Each value carries its sizes for two assignments of the
symbolic sizes M and N, so that an operation that the row's shape rule accepts in both fits for all
sizes, and an interval that its elements stay in, so that results neither overflow nor depend on
the last bit of an operand (a tolerance would mean nothing then).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random

from rextio_torch.ops.model import Operator, Options, Shape, ShapeError, Signature, Spelling
from rextio_torch.ops.table import OPERATORS
from rextio_torch.ops.tensor_types import F32_1D, F32_2D, TensorType
from support.forms import HEADER

#: Two assignments of (M, N): what fits in both fits for all sizes.
SIZES = ((3, 5), (7, 2))
PARAMETERS = {
    "a": ("M", "N"), "b": ("M", "N"), "row": ("N",), "column": ("M", 1), "square": ("N", "N"),
    "weight": ("M", "N"), "one": (1,),
}  # fmt: skip
LIMIT = 30.0


@dataclass(frozen=True)
class Value:
    """A local: its name, type, sizes under each assignment, and the interval of its elements."""

    name: str
    type: TensorType
    shapes: tuple[Shape, ...]
    low: float
    high: float


@dataclass
class RandomProgram:
    """A function: its source, and the symbolic sizes of its parameters."""

    name: str
    lines: list[str] = field(default_factory=list)
    result: Value | None = None

    @property
    def source(self) -> str:
        """The function as Python text."""
        assert self.result is not None
        parameters = ", ".join(
            f"{name}: {F32_1D.marker if len(sizes) == 1 else F32_2D.marker}"
            for name, sizes in PARAMETERS.items()
        )
        head = f"def {self.name}({parameters}, n: int) -> {self.result.type.marker}:"
        return "\n".join([head, *(f"    {line}" for line in self.lines)]) + "\n"


def shapes_of(sizes: tuple[str | int, ...]) -> tuple[Shape, ...]:
    """Return the concrete shape under each assignment."""
    return tuple(concrete(sizes, m, n) for m, n in SIZES)


def concrete(sizes: tuple[str | int, ...], m: int, n: int) -> Shape:
    """Return a parameter's shape for given M and N."""
    return tuple({"M": m, "N": n}.get(size, size) for size in sizes)  # type: ignore[misc, call-overload]


def _interval(operator: Operator, values: list[Value]) -> tuple[float, float] | None:
    """Return the interval of a result's elements; `None` if it is not safe."""
    first = values[0]
    low, high = first.low, first.high
    size = max(abs(low), abs(high))
    simple = {
        "relu": (max(low, 0.0), max(high, 0.0)),
        "abs": (0.0, size),
        "neg": (-high, -low),
        "square": (0.0, size * size),
        "sigmoid": (1 / (1 + math.exp(-low)), 1 / (1 + math.exp(-high))) if size < 30 else None,
        "tanh": (-1.0, 1.0),
        "gelu": (-0.2, max(high, 0.0)),
        "exp": (math.exp(low), math.exp(high)) if size <= 3 else None,
        "log": (math.log(low), math.log(high)) if low > 0.05 else None,
        "sqrt": (math.sqrt(low), math.sqrt(high)) if low > 0.01 else None,
        "softmax": (0.0, 1.0),
        "mean": (low, high),
        "sum": (-16 * size, 16 * size),
        "argmax": (0.0, 64.0),
    }
    if operator.id in simple:
        return simple[operator.id]
    second = values[1]
    other = max(abs(second.low), abs(second.high))
    name = operator.id.removesuffix("_")
    if name == "add":
        return low + second.low, high + second.high
    if name == "sub":
        return low - second.high, high - second.low
    if name == "mul":
        return -size * other, size * other
    if name == "div":
        if second.low < 0.1:
            return None
        return -size / second.low, size / second.low
    # linear and matmul: at most 16 terms, and a bias
    bias = values[2] if len(values) > 2 else None
    bound = 16 * size * other + (max(abs(bias.low), abs(bias.high)) if bias else 0.0)
    return -bound, bound


def _call(
    spelling: Spelling,
    operator: Operator,
    names: list[str | None],
    options: Options,
    random: Random,
) -> str:
    written = [name if name is not None else "None" for name in names]
    if spelling.kind == "operator":
        return f"{written[0]} {spelling.target} {written[1]}"
    if names[-1] is None and random.random() < 0.5:
        written.pop()
    for option in operator.options:
        value = options[option.name]
        if value == option.default and option.default is not None and random.random() < 0.5:
            continue
        written.append(f"{option.name}={value!r}")
    if spelling.kind == "method":
        return f"{written[0]}.{spelling.target}({', '.join(written[1:])})"
    return f"{spelling.target}({', '.join(written)})"


def _draw(
    random: Random, values: list[Value], *, like: Value | None = None
) -> tuple[str, Value] | None:
    """Draw one operation on the given values; `like` asks for the same type, sizes and interval."""
    operator = random.choice(OPERATORS)
    signature: Signature = random.choice(operator.signatures)
    if like is None and signature.result.dtype != "float32":
        return None
    options = random.choice(list(operator.option_choices(signature)))
    chosen: list[Value | None] = []
    for wanted in signature.operands:
        fitting = [value for value in values if value.type == wanted]
        if wanted is not None and not fitting:
            return None
        # Recent values more often: chains and diamonds rather than stars.
        weights = [2.0**index for index, _ in enumerate(fitting)]
        chosen.append(None if wanted is None else random.choices(fitting, weights)[0])
    present = [value for value in chosen if value is not None]
    interval = _interval(operator, present)
    if interval is None or max(abs(interval[0]), abs(interval[1])) > LIMIT:
        return None
    try:
        shapes = tuple(
            operator.shape_rule(
                operator.id, tuple(v.shapes[index] if v else None for v in chosen), options
            )
            for index in range(len(SIZES))
        )
    except ShapeError:
        return None
    value = Value("", signature.result, shapes, *interval)
    if like is not None and (
        value.type != like.type
        or value.shapes != like.shapes
        or value.low < like.low
        or value.high > like.high
    ):
        return None
    spelling = random.choice(operator.spellings)
    names = [value.name if value else None for value in chosen]
    return _call(spelling, operator, names, options, random), value


def draw_program(name: str, seed: int) -> RandomProgram:
    """Return a program that depends on nothing but the seed."""
    random = Random(seed)
    program = RandomProgram(name)
    values = [
        Value(parameter, F32_1D if len(sizes) == 1 else F32_2D, shapes_of(sizes), -1.0, 1.0)
        for parameter, sizes in PARAMETERS.items()
    ]
    wanted = random.randint(3, 14)
    attempts = 0
    while len(values) < len(PARAMETERS) + wanted and attempts < 4000:
        attempts += 1
        drawn = _draw(random, values)
        if drawn is None:
            continue
        text, value = drawn
        value = Value(f"t{len(values)}", value.type, value.shapes, value.low, value.high)
        program.lines.append(f"{value.name} = {text}")
        values.append(value)
        if random.random() < 0.25:
            _update_in_control_flow(random, program, values, value)
    last = values[-1]
    # Bring values together that nothing else used: diamonds whose parts lie far apart.
    for value in reversed(values[len(PARAMETERS) : -1]):
        low, high = last.low + value.low, last.high + value.high
        if (value.type, value.shapes) == (last.type, last.shapes) and high - low < LIMIT:
            name = f"t{len(values)}"
            program.lines.append(f"{name} = {last.name} + {value.name}")
            last = Value(name, last.type, last.shapes, low, high)
            values.append(last)
    program.result = last
    program.lines.append(
        f"return {last.name}.abs()" if random.random() < 0.3 else f"return {last.name}"
    )
    return program


def _update_in_control_flow(
    random: Random, program: RandomProgram, values: list[Value], value: Value
) -> None:
    """Assign to an existing local in a loop or a branch, keeping its type, sizes and interval."""
    for _ in range(300):
        drawn = _draw(random, values, like=value)
        if drawn is None:
            continue
        head = random.choice(["for i in range(n):", "if n > 1:", "if n == 0:"])
        program.lines += [head, f"    {value.name} = {drawn[0]}"]
        return


def module_text(count: int, first_seed: int = 0) -> str:
    """Return a module of `count` random programs named `program_0`, `program_1`, …"""
    programs = [draw_program(f"program_{i}", first_seed + i).source for i in range(count)]
    return "\n\n".join([HEADER, *programs])
