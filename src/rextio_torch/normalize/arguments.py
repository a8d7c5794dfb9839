"""The arguments of a call, bound to the parameters of an operator's row as Python binds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from rextio_torch.normalize.code import Code
from rextio_torch.normalize.constants import Literal
from rextio_torch.ops.model import (
    REQUIRED,
    Operator,
    Options,
    OptionValue,
    Signature,
    Spelling,
    same_literal,
)
from rextio_torch.ops.tensor_types import TENSOR_TYPES, TensorType
from rextio_torch.syntax.tree import literal

if TYPE_CHECKING:
    from rextio_torch.normalize.values import Value

_TYPES = {item.key: item for item in TENSOR_TYPES}


def tensor_type(key: str | None) -> TensorType | None:
    """Return the tensor type of a key, or None."""
    return _TYPES.get(key or "")


@dataclass(frozen=True)
class Argument:
    """One argument of a call; the receiver of a method is the first."""

    keyword: str | None
    node: cst.BaseExpression
    value: Value
    star: str = ""


@dataclass(frozen=True)
class BoundCall:
    """A call that the table covers."""

    signature: Signature
    #: One per tensor parameter, `None` for `None`; what was left out at the end is not there.
    operands: list[Argument | None]
    #: The options that were given.
    options: Options
    #: Whether Rextio offers it as it is written.
    as_written: bool


def bind(
    operator: Operator,
    spelling: Spelling,
    arguments: list[Argument],
    literal_of: Callable[[cst.BaseExpression], Literal | None],
) -> BoundCall | None:
    """Bind a call's arguments; None if the row has no place for them or no such signature."""
    parameters = {item.name: item for item in (*operator.parameters, *spelling.fixed)}
    positional = [name for name, item in parameters.items() if item.positional]
    bound: dict[str, Argument] = {}
    for index, item in enumerate(arguments):
        if item.star or (item.keyword is None and index >= len(positional)):
            return None
        name = positional[index] if item.keyword is None else item.keyword
        if name in bound or name not in parameters:
            return None
        bound[name] = item
    as_written = True
    operands: list[Argument | None] = []
    types: list[TensorType | None] = []
    for parameter in operator.tensor_parameters:
        found = bound.get(parameter.name)
        constant = None if found is None else literal_of(found.node)
        if found is None or (constant is not None and constant.value is None):
            if not parameter.optional:
                return None
            types.append(None)
            operands.append(None)
            continue
        kind = tensor_type(found.value.type)
        if kind is None:
            return None
        as_written = as_written and found.keyword is None
        types.append(kind)
        operands.append(found)
    while operands and operands[-1] is None:
        operands.pop()
    options: dict[str, OptionValue] = {}
    given: dict[str, OptionValue] = {}
    rank = next((item.rank for item in types if item is not None), 0)
    for parameter in (*operator.options, *spelling.fixed):
        found = bound.get(parameter.name)
        if found is None:
            if parameter.default is REQUIRED:
                return None
            options[parameter.name] = parameter.default
            continue
        constant = literal_of(found.node)
        if constant is None or isinstance(constant.value, float):
            return None
        value = constant.value
        if parameter.dimension:
            value = _dimension(value, rank, several=parameter.several)
        options[parameter.name] = given[parameter.name] = value
        is_literal, written = literal(found.node)
        by_position = found.keyword is None and isinstance(value, (bool, str))
        if not is_literal or not same_literal(written, value) or by_position:
            as_written = False
    for parameter in spelling.fixed:
        if parameter.default is REQUIRED or not same_literal(
            options.pop(parameter.name), parameter.default
        ):
            return None
        given.pop(parameter.name, None)
    signature = operator.match(tuple(types), options)
    if signature is None:
        return None
    return BoundCall(signature, operands, given, as_written)


def _dimension(value: OptionValue, rank: int, *, several: bool) -> OptionValue:
    """Return a dimension counted from the front; `dim=(1,)` is `dim=1` where several are taken."""
    if several and isinstance(value, tuple) and len(value) == 1:
        (value,) = value
    if type(value) is int and -rank <= value < 0:
        return value + rank
    return value


def rendered_options(operator: Operator, options: Mapping[str, OptionValue]) -> list[Code]:
    """Return the options of a call as literal keywords, in the row's order."""
    return [
        Code(f"{item.name}={options[item.name]!r}")
        for item in operator.options
        if item.name in options
    ]
