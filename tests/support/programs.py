"""Python functions derived from the operator table: one for each way to write each operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from rextio_torch.ops.model import Operator, OptionValue, Signature, Spelling
from rextio_torch.ops.table import OPERATORS

#: Imports that the texts of `call_text` need.
HEADER = """\
import torch

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D
"""


@dataclass(frozen=True)
class Program:
    """A function of one operation: its source, and the row, signature and options it uses."""

    name: str
    source: str
    operator: Operator
    spelling: Spelling
    signature: Signature
    options: dict[str, OptionValue]


def call_text(
    spelling: Spelling, tensors: list[str | None], options: list[str], *, keep_none: bool = False
) -> str:
    """Return a call with the given texts of tensors and options.

    `keep_none` writes a trailing optional tensor as `None` instead of leaving it out.
    """
    if spelling.kind == "operator":
        return f"{tensors[0]} {spelling.target} {tensors[1]}"
    written = [text if text is not None else "None" for text in tensors]
    if not keep_none:
        while tensors[len(written) - 1] is None:
            written.pop()
    if spelling.kind == "method":
        return f"{written[0]}.{spelling.target}({', '.join([*written[1:], *options])})"
    return f"{spelling.target}({', '.join([*written, *options])})"


def function_text(name: str, operands: dict[str, str], result: str, body: str) -> str:
    """Return a function whose body is one expression."""
    parameters = ", ".join(f"{operand}: {marker}" for operand, marker in operands.items())
    return f"def {name}({parameters}) -> {result}:\n    return {body}\n"


def _option_texts(
    operator: Operator, options: dict[str, OptionValue], positional: int
) -> list[str] | None:
    """Write options, the first `positional` ones by position, the rest by keyword.

    Returns `None` if that cannot be written: a bool by position is no literal to Rextio.
    """
    texts = []
    for index, parameter in enumerate(operator.options):
        value = options[parameter.name]
        if index < positional:
            if not parameter.positional or isinstance(value, bool):
                return None
            texts.append(repr(value))
        else:
            texts.append(f"{parameter.name}={value!r}")
    return texts


def programs_of(operator: Operator) -> Iterator[Program]:
    """Yield a program for each spelling, signature, option value and way to write options."""
    for spelling in operator.spellings:
        for signature in operator.signatures:
            tensors = [
                parameter.name if operand is not None else None
                for parameter, operand in zip(
                    operator.tensor_parameters, signature.operands, strict=True
                )
            ]
            markers = {
                parameter.name: operand.marker
                for parameter, operand in zip(
                    operator.tensor_parameters, signature.operands, strict=True
                )
                if operand is not None
            }
            for options in operator.option_choices(signature):
                calls: list[str] = []
                if spelling.kind == "operator":
                    calls.append(call_text(spelling, tensors, []))
                else:
                    defaults = [
                        f"{p.name}={options[p.name]!r}"
                        for p in operator.options
                        if not (p.default == options[p.name] and p.default is not None)
                    ]
                    calls.append(call_text(spelling, tensors, defaults))
                    for positional in range(len(operator.options) + 1):
                        texts = _option_texts(operator, options, positional)
                        if texts is not None:
                            calls.append(call_text(spelling, tensors, texts))
                    fixed = [f"{p.name}={p.default!r}" for p in spelling.fixed]
                    if fixed:
                        calls.append(call_text(spelling, tensors, [*defaults, *fixed]))
                    if None in tensors:
                        calls.append(call_text(spelling, tensors, defaults, keep_none=True))
                        calls.append(
                            call_text(
                                spelling,
                                [text for text in tensors if text is not None],
                                [
                                    f"{parameter.name}=None"
                                    for parameter, text in zip(
                                        operator.tensor_parameters, tensors, strict=True
                                    )
                                    if text is None
                                ],
                            )
                        )
                for index, call in enumerate(dict.fromkeys(calls)):
                    label = spelling.target.replace(".", "_").translate(_SYMBOLS)
                    types = "_".join(m.removeprefix("Tensor").lower() for m in markers.values())
                    values = "".join(f"_{k}{v}" for k, v in options.items() if k != "approximate")
                    name = f"{operator.id}__{spelling.kind}_{label}__{types}{values}__{index}"
                    yield Program(
                        name=name,
                        source=function_text(name, markers, signature.result.marker, call),
                        operator=operator,
                        spelling=spelling,
                        signature=signature,
                        options=options,
                    )


_SYMBOLS = str.maketrans({"+": "add", "-": "sub", "*": "mul", "/": "div", "@": "matmul"})


def all_programs() -> list[Program]:
    """Return the programs of every row of the table."""
    return list(chain.from_iterable(programs_of(operator) for operator in OPERATORS))


def module_text(programs: list[Program]) -> str:
    """Return a module that holds the given programs."""
    return "\n\n".join([HEADER, *(program.source for program in programs)])
