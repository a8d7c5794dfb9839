"""What a row of the operator table says: spellings, signatures, numerics, diagnostic.

Rows are frozen data, an executable shape rule and a generator of sizes to test with.
`Operator.__post_init__` rejects a row that contradicts itself, so that what is derived from rows
needs no checks of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from typing import Any, Literal, TypeAlias

from rextio_torch.ops.tensor_types import TensorType

Shape: TypeAlias = tuple[int, ...]
#: A literal that Rextio hands over from the source text.
OptionValue: TypeAlias = bool | int | str | tuple[int, ...] | None
Options: TypeAlias = Mapping[str, OptionValue]
#: An ATen schema with one result: a new tensor, or the first operand, which it then writes to.
_SCHEMA = re.compile(
    r"[a-z_0-9]+(\.\w+)?\(([^!]*\) -> Tensor|Tensor\(a!\) [^!]*\) -> Tensor\(a!\))"
)


class Missing(Enum):
    """The default of a parameter that has none."""

    REQUIRED = "required"


REQUIRED = Missing.REQUIRED


@dataclass(frozen=True)
class Parameter:
    """One parameter of an operator, with PyTorch's name for it.

    A tensor parameter takes a tensor (or the literal `None`, if that is its default); an option
    takes a literal. `default` is what leaving it out means. `positional` says whether PyTorch
    accepts it by position. A `dimension` may be counted from the end in PyTorch; `several` says
    whether it takes a tuple of them, too.
    """

    name: str
    is_tensor: bool
    default: OptionValue | Missing = REQUIRED
    positional: bool = True
    dimension: bool = False
    several: bool = False

    @property
    def optional(self) -> bool:
        """Whether a call may leave it out."""
        return self.default is not REQUIRED


def tensor(name: str, *, optional: bool = False) -> Parameter:
    """Return a tensor parameter."""
    return Parameter(name, is_tensor=True, default=None if optional else REQUIRED)


def option(
    name: str, default: OptionValue | Missing = REQUIRED, *, positional: bool = True
) -> Parameter:
    """Return an option: a parameter whose value must be a literal in the source."""
    return Parameter(name, is_tensor=False, default=default, positional=positional)


def dimension(name: str, *, several: bool = False) -> Parameter:
    """Return an option that is a dimension of the first operand."""
    return Parameter(name, is_tensor=False, dimension=True, several=several)


@dataclass(frozen=True)
class Spelling:
    """One way to write an operator in Python.

    `target` is the dotted name of a function, the name of a method, or the symbol of a binary
    operator. `fixed` are options that only this spelling has and that only their default is
    accepted for (such as `inplace` of `torch.nn.functional.relu`).
    """

    kind: Literal["function", "method", "operator"]
    target: str
    fixed: tuple[Parameter, ...] = ()

    @property
    def site_kind(self) -> Literal["call", "binop"]:
        """Kind of the claim site that Rextio offers for this spelling."""
        return "binop" if self.kind == "operator" else "call"

    @property
    def label(self) -> str:
        """The spelling as documentation writes it."""
        return {"function": self.target, "method": f"Tensor.{self.target}"}.get(
            self.kind, f"a {self.target} b"
        )


def function(target: str, *fixed: Parameter) -> Spelling:
    """Return the spelling `target(...)`, e.g. `torch.relu(x)`."""
    return Spelling("function", target, fixed)


def method(name: str) -> Spelling:
    """Return the spelling `tensor.name(...)`."""
    return Spelling("method", name)


def binary_operator(symbol: str) -> Spelling:
    """Return the spelling `a symbol b`."""
    return Spelling("operator", symbol)


@dataclass(frozen=True)
class Signature:
    """Accepted operand types and option values, and the type of the result.

    `operands` has one entry per tensor parameter; `None` stands for an optional one left out.
    Options that are not named accept only their default.
    """

    operands: tuple[TensorType | None, ...]
    result: TensorType
    options: Mapping[str, tuple[OptionValue, ...]] = field(default_factory=dict)

    @property
    def ranks(self) -> tuple[int | None, ...]:
        """The rank of each operand, `None` for one left out."""
        return tuple(None if operand is None else operand.rank for operand in self.operands)


@dataclass(frozen=True)
class CudaForm:
    """The one form of an operator in the CUDA candidate: spelling, keywords as written, types."""

    spelling: Spelling
    signature: Signature
    keywords: tuple[str, ...] = ()


class ShapeError(Exception):
    """Sizes that eager PyTorch refuses: `exception` names the class that eager raises."""

    def __init__(self, message: str, exception: str = "RuntimeError") -> None:
        super().__init__(message)
        self.exception = exception


#: How the fused engine computes an operator. `elementwise` operations of one shape run together as
#: a region; a `product` carries its bias and the activation that only it feeds; `rows` takes the
#: rows of a region as they come, where it works along them; `none` works on finished operands.
Fusion: TypeAlias = Literal["elementwise", "product", "rows", "none"]
ShapeRule: TypeAlias = Callable[[str, tuple[Shape | None, ...], Options], Shape]


@dataclass(frozen=True)
class Sample:
    """Sizes of the operands of one call; a `None` operand is an optional one left out."""

    shapes: tuple[Shape | None, ...]
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Numerics:
    """What happens to special values, as eager PyTorch does it, and how exact results are.

    The libtorch engine is bit-equal to eager. The fused engine stays within `ulp` units in the
    last place of the exact result; 0 means bit-equal to eager. With `of_terms` the unit is that of
    the sum of the magnitudes of what is added up, which is what any order of summation can promise.
    With `sums_up` a result depends on many elements; twice eager's own error is allowed besides.
    """

    nan: str
    signed_zero: str
    #: Of operators that choose among equal values.
    ties: str | None = None
    ulp: float = 0.0
    of_terms: bool = False
    sums_up: bool = False


@dataclass(frozen=True)
class Diagnostic:
    """What a user reads when a form of the operator is outside the surface."""

    code: str
    why: str
    example: str
    instead: str


def same_literal(left: OptionValue, right: OptionValue) -> bool:
    """Compare literals by type and value: `True` is not `1`."""
    return type(left) is type(right) and left == right


@dataclass(frozen=True)
class Operator:
    """One row of the table.

    `id` is also the name of its runtime function, in Rust, which takes the operands and then each
    option that has more than one accepted value. `schema` is the ATen schema, its key in PyTorch.
    `shape_rule` computes the result's sizes or raises `ShapeError`. `samples` and `error_samples`
    are sizes to test with, for a given signature. `cuda` is its form in the CUDA candidate, if it
    is a part of that.
    """

    id: str
    schema: str
    spellings: tuple[Spelling, ...]
    parameters: tuple[Parameter, ...]
    signatures: tuple[Signature, ...]
    shape_rule: ShapeRule
    numerics: Numerics
    samples: Callable[[Signature], tuple[Sample, ...]]
    error_samples: tuple[Sample, ...]
    diagnostic: Diagnostic
    fusion: Fusion
    cuda: CudaForm | None = None
    #: The id of the operator whose value `h += x` has, where this one is `h + x`.
    in_place: str | None = None
    #: The id of the operator that takes the last operand transposed: `x @ w.T` is a linear layer.
    transposed: str | None = None
    #: What the documentation says besides, of an operator that is not simply PyTorch's.
    note: str | None = None
    #: The operation on a float64 tensor, where PyTorch's own loses too much even there to judge
    #: results by it.
    reference: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        """Reject a row that contradicts itself, naming the row."""

        def require(condition: bool, what: str) -> None:
            if not condition:
                raise ValueError(f"operator row {self.id!r}: {what}")

        require(bool(self.spellings), "needs a spelling")
        require(bool(self.signatures), "needs a signature")
        require(
            _SCHEMA.fullmatch(self.schema) is not None,
            "schema is not an ATen schema",
        )
        require(re.fullmatch(r"[a-z][a-z_0-9]*", self.id) is not None, "id is not a Rust name")
        require(
            re.fullmatch(r"RXTP-TORCH-\d{3}", self.diagnostic.code) is not None,
            "diagnostic code must be RXTP-TORCH-NNN",
        )
        names = [parameter.name for parameter in self.parameters]
        require(len(names) == len(set(names)), "parameter named twice")
        tensors = self.tensor_parameters
        require(self.parameters[: len(tensors)] == tensors, "tensor parameters come before options")
        if self.cuda is not None:
            require(self.cuda.spelling in self.spellings, "CUDA form of another spelling")
        for signature in self.all_signatures:
            require(len(signature.operands) == len(tensors), "signature of another arity")
            require(
                all(
                    operand is not None or parameter.optional
                    for operand, parameter in zip(signature.operands, tensors, strict=True)
                ),
                "signature leaves out a required tensor",
            )
            require(
                set(signature.options) <= {parameter.name for parameter in self.options},
                "signature names an unknown option",
            )
            for parameter in self.options:
                require(
                    bool(self.accepted(signature, parameter)),
                    f"no value of {parameter.name!r} is accepted",
                )
            for sample in self.samples(signature):
                for options in self.option_choices(signature):
                    shape = self.shape_rule(self.id, sample.shapes, {**options, **sample.options})
                    require(
                        len(shape) == signature.result.rank,
                        f"shape rule gives rank {len(shape)} for {sample.shapes}",
                    )
            require(bool(self.samples(signature)), "every signature needs a sample")
        for sample in self.error_samples:
            try:
                self.shape_rule(self.id, sample.shapes, sample.options)
            except ShapeError:
                continue
            require(False, f"error sample {sample.shapes} is accepted by the shape rule")

    @property
    def all_signatures(self) -> tuple[Signature, ...]:
        """What is accepted on the CPU, and in the CUDA candidate."""
        return self.signatures if self.cuda is None else (*self.signatures, self.cuda.signature)

    @property
    def tensor_parameters(self) -> tuple[Parameter, ...]:
        """The tensor parameters, in order."""
        return tuple(parameter for parameter in self.parameters if parameter.is_tensor)

    @property
    def options(self) -> tuple[Parameter, ...]:
        """The options that every spelling has, in order."""
        return tuple(parameter for parameter in self.parameters if not parameter.is_tensor)

    @property
    def runtime_options(self) -> tuple[Parameter, ...]:
        """The options that the runtime function is told: those with a choice of values."""
        return tuple(
            parameter
            for parameter in self.options
            if len(
                {
                    repr(value)
                    for signature in self.all_signatures
                    for value in self.accepted(signature, parameter)
                }
            )
            > 1
        )

    def accepted(self, signature: Signature, parameter: Parameter) -> tuple[OptionValue, ...]:
        """Return the literals that a signature accepts for an option."""
        if parameter.name in signature.options:
            return signature.options[parameter.name]
        return () if parameter.default is REQUIRED else (parameter.default,)

    def option_choices(self, signature: Signature) -> Iterator[dict[str, OptionValue]]:
        """Yield each accepted combination of option values of a signature."""
        names = [parameter.name for parameter in self.options]
        for values in product(*(self.accepted(signature, parameter) for parameter in self.options)):
            yield dict(zip(names, values, strict=True))

    def match(self, operands: tuple[TensorType | None, ...], options: Options) -> Signature | None:
        """Return the signature that accepts these operand types and option values, if any."""
        for signature in self.all_signatures:
            if signature.operands == operands and all(
                any(
                    same_literal(options[parameter.name], value)
                    for value in self.accepted(signature, parameter)
                )
                for parameter in self.options
            ):
                return signature
        return None
