"""A contender: something that can be timed."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

from rextio_torch.runtime.native import configure

#: Runs so many calls and returns the seconds that they took.
Sampler: TypeAlias = Callable[[int], float]


@dataclass(frozen=True)
class Contender:
    """A prepared contender: how to run it once, how to time it, and under which context."""

    call: Callable[[], Any]
    sample: Sampler
    context: Callable[[], AbstractContextManager[Any]] = nullcontext


def calling(
    function: Callable[..., Any],
    *arguments: object,
    context: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Contender:
    """Return the contender that calls a function, timed without a wrapper around the call."""
    names = [f"a{number}" for number in range(len(arguments))]
    timer = timeit.Timer(
        f"function({', '.join(names)})",
        globals={"function": function, **dict(zip(names, arguments, strict=True))},
    )
    return Contender(lambda: function(*arguments), timer.timeit, context)


def running(engine: str, simd: str) -> Callable[[], AbstractContextManager[None]]:
    """Return a context in which native functions run on an engine; outside of it, on fused."""

    @contextmanager
    def context() -> Iterator[None]:
        configure(engine, simd)
        try:
            yield
        finally:
            configure("fused", simd)

    return context
