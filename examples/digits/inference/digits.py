"""Inference of the digits classifier, as typed functions that build natively."""

import torch.nn.functional as F

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D


def probabilities(
    images: TensorF32Cpu2D,
    weight1: TensorF32Cpu2D,
    bias1: TensorF32Cpu1D,
    weight2: TensorF32Cpu2D,
    bias2: TensorF32Cpu1D,
    weight3: TensorF32Cpu2D,
    bias3: TensorF32Cpu1D,
) -> TensorF32Cpu2D:
    hidden = F.linear(images, weight1, bias1).relu()
    hidden = F.linear(hidden, weight2, bias2).relu()
    logits = F.linear(hidden, weight3, bias3)
    return logits.softmax(dim=1)


def classify(
    images: TensorF32Cpu2D,
    weight1: TensorF32Cpu2D,
    bias1: TensorF32Cpu1D,
    weight2: TensorF32Cpu2D,
    bias2: TensorF32Cpu1D,
    weight3: TensorF32Cpu2D,
    bias3: TensorF32Cpu1D,
) -> TensorI64Cpu1D:
    hidden = F.linear(images, weight1, bias1).relu()
    hidden = F.linear(hidden, weight2, bias2).relu()
    logits = F.linear(hidden, weight3, bias3)
    return logits.argmax(dim=1)
