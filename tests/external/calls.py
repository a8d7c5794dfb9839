"""Calls that other people's test suites make, and what becomes of each.

A suite gives cases: an operator of the table, values, and what eager or the suite expects. Each
case is written in every spelling of the operator. Rextio's analyser says which calls are native;
those run on every engine of this machine. Where a tensor is of a type that no annotation names,
the operator's native functions must refuse it at the boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal as OneOf

import torch
from support.analysis import Analysis, analyse
from support.engines import VARIANTS, Oracle, is_available, running_on
from support.forms import Form, Literal, Operand, module
from support.inputs import bits
from support.native import NativeProject
from support.programs import Program, all_programs

from rextio_torch.analysis.decide import Call, decide
from rextio_torch.ops.model import Operator, Spelling
from rextio_torch.ops.tensor_types import TENSOR_TYPES, TensorType

_TYPES = {(getattr(torch, item.dtype), item.device, item.rank): item for item in TENSOR_TYPES}


@dataclass(frozen=True)
class Case:
    """One call that a suite makes. `expected` is a result, or the class of an exception.

    `tolerance` (relative, absolute) is the suite's own; without one, results are judged by the
    operator's row alone. `outside` says why a case cannot be written as a call of the operator.
    """

    name: str
    operator: Operator
    arguments: tuple[object, ...]
    keywords: Mapping[str, object] = field(default_factory=dict)
    expected: torch.Tensor | type[BaseException] | None = None
    tolerance: tuple[float, float] | None = None
    outside: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a call, and the code, exception class or reason that goes with it."""

    kind: OneOf["passed", "refused", "boundary", "not covered", "outside", "failed"]
    detail: str = ""
    call: str = ""


def tensor_type(value: torch.Tensor) -> TensorType | None:
    """Return the type that an annotation can state for a tensor, if there is one."""
    if value.layout is not torch.strided:
        return None
    return _TYPES.get((value.dtype, value.device.type, value.dim()))


def _tensors(case: Case) -> list[torch.Tensor]:
    values = (*case.arguments, *case.keywords.values())
    return [value for value in values if isinstance(value, torch.Tensor)]


def _fits(spelling: Spelling, case: Case) -> bool:
    return spelling.kind != "operator" or (len(case.arguments) == 2 and not case.keywords)


def _form(case: Case, spelling: Spelling) -> Form:
    """Return the case as a call: its tensors are parameters, its other values literals."""

    def argument(value: object) -> Operand | Literal:
        if isinstance(value, torch.Tensor):
            annotated = tensor_type(value)
            assert annotated is not None
            return Operand(annotated.marker)
        return Literal(value)  # type: ignore[arg-type]

    keywords = []
    for name, value in case.keywords.items():
        written = argument(value)
        assert isinstance(written, Literal), "no suite gives a tensor by keyword"
        keywords.append((name, written))
    arguments = tuple(argument(value) for value in case.arguments)
    form = Form("external", case.operator, spelling, arguments, tuple(keywords))
    decision = decide(form.site())
    # The result's annotation comes from the signature.
    return replace(form, signature=decision.signature) if isinstance(decision, Call) else form


@cache
def _programs() -> dict[tuple[str, Spelling, object], Program]:
    found: dict[tuple[str, Spelling, object], Program] = {}
    for program in all_programs():
        found.setdefault(_key(program.form.site(), program.form.spelling), program)
    return found


def _key(site: object, spelling: Spelling) -> tuple[str, Spelling, object]:
    call = decide(site)  # type: ignore[arg-type]
    assert isinstance(call, Call)
    return (
        call.operator.id,
        spelling,
        (call.signature.operands, tuple(sorted(call.options.items()))),
    )


class Suite:
    """The cases of one suite, analysed together and run."""

    def __init__(self, project: NativeProject, cases: Iterable[Case], folder: Path) -> None:
        self.project = project
        project.native("boundary").vector(torch.zeros(1))
        self.variants = [variant for variant in VARIANTS if is_available(variant)]
        self.cases = list(cases)
        #: What the last case must give: large samples take a second, and each spelling has them.
        self.judged: tuple[Case, Oracle] | None = None
        self.forms: list[tuple[Case, Form]] = []
        for case in self.cases:
            if case.outside is None and all(tensor_type(value) for value in _tensors(case)):
                for spelling in case.operator.spellings:
                    if _fits(spelling, case):
                        self.forms.append((case, _form(case, spelling)))
        texts = dict.fromkeys(form.function("call") for _, form in self.forms)
        # A file for each: one call that Rextio does not compile can keep its whole file on Python.
        self.modules = {text: f"call_{number}" for number, text in enumerate(texts)}
        self.analysis: Analysis = analyse(
            folder, {name: module([text]) for text, name in self.modules.items()}
        )

    def outcomes(self) -> Iterator[tuple[Case, Outcome]]:
        """Yield what becomes of each call of each case."""
        for case in self.cases:
            if case.outside is not None:
                yield case, Outcome("outside", case.outside)
            elif not all(tensor_type(value) for value in _tensors(case)):
                yield case, self._guarded(case, "", lambda case=case: self._boundary(case))
        for case, form in self.forms:
            yield (
                case,
                self._guarded(
                    case, form.expression, lambda case=case, form=form: self._call(case, form)
                ),
            )

    def _guarded(self, case: Case, call: str, outcome: Callable[[], Outcome]) -> Outcome:
        try:
            return replace(outcome(), call=call)
        except Exception as error:
            return Outcome("failed", f"{case.name}: {call}: {error!r}"[:500], call)

    def _call(self, case: Case, form: Form) -> Outcome:
        name = f"{self.modules[form.function('call')]}.call"
        if self.analysis.native(name):
            self._run(case, form)
            return Outcome("passed")
        assert form.signature is None, "the table accepts it, Rextio keeps it on Python"
        codes = self.analysis.codes(name)
        own = [code for code in codes if code == case.operator.diagnostic.code]
        if own:
            return Outcome("refused", own[0])
        return Outcome("not covered", ", ".join(dict.fromkeys(codes)))

    def _run(self, case: Case, form: Form) -> None:
        """Require that the native function gives what eager gives, on every engine."""
        program = _programs()[_key(form.site(), form.spelling)]
        native, eager = self.project.pair(f"surface.{program.name}")
        arguments: list[object] = list(_tensors(case))
        before = [bits(tensor) for tensor in _tensors(case)]
        if isinstance(case.expected, type):
            for variant in self.variants:
                with running_on(variant):
                    assert _raised(native, arguments) is case.expected
            return
        if self.judged is None or self.judged[0] is not case:
            oracle = Oracle(eager, arguments, case.operator)  # type: ignore[arg-type]
            if case.expected is not None:
                _require_close(oracle.expectation.expected, case)
            self.judged = case, oracle
        for variant in self.variants:
            with running_on(variant):
                result = native(*arguments)
                assert isinstance(result, torch.Tensor)
                self.judged[1].check(result, variant)
                if case.tolerance is not None:
                    _require_close(result, case)
        assert all(
            torch.equal(bits(tensor), old)
            for tensor, old in zip(_tensors(case), before, strict=True)
        )

    def _boundary(self, case: Case) -> Outcome:
        """Require that every native function of the operator refuses the values."""
        named = [parameter.name for parameter in case.operator.tensor_parameters]
        given = dict(zip(named, case.arguments, strict=False))
        calls: list[tuple[Program, Sequence[object]]] = []
        for signature in case.operator.signatures:
            absent = {
                name
                for name, operand in zip(named, signature.operands, strict=True)
                if operand is None
            }
            if not absent & set(given):
                values = [given.get(name) for name in named if name not in absent]
                programs = (p for p in _programs().values() if p.signature is signature)
                calls += [(program, values) for program in programs]
        raised = set()
        # Switching takes longer than a call.
        for variant in self.variants:
            with running_on(variant):
                for program, values in calls:
                    native, _ = self.project.pair(f"surface.{program.name}")
                    error = _raised(native, values)
                    assert error in (TypeError, ValueError), (program.name, error)
                    raised.add(error.__name__)
        assert raised, "no native function takes these operands"
        return Outcome("boundary", ", ".join(sorted(raised)))


def _raised(native: Callable[..., object], values: Sequence[object]) -> type[BaseException] | None:
    try:
        native(*values)
    except Exception as error:
        return type(error)
    return None


def _require_close(result: torch.Tensor, case: Case) -> None:
    relative, absolute = case.tolerance or (0.0, 0.0)
    torch.testing.assert_close(result, case.expected, rtol=relative, atol=absolute, equal_nan=True)
