"""Functions that change or hand back what they were given, or decide by a tensor's values."""

import torch

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D


def add_bias_in_place(x: TensorF32Cpu2D, bias: TensorF32Cpu1D) -> TensorF32Cpu2D:
    x += bias
    return x.relu()


def maybe_scaled(x: TensorF32Cpu2D, scale: TensorF32Cpu1D, apply: bool) -> TensorF32Cpu2D:
    """Scale, or hand back the input itself."""
    if not apply:
        return x
    return x * scale


def rescale(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * scale


def flip_if_negative(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    """Make the total positive."""
    if x.sum() > 0:
        return x.relu()
    return (-x).relu()
