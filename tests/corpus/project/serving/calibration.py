"""Calibrated probabilities from raw logits."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D

CLASS_DIM = -1


@torch.no_grad()
def temperature_scale(logits: TensorF32Cpu2D, temperature: TensorF32Cpu1D) -> TensorF32Cpu2D:
    """Divide by one learned temperature before the softmax."""
    return torch.softmax(logits / temperature, CLASS_DIM)


@torch.no_grad()
def platt_scale(
    scores: TensorF32Cpu1D, slope: TensorF32Cpu1D, intercept: TensorF32Cpu1D
) -> TensorF32Cpu1D:
    """Platt's sigmoid on a margin."""
    return torch.sigmoid(slope * scores + intercept)


@torch.inference_mode()
def vector_scale(
    logits: TensorF32Cpu2D, scale: TensorF32Cpu1D, shift: TensorF32Cpu1D
) -> TensorF32Cpu2D:
    logits = logits * scale
    logits = logits + shift
    return F.softmax(logits, dim=-1)


@torch.inference_mode()
def matrix_scale(
    logits: TensorF32Cpu2D, weight: TensorF32Cpu2D, bias: TensorF32Cpu1D
) -> TensorF32Cpu2D:
    """A full linear map of the logits."""
    return F.softmax(F.linear(logits, weight, bias), dim=1, dtype=None)


@torch.no_grad()
def beta_calibration(
    p: TensorF32Cpu1D,
    q: TensorF32Cpu1D,
    a: TensorF32Cpu1D,
    b: TensorF32Cpu1D,
    c: TensorF32Cpu1D,
) -> TensorF32Cpu1D:
    logit = a * torch.log(p)
    logit -= b * torch.log(q)
    logit += c
    return logit.sigmoid()


@torch.no_grad()
def log_odds(p: TensorF32Cpu2D, q: TensorF32Cpu2D) -> TensorF32Cpu2D:
    """Log of the odds."""
    return -(q / p).log()


def prior_shift(
    probs: TensorF32Cpu2D, train_prior: TensorF32Cpu1D, prior: TensorF32Cpu1D
) -> TensorF32Cpu2D:
    """Correct for class frequencies that changed since training."""
    with torch.no_grad():
        weighted = probs * (prior / train_prior)
        total = weighted.sum(dim=1, keepdim=True)
        return weighted / total


@torch.no_grad()
def log_softmax(logits: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return logits - logits.exp().sum(dim=CLASS_DIM, keepdim=True).log()


@torch.no_grad()
def annealed(
    logits: TensorF32Cpu2D, temperature: TensorF32Cpu1D, decay: TensorF32Cpu1D, steps: int = 3
) -> TensorF32Cpu2D:
    """Sharpen step by step with a falling temperature."""
    t = temperature
    for _ in range(steps):
        logits = logits / t
        t = t * decay
    return logits.softmax(-1)


@torch.inference_mode()
def calibrated_label(
    logits: TensorF32Cpu2D, temperature: TensorF32Cpu1D, bias: TensorF32Cpu1D | None = None
) -> TensorI64Cpu1D:
    if bias is not None:
        logits = logits + bias
    return (logits / temperature).argmax(dim=1)


@torch.no_grad()
def binary_confidence(
    logits: TensorF32Cpu1D, temperature: TensorF32Cpu1D, smooth: bool = True
) -> TensorF32Cpu1D:
    """Confidence of a binary classifier, with or without temperature."""
    scaled = logits / temperature if smooth else logits
    return torch.sigmoid(scaled.abs())
