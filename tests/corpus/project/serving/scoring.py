"""Scores of candidates: from a linear model to a small two-tower ranker."""

import torch
import torch.nn.functional as F

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D
from serving.common import center


def linear_score(x: TensorF32Cpu2D, weight: TensorF32Cpu1D, bias: TensorF32Cpu1D) -> TensorF32Cpu1D:
    """Score every row of ``x`` with one linear model.

    Args:
        x: Features, one row per candidate.
        weight: One weight per feature.
        bias: A single number.

    Returns:
        The logit of each candidate.
    """
    return x @ weight + bias


def click_probability(
    x: TensorF32Cpu2D, weight: TensorF32Cpu1D, bias: TensorF32Cpu1D
) -> TensorF32Cpu1D:
    logits = torch.matmul(x, weight)
    logits = logits + bias
    return logits.sigmoid()


def ranking_scores(
    users: TensorF32Cpu2D, items: TensorF32Cpu2D, popularity: TensorF32Cpu1D
) -> TensorF32Cpu2D:
    """Dot products of users and items plus a prior per item."""
    scores: TensorF32Cpu2D = users @ items.T
    scores = scores + popularity
    return scores


def best_item(users: TensorF32Cpu2D, items: TensorF32Cpu2D) -> TensorI64Cpu1D:
    return (users @ items.T).argmax(dim=-1)


def pairwise_margin(
    positive: TensorF32Cpu2D, negative: TensorF32Cpu2D, weight: TensorF32Cpu1D
) -> TensorF32Cpu1D:
    """How far the positive of each pair is ahead of the negative."""
    return (positive @ weight) - (negative @ weight)


def factorization_machine(
    x: TensorF32Cpu2D, linear: TensorF32Cpu1D, factors: TensorF32Cpu2D, half: TensorF32Cpu1D
) -> TensorF32Cpu1D:
    """Second-order interactions by the square-of-sum trick."""
    square_of_sum = (x @ factors) ** 2
    sum_of_square = (x**2) @ (factors**2)
    pairwise = (square_of_sum - sum_of_square).sum(dim=1)
    return x @ linear + half * pairwise


def wide_and_deep(
    wide: TensorF32Cpu2D,
    deep: TensorF32Cpu2D,
    wide_weight: TensorF32Cpu1D,
    hidden_weight: TensorF32Cpu2D,
    hidden_bias: TensorF32Cpu1D,
    deep_weight: TensorF32Cpu1D,
) -> TensorF32Cpu1D:
    h = deep
    h = F.linear(h, hidden_weight, bias=hidden_bias)
    h = F.relu(h, inplace=False)
    score = wide @ wide_weight
    score += h @ deep_weight
    return torch.sigmoid(score)


def standardized_scores(x: TensorF32Cpu2D, weight: TensorF32Cpu1D) -> TensorF32Cpu1D:
    """Scores on features without their row mean."""
    return center(x) @ weight


def boosted_scores(
    x: TensorF32Cpu2D,
    weight: TensorF32Cpu1D,
    boost: TensorF32Cpu1D,
    penalty: TensorF32Cpu1D,
    promoted: bool = False,
    demoted: bool = False,
) -> TensorF32Cpu1D:
    base = x.matmul(weight)
    if promoted:
        adjusted = base + boost
    elif demoted:
        adjusted = base - penalty
    else:
        adjusted = base
    return adjusted.tanh()


def bradley_terry(strength: TensorF32Cpu1D, other: TensorF32Cpu1D) -> TensorF32Cpu1D:
    """Probability that each player wins against the other."""
    a, b = strength.exp(), other.exp()
    return a / (a + b)


def bilinear_score(
    left: TensorF32Cpu2D, interaction: TensorF32Cpu2D, right: TensorF32Cpu2D
) -> TensorF32Cpu1D:
    """``left_i^T W right_i`` for every row i."""
    x = torch.mm(left, interaction)
    x = torch.multiply(x, right)
    x = x.sum(-1)
    return x
