"""Helpers that the other modules share."""

from __future__ import annotations

import torch

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D

DIM = 1


def center(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    """Subtract from each row its mean."""
    return x - x.mean(dim=DIM, keepdim=True)


def row_norm(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    """Return the Euclidean length of each row, as a column."""
    return (x**2).sum(DIM, keepdim=True).sqrt()


def unit_rows(x: TensorF32Cpu2D, eps: TensorF32Cpu1D) -> TensorF32Cpu2D:
    return x / (row_norm(x) + eps)


def moments(x: TensorF32Cpu2D) -> tuple[TensorF32Cpu2D, TensorF32Cpu2D]:
    """Return mean and variance along each row, as columns."""
    mean = x.mean(dim=-1, keepdim=True)
    var = torch.square(x - mean).mean(dim=-1, keepdim=True)
    return mean, var


def halves(
    x: TensorF32Cpu2D, left: TensorF32Cpu2D, right: TensorF32Cpu2D
) -> tuple[TensorF32Cpu2D, TensorF32Cpu2D]:
    return x @ left, x @ right
