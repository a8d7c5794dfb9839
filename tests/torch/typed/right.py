"""Annotated functions as people write them: to a type checker every marker is torch.Tensor."""

from typing import assert_type

import torch
import torch.nn.functional as F

from rextio_torch import types
from rextio_torch.types import (
    TensorF32Cpu1D,
    TensorF32Cpu2D,
    TensorF32Cuda0_1D,
    TensorF32Cuda0_2D,
    TensorI64Cpu1D,
)


def hidden(x: TensorF32Cpu2D, weight: TensorF32Cpu2D, bias: TensorF32Cpu1D) -> TensorF32Cpu2D:
    assert_type(x, torch.Tensor)
    h = F.linear(x, weight, bias)
    assert_type(h, torch.Tensor)
    return torch.relu(h)


def classify(x: types.TensorF32Cpu2D) -> TensorI64Cpu1D:
    h = x @ x + x
    return h.softmax(dim=1).argmax(dim=1)


def use(data: torch.Tensor, parameter: torch.nn.Parameter) -> list[float]:
    h = hidden(data, parameter, torch.ones(3))
    assert_type(h, torch.Tensor)
    labels: torch.Tensor = classify(h)
    values: list[float] = labels.tolist()
    return values


def chain(
    x: TensorF32Cuda0_2D, weight: TensorF32Cuda0_2D, bias: TensorF32Cuda0_1D
) -> TensorF32Cuda0_1D:
    product = x @ weight
    assert_type(product, torch.Tensor)
    biased = product + bias
    activated = biased.relu()
    return activated.mean(dim=1)
