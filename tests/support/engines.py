"""The engines and instruction sets that native tests run on, and how results are judged on each.

What a result must be is what `rextio-torch verify` asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import pytest
import torch

from rextio_torch.ops.model import Operator
from rextio_torch.runtime.native import configure, engine
from rextio_torch.verify.judgement import Expectation
from rextio_torch.verify.oracle import expect
from support.native import NativeProject

VARIANTS = ("libtorch", "fused-avx512", "fused-avx2", "fused-portable")
#: The engine that runs now, last: asking the library for each result would take longer.
RUNNING = ["fused"]


def is_available(variant: str) -> bool:
    """Whether this machine has the instruction set of a variant; needs a loaded native module."""
    simd = variant.partition("-")[2]
    return not simd or simd in _available_simd()


@cache
def _available_simd() -> tuple[str, ...]:
    return engine().available_simd


@contextmanager
def running_on(variant: str) -> Iterator[None]:
    """Run native functions on an engine and instruction set."""
    name, _, simd = variant.partition("-")
    configure(name, simd or _available_simd()[0])
    RUNNING.append(name)
    try:
        yield
    finally:
        RUNNING.pop()
        configure("fused", _available_simd()[0])


@pytest.fixture(params=VARIANTS, scope="module")
def variant(request: pytest.FixtureRequest, native_project: NativeProject) -> Iterator[str]:
    """Run the tests of a module on each engine and instruction set that this machine has."""
    native_project.native("boundary").vector(torch.zeros(1))
    chosen: str = request.param
    if not is_available(chosen):
        pytest.skip(f"this machine has {', '.join(engine().available_simd)}, not {chosen}")
    with running_on(chosen):
        yield chosen


class Oracle:
    """What a result must be on each engine."""

    def __init__(
        self, eager: Callable[..., torch.Tensor], arguments: list[object], operator: Operator | None
    ) -> None:
        self.expectation: Expectation = expect(eager, arguments, operator)

    def check(self, result: torch.Tensor, what: object) -> None:
        """Assert that a result is right on the engine that computed it."""
        judgement = self.expectation.judge(result, exactly=RUNNING[-1] == "libtorch")
        assert judgement.problem is None, (what, judgement.problem)


def assert_agrees(
    result: torch.Tensor,
    eager: Callable[..., torch.Tensor],
    arguments: list[object],
    operator: Operator | None = None,
    what: object = "",
) -> None:
    """Assert that a native result is right on the engine that computed it."""
    Oracle(eager, arguments, operator).check(result, what)
