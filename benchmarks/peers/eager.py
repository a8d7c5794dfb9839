"""Eager PyTorch: the reference."""

from __future__ import annotations

import torch

from benchmarks.contender import Peer, Setting
from rextio_torch.bench.contender import Contender, calling


def _plain(setting: Setting) -> Contender:
    return calling(setting.eager, *setting.arguments)


def _inference(setting: Setting) -> Contender:
    return calling(setting.eager, *setting.arguments, context=torch.inference_mode)


PEERS = (
    Peer("eager", _plain),
    Peer("inference", _inference),
)
