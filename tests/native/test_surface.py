"""Every row, spelling and option natively, for every layout and value kind, on every engine."""

from __future__ import annotations

import pytest
import torch
from support.engines import Oracle
from support.inputs import LAYOUTS, VALUE_KINDS, contiguous, shared_input, storage_bits
from support.programs import Program, all_programs

from rextio_torch.ops.model import Sample, same_literal
from rextio_torch.ops.table import OPERATORS

PROGRAMS = all_programs()
pytestmark = pytest.mark.usefixtures("variant")
#: The same inputs come once for each engine and instruction set.
ORACLES: dict[object, Oracle] = {}


def _fits(sample: Sample, program: Program) -> bool:
    return all(same_literal(program.options[name], value) for name, value in sample.options.items())


def _operand_layouts(operands: int) -> list[tuple[str, ...]]:
    """Each layout for all operands at once, and for each operand beside contiguous ones."""
    choices = [tuple([layout] * operands) for layout in LAYOUTS]
    if operands > 1:
        for position in range(operands):
            for layout in LAYOUTS:
                choice = ["contiguous"] * operands
                choice[position] = layout
                choices.append(tuple(choice))
    return list(dict.fromkeys(choices))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_equal_to_eager(native_project, program: Program) -> None:
    native, eager = native_project.pair(f"surface.{program.name}")
    cases = 0
    for sample in program.operator.samples(program.signature):
        if not _fits(sample, program):
            continue
        shapes = [shape for shape in sample.shapes if shape is not None]
        for layouts in _operand_layouts(len(shapes)):
            for kind in VALUE_KINDS:
                inputs = [
                    shared_input(layout, shape, kind)
                    for layout, shape in zip(layouts, shapes, strict=True)
                ]
                arguments = [tensor for tensor, _ in inputs]
                result = native(*arguments)
                what = (program.name, tuple(shapes), layouts, kind)
                if what not in ORACLES:
                    ORACLES[what] = Oracle(eager, arguments, program.operator)
                ORACLES[what].check(result, what)
                assert not result.requires_grad
                assert all(torch.equal(storage_bits(t), before) for t, before in inputs), what
                cases += 1
    assert cases >= 3 * len(LAYOUTS)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.id)
def test_results_never_require_grad(native_project, operator) -> None:
    for program in (program for program in PROGRAMS if program.operator is operator):
        native, _ = native_project.pair(f"surface.{program.name}")
        sample = next(s for s in operator.samples(program.signature) if _fits(s, program))
        arguments = [
            contiguous(shape, "normal").requires_grad_()
            for shape in sample.shapes
            if shape is not None
        ]
        result = native(*arguments)
        assert not result.requires_grad
        assert result.grad_fn is None
        assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("operator", "sample"),
    [(operator, sample) for operator in OPERATORS for sample in operator.error_samples],
    ids=lambda value: getattr(value, "id", None) or str(value.shapes),
)
def test_shape_errors_have_eagers_class_and_the_tables_words(
    native_project, operator, sample
) -> None:
    """Native code raises what the row's shape rule says, and eager raises the same class."""
    with pytest.raises(Exception) as expected:  # noqa: PT011
        operator.shape_rule(operator.id, sample.shapes, sample.options)
    ranks = tuple(None if shape is None else len(shape) for shape in sample.shapes)
    ran = 0
    for program in PROGRAMS:
        if program.operator is not operator or not _fits(sample, program):
            continue
        if program.signature.ranks != ranks:
            continue
        native, eager = native_project.pair(f"surface.{program.name}")
        arguments = [contiguous(shape, "normal") for shape in sample.shapes if shape is not None]
        with pytest.raises(Exception) as eagers:  # noqa: PT011
            eager(*arguments)
        with pytest.raises(type(eagers.value)) as natives:
            native(*arguments)
        assert type(natives.value) is type(eagers.value)
        assert type(eagers.value).__name__ == expected.value.exception
        assert str(natives.value) == str(expected.value)
        ran += 1
    assert ran
