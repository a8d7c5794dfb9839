"""This project: the libtorch engine, and the fused engine through the wrapper and direct."""

from __future__ import annotations

from benchmarks.contender import Peer, Setting
from rextio_torch import native
from rextio_torch.bench.contender import Contender, calling, running


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
