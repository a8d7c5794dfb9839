"""Several models as one."""

from __future__ import annotations

import torch

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D

from . import metrics
from .calibration import temperature_scale
from .heads import mlp


@torch.inference_mode()
def average_probabilities(
    a: TensorF32Cpu2D, b: TensorF32Cpu2D, c: TensorF32Cpu2D, count: TensorF32Cpu1D
) -> TensorF32Cpu2D:
    """Mean of three softmaxes."""
    total = torch.softmax(a, dim=1)
    total += torch.softmax(b, dim=1)
    total += torch.softmax(c, dim=1)
    return total / count


@torch.inference_mode()
def weighted_vote(
    a: TensorF32Cpu2D, b: TensorF32Cpu2D, weight_a: TensorF32Cpu1D, weight_b: TensorF32Cpu1D
) -> TensorI64Cpu1D:
    return (a.softmax(-1) * weight_a + b.softmax(-1) * weight_b).argmax(-1)


@torch.no_grad()
def geometric_mean(a: TensorF32Cpu2D, b: TensorF32Cpu2D) -> TensorF32Cpu2D:
    """Normalised geometric mean of two distributions."""
    product = (a * b) ** 0.5
    return product / product.sum(dim=-1, keepdim=True)


@torch.no_grad()
def calibrated_pair(
    x: TensorF32Cpu2D,
    w1: TensorF32Cpu2D,
    b1: TensorF32Cpu1D,
    w2: TensorF32Cpu2D,
    b2: TensorF32Cpu1D,
    temperature: TensorF32Cpu1D,
    half: TensorF32Cpu1D,
) -> TensorF32Cpu2D:
    """Mean of a network's output at two temperatures."""
    logits = mlp(x, w1, b1, w2, b2)
    sharp = temperature_scale(logits, temperature)
    flat = temperature_scale(logits, temperature=temperature + temperature)
    return half * (sharp + flat)


@torch.no_grad()
def disagreement(a: TensorF32Cpu2D, b: TensorF32Cpu2D, half: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return metrics.js_divergence(a.softmax(dim=-1), b.softmax(dim=-1), half)


@torch.no_grad()
def snapshot_average(
    x: TensorF32Cpu2D, weight: TensorF32Cpu2D, step: TensorF32Cpu2D, snapshots: int = 3
) -> TensorF32Cpu2D:
    """Average over snapshots that lie on a line in weight space."""
    w = weight
    total = (x @ w).softmax(-1)
    for _ in range(1, snapshots):
        w = w + step
        total += (x @ w).softmax(-1)
    return total / total.sum(dim=-1, keepdim=True)


@torch.no_grad()
def stacked(
    a: TensorF32Cpu1D, b: TensorF32Cpu1D, wa: TensorF32Cpu1D, wb: TensorF32Cpu1D
) -> TensorF32Cpu1D:
    z = wa * a
    z += wb * b
    return z.sigmoid()
