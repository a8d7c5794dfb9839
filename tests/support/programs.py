"""The accepted forms of the operator table as one module of functions, to build natively."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rextio_torch.ops.model import Operator, OptionValue, Signature
from rextio_torch.ops.table import OPERATORS
from support.forms import Form, Operand, accepted, module

_SYMBOLS = str.maketrans({"+": "add", "-": "sub", "*": "mul", "/": "div", "@": "matmul", ".": "_"})


@dataclass(frozen=True)
class Program:
    """A function of one operation: its source, and the row, signature and options it uses."""

    name: str
    source: str
    operator: Operator
    signature: Signature
    options: dict[str, OptionValue]


def _signature(form: Form, options: dict[str, OptionValue]) -> Signature:
    types = [item.annotation for item in form.arguments if isinstance(item, Operand)]
    for signature in form.operator.signatures:
        markers = [operand.marker for operand in signature.operands if operand is not None]
        if markers == types and form.operator.match(signature.operands, options) is signature:
            return signature
    raise AssertionError(f"no signature of {form.operator.id} for {types} and {options}")


def all_programs() -> list[Program]:
    """Return a program for each way to write each accepted call of each row."""
    programs = []
    seen: Counter[str] = Counter()
    for operator in OPERATORS:
        for form in accepted(operator):
            names = [parameter.name for parameter in operator.options]
            options = dict(zip(names, form.options, strict=True))
            signature = _signature(form, options)
            types = [operand.marker for operand in signature.operands if operand is not None]
            stem = "__".join(
                [
                    operator.id,
                    f"{form.spelling.kind}_{form.spelling.target.translate(_SYMBOLS)}",
                    "_".join(marker.removeprefix("Tensor").lower() for marker in types)
                    + "".join(f"_{k}{v}" for k, v in options.items() if k != "approximate"),
                ]
            )
            name = f"{stem}__{seen[stem]}"
            seen[stem] += 1
            programs.append(Program(name, form.function(name), operator, signature, options))
    return programs


def module_text(programs: list[Program]) -> str:
    """Return a module that holds the given programs."""
    return module(program.source for program in programs)
