"""Rextio's certification kit, `rextio.plugins.testing`, on every call that the table accepts.

The kit runs a function natively and on its Python fallback, on copies of the same arguments, and
compares results and what became of the arguments. It refuses functions that are not native. It
also compares messages of exceptions, which differ here on purpose: ours name the operation and
both shapes. So it gets arguments that fit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch
from rextio.plugins.testing import CertificationError, CertifiedProject
from support.engines import running_on
from support.inputs import bits, contiguous
from support.programs import Program, all_programs

from rextio_torch.ops.model import same_literal
from rextio_torch.ops.table import OPERATORS


def _same_bits(left: object, right: object) -> bool:
    if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)):
        return left == right
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and torch.equal(bits(left), bits(right))
    )


@pytest.fixture
def loaded(native_project) -> Iterator[None]:
    """Put back the native modules, which the kit takes out of `sys.modules`."""
    native_project.native("boundary").vector(torch.zeros(1))
    native_project.native("surface")
    kept = {name: sys.modules[name] for name in ("_rextio_native", "surface")}
    with running_on("libtorch"):
        yield
        sys.modules.update(kept)


def _certify(native_project, program: Program) -> int:
    checker = CertifiedProject(native_project.path).equivalence_checker(
        f"surface.{program.name}", equals=_same_bits, args_equals=_same_bits
    )
    cases = 0
    for sample in program.operator.samples(program.signature):
        if all(same_literal(program.options[key], value) for key, value in sample.options.items()):
            shapes = [shape for shape in sample.shapes if shape is not None]
            checker(*(contiguous(shape, "normal") for shape in shapes))
            cases += 1
    return cases


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.id)
def test_certified(native_project, operator) -> None:
    """The libtorch engine, whose results have eager's bits."""
    programs = [program for program in all_programs() if program.operator is operator]
    # One way to write each signature and choice of options: the kit imports at each call.
    chosen = {str((program.signature, program.options)): program for program in programs}
    for program in chosen.values():
        assert _certify(native_project, program) > 0


def test_the_kit_refuses_what_is_not_native(native_project) -> None:
    with pytest.raises(CertificationError, match="not natively served"):
        CertifiedProject(native_project.path).equivalence_checker("callbacks.note")
