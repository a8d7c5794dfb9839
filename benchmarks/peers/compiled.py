"""torch.compile, as it comes and told that sizes do not change, and with weights held.

It runs under `inference_mode`, entered once around the calls, which makes it a little faster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from benchmarks.contender import Peer, Setting
from benchmarks.peers.held import Held, fresh
from rextio_torch.bench.contender import Contender, calling


@cache
def _shared(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """One compiled function for all sizes of a program, as a caller would have it."""
    return torch.compile(fresh(function))


def _default(setting: Setting) -> Contender:
    return calling(_shared(setting.eager), *setting.arguments, context=torch.inference_mode)


def _static(setting: Setting) -> Contender:
    function = torch.compile(fresh(setting.eager), dynamic=False)
    return calling(function, *setting.arguments, context=torch.inference_mode)


def _constants(setting: Setting) -> Contender:
    module = torch.compile(Held(fresh(setting.eager), setting.weights), dynamic=False)
    return calling(module, *setting.inputs, context=torch.inference_mode)


def _frozen(setting: Setting) -> Contender:
    import torch._inductor.config as config

    module = torch.compile(Held(fresh(setting.eager), setting.weights), dynamic=False)
    with config.patch(freezing=True), torch.inference_mode():
        # Compiled here and now, since the setting counts at that moment.
        module(*setting.inputs)
    return calling(module, *setting.inputs, context=torch.inference_mode)


PEERS = (
    Peer("compile", _default, slow=True),
    Peer("compile-static", _static, slow=True),
    Peer("compile-constants", _constants, constants=True, slow=True),
    Peer("compile-frozen", _frozen, constants=True, slow=True),
)
