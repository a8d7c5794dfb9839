"""What happens to the outputs of a model before they leave the service."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from rextio_torch.types import TensorF32Cpu1D as Vector
from rextio_torch.types import TensorF32Cpu2D as Matrix
from rextio_torch.types import TensorI64Cpu1D as Labels
from serving import calibration
from serving.heads import predict_proba


def decode_boxes(deltas: Matrix, anchors: Matrix, variances: Vector) -> Matrix:
    """Offsets relative to anchors become coordinates."""
    with torch.no_grad():
        offsets = deltas * variances
        boxes = anchors + offsets * anchors.abs()
    return boxes


def denormalize(x: Matrix, mean: Vector, std: Vector) -> Matrix:
    """Back to the units of the data."""
    return torch.add(torch.mul(x, std), mean)


def label_with_bonus(logits: Matrix, bonus: Vector, use_bonus: bool = False) -> Labels:
    scores = logits
    if use_bonus:
        scores = scores + bonus
    return scores.argmax(dim=-1)


def sharpen(probs: Matrix, rounds: int = 1) -> Matrix:
    """Normalise, then square and normalise again some times."""
    out = probs / probs.sum(dim=-1, keepdim=True)
    for _ in range(rounds):
        out = out**2
        out = out / out.sum(dim=-1, keepdim=True)
    return out


def blend_with_prior(probs: Matrix, prior: Vector, weight: Vector, rest: Vector) -> Matrix:
    mixed = weight * probs
    mixed += rest * prior
    mixed /= mixed.sum(dim=1, keepdim=True)
    return mixed


def classify(x: Matrix, weight: Matrix, bias: Vector, prior: Vector, seen: Vector) -> Matrix:
    """Probabilities, corrected for today's class frequencies."""
    probs = predict_proba(x, weight, bias)
    return calibration.prior_shift(probs, train_prior=seen, prior=prior)


def soft_threshold(x: Matrix, threshold: Vector) -> Matrix:
    """Shrink towards zero."""
    positive = (x - threshold).relu()
    negative = F.relu(-x - threshold)
    return positive - negative


def confidence_gap(logits: Matrix, reference: Matrix) -> Vector:
    p, q = logits.softmax(-1), reference.softmax(-1)
    h_p: Vector = -(p * p.log()).sum(-1)
    h_q: Vector = -(q * q.log()).sum(-1)
    return h_q - h_p


def normalized_rank_weight(scores: Vector, temperature: float = 1.0) -> Vector:
    """Weights that sum to one, hard or soft."""
    if temperature < 0.5:
        scores = scores + scores
    weights = scores.softmax(dim=0)
    return weights / weights.sum(dim=0, keepdim=True)
