"""This project: the libtorch engine, and the fused engine through the wrapper and direct."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from benchmarks.contender import Contender, Peer, Setting, calling
from rextio_torch import native
from rextio_torch.runtime.native import configure


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


def _libtorch(setting: Setting) -> Contender:
    context = running("libtorch", setting.simd)
    return calling(native(setting.built), *setting.arguments, context=context)


def _wrapper(setting: Setting) -> Contender:
    return calling(setting.built, *setting.arguments, context=running("fused", setting.simd))


def _direct(setting: Setting) -> Contender:
    context = running("fused", setting.simd)
    return calling(native(setting.built), *setting.arguments, context=context)


PEERS = (
    Peer("libtorch", _libtorch),
    Peer("fused-wrapper", _wrapper),
    Peer("fused-direct", _direct),
)
