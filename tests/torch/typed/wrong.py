"""Mistakes that a type checker must find in annotated code; each is marked."""

import torch

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D


def attribute(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.no_such_method()  # wrong


def argument() -> TensorF32Cpu2D:
    return attribute("not a tensor")  # wrong


def result(x: TensorF32Cpu1D) -> int:
    return torch.relu(x)  # wrong
