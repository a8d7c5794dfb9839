"""The accepted forms of the operator table as one module of functions, to build natively."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from rextio_torch.ops.model import Operator, Options, Signature
from rextio_torch.ops.table import OPERATORS
from support.forms import Form, accepted, module

_SYMBOLS = str.maketrans({"+": "add", "-": "sub", "*": "mul", "/": "div", "@": "matmul", ".": "_"})


@dataclass(frozen=True)
class Program:
    """A function of one operation: its name and the form that it returns."""

    name: str
    form: Form

    @property
    def operator(self) -> Operator:
        return self.form.operator

    @property
    def signature(self) -> Signature:
        assert self.form.signature is not None
        return self.form.signature

    @property
    def options(self) -> Options:
        return self.form.options


@cache
def all_programs() -> tuple[Program, ...]:
    """Return a program for each way to write each accepted call of each row."""
    programs = []
    seen: Counter[str] = Counter()
    for operator in OPERATORS:
        chosen = [parameter.name for parameter in operator.runtime_options]
        for form in accepted(operator):
            assert form.signature is not None
            types = [item.marker for item in form.signature.operands if item is not None]
            stem = "__".join(
                [
                    operator.id,
                    f"{form.spelling.kind}_{form.spelling.target.translate(_SYMBOLS)}",
                    "_".join(marker.removeprefix("Tensor").lower() for marker in types)
                    + "".join(f"_{name}{form.options[name]}" for name in chosen),
                ]
            )
            programs.append(Program(f"{stem}__{seen[stem]}", form))
            seen[stem] += 1
    return tuple(programs)


def find(operator: str, *ranks: int | None, **options: object) -> str:
    """Return the name `module.function` of a program: the first with these ranks and options."""
    return "surface." + next(
        program.name
        for program in all_programs()
        if program.operator.id == operator
        and program.signature.ranks == ranks
        and options.items() <= program.options.items()
    )


def module_text(programs: Iterable[Program]) -> str:
    """Return a module that holds the given programs."""
    return module(program.form.function(program.name) for program in programs)
