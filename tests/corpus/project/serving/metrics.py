"""Metrics, one value per example or per class."""

from typing import Annotated

import torch

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D

Matrix = Annotated[torch.Tensor, TensorF32Cpu2D]
Vector = Annotated[torch.Tensor, TensorF32Cpu1D]


def squared_error(
    prediction: Annotated[torch.Tensor, TensorF32Cpu2D],
    target: Annotated[torch.Tensor, TensorF32Cpu2D],
) -> Annotated[torch.Tensor, TensorF32Cpu1D]:
    """Mean squared error of each example."""
    diff = prediction - target
    return (diff**2).mean(dim=1)


def absolute_error(
    prediction: Annotated[torch.Tensor, TensorF32Cpu2D],
    target: Annotated[torch.Tensor, TensorF32Cpu2D],
) -> Annotated[torch.Tensor, TensorF32Cpu1D]:
    return (prediction - target).abs().mean(-1)


def rmse_per_output(prediction: Matrix, target: Matrix) -> Vector:
    """Root mean squared error of each column."""
    error = torch.sub(prediction, target)
    error = error.square().mean(dim=0)
    return error**0.5


def cross_entropy(logits: Matrix, target: Matrix) -> Vector:
    log_probs = logits.softmax(dim=-1).log()
    loss = -(target * log_probs)
    return loss.sum(dim=-1)


def entropy(probs: Matrix, eps: Vector) -> Vector:
    """Entropy of each row."""
    return (-probs * torch.log(probs + eps)).sum(dim=1)


def kl_divergence(p: Matrix, q: Matrix) -> Vector:
    """Divergence of ``q`` from ``p``, row by row."""
    ratio = p / q
    return torch.sum(p * ratio.log(), dim=-1)


def js_divergence(p: Matrix, q: Matrix, half: Vector) -> Vector:
    m = half * (p + q)
    left, right = kl_divergence(p, m), kl_divergence(q, m)
    return half * (left + right)


def cosine_similarity(a: Matrix, b: Matrix, eps: Vector) -> Vector:
    """Cosine of the angle between rows of the same index."""
    dot = (a * b).sum(1)
    norm_a = (a * a).sum(1).sqrt()
    norm_b = (b * b).sum(1).sqrt()
    return dot / (norm_a * norm_b + eps)


def brier_score(logits: Matrix, target: Matrix) -> Vector:
    probs = torch.softmax(logits, -1)
    return torch.square(probs - target).sum(dim=-1, keepdim=False)


def dice(prediction: Matrix, target: Matrix, smooth: Vector) -> Vector:
    """Soft dice coefficient."""
    p = prediction.sigmoid()
    overlap = (p * target).sum(dim=1)
    size = p.sum(dim=1) + target.sum(dim=1)
    return (overlap + overlap + smooth) / (size + smooth)


def r_squared(prediction: Matrix, target: Matrix, one: Vector, eps: Vector) -> Vector:
    """Share of the variance of each column that the prediction explains."""
    residual = ((target - prediction) ** 2).sum(0)
    total = ((target - target.mean(0)) ** 2).sum(0)
    return one - residual / (total + eps)


def top_class(probs: Matrix) -> Annotated[torch.Tensor, TensorI64Cpu1D]:
    return torch.argmax(probs, dim=1, keepdim=False)


def loss_by_name(prediction: Matrix, target: Matrix, squared: bool = True) -> Vector:
    """One of two losses."""
    diff = prediction - target
    if squared:
        loss = diff**2
    else:
        loss = diff.abs()
    loss = loss.mean(dim=-1)
    return loss
