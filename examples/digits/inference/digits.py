"""Inference of the digits classifier: ordinary typed functions that build natively."""

import torch

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D

#: The dimension of the classes.
CLASSES = -1


def layer(x: TensorF32Cpu2D, weight: TensorF32Cpu2D, bias: TensorF32Cpu1D) -> TensorF32Cpu2D:
    """Return a linear layer's output."""
    return x @ weight.T + bias


def logits(
    images: TensorF32Cpu2D,
    weight1: TensorF32Cpu2D,
    bias1: TensorF32Cpu1D,
    weight2: TensorF32Cpu2D,
    bias2: TensorF32Cpu1D,
    weight3: TensorF32Cpu2D,
    bias3: TensorF32Cpu1D,
) -> TensorF32Cpu2D:
    """Return one number for each image and class."""
    x = layer(images, weight1, bias1).relu()
    x = layer(x, weight2, bias2).relu()
    return layer(x, weight3, bias3)


@torch.inference_mode()
def probabilities(
    images: TensorF32Cpu2D,
    weight1: TensorF32Cpu2D,
    bias1: TensorF32Cpu1D,
    weight2: TensorF32Cpu2D,
    bias2: TensorF32Cpu1D,
    weight3: TensorF32Cpu2D,
    bias3: TensorF32Cpu1D,
) -> TensorF32Cpu2D:
    """Return the probability of each class for each image."""
    x = logits(images, weight1, bias1, weight2, bias2, weight3, bias3)
    return x.softmax(dim=CLASSES)


@torch.inference_mode()
def classify(
    images: TensorF32Cpu2D,
    weight1: TensorF32Cpu2D,
    bias1: TensorF32Cpu1D,
    weight2: TensorF32Cpu2D,
    bias2: TensorF32Cpu1D,
    weight3: TensorF32Cpu2D,
    bias3: TensorF32Cpu1D,
) -> TensorI64Cpu1D:
    """Return the most probable class of each image."""
    x = logits(images, weight1, bias1, weight2, bias2, weight3, bias3)
    return x.argmax(dim=CLASSES)
