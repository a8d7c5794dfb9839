"""Calls derived from the operator table: every accepted one, and the neighbours to be rejected.

A `Form` is one call, independent of how it is checked: as the source of a function for Rextio's
analyser, or as the claim site that the analyser is expected to make of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TypeAlias

from rextio.plugins.api import NON_LITERAL, ClaimLiteral, ClaimSite, KeywordArg, ReceiverMeta

from rextio_torch.ops.model import (
    REQUIRED,
    Operator,
    Options,
    OptionValue,
    Parameter,
    Signature,
    Spelling,
)
from rextio_torch.ops.tensor_types import ALL_TYPES, TENSOR_TYPES, TensorType

KEYS = {item.marker: item.key for item in ALL_TYPES if item.after is None}
HEADER = f"""\
import rextio_torch.in_place
import torch
from rextio_torch.types import {", ".join(item.marker for item in TENSOR_TYPES)}
"""


@dataclass(frozen=True)
class Operand:
    """An argument that is a parameter of the function, with this annotation."""

    annotation: str

    @property
    def type(self) -> str:
        return KEYS.get(self.annotation, self.annotation)

    @property
    def literal(self) -> ClaimLiteral:
        return NON_LITERAL


@dataclass(frozen=True)
class Literal:
    """An argument that is written out in the source."""

    value: OptionValue | float

    @property
    def type(self) -> str:
        if isinstance(self.value, tuple):
            return f"tuple[{', '.join(type(item).__name__ for item in self.value)}]"
        return "None" if self.value is None else type(self.value).__name__

    def claim_literal(self, *, keyword: bool) -> ClaimLiteral:
        """Return what Rextio hands over: bools and strings are literals by keyword only.

        Numbers with a fraction and what has a name (`torch.float64`) are no literals to it.
        """
        if self.value is not None and not isinstance(self.value, (int, str, tuple)):
            return NON_LITERAL
        if isinstance(self.value, (bool, str)) and not keyword:
            return NON_LITERAL
        return ClaimLiteral(True, self.value)


Argument: TypeAlias = Operand | Literal


def operand(tensor_type: TensorType) -> Operand:
    return Operand(tensor_type.marker)


@dataclass(frozen=True)
class Form:
    """One call of an operator. `signature` is `None` where the call must be rejected.

    `kind` says which family of forms it belongs to. The receiver of a method and the left side of
    an operator are the first argument. `options` are the values of the row's options, where the
    call is accepted.
    """

    kind: str
    operator: Operator
    spelling: Spelling
    arguments: tuple[Argument, ...]
    keywords: tuple[tuple[str, Literal], ...] = ()
    signature: Signature | None = None
    options: Options = field(default_factory=dict)

    @property
    def result(self) -> TensorType | None:
        return self.signature.result if self.signature else None

    @property
    def expression(self) -> str:
        """The call as Python source, with parameters named `p0`, `p1`, …"""
        return self.written(self.spelling.target)

    def written(self, target: str) -> str:
        """As `expression`, with another way to write the called function."""
        texts = [
            f"p{index}" if isinstance(argument, Operand) else repr(argument.value)
            for index, argument in enumerate(self.arguments)
        ]
        if self.spelling.kind == "operator":
            left, right = texts
            return f"{left} {target} {right}"
        if self.spelling.kind == "method":
            target = f"{texts.pop(0)}.{target}"
        texts += [f"{name}={value.value!r}" for name, value in self.keywords]
        return f"{target}({', '.join(texts)})"

    def function(self, name: str, expression: str | None = None) -> str:
        """Return a function of two lines that returns the call."""
        parameters = ", ".join(
            f"p{index}: {argument.annotation}"
            for index, argument in enumerate(self.arguments)
            if isinstance(argument, Operand)
        )
        marker = self.result.marker if self.result else "TensorF32Cpu2D"
        return (
            f"def {name}({parameters}) -> {marker}:\n    return {expression or self.expression}\n"
        )

    def site(self) -> ClaimSite:
        """Return the claim site that Rextio offers for the call."""
        arguments = self.arguments
        receiver = None
        target = self.spelling.target
        if self.spelling.kind == "method":
            receiver = ReceiverMeta(arguments[0].type, "name", True)
            arguments = arguments[1:]
            target = f"p0.{target}"
        return ClaimSite(
            kind=self.spelling.site_kind,
            target=target,
            operand_types=tuple(argument.type for argument in arguments),
            file_path="",
            line=0,
            column=0,
            operand_literals=tuple(
                argument.literal
                if isinstance(argument, Operand)
                else argument.claim_literal(keyword=False)
                for argument in arguments
            ),
            keywords=tuple(
                KeywordArg(name, value.type, value.claim_literal(keyword=True))
                for name, value in self.keywords
            ),
            receiver=receiver,
        )


def site_facts(site: ClaimSite) -> tuple[object, ...]:
    """Return what a decision may depend on, without position and expression tree."""
    return (
        site.kind,
        site.target,
        site.operand_types,
        site.operand_literals,
        site.keywords,
        site.receiver,
        site.callables,
    )


def module(functions: Iterable[str], header: str = HEADER) -> str:
    return "\n".join([header, *functions])


# Accepted forms


def _is_literal_by_position(value: OptionValue) -> bool:
    return not isinstance(value, (bool, str))


def _tensor_ways(
    operator: Operator, signature: Signature
) -> Iterator[tuple[tuple[Argument, ...], tuple[tuple[str, Literal], ...], bool]]:
    """Yield positional tensors, keyword `None`s, and whether all parameters are positional."""
    arguments: list[Argument] = []
    left_out: list[Parameter] = []
    for parameter, tensor_type in zip(operator.tensor_parameters, signature.operands, strict=True):
        if tensor_type is None:
            left_out.append(parameter)
        else:
            assert not left_out, "no operator has a tensor after an optional one"
            arguments.append(operand(tensor_type))
    if not left_out:
        yield tuple(arguments), (), True
        return
    yield tuple(arguments), (), False
    yield (*arguments, *(Literal(None) for _ in left_out)), (), True
    yield (
        tuple(arguments),
        tuple((parameter.name, Literal(None)) for parameter in left_out),
        False,
    )


def _option_ways(
    operator: Operator, spelling: Spelling, options: Options, *, by_position: bool
) -> Iterator[tuple[tuple[Argument, ...], tuple[tuple[str, Literal], ...]]]:
    """Yield positional and keyword options: each split, each order, defaults also left out."""
    for split in range(len(operator.options) + 1 if by_position else 1):
        head, tail = operator.options[:split], operator.options[split:]
        if not all(
            parameter.positional and _is_literal_by_position(options[parameter.name])
            for parameter in head
        ):
            continue
        optional = [p for p in tail if p.default is not REQUIRED and p.default == options[p.name]]
        for fixed in ((), spelling.fixed) if spelling.fixed else ((),):
            for given in dict.fromkeys([tail, tuple(p for p in tail if p not in optional)]):
                keywords = [(p.name, Literal(options[p.name])) for p in given]
                for p in fixed:
                    assert p.default is not REQUIRED
                    keywords.append((p.name, Literal(p.default)))
                positional = tuple(Literal(options[p.name]) for p in head)
                yield positional, tuple(keywords)
                if len(keywords) > 1:
                    yield positional, tuple(reversed(keywords))


def accepted(operator: Operator) -> Iterator[Form]:
    """Yield every way to write every accepted call of an operator."""
    for spelling, signature in product(operator.spellings, operator.signatures):
        for options in operator.option_choices(signature):
            for tensors, nones, complete in _tensor_ways(operator, signature):
                for positional, keywords in _option_ways(
                    operator,
                    spelling,
                    options,
                    by_position=complete and spelling.kind != "operator",
                ):
                    yield Form(
                        "accepted",
                        operator,
                        spelling,
                        (*tensors, *positional),
                        (*nones, *keywords),
                        signature,
                        options,
                    )


# Rejected forms: the complement of the table, within reach of one mistake

_OPERANDS: tuple[Argument, ...] = (
    *(operand(tensor_type) for tensor_type in TENSOR_TYPES),
    Operand("int"),
    Operand("float"),
    Operand("bool"),
    Operand("str"),
    Literal(None),
    Literal(1),
    Literal(2.0),
)
_VALUES: tuple[OptionValue, ...] = (
    -2,
    -1,
    0,
    1,
    2,
    3,
    (0,),
    (0, 1),
    None,
    True,
    False,
    "none",
    "tanh",
    "",
)
_KEYWORDS: tuple[tuple[str, OptionValue], ...] = (
    ("alpha", 2),
    ("alpha", 1),
    ("rounding_mode", "floor"),
    ("rounding_mode", None),
    ("dtype", None),
    ("out", None),
    ("inplace", True),
    ("inplace", False),
    ("axis", 0),
    ("_stacklevel", 3),
    ("approximate", "tanh"),
    ("no_such_option", 1),
)


def _same(left: object, right: object) -> bool:
    return type(left) is type(right) and left == right


def _accepts(operator: Operator, operands: Sequence[TensorType | None], options: Options) -> bool:
    return any(
        signature.operands == tuple(operands)
        and all(
            any(_same(options[p.name], value) for value in operator.accepted(signature, p))
            for p in operator.options
        )
        for signature in operator.signatures
    )


def _base(operator: Operator, spelling: Spelling) -> Form:
    """Return one accepted form, its options by keyword."""
    signature = operator.signatures[0]
    options = next(operator.option_choices(signature))
    return Form(
        "",
        operator,
        spelling,
        tuple(operand(item) for item in signature.operands if item is not None),
        tuple((p.name, Literal(options[p.name])) for p in operator.options),
    )


def wrong_operands(operator: Operator, spelling: Spelling) -> Iterator[Form]:
    """Every other combination of operand types, optional tensors left out included."""
    base = replace(_base(operator, spelling), kind="operands")
    types = {operand(tensor_type): tensor_type for tensor_type in TENSOR_TYPES}
    accepted_operands = {signature.operands for signature in operator.signatures}
    required = sum(not parameter.optional for parameter in operator.tensor_parameters)
    total = len(operator.tensor_parameters)
    for count in range(required, total + 1):
        for arguments in product(_OPERANDS, repeat=count):
            if spelling.kind == "method" and arguments[0] not in types:
                continue
            if spelling.kind == "operator" and not any(a in types for a in arguments):
                continue
            as_types = tuple(types.get(argument) for argument in arguments)
            fits = all(
                argument in types or (argument == Literal(None) and parameter.optional)
                for argument, parameter in zip(arguments, operator.tensor_parameters, strict=False)
            )
            if fits and (*as_types, *(None,) * (total - count)) in accepted_operands:
                continue
            yield replace(base, arguments=arguments)


def wrong_options(operator: Operator, spelling: Spelling) -> Iterator[Form]:
    """Every other combination of option values by keyword, options left out included."""
    parameters = (*operator.options, *spelling.fixed)
    if not parameters or spelling.kind == "operator":
        return
    choices = [[(), *((value,) for value in _VALUES)] for _ in parameters]
    operands_seen = dict.fromkeys(signature.operands for signature in operator.signatures)
    for operands, given in product(operands_seen, product(*choices)):
        options: dict[str, object] = {}
        complete = True
        for p, value in zip(parameters, given, strict=True):
            options[p.name] = value[0] if value else p.default
            complete &= bool(value) or p.default is not REQUIRED
        fixed_ok = all(_same(options[p.name], p.default) for p in spelling.fixed)
        if complete and fixed_ok and _accepts(operator, operands, options):
            continue
        yield Form(
            "options",
            operator,
            spelling,
            tuple(operand(item) for item in operands if item is not None),
            tuple(
                (p.name, Literal(value[0]))
                for p, value in zip(parameters, given, strict=True)
                if value
            ),
        )


def wrong_positional_options(operator: Operator, spelling: Spelling) -> Iterator[Form]:
    """Options by position: wrong literals, bools and strings, and values of the run time."""
    base = replace(_base(operator, spelling), kind="positional option")
    if spelling.kind == "operator":
        return
    signature = operator.signatures[0]
    if None in signature.operands:
        return
    values: list[Argument] = [
        *(Literal(value) for value in _VALUES),
        Literal(0.5),
        Operand("int"),
        Operand("bool"),
        Operand("float"),
        operand(TENSOR_TYPES[0]),
    ]
    good = next(operator.option_choices(signature))
    for index, p in enumerate(operator.options):
        head = tuple(Literal(good[other.name]) for other in operator.options[:index])
        tail = tuple(
            (other.name, Literal(good[other.name])) for other in operator.options[index + 1 :]
        )
        for value in values:
            if (
                p.positional
                and isinstance(value, Literal)
                and not isinstance(value.value, float)
                and _is_literal_by_position(value.value)
                and _accepts(operator, signature.operands, {**good, p.name: value.value})
            ):
                continue
            yield replace(base, arguments=(*base.arguments, *head, value), keywords=tail)
    for _ in spelling.fixed:
        head = tuple(Literal(good[other.name]) for other in operator.options)
        for value in values:
            yield replace(base, arguments=(*base.arguments, *head, value), keywords=())


def wrong_arity(operator: Operator, spelling: Spelling) -> Iterator[Form]:
    """Too few and too many arguments."""
    if spelling.kind == "operator":
        return
    base = replace(_base(operator, spelling), kind="arity")
    required = sum(not parameter.optional for parameter in operator.tensor_parameters)
    for count in range(1 if spelling.kind == "method" else 0, required):
        yield replace(base, arguments=base.arguments[:count])
        yield replace(base, arguments=base.arguments[:count], keywords=())
    positional = sum(p.positional for p in (*operator.parameters, *spelling.fixed))
    for extra in (Literal(1), Literal(None), Operand("int"), *base.arguments[:1]):
        for more in (1, 2):
            missing = positional - len(base.arguments) + more
            yield replace(base, arguments=(*base.arguments, *(extra,) * missing), keywords=())


def duplicates(operator: Operator, spelling: Spelling) -> Iterator[Form]:
    """An argument given twice: by position and keyword, or by keyword twice."""
    if spelling.kind == "operator":
        return
    base = replace(_base(operator, spelling), kind="duplicate")
    for p in operator.tensor_parameters[: len(base.arguments)]:
        yield replace(base, keywords=(*base.keywords, (p.name, Literal(None))))
    by_keyword = dict(base.keywords)
    by_keyword |= {p.name: Literal(p.default) for p in spelling.fixed}
    for name, value in by_keyword.items():
        keywords = tuple((other, by_keyword[other]) for other in by_keyword if other != name)
        yield replace(base, keywords=(*keywords, (name, value), (name, value)))
    positional: list[Argument] = list(base.arguments)
    for p in operator.options:
        value = by_keyword[p.name]
        if not p.positional or not _is_literal_by_position(value.value):
            break
        positional.append(value)
        yield replace(base, arguments=tuple(positional), keywords=((p.name, value),))


def unknown_keywords(operator: Operator, spelling: Spelling) -> Iterator[Form]:
    """Keywords that PyTorch may know and the table does not."""
    if spelling.kind == "operator":
        return
    base = replace(_base(operator, spelling), kind="unknown keyword")
    known = {p.name for p in (*operator.parameters, *spelling.fixed)}
    for name, value in _KEYWORDS:
        if name not in known:
            yield replace(base, keywords=(*base.keywords, (name, Literal(value))))


REJECTIONS = (
    wrong_operands,
    wrong_options,
    wrong_positional_options,
    wrong_arity,
    duplicates,
    unknown_keywords,
)


def rejected(operator: Operator) -> Iterator[Form]:
    """Yield every neighbouring call of an operator that must be rejected, each once."""
    for spelling in operator.spellings:
        seen = set()
        for form in (form for family in REJECTIONS for form in family(operator, spelling)):
            key = (form.expression, tuple(argument.type for argument in form.arguments))
            if key not in seen:
                seen.add(key)
                yield form
