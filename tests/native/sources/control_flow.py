import torch
import torch.nn.functional as F

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D


def repeat(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    for i in range(n):
        h = h + x
        h = h.tanh()
    return h


def while_loop(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.sigmoid()
    i = 0
    while i < n:
        h = torch.mul(h, x)
        i = i + 1
    return h


def branch(x: TensorF32Cpu2D, flag: bool) -> TensorF32Cpu2D:
    h = x.abs()
    if flag:
        h = h.sqrt()
    return h


def if_else(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n > 2:
        return x.abs()
    else:
        return x.neg()


def early_return(x: TensorF32Cpu2D, y: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.exp()
    if n == 0:
        return h
    return h @ y


def nested(x: TensorF32Cpu2D, rows: int, columns: int) -> TensorF32Cpu2D:
    h = x.square()
    for i in range(rows):
        for j in range(columns):
            if i < j:
                h = h + x
            else:
                h = h - x
    return h


def two_layers(
    x: TensorF32Cpu2D,
    w1: TensorF32Cpu2D,
    b1: TensorF32Cpu1D,
    w2: TensorF32Cpu2D,
    b2: TensorF32Cpu1D,
) -> TensorI64Cpu1D:
    hidden = F.linear(x, w1, b1).relu()
    logits = F.linear(hidden, w2, b2)
    return logits.softmax(dim=1).argmax(dim=1)


def attention(q: TensorF32Cpu2D, k: TensorF32Cpu2D, v: TensorF32Cpu2D) -> TensorF32Cpu2D:
    scores = F.linear(q, k)
    weights = torch.softmax(scores, dim=1)
    return weights @ v


def unused_result(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    wasted = x + y
    return x.relu()


def alias(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    h = x
    y = h.relu()
    return y + h


def keyword_names(match: TensorF32Cpu2D, type: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return match - type
