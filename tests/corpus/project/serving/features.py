"""Normalising of features before they reach a model."""

import torch

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D
from serving.common import moments, unit_rows

Matrix = TensorF32Cpu2D
Vector = TensorF32Cpu1D

ROWS = 0
EPS_POWER = 0.5


def standardize(x: Matrix, mean: Vector, std: Vector) -> Matrix:
    return (x - mean) / std


def standardize_batch(x: Matrix, eps: Vector) -> Matrix:
    """Z-scores with the statistics of this batch."""
    mu = x.mean(dim=ROWS)
    x = x - mu
    var = (x * x).mean(dim=ROWS)
    return x / torch.sqrt(var + eps)


def layer_norm(x: Matrix, gain: Vector, bias: Vector, eps: Vector) -> Matrix:
    """Normalise each row, then scale and shift."""
    mean, var = moments(x)
    normed = (x - mean) / (var + eps) ** 0.5
    return normed * gain + bias


def rms_norm(x: Matrix, gain: Vector, eps: Vector) -> Matrix:
    rms = x.square().mean(-1, keepdim=True)
    rms = rms.add(eps).sqrt()
    return x.div(rms).mul(gain)


def batch_norm_inference(
    x: Matrix, running_mean: Vector, running_var: Vector, gain: Vector, bias: Vector, eps: Vector
) -> Matrix:
    """Batch norm with frozen statistics."""
    inv: Vector = (running_var + eps).sqrt()
    scale: Vector = gain / inv
    shift: Vector = bias - running_mean * scale
    return x * scale + shift


def min_max(x: Matrix, low: Vector, high: Vector) -> Matrix:
    span = torch.subtract(high, low)
    return torch.divide(torch.subtract(x, low), span)


def log1p_counts(counts: Matrix, one: Vector) -> Matrix:
    """Compress counts."""
    return torch.log(counts + one)


def signed_sqrt(x: Matrix, eps: Vector) -> Matrix:
    """Square root of the magnitude, with the sign kept."""
    magnitude = x.abs()
    sign = x / (magnitude + eps)
    return sign * magnitude**0.5


def l1_normalize(x: Matrix, eps: Vector) -> Matrix:
    total = torch.abs(x).sum(keepdim=True, dim=1)
    return x / (total + eps)


def l2_normalize(x: Matrix, eps: Vector) -> Matrix:
    """Rows of length one."""
    x = x.contiguous()
    return unit_rows(x, eps)


def soft_clip(x: Matrix, limit: Vector) -> Matrix:
    return limit * (x / limit).tanh()


def whiten(x: Matrix, mean: Vector, rotation: Matrix, variances: Vector, eps: Vector) -> Matrix:
    """Rotate to principal axes and scale each to unit variance."""
    x = x - mean
    x = x @ rotation
    x = x / (variances + eps).sqrt()
    return x


def column_stats(x: Matrix, eps: Vector) -> Vector:
    """Signal-to-noise ratio of each column."""
    mean = x.mean(0)
    std = ((x - mean) ** 2).mean(0).sqrt()
    return mean / (std + eps)


def robust_scale(x: Matrix, median: Vector, iqr: Vector, clip: bool = False) -> Matrix:
    z = x - median
    z /= iqr
    if not clip:
        return z
    return z.tanh()
