"""Operations that are another operator of the table, bit for bit, or nothing at all at inference.

Each row holds for float32 tensors on the CPU of the given ranks. The tests run both sides of each
row in eager PyTorch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["function", "method", "attribute", "unary", "binary"]


@dataclass(frozen=True)
class Equivalent:
    """One row: an operation by how it is written, and what it is.

    `gives` is the id of an operator that takes the same tensors, `identity` for the first tensor
    itself, or `transposed`, which only a matrix product takes. `accepts` has the operation's own
    parameters and defaults, the tensors first; it is asked with the literals of the call and says
    whether the row holds for them. `ranks` are those of the tensors. `fresh` says whether the
    result is never the caller's own tensor. `example` is a call with tensors `a` and `b`.
    """

    kind: Kind
    written: str
    gives: str
    example: str
    accepts: Callable[..., bool]
    ranks: tuple[tuple[int, ...], ...]
    fresh: bool = True

    @cached_property
    def signature(self) -> inspect.Signature:
        """The operation's parameters."""
        return inspect.signature(self.accepts)

    @property
    def tensors(self) -> int:
        """How many of the parameters, the first ones, are tensors."""
        return len(self.ranks[0])


_ANY = ((1,), (2,))
_MATRIX = ((2,),)


def _spellings(text: str) -> tuple[Kind, str, str]:
    """Return the kind, the target and the text before the arguments of a function or method."""
    if text.startswith("Tensor."):
        name = text.removeprefix("Tensor.")
        return "method", name, f"a.{name}("
    return "function", text, f"{text}(a, "


def _same(
    gives: str,
    *written: str,
    accepts: Callable[..., bool] = lambda input: True,
    arguments: str = "",
    ranks: tuple[tuple[int, ...], ...] = _ANY,
    fresh: bool = True,
) -> list[Equivalent]:
    """Return a row for each spelling; `arguments` follow the first tensor in the example."""
    rows = []
    for text in written:
        kind, target, before = _spellings(text)
        call = f"{before}{arguments})".replace(", )", ")")
        rows.append(Equivalent(kind, target, gives, call, accepts, ranks, fresh))
    return rows


def _binary(
    gives: str, *written: str, accepts: Callable[..., bool] = lambda input, other: True
) -> list[Equivalent]:
    """Return the rows of an arithmetic operator's other spellings."""
    pairs = ((2, 2), (1, 1), (2, 1), (1, 2))
    return _same(gives, *written, accepts=accepts, arguments="b", ranks=pairs)


def _power(number: float, gives: str) -> list[Equivalent]:
    def accepts(input: None, exponent: Any) -> bool:
        return bool(exponent == number)

    return [
        Equivalent("binary", "**", gives, f"a**{number}", accepts, _ANY),
        *_same(gives, "torch.pow", "Tensor.pow", accepts=accepts, arguments=str(number)),
    ]


class Named(str):
    """What a dotted name stands for, as the argument of a call; a string is no such thing."""

    __slots__ = ()


def _stays(input: None, dtype: Any, /) -> bool:
    if isinstance(dtype, Named):
        return dtype in ("torch.float32", "torch.float")
    return type(dtype) is str and dtype == "cpu"


def _alpha(input: None, other: None, *, alpha: Any = 1) -> bool:
    # PyTorch takes no `True` here.
    return type(alpha) in (int, float) and bool(alpha == 1)


def _swap(input: None, dim0: Any, dim1: Any) -> bool:
    return type(dim0) is type(dim1) is int and {dim0, dim1} in ({0, 1}, {-1, -2}, {0, -1}, {1, -2})


EQUIVALENTS: tuple[Equivalent, ...] = (
    Equivalent("unary", "-", "neg", "-a", lambda input: True, _ANY),
    *_power(2, "square"),
    *_power(0.5, "sqrt"),
    *_binary("add", "Tensor.add", accepts=_alpha),
    *_binary(
        "sub",
        "Tensor.sub",
        "Tensor.subtract",
        "torch.subtract",
        accepts=_alpha,
    ),
    *_binary("mul", "Tensor.mul", "Tensor.multiply", "torch.multiply"),
    *_binary(
        "div",
        "Tensor.div",
        "Tensor.divide",
        "torch.divide",
        accepts=lambda input, other, *, rounding_mode=None: rounding_mode is None,
    ),
    *_binary("div", "Tensor.true_divide", "torch.true_divide"),
    *_same(
        "matmul",
        "torch.mm",
        "Tensor.mm",
        accepts=lambda input, mat2: True,
        arguments="b",
        ranks=((2, 2),),
    ),
    *_same(
        "matmul",
        "torch.mv",
        "Tensor.mv",
        accepts=lambda input, vec: True,
        arguments="b",
        ranks=((2, 1),),
    ),
    *_same("sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit"),
    *_same("tanh", "torch.nn.functional.tanh"),
    *_same("abs", "torch.absolute", "Tensor.absolute"),
    # What inference leaves as it is.
    *_same(
        "identity",
        "Tensor.detach",
        "Tensor.contiguous",
        "Tensor.float",
        "Tensor.cpu",
        fresh=False,
    ),
    *_same(
        "identity",
        "Tensor.to",
        accepts=_stays,
        arguments="torch.float32",
        fresh=False,
    ),
    *_same(
        "identity",
        "torch.nn.functional.dropout",
        accepts=lambda input, p=0.5, training=True, inplace=False: (
            training is False and type(p) in (int, float) and 0 <= p <= 1
        ),
        arguments="p=0.1, training=False",
        fresh=False,
    ),
    # The transposed matrix, on the right of a product.
    *(
        Equivalent("attribute", name, "transposed", f"a.{name}", lambda input: True, _MATRIX, False)
        for name in ("T", "mT")
    ),
    *_same("transposed", "Tensor.t", "torch.t", ranks=_MATRIX, fresh=False),
    *_same(
        "transposed",
        "Tensor.transpose",
        "Tensor.swapaxes",
        "torch.transpose",
        "torch.swapaxes",
        accepts=_swap,
        arguments="0, 1",
        ranks=_MATRIX,
        fresh=False,
    ),
)
#: Names of the operations that give their first tensor itself.
IDENTITY_NAMES = {row.written.rpartition(".")[2] for row in EQUIVALENTS if row.gives == "identity"}
