"""What is measured: programs, their parameters and the sizes they run at. Plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

Group: TypeAlias = Literal["unary", "binary", "reductions", "products", "programs", "chain"]
#: How an input is filled: standard normal, or uniform in [0.5, 2] for logarithms and divisors.
Values: TypeAlias = Literal["normal", "positive"]

GROUPS: Mapping[Group, str] = {
    "unary": "Unary operations",
    "binary": "Arithmetic",
    "reductions": "Softmax, sum, mean, argmax",
    "products": "Matrix products",
    "programs": "Programs",
    "chain": "Chain: ((a + b) * a).tanh().exp(), - b, .sigmoid(), * a",
}


@dataclass(frozen=True)
class Parameter:
    """One tensor parameter: its dimensions by name, and whether it is a weight."""

    name: str
    dims: tuple[str, ...]
    weight: bool = False
    values: Values = "normal"


@dataclass(frozen=True)
class Program:
    """One function of `sources/`; weights come last among its parameters."""

    name: str
    module: str
    function: str
    group: Group
    title: str
    parameters: tuple[Parameter, ...]
    result: tuple[str, ...]
    sizes: tuple[Mapping[str, int], ...]
    #: The dimensions (rows, inner, columns) of each matrix product in it.
    products: tuple[tuple[str, str, str], ...] = ()
    integer_result: bool = False

    @property
    def weights(self) -> tuple[Parameter, ...]:
        """The parameters that a peer may hold as constants."""
        return tuple(parameter for parameter in self.parameters if parameter.weight)


@dataclass(frozen=True)
class Case:
    """One program at one size."""

    program: Program
    sizes: Mapping[str, int]

    @property
    def label(self) -> str:
        """The sizes in words: `n = 4096`, `batch 16` or `1x128x64`."""
        sizes = "x".join(str(size) for size in self.sizes.values())
        if len(self.sizes) > 1:
            return sizes
        return f"n = {sizes}" if "n" in self.sizes else f"batch {sizes}"

    @property
    def id(self) -> str:
        """A name that is the same in every run, e.g. `exp/4096` or `mlp/16`."""
        return f"{self.program.name}/{'x'.join(str(size) for size in self.sizes.values())}"

    def shape(self, dims: Iterable[str]) -> tuple[int, ...]:
        """Return the sizes of dimensions, which are names or fixed numbers."""
        return tuple(self.sizes[name] if name in self.sizes else int(name) for name in dims)

    @property
    def elements(self) -> int:
        """Elements of the first parameter: the size that plots use."""
        return prod(self.shape(self.program.parameters[0].dims))

    @property
    def floats_read(self) -> int:
        """Float32 values that any implementation must read."""
        return sum(prod(self.shape(parameter.dims)) for parameter in self.program.parameters)

    @property
    def floats_written(self) -> int:
        """Float32 values that any implementation must write; an int64 counts as two."""
        return prod(self.shape(self.program.result)) * (2 if self.program.integer_result else 1)

    @property
    def flops(self) -> int:
        """Floating-point operations of the matrix products in it."""
        return sum(2 * prod(self.shape(dims)) for dims in self.program.products)

    @property
    def divides(self) -> bool:
        """Whether it is so large that some contender divides it among threads.

        PyTorch divides elementwise work from 32768 elements on (`at::internal::GRAIN_SIZE`).
        """
        return self.floats_read + self.floats_written >= 1 << 15 or self.flops >= 1 << 20


_LENGTHS = tuple({"n": n} for n in (1, 64, 4096, 1 << 16, 1 << 20))
_SQUARES = tuple({"rows": side, "columns": side} for side in (1, 8, 64, 256, 1024))
_BATCHES = (1, 4, 16, 64, 256)
_CHAIN = tuple({"rows": 1 << k, "columns": 1 << k} for k in range(3, 12))
_PRODUCTS = tuple(
    {"m": m, "k": k, "n": n}
    for m, k, n in (
        (1, 64, 64),
        (1, 1024, 1024),
        (8, 64, 64),
        *((side, side, side) for side in (16, 32, 64, 128, 256, 512, 1024)),
        (64, 1024, 1024),
    )
)


def _unary(name: str, values: Values = "normal") -> Program:
    return Program(
        name,
        "unary",
        f"unary_{name}",
        "unary",
        name,
        (Parameter("x", ("n",), values=values),),
        ("n",),
        _LENGTHS,
    )


def _binary(name: str, values: Values = "normal") -> Program:
    return Program(
        name,
        "binary",
        f"binary_{name}",
        "binary",
        name,
        (Parameter("a", ("n",)), Parameter("b", ("n",), values=values)),
        ("n",),
        _LENGTHS,
    )


def _reduction(name: str, form: Literal["vector", "rows", "columns"]) -> Program:
    keeps_shape = name == "softmax"
    dims = ("n",) if form == "vector" else ("rows", "columns")
    reduced = {"vector": ("1",), "rows": ("rows",), "columns": ("columns",)}[form]
    words = {"vector": "1-D", "rows": "2-D, dim 1", "columns": "2-D, dim 0"}[form]
    return Program(
        f"{name}-{form}",
        "reductions",
        f"{name}_{form}",
        "reductions",
        f"{name} ({words})",
        (Parameter("x", dims),),
        dims if keeps_shape else reduced,
        _LENGTHS if form == "vector" else _SQUARES,
        integer_result=name == "argmax",
    )


def _linear_like(
    name: str,
    title: str,
    result: tuple[str, ...],
    sizes: Iterable[tuple[int, int, int]],
    *,
    integer_result: bool = False,
) -> Program:
    return Program(
        name,
        "programs",
        name.replace("-", "_"),
        "programs",
        title,
        (
            Parameter("x", ("m", "k")),
            Parameter("weight", ("n", "k"), weight=True),
            Parameter("bias", ("n",), weight=True),
        ),
        result,
        tuple({"m": m, "k": k, "n": n} for m, k, n in sizes),
        (("m", "k", "n"),),
        integer_result,
    )


def _weights(*layers: tuple[str, str]) -> tuple[Parameter, ...]:
    return tuple(
        parameter
        for number, (inputs, outputs) in enumerate(layers, 1)
        for parameter in (
            Parameter(f"weight{number}", (outputs, inputs), weight=True),
            Parameter(f"bias{number}", (outputs,), weight=True),
        )
    )


PROGRAMS: tuple[Program, ...] = (
    _unary("relu"),
    _unary("sigmoid"),
    _unary("tanh"),
    _unary("abs"),
    _unary("neg"),
    _unary("square"),
    _unary("exp"),
    _unary("log", "positive"),
    _unary("sqrt", "positive"),
    _unary("gelu"),
    _binary("add"),
    _binary("sub"),
    _binary("mul"),
    _binary("div", "positive"),
    *(
        _reduction(name, form)
        for name in ("softmax", "sum", "mean", "argmax")
        for form in ("vector", "rows", "columns")
    ),
    Program(
        "matmul",
        "products",
        "product_matmul",
        "products",
        "matmul",
        (Parameter("a", ("m", "k")), Parameter("b", ("k", "n"))),
        ("m", "n"),
        _PRODUCTS,
        (("m", "k", "n"),),
    ),
    Program(
        "linear",
        "products",
        "product_linear",
        "products",
        "linear with bias",
        (
            Parameter("x", ("m", "k")),
            Parameter("weight", ("n", "k"), weight=True),
            Parameter("bias", ("n",), weight=True),
        ),
        ("m", "n"),
        _PRODUCTS,
        (("m", "k", "n"),),
    ),
    _linear_like(
        "linear-relu-mean",
        "linear → relu → mean",
        ("m",),
        ((1, 32, 32), *((batch, 128, 64) for batch in _BATCHES)),
    ),
    _linear_like(
        "classifier",
        "classifier: linear, argmax",
        ("m",),
        ((batch, 64, 10) for batch in _BATCHES),
        integer_result=True,
    ),
    Program(
        "mlp",
        "programs",
        "mlp",
        "programs",
        "MLP 128→256→128→10",
        (Parameter("x", ("m", "128")), *_weights(("128", "256"), ("256", "128"), ("128", "10"))),
        ("m", "10"),
        tuple({"m": batch} for batch in _BATCHES),
        (("m", "128", "256"), ("m", "256", "128"), ("m", "128", "10")),
    ),
    Program(
        "attention",
        "programs",
        "attention",
        "programs",
        "attention: 128 keys of 64",
        (
            Parameter("q", ("m", "64")),
            Parameter("k", ("128", "64")),
            Parameter("v", ("128", "64")),
        ),
        ("m", "64"),
        tuple({"m": batch} for batch in _BATCHES),
        (("m", "64", "128"), ("m", "128", "64")),
    ),
    Program(
        "chain",
        "programs",
        "chain",
        "chain",
        "chain of 7 operations",
        (Parameter("a", ("rows", "columns")), Parameter("b", ("rows", "columns"))),
        ("rows", "columns"),
        _CHAIN,
    ),
)

CASES: tuple[Case, ...] = tuple(
    Case(program, sizes) for program in PROGRAMS for sizes in program.sizes
)

#: The subset of `--quick`: one of each kind, those with a target of their own first.
QUICK = (
    "linear-relu-mean/1x32x32",
    "linear-relu-mean/1x128x64",
    "classifier/1x64x10",
    "mlp/1",
    "chain/8x8",
    "chain/256x256",
    "attention/16",
    "matmul/64x64x64",
    "matmul/256x256x256",
    "linear/1x1024x1024",
    "softmax-rows/64x64",
    "argmax-vector/4096",
    "sum-vector/65536",
    "exp/64",
    "exp/65536",
    "relu/65536",
    "add/4096",
)


def find(case_id: str) -> Case:
    """Return the case with an id, or raise `KeyError`."""
    for case in CASES:
        if case.id == case_id:
            return case
    raise KeyError(case_id)
