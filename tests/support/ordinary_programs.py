"""Random modules of functions in the style in which people write PyTorch, for property tests.

Each variable carries its symbolic shape, so that what is generated runs in eager Python; values are
free to become NaN or infinite. A program is drawn by hypothesis choice by choice and shrinks to
simpler text. Its function may call helper functions of the same module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import torch
from hypothesis import reject
from hypothesis import strategies as st

T = TypeVar("T")
#: Symbolic sizes, one for each dimension; "1" is a dimension that broadcasts.
Shape = tuple[str, ...]

SIZES: tuple[Mapping[str, int], ...] = (
    {"b": 1, "d": 4, "k": 3, "1": 1},
    {"b": 5, "d": 4, "k": 3, "1": 1},
    {"b": 0, "d": 2, "k": 6, "1": 1},
)
TENSORS: Mapping[str, Shape] = {
    "x": ("b", "d"),
    "w": ("d", "k"),
    "bias": ("k",),
    "other": ("b", "d"),
    "weight": ("k", "d"),
    "mix": ("d", "d"),
    "gain": ("d",),
    "scale": ("1",),
    "column": ("b", "1"),
    "rows": ("b",),
}
#: Scalar parameters: annotation and default, and the values that they are called with.
SCALARS: Mapping[str, tuple[str, Sequence[int | float | bool]]] = {
    "n: int = 2": ("n", (0, 1, 3)),
    "flag: bool = False": ("flag", (True, False)),
    "ratio: float = 0.5": ("ratio", (0.25, 0.75)),
}
LOCALS = ("h", "z", "out", "score", "total", "tmp")
CONSTANTS = "ROWS = 0\nDIM = 1\nLAST = -1\nSTEPS = 2\n"
CONSTANT_DIMS = {0: "ROWS", 1: "DIM", -1: "LAST"}

#: How tightly the parts of an expression bind, loosest first.
CONDITIONAL, SUM, PRODUCT, UNARY, POWER, PRIMARY = range(6)
UNARY_FUNCTIONS = (
    "torch.relu", "torch.sigmoid", "torch.tanh", "torch.abs", "torch.neg", "torch.negative",
    "torch.square", "torch.exp", "torch.log", "torch.sqrt", "F.relu", "F.gelu",
)  # fmt: skip
UNARY_METHODS = (
    "relu", "sigmoid", "tanh", "abs", "neg", "negative", "square", "exp", "log", "sqrt",
)  # fmt: skip
BINARY = (
    ("+", SUM, ("torch.add",), "add"),
    ("-", SUM, ("torch.sub", "torch.subtract"), "sub"),
    ("*", PRODUCT, ("torch.mul", "torch.multiply"), "mul"),
    ("/", PRODUCT, ("torch.div", "torch.divide"), "div"),
)
IDENTITIES = ("{}.detach()", "{}.contiguous()")
DROPOUT = ("F.dropout({}, p=0.1, training=False)", "F.dropout({}, 0.1, False)")

#: Ways to write the types of a signature: lines of the header, then ranks 1 and 2, then int64.
MARKERS = "from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D\n"
ANNOTATIONS: Mapping[str, tuple[str, str, str, str]] = {
    "markers": (MARKERS, "TensorF32Cpu1D", "TensorF32Cpu2D", "TensorI64Cpu1D"),
    "aliases": (
        MARKERS + "Vector = TensorF32Cpu1D\nMatrix = TensorF32Cpu2D\n",
        "Vector",
        "Matrix",
        "TensorI64Cpu1D",
    ),
    "quotes": (MARKERS, '"TensorF32Cpu1D"', '"TensorF32Cpu2D"', '"TensorI64Cpu1D"'),
    "Annotated": (
        "from typing import Annotated\n" + MARKERS,
        "Annotated[torch.Tensor, TensorF32Cpu1D]",
        "Annotated[torch.Tensor, TensorF32Cpu2D]",
        "Annotated[torch.Tensor, TensorI64Cpu1D]",
    ),
    "jaxtyping": (
        "from jaxtyping import Float32, Int64\n",
        'Float32[torch.Tensor, "n"]',
        'Float32[torch.Tensor, "rows columns"]',
        'Int64[torch.Tensor, "n"]',
    ),
}


@dataclass(frozen=True)
class Program:
    """A module, and how its function is called."""

    source: str
    name: str
    #: Shape of a tensor, or the values of a scalar, for each parameter.
    parameters: tuple[Shape | Sequence[int | float | bool], ...]

    def inputs(self) -> Iterator[tuple[torch.Tensor | int | float | bool, ...]]:
        """Make arguments for all sizes; scalars take their values in turn."""
        for number in range(2 * len(SIZES)):
            sizes = SIZES[number % len(SIZES)]
            generator = torch.Generator().manual_seed(number)
            yield tuple(
                torch.randn([sizes[dim] for dim in parameter], generator=generator)
                if isinstance(parameter[0], str)
                else parameter[number % len(parameter)]
                for parameter in self.parameters
            )

    def load(self) -> Callable[..., torch.Tensor]:
        """Compile the module and return the function."""
        module: dict[str, object] = {"__name__": "ordinary"}
        exec(compile(self.source, "ordinary.py", "exec", dont_inherit=True), module)
        function: Callable[..., torch.Tensor] = module[self.name]  # type: ignore[assignment]
        return function


@dataclass(frozen=True)
class Text:
    """An expression: how tightly it binds, and whether its tensor is nobody else's."""

    text: str
    level: int = PRIMARY
    fresh: bool = True

    def within(self, level: int) -> str:
        """Return it as part of what binds as tightly as `level`."""
        return self.text if self.level >= level else f"({self.text})"


@dataclass(frozen=True)
class Helper:
    """A function that others call."""

    name: str
    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    #: Operands by keyword, too.
    names: tuple[str, ...]
    #: Scalars that come after them, all with a default.
    scalars: tuple[str, ...] = ()


@dataclass
class Scope:
    """The variables of a function at one place."""

    shapes: dict[str, Shape]
    fresh: set[str] = field(default_factory=set)
    #: Names that a loop around this place reads again: they keep their shape.
    carried: frozenset[str] = frozenset()

    def copy(self) -> Scope:
        """Return the variables for a block."""
        return replace(self, shapes=dict(self.shapes), fresh=set(self.fresh))

    def meet(self, *others: Scope) -> None:
        """Become what holds at the end of every one of these blocks."""
        first = others[0]
        self.shapes = {
            name: shape
            for name, shape in first.shapes.items()
            if all(other.shapes.get(name) == shape for other in others)
        }
        self.fresh = set.intersection(*(other.fresh for other in others)) & set(self.shapes)


class Writer:
    """Draws one function."""

    def __init__(
        self,
        draw: st.DrawFn,
        scope: Scope,
        rank: int,
        *,
        scalars: Sequence[str] = (),
        helpers: Sequence[Helper] = (),
        labels: bool = False,
        annotations: Sequence[str] = (),
        results: Sequence[Shape] = (),
    ) -> None:
        self.draw = draw
        self.scope = scope
        self.rank = rank
        self.scalars = scalars
        self.helpers = helpers
        self.labels = labels
        self.annotations = annotations
        #: The shapes that a helper returns; others return what they can.
        self.results = results

    def pick(self, choices: Sequence[T]) -> T:
        """Draw one of these, the first of them when it shrinks."""
        if not choices:
            # Branches and loops left no variable of the rank that is wanted.
            reject()
        return self.draw(st.sampled_from(choices))

    def chance(self, tenths: int) -> bool:
        """Draw true in so many of ten times."""
        return self.draw(st.integers(0, 9)) >= 10 - tenths

    # Expressions

    def known(self, rank: int | None = None) -> list[Shape]:
        """Return the shapes that some variable has, that of the newest one first."""
        shapes = dict.fromkeys(reversed(self.scope.shapes.values()))
        return [shape for shape in shapes if rank in (None, len(shape))]

    def recent(self, choices: Sequence[T]) -> T:
        """Draw one of these, more often one of the first."""
        return self.pick([*choices[:1] * 4, *choices[:3], *choices[1:]])

    def leaf(self, shape: Shape) -> Text:
        """Return a variable."""
        names = [name for name, found in self.scope.shapes.items() if found == shape]
        computed = [name for name in names if name in LOCALS]
        if computed and self.chance(7):
            names = computed
        return Text(self.recent(names[::-1]), fresh=False)

    def expression(self, shape: Shape, depth: int) -> Text:
        """Return an expression of a shape that some variable has."""
        if depth <= 0:
            return self.leaf(shape)
        ways = [self.leaf, self.pointwise, self.arithmetic, self.arithmetic, self.pointwise]
        ways += [self.identity, self.conditional] if self.scalars else [self.identity]
        if len(shape) == 2:
            ways.append(self.softmax)
        if self.factors(shape):
            ways += [self.product, self.product]
        if self.sources(shape):
            ways.append(self.reduction)
        if self.calls(shape):
            ways += [self.call, self.call]
        way = self.pick(ways)
        return way(shape) if way == self.leaf else way(shape, depth - 1)

    def pointwise(self, shape: Shape, depth: int) -> Text:
        operand = self.expression(shape, depth)
        kind = self.pick(["function", "method", "minus", "square", "root", "inplace"])
        if kind == "method":
            return Text(f"{operand.within(PRIMARY)}.{self.pick(UNARY_METHODS)}()")
        if kind == "minus":
            return Text(f"-{operand.within(UNARY)}", UNARY)
        if kind in ("square", "root"):
            exponent = "2" if kind == "square" else "0.5"
            return Text(f"{operand.within(PRIMARY)} ** {exponent}", POWER)
        if kind == "inplace":
            return Text(f"F.relu({operand.text}, inplace=False)")
        return Text(f"{self.pick(UNARY_FUNCTIONS)}({operand.text})")

    def arithmetic(self, shape: Shape, depth: int) -> Text:
        one = self.expression(shape, depth)
        other = self.expression(self.pick(self.broadcast_to(shape)), depth - 1)
        symbol, level, functions, method = self.pick(BINARY)
        form = self.pick(["operator", "operator", "swapped", "function", "method"])
        if form == "function":
            return Text(f"{self.pick(functions)}({one.text}, {other.text})")
        if form == "method":
            return Text(f"{one.within(PRIMARY)}.{method}({other.text})")
        if form == "swapped":
            one, other = other, one
        return Text(f"{one.within(level)} {symbol} {other.within(level + 1)}", level)

    def broadcast_to(self, shape: Shape) -> list[Shape]:
        """Return the known shapes that broadcast to this one without changing it."""
        return [
            other
            for other in self.known()
            if len(other) <= len(shape)
            and all(
                size in (wanted, "1")
                for size, wanted in zip(reversed(other), reversed(shape), strict=False)
            )
        ]

    def identity(self, shape: Shape, depth: int) -> Text:
        operand = self.expression(shape, depth)
        form = self.pick([*IDENTITIES, *DROPOUT])
        written = operand.text if form in DROPOUT else operand.within(PRIMARY)
        return Text(form.format(written), fresh=operand.fresh)

    def conditional(self, shape: Shape, depth: int) -> Text:
        one, other = self.expression(shape, depth), self.expression(shape, depth)
        text = f"{one.within(SUM)} if {self.condition()} else {other.within(SUM)}"
        return Text(text, CONDITIONAL, one.fresh and other.fresh)

    def condition(self) -> str:
        """Return a condition on scalars."""
        written = {
            "flag": ["flag", "not flag"],
            "n": ["n > 1", "n == 0"],
            "ratio": ["ratio < 0.5", "ratio >= 0.5"],
        }
        return self.pick([text for name in self.scalars for text in written[name]])

    def dim(self, rank: int, axis: int) -> str:
        """Return a way to write a dimension."""
        numbers = [axis, axis - rank]
        constants = [CONSTANT_DIMS[number] for number in numbers if number in CONSTANT_DIMS]
        return self.pick([*map(str, numbers), *constants])

    def softmax(self, shape: Shape, depth: int) -> Text:
        operand = self.expression(shape, depth)
        dim = self.dim(2, self.pick([1, 0]))
        dim = self.pick([f"dim={dim}", dim])
        form = self.pick(["method", "torch.softmax", "F.softmax", "dtype"])
        if form == "method":
            return Text(f"{operand.within(PRIMARY)}.softmax({dim})")
        if form == "dtype":
            return Text(f"F.softmax({operand.text}, {dim.replace('dim=', '')}, dtype=None)")
        return Text(f"{form}({operand.text}, {dim})")

    def factors(self, shape: Shape) -> list[tuple[Shape, Shape, bool]]:
        """Return known shapes whose product has this shape; the second may be transposed."""
        known = self.known()
        found = []
        for left in known:
            for right in known:
                for transposed in (False, True):
                    if transposed and len(right) == 1:
                        continue
                    turned = right[::-1] if transposed else right
                    fits = left[-1] == turned[0] and "1" not in (*left, *turned)
                    if fits and len(left) + len(right) > 2 and left[:-1] + turned[1:] == shape:
                        found.append((left, right, transposed))
        return found

    def product(self, shape: Shape, depth: int) -> Text:
        left, right, transposed = self.pick(self.factors(shape))
        one, other = self.expression(left, depth), self.expression(right, depth - 1)
        both = len(left) == len(right) == 2
        bias = (shape[-1],)
        if transposed and both and self.chance(4):
            operands = [one.text, other.text]
            if bias in self.known() and self.chance(6):
                third = self.expression(bias, depth - 1).text
                operands.append(self.pick([third, f"bias={third}"]))
            elif self.chance(3):
                operands.append("bias=None")
            return Text(f"F.linear({', '.join(operands)})")
        if transposed:
            other = Text(other.within(PRIMARY) + self.pick([".T", ".t()"]))
        forms = ["operator", "operator", "torch.matmul", "matmul"]
        form = self.pick([*forms, "torch.mm", "mm"] if both else forms)
        if form == "operator":
            return Text(f"{one.within(PRODUCT)} @ {other.within(UNARY)}", PRODUCT)
        if form.startswith("torch."):
            return Text(f"{form}({one.text}, {other.text})")
        return Text(f"{one.within(PRIMARY)}.{form}({other.text})")

    def sources(self, shape: Shape) -> list[tuple[Shape, int, bool]]:
        """Return known shapes that a reduction brings to this one: the dimension, keepdim."""
        found = []
        for source in self.known():
            for axis in range(len(source)):
                kept = (*source[:axis], "1", *source[axis + 1 :])
                found += [(source, axis, True)] if kept == shape else []
                dropped = source[:axis] + source[axis + 1 :]
                found += [(source, axis, False)] if dropped == shape else []
        return found

    def reduction(self, shape: Shape, depth: int) -> Text:
        return self.reduced(*self.pick(self.sources(shape)), depth)

    def reduced(self, source: Shape, axis: int, keepdim: bool, depth: int) -> Text:
        operand = self.expression(source, depth)
        name = self.pick(["mean", "sum"])
        dim = self.dim(len(source), axis)
        if keepdim or self.chance(1):
            options = self.pick(
                [f"dim={dim}, keepdim={keepdim}", f"{dim}, keepdim={keepdim}",
                 f"keepdim={keepdim}, dim={dim}", f"{dim}, {keepdim}"]
            )  # fmt: skip
        else:
            options = self.pick([f"dim={dim}", dim])
        if self.chance(3):
            return Text(f"torch.{name}({operand.text}, {options})")
        return Text(f"{operand.within(PRIMARY)}.{name}({options})")

    def calls(self, shape: Shape) -> list[Helper]:
        """Return the helpers that return this shape and can be called here."""
        known = self.known()
        return [
            helper
            for helper in self.helpers
            if helper.results == (shape,) and set(helper.operands) <= set(known)
        ]

    def call(self, shape: Shape, depth: int) -> Text:
        return Text(self.called(self.pick(self.calls(shape)), depth))

    def called(self, helper: Helper, depth: int) -> str:
        """Return a call; operands may go by keyword from some place on."""
        first = self.pick(range(len(helper.operands), -1, -1))
        parts = []
        for index, shape in enumerate(helper.operands):
            text = self.expression(shape, depth - 1).text
            parts.append(text if index < first else f"{helper.names[index]}={text}")
        for name in helper.scalars:
            values = {"n": ["0", "3", "STEPS"], "flag": ["True", "False"], "ratio": ["0.25", "1.5"]}
            given = self.pick(["", *values[name], *([name] if name in self.scalars else [])])
            parts += [f"{name}={given}"] if given else []
        return f"{helper.name}({', '.join(parts)})"

    def other_shape(self) -> tuple[Text, Shape]:
        """Return an expression whose shape no variable needs to have."""
        shapes = [
            shape
            for rank in (1, 2)
            for shape in (
                [(size,) for size in "bdk1"]
                if rank == 1
                else [(one, two) for one in "bdk" for two in "bdk1"]
            )
            if self.sources(shape) or self.factors(shape)
        ]
        if not shapes:
            shape = self.pick(self.known())
            return self.expression(shape, 2), shape
        shape = self.pick(shapes)
        ways = [self.reduction] if self.sources(shape) else []
        ways += [self.product] if self.factors(shape) else []
        return self.pick(ways)(shape, 1), shape

    # Statements

    def assigned(self, name: str, value: Text, shape: Shape) -> None:
        """Note that a variable has a new value."""
        # The newest variable is the last.
        self.scope.shapes.pop(name, None)
        self.scope.shapes[name] = shape
        (self.scope.fresh.add if value.fresh else self.scope.fresh.discard)(name)
        if value.text in self.scope.shapes:
            # An alias: a change of one of the two changes the other.
            self.scope.fresh.discard(value.text)

    def target(self, shape: Shape) -> str:
        """Return a name that a value of this shape may be given."""
        names = [*LOCALS, *self.scope.shapes]
        carried = self.scope.carried
        return self.pick(
            [
                name
                for name in dict.fromkeys(names)
                if name not in carried or self.scope.shapes.get(name) == shape
            ]
        )

    def value(self, shape: Shape, name: str) -> Text:
        """Return a value for a variable; what a loop carries shares its memory with nothing."""
        value = self.expression(shape, self.pick([2, 1, 3]))
        if self.scope.carried and not value.fresh:
            return Text(f"{value.within(PRIMARY)}.{self.pick(UNARY_METHODS)}()")
        return value

    def block(self, depth: int, count: int) -> list[str]:
        """Return some statements; at least one."""
        lines: list[str] = []
        for _ in range(count):
            ways = [self.assignment] * 3 + [self.change, self.change, self.annotated, self.pair]
            ways += [self.augmented, self.augmented, self.alias, self.nothing, self.delete]
            ways += [self.swap, self.named]
            nested = [self.branch, self.loop, self.loop, self.without_grad]
            ways += nested if depth > 0 else []
            way = self.pick(ways)
            lines += way(depth - 1) if way in nested else way()
        return lines or ["pass"]

    def assignment(self) -> list[str]:
        shape = self.recent(self.known())
        name = self.target(shape)
        value = self.value(shape, name)
        self.assigned(name, value, shape)
        return [f"{name} = {value.text}"]

    def annotated(self) -> list[str]:
        shape = self.recent(self.known())
        name = self.target(shape)
        value = self.value(shape, name)
        self.assigned(name, value, shape)
        return [f"{name}: {self.annotations[len(shape) - 1]} = {value.text}"]

    def change(self) -> list[str]:
        value, shape = self.other_shape()
        name = self.target(shape)
        before = self.scope.shapes.get(name)
        if before is not None and list(self.scope.shapes.values()).count(before) == 1:
            # The last variable of its shape stays, for what comes later.
            name = self.pick([local for local in LOCALS if local not in self.scope.shapes] or ["y"])
            if name in self.scope.carried:
                return []
        self.assigned(name, value, shape)
        return [f"{name} = {value.text}"]

    def alias(self) -> list[str]:
        if self.scope.carried:
            return self.assignment()
        shape = self.pick(self.known())
        value, name = self.leaf(shape), self.target(shape)
        self.assigned(name, value, shape)
        return [f"{name} = {value.text}"]

    def pair(self) -> list[str]:
        helpers = [
            helper
            for helper in self.helpers
            if len(helper.results) == 2 and set(helper.operands) <= set(self.known())
        ]
        if helpers and self.chance(6):
            helper = self.pick(helpers)
            values = [Text(""), Text("")]
            shapes = list(helper.results)
            right = self.called(helper, 1)
        else:
            shapes = [self.pick(self.known()), self.pick(self.known())]
            values = [self.value(shape, "") for shape in shapes]
            right = ", ".join(value.text for value in values)
            if self.scalars and self.chance(3):
                others = [self.value(shape, "") for shape in shapes]
                second = ", ".join(value.text for value in others)
                right = f"({right}) if {self.condition()} else ({second})"
                # Either may be what a variable has.
                for value in others:
                    self.scope.fresh.discard(value.text)
                values = [
                    value if other.fresh else replace(value, fresh=False)
                    for value, other in zip(values, others, strict=True)
                ]
        names = [self.target(shape) for shape in shapes]
        if names[0] == names[1]:
            return []
        # Shared memory on the right is shared afterwards, whatever the names are then.
        for value in values:
            if value.text in self.scope.shapes:
                self.scope.fresh.discard(value.text)
        for name, value, shape in zip(names, values, shapes, strict=True):
            self.assigned(name, replace(value, text=""), shape)
        return [f"{', '.join(names)} = {right}"]

    def swap(self) -> list[str]:
        """Return an exchange of two variables of one shape."""
        names = [name for name in self.scope.shapes if name in LOCALS]
        pairs = [
            (one, two)
            for one in names
            for two in names
            if one < two and self.scope.shapes[one] == self.scope.shapes[two]
        ]
        if not pairs:
            return self.pair()
        one, two = self.pick(pairs)
        for name, other in ((one, two), (two, one)):
            # Only two tensors that are nobody else's stay so.
            if other not in self.scope.fresh:
                self.scope.fresh.discard(name)
        return [f"{one}, {two} = {two}, {one}"]

    def named(self) -> list[str]:
        """Return an assignment with another one inside, which its right side may read."""
        shape = self.recent(self.known())
        inner = self.target(shape)
        value = self.value(shape, inner)
        self.assigned(inner, value, shape)
        other = self.expression(self.pick(self.broadcast_to(shape)), 1)
        symbol, level, *_ = self.pick(BINARY)
        outer = self.target(shape)
        self.assigned(outer, Text("", level), shape)
        return [f"{outer} = ({inner} := {value.text}) {symbol} {other.within(level + 1)}"]

    def augmented(self) -> list[str]:
        names = [name for name in self.scope.shapes if name in self.scope.fresh]
        if not names:
            return self.assignment()
        name = self.pick(names)
        other = self.expression(self.pick(self.broadcast_to(self.scope.shapes[name])), 1)
        return [f"{name} {self.pick(BINARY)[0]}= {other.text}"]

    def nothing(self) -> list[str]:
        return [self.pick(["pass", "...", '"""Nothing to do here."""'])]

    def delete(self) -> list[str]:
        counts = list(self.scope.shapes.values())
        names = [
            name
            for name, shape in self.scope.shapes.items()
            if counts.count(shape) > 1 and name not in self.scope.carried
        ]
        if not names:
            return ["pass"]
        name = self.pick(names)
        del self.scope.shapes[name]
        self.scope.fresh.discard(name)
        return [f"del {name}"]

    def inner(self, scope: Scope, depth: int) -> tuple[list[str], Scope]:
        """Return the lines of a block and the variables at its end."""
        outer, self.scope = self.scope, scope
        lines = self.block(depth, self.pick([1, 2, 3]))
        done, self.scope = self.scope, outer
        return [f"    {line}" for line in lines or ["pass"]], done

    def branch(self, depth: int) -> list[str]:
        if not self.scalars:
            return self.assignment()
        if self.chance(2):
            return [f"if {self.condition()}:", f"    {self.returned()}"]
        heads = [f"if {self.condition()}:"]
        heads += [f"elif {self.condition()}:"] if self.chance(3) else []
        heads += ["else:"] if self.chance(6) else []
        lines, ends = [], []
        for head in heads:
            inside, end = self.inner(self.scope.copy(), depth)
            lines += [head, *inside]
            ends.append(end)
        self.scope.meet(*ends, *([] if heads[-1] == "else:" else [self.scope.copy()]))
        return lines

    def loop(self, depth: int) -> list[str]:
        scope = self.scope.copy()
        scope.carried = frozenset(scope.shapes)
        inside, end = self.inner(scope, depth)
        counts = ["2", "STEPS", "1, 3"]
        count = self.pick([*counts, *(["n", "n + 1"] if "n" in self.scalars else [])])
        leaves = self.scalars and self.chance(3)
        if leaves:
            at = self.pick([len(inside), 0])
            jump = f"    if {self.condition()}:", f"        {self.pick(['break', 'continue'])}"
            inside[at:at] = jump
        self.scope.meet(self.scope.copy(), end)
        if self.chance(2):
            return ["left = 2", "while left > 0:", "    left -= 1", *inside]
        lines = [f"for {self.pick(['_', 'i'])} in range({count}):", *inside]
        if not leaves and self.chance(2):
            last, end = self.inner(self.scope.copy(), 0)
            lines += ["else:", *last]
            self.scope = end
        return lines

    def without_grad(self, depth: int) -> list[str]:
        mode = self.pick(["torch.no_grad()", "torch.inference_mode()"])
        inside, end = self.inner(self.scope.copy(), depth)
        self.scope = replace(end, carried=self.scope.carried)
        if mode == "torch.inference_mode()":
            # PyTorch refuses to change what was made in this mode once it has ended.
            self.scope.fresh.clear()
        return [f"with {mode}:", *inside]

    def returned(self) -> str:
        """Return a return statement: of a new tensor, never a parameter."""
        if self.results:
            texts = [self.expression(shape, 1).within(PRIMARY) for shape in self.results]
            return f"return {', '.join(f'{t}.{self.pick(UNARY_METHODS)}()' for t in texts)}"
        value = self.result(2 if self.labels else self.rank)
        if self.labels:
            dim = self.dim(2, 1)
            dim = self.pick([f"dim={dim}", dim])
            if self.chance(5):
                return f"return torch.argmax({value.text}, {dim})"
            return f"return {value.within(PRIMARY)}.argmax({dim})"
        if value.fresh:
            return f"return {value.text}"
        return f"return {value.within(PRIMARY)}.{self.pick(UNARY_METHODS)}()"

    def result(self, rank: int) -> Text:
        """Return an expression on which what was computed before has an influence, if it fits."""
        shapes = self.known(rank)
        computed = [shape for name, shape in self.scope.shapes.items() if name in LOCALS]
        fitting = [shape for shape in shapes if set(self.broadcast_to(shape)) & set(computed)]
        matrices = [shape for shape in self.known(2) if shape in computed]
        if rank == 1 and matrices and not fitting:
            source, axis = self.recent(matrices), self.pick([1, 0])
            shape = source[:axis] + source[axis + 1 :]
            value = self.reduced(source, axis, False, 1)
        else:
            shape = self.recent(fitting if fitting and self.chance(8) else shapes)
            value = self.expression(shape, self.pick([1, 2]))
        for name in reversed(self.scope.shapes):
            fits = name in LOCALS and self.scope.shapes[name] in self.broadcast_to(shape)
            if fits and self.chance(8):
                symbol, level, *_ = self.pick(BINARY)
                value = Text(f"{value.within(level)} {symbol} {name}", level)
        return value


def _helper(draw: st.DrawFn, number: int, annotations: Sequence[str]) -> tuple[Helper, str]:
    """Draw a short function for others to call: of one result, or of two."""
    names = draw(st.lists(st.sampled_from(sorted(TENSORS)), min_size=1, max_size=3, unique=True))
    operands = {name: TENSORS[name] for name in names}
    declared = draw(st.lists(st.sampled_from(list(SCALARS)), max_size=2, unique=True))
    scalars = tuple(SCALARS[text][0] for text in declared)
    shapes = st.sampled_from(list(operands.values()))
    results = draw(st.lists(shapes, min_size=1, max_size=2))
    writer = Writer(
        draw,
        Scope(dict(operands)),
        0,
        scalars=scalars,
        annotations=annotations,
        results=results,
    )
    lines = ['"""Help."""'] if writer.chance(5) else []
    lines += writer.block(writer.pick([0, 1]), writer.pick([0, 1, 2]))
    lines.append(writer.returned())
    types = [annotations[len(shape) - 1] for shape in results]
    result = types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]"
    helper = Helper(
        f"helper_{number}", tuple(operands.values()), tuple(results), tuple(names), scalars
    )
    body = "".join(f"    {line}\n" for line in lines)
    head = _head(helper.name, operands, declared, result, annotations)
    return helper, f"{head}{body}"


def _head(
    name: str,
    operands: Mapping[str, Shape],
    scalars: Sequence[str],
    result: str,
    annotations: Sequence[str],
) -> str:
    written = [f"{one}: {annotations[len(shape) - 1]}" for one, shape in operands.items()]
    return f"def {name}({', '.join([*written, *scalars])}) -> {result}:\n"


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draw a module of one function and its helpers."""
    style = draw(st.sampled_from(list(ANNOTATIONS)))
    header, *annotations = ANNOTATIONS[style]
    future = "from __future__ import annotations\n" if draw(st.booleans()) else ""
    parts = [f"{future}import torch\nimport torch.nn.functional as F\n{header}{CONSTANTS}"]
    helpers = []
    for number in range(draw(st.integers(0, 2))):
        helper, text = _helper(draw, number, annotations)
        helpers.append(helper)
        parts.append(text)
    names = draw(st.lists(st.sampled_from(list(TENSORS)), min_size=2, max_size=6, unique=True))
    # A matrix and a vector are always there, so that both ranks can be returned.
    operands = {name: TENSORS[name] for name in dict.fromkeys(["x", *names, "gain"])}
    declared = draw(st.lists(st.sampled_from(list(SCALARS)), max_size=3, unique=True))
    scalars = [SCALARS[text][0] for text in declared]
    kind = draw(st.sampled_from(["2D", "1D", "labels"]))
    writer = Writer(
        draw,
        Scope(dict(reversed(operands.items()))),
        {"2D": 2, "1D": 1, "labels": 0}[kind],
        scalars=scalars,
        helpers=helpers,
        labels=kind == "labels",
        annotations=annotations,
    )
    lines = ['"""Compute something."""'] if writer.chance(5) else []
    lines += writer.block(2, draw(st.integers(2, 8)))
    lines.append(writer.returned())
    decorator = draw(st.sampled_from(["", "@torch.no_grad()\n", "@torch.inference_mode()\n"]))
    result = annotations[{"2D": 1, "1D": 0, "labels": 2}[kind]]
    head = _head("program", operands, declared, result, annotations)
    parts.append(f"{decorator}{head}" + "".join(f"    {line}\n" for line in lines))
    values = [SCALARS[text][1] for text in declared]
    return Program("\n\n".join(parts), "program", (*operands.values(), *values))
