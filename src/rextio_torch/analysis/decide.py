"""Decide what to do with a claim site, by the operator table alone.

The decision is a pure function of the site's kind, target, operand types, literals, keywords,
callables and receiver; the same function serves Rextio's analysis and the revalidation before
lowering.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from rextio.plugins.api import ClaimLiteral, ClaimSite

from rextio_torch.ops.model import (
    REQUIRED,
    Missing,
    Operator,
    Options,
    OptionValue,
    Parameter,
    Signature,
    Spelling,
    same_literal,
)
from rextio_torch.ops.table import BY_SPELLING
from rextio_torch.ops.tensor_types import TYPES_BY_KEY, TensorType


@dataclass(frozen=True)
class Call:
    """A site inside the surface: the row, how it is written, its signature and option values.

    `operands` gives, for each tensor parameter, the index of the site's argument that fills it
    (the receiver of a method is argument 0), or `None` for an optional tensor left out.
    """

    operator: Operator
    spelling: Spelling
    signature: Signature
    operands: tuple[int | None, ...]
    options: Options

    @property
    def dimension(self) -> OptionValue:
        """The dimension that it works along, or `None` if it has none."""
        names = (item.name for item in self.operator.options if item.dimension)
        return next((self.options[name] for name in names), None)

    @property
    def on_cuda(self) -> bool:
        """Whether it is part of the CUDA candidate, which needs a device provider's permission."""
        return self.signature.result.device == "cuda0"


@dataclass(frozen=True)
class Rejection:
    """A recognised site outside the surface: the row and what exactly does not fit."""

    operator: Operator
    reason: str


@dataclass(frozen=True)
class CudaRejection:
    """A site with a CUDA operand that is not of the CUDA candidate, and what does not fit."""

    reason: str


#: What `decide` returns; `None` is "not covered".
Decision = Call | Rejection | CudaRejection | None


@dataclass(frozen=True)
class _Argument:
    type_key: str
    literal: ClaimLiteral


class _Unsupported(Exception):
    """Carries the reason of a rejection to `decide`."""


def decide(site: ClaimSite) -> Decision:
    """Return what the operator table says about a site."""
    if _has_cuda_operand(site):
        return _decide_cuda(site)
    found = BY_SPELLING.get(_spelling_key(site))
    if found is None:
        return None
    arguments = _arguments(site)
    if arguments is None:
        return None
    # Values known only at run time. A function passed by keyword is not among the site's keywords
    # at all, only among its callables: without this check the call would look as if it had none.
    if site.callables or any(not keyword.literal.is_literal for keyword in site.keywords):
        return None
    operator, spelling = found
    try:
        return _bind(operator, spelling, arguments, site)
    except _Unsupported as unsupported:
        return Rejection(operator, str(unsupported))


def _has_cuda_operand(site: ClaimSite) -> bool:
    receiver = () if site.receiver is None else (site.receiver.arg_type,)
    keywords = tuple(keyword.arg_type for keyword in site.keywords)
    types = (TYPES_BY_KEY.get(key or "") for key in (*site.operand_types, *receiver, *keywords))
    return any(found is not None and found.device == "cuda0" for found in types)


def _decide_cuda(site: ClaimSite) -> Decision:
    """Return the call if it is a step of the candidate exactly as written there.

    Everything else on a CUDA tensor is rejected, also what is no row of the table (`x.cpu()`).
    """
    arguments = _arguments(site)
    if arguments is None:
        return None
    operator, spelling = BY_SPELLING.get(_spelling_key(site), (None, None))
    form = None if operator is None else operator.cuda
    name = site.target.rpartition(".")[2] if site.receiver is not None else site.target
    if operator is None or form is None or spelling != form.spelling:
        return CudaRejection(f"`{name}` is none of its operations")
    if not _operands_are_names(site):
        return CudaRejection(f"an operand of `{name}` is an expression and needs a name of its own")
    if site.callables or tuple(keyword.name for keyword in site.keywords) != form.keywords:
        return CudaRejection(f"`{name}` is written with other arguments")
    try:
        return _bind(operator, form.spelling, arguments, site)
    except _Unsupported as unsupported:
        expected = [operand.label for operand in form.signature.operands if operand]
        got = [_type_text(argument) for argument in arguments]
        if got == expected:
            return CudaRejection(str(unsupported))
        return CudaRejection(f"`{name}` takes ({', '.join(expected)}), got ({', '.join(got)})")


def _operands_are_names(site: ClaimSite) -> bool:
    if site.receiver is not None and site.receiver.expr_kind != "name":
        return False
    children = () if site.expression is None else site.expression.children
    return all(
        child.leaf_kind == "name"
        for child, type_key in zip(children, site.operand_types, strict=False)
        if type_key in TYPES_BY_KEY
    )


def _spelling_key(site: ClaimSite) -> tuple[str, str]:
    if site.kind == "binop":
        return ("operator", site.target)
    if site.kind != "call":
        return ("", "")
    if site.receiver is None:
        return ("function", site.target)
    # The target of a method is "<receiver>.<name>", or the bare name on a nested receiver.
    return ("method", site.target.rpartition(".")[2])


def _arguments(site: ClaimSite) -> list[_Argument] | None:
    """Return the positional arguments, the receiver first.

    `None` if a type is unresolved or another plugin's: a rejection is decided on resolved types
    only, and only where no other plugin's type takes part. Otherwise the site is not this plugin's
    business (yet).
    """
    types = list(site.operand_types)
    literals = list(site.operand_literals)
    if site.receiver is not None:
        if site.receiver.arg_type not in TYPES_BY_KEY:
            return None
        types.insert(0, site.receiver.arg_type)
        literals.insert(0, ClaimLiteral())
    literals += [ClaimLiteral()] * (len(types) - len(literals))
    arguments = []
    for type_key, literal in zip(types, literals, strict=True):
        if type_key is None:
            return None
        arguments.append(_Argument(type_key, literal))
    if any(_is_foreign(argument.type_key) for argument in arguments):
        return None
    return arguments


def _is_foreign(type_key: str) -> bool:
    return "/" in type_key and type_key not in TYPES_BY_KEY


def _bind(
    operator: Operator, spelling: Spelling, arguments: list[_Argument], site: ClaimSite
) -> Call:
    """Bind arguments to parameters as Python does, then look for a signature."""
    parameters = (*operator.parameters, *spelling.fixed)
    bound = _bind_positional(parameters, arguments)
    positions = {name: index for index, name in enumerate(bound)}
    by_name = {parameter.name: parameter for parameter in parameters}
    for keyword in site.keywords:
        if keyword.name not in by_name:
            raise _Unsupported(f"`{keyword.name}=` is not supported")
        if keyword.name in bound:
            raise _Unsupported(f"`{keyword.name}` is given twice")
        bound[keyword.name] = _Argument(keyword.arg_type or "None", keyword.literal)

    operands: list[TensorType | None] = []
    indices: list[int | None] = []
    for position, parameter in enumerate(operator.tensor_parameters):
        operand = _tensor_operand(operator, position, bound.get(parameter.name))
        operands.append(operand)
        indices.append(None if operand is None else positions[parameter.name])
    options = {
        parameter.name: _option_value(parameter, bound.get(parameter.name))
        for parameter in parameters
        if not parameter.is_tensor
    }
    for parameter in spelling.fixed:
        _require_one_of(parameter, options.pop(parameter.name), (parameter.default,))
    signature = operator.match(tuple(operands), options)
    if signature is None:
        _explain_mismatch(operator, tuple(operands), options)
    return Call(operator, spelling, signature, tuple(indices), options)


def _bind_positional(
    parameters: tuple[Parameter, ...], arguments: list[_Argument]
) -> dict[str, _Argument]:
    positional = [parameter for parameter in parameters if parameter.positional]
    if len(arguments) > len(positional):
        plural = "" if len(positional) == 1 else "s"
        raise _Unsupported(
            f"it takes at most {len(positional)} positional argument{plural}, got {len(arguments)}"
        )
    return {
        parameter.name: argument for parameter, argument in zip(positional, arguments, strict=False)
    }


def _tensor_operand(
    operator: Operator, position: int, argument: _Argument | None
) -> TensorType | None:
    parameter = operator.tensor_parameters[position]
    if argument is None:
        if not parameter.optional:
            raise _Unsupported(f"`{parameter.name}` is missing")
        return None
    if argument.literal.is_literal and argument.literal.value is None and parameter.optional:
        return None
    operand = TYPES_BY_KEY.get(argument.type_key)
    if operand is None:
        accepted = [signature.operands[position] for signature in operator.signatures]
        markers = dict.fromkeys(item.marker for item in accepted if item is not None)
        raise _Unsupported(
            f"`{parameter.name}` must be {' or '.join(markers)}, got {_type_text(argument)}"
        )
    return operand


def _type_text(argument: _Argument) -> str:
    tensor_type = TYPES_BY_KEY.get(argument.type_key)
    if tensor_type is not None:
        return tensor_type.label
    return f"a Python {argument.type_key}" if argument.type_key != "None" else "None"


def _option_value(parameter: Parameter, argument: _Argument | None) -> OptionValue:
    if argument is None:
        if parameter.default is REQUIRED:
            raise _Unsupported(f"`{parameter.name}` is missing")
        return parameter.default
    if not argument.literal.is_literal:
        how = " given by keyword" if argument.type_key in ("bool", "str") else ""
        raise _Unsupported(
            f"`{parameter.name}` must be a literal{how}, got {_type_text(argument)} value"
        )
    return argument.literal.value


def _require_one_of(
    parameter: Parameter, value: OptionValue, accepted: tuple[OptionValue | Missing, ...]
) -> None:
    literals = [item for item in accepted if item is not REQUIRED]
    if not any(same_literal(value, item) for item in literals):
        raise _Unsupported(
            f"`{parameter.name}={value!r}` is not supported, "
            f"only {' or '.join(repr(item) for item in literals)}"
        )


def _explain_mismatch(
    operator: Operator, operands: tuple[TensorType | None, ...], options: Options
) -> NoReturn:
    """Raise the reason why no signature fits: the operand types, else the first option."""
    fitting = [s for s in operator.all_signatures if s.operands == operands]
    if not fitting:
        raise _Unsupported(
            f"operands of type {_operands_text(operands)} are not supported, "
            f"only {' or '.join(_operands_text(s.operands) for s in _distinct(operator))}"
        )
    for parameter in operator.options:
        accepted = tuple(
            dict.fromkeys(
                value for signature in fitting for value in operator.accepted(signature, parameter)
            )
        )
        _require_one_of(parameter, options[parameter.name], accepted)
    raise _Unsupported("this combination of options is not supported")


def _distinct(operator: Operator) -> list[Signature]:
    return list({signature.operands: signature for signature in operator.signatures}.values())


def _operands_text(operands: tuple[TensorType | None, ...]) -> str:
    return "(" + ", ".join(operand.marker if operand else "None" for operand in operands) + ")"
