import rextio
import torch

from rextio_torch.types import TensorF32Cpu2D

SEEN = []
HOOKS = []


def note(n: int) -> int:
    SEEN.append((n, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
    if n < 0:
        raise LookupError("negative")
    for hook in HOOKS:
        hook()
    return n + 1


@rextio.native
def with_callback(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    y = x.relu()
    k = note(n)
    if k > 1:
        y = y.tanh()
    return y @ x


@rextio.native
def with_hook(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    y = x.relu()
    k = note(n)
    return y + x
