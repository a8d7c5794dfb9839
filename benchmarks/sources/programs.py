# Rextio keeps a function with a docstring on Python, so these have none.
# ruff: noqa: D100, D103

import torch.nn.functional as F

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D


def linear_relu_mean(
    x: TensorF32Cpu2D, weight: TensorF32Cpu2D, bias: TensorF32Cpu1D
) -> TensorF32Cpu1D:
    hidden = F.linear(x, weight, bias).relu()
    return hidden.mean(dim=1)


def classifier(x: TensorF32Cpu2D, weight: TensorF32Cpu2D, bias: TensorF32Cpu1D) -> TensorI64Cpu1D:
    return F.linear(x, weight, bias).argmax(dim=1)


def mlp(
    x: TensorF32Cpu2D,
    weight1: TensorF32Cpu2D,
    bias1: TensorF32Cpu1D,
    weight2: TensorF32Cpu2D,
    bias2: TensorF32Cpu1D,
    weight3: TensorF32Cpu2D,
    bias3: TensorF32Cpu1D,
) -> TensorF32Cpu2D:
    first = F.linear(x, weight1, bias1).relu()
    second = F.linear(first, weight2, bias2).relu()
    return F.linear(second, weight3, bias3)


def attention(q: TensorF32Cpu2D, k: TensorF32Cpu2D, v: TensorF32Cpu2D) -> TensorF32Cpu2D:
    scores = F.linear(q, k)
    return scores.softmax(dim=1) @ v


def chain(a: TensorF32Cpu2D, b: TensorF32Cpu2D) -> TensorF32Cpu2D:
    product = (a + b) * a
    difference = product.tanh().exp() - b
    return difference.sigmoid() * a
