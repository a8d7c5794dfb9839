import os
import sys

import rextio
import torch.nn.functional as F

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D


def score(x: TensorF32Cpu2D, weight: TensorF32Cpu2D, bias: TensorF32Cpu1D) -> TensorF32Cpu1D:
    hidden = F.linear(x, weight, bias).sigmoid()
    return hidden.mean(dim=1)


def grown(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.exp()


def largest(x: TensorF32Cpu2D, shift: TensorF32Cpu1D) -> TensorI64Cpu1D:
    shifted = x + shift
    return shifted.argmax(dim=1)


def repeated(x: TensorF32Cpu2D, y: TensorF32Cpu2D, n: int, flag: bool) -> TensorF32Cpu2D:
    h = x @ y
    for i in range(n):
        h = h.tanh() + x
    if flag:
        h = h.exp()
    return h


def told(n: int) -> int:
    if n == 98 and "_rextio_native" in sys.modules:
        os.abort()
    if n == 97 and "_rextio_native" in sys.modules:
        return 2
    return 1


@rextio.native
def asking(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    y = x.relu()
    k = told(n)
    if k > 1:
        y = y.tanh()
    return y.neg()
