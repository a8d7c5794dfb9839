"""Smoothing of scores over time and over graphs."""

from __future__ import annotations

import torch

import rextio_torch.types as t

DEFAULT_STEPS = 3


def exponential_smoothing(
    state: t.TensorF32Cpu1D, observation: t.TensorF32Cpu1D, alpha: t.TensorF32Cpu1D, steps: int
) -> t.TensorF32Cpu1D:
    for _ in range(steps):
        state = state + alpha * (observation - state)
    return state + observation


def label_propagation(
    labels: t.TensorF32Cpu2D, adjacency: t.TensorF32Cpu2D, alpha: t.TensorF32Cpu1D, rounds: int = 2
) -> t.TensorF32Cpu2D:
    """Spread labels over a graph."""
    y = labels
    for _ in range(rounds):
        y = alpha * (adjacency @ y) + labels
    y = y / y.sum(dim=-1, keepdim=True)
    return y


def power_iteration(matrix: t.TensorF32Cpu2D, start: t.TensorF32Cpu1D) -> t.TensorF32Cpu1D:
    v = matrix @ start
    for _ in range(DEFAULT_STEPS):
        v = matrix @ v
        v = v / (v**2).sum(0, keepdim=True).sqrt()
    return v


def sinkhorn(scores: t.TensorF32Cpu2D, iterations: int = 3) -> t.TensorF32Cpu2D:
    """Towards a doubly stochastic matrix."""
    p = scores.exp()
    for _ in range(iterations):
        p = p / p.sum(dim=1, keepdim=True)
        p = p / p.sum(dim=0, keepdim=True)
    return p


@torch.no_grad()
def momentum_update(
    weight: t.TensorF32Cpu2D,
    gradient: t.TensorF32Cpu2D,
    rate: t.TensorF32Cpu1D,
    momentum: t.TensorF32Cpu1D,
    steps: int = 2,
    nesterov: bool = False,
) -> t.TensorF32Cpu2D:
    """Weights after some steps along a constant gradient."""
    velocity = -rate * gradient
    w = weight + velocity
    for _ in range(steps):
        if nesterov:
            w = w + momentum * velocity - rate * gradient
        else:
            w = w + velocity
        velocity = momentum * velocity - rate * gradient
    return w


def kalman_gain(
    variance: t.TensorF32Cpu1D, process: t.TensorF32Cpu1D, noise: t.TensorF32Cpu1D, steps: int = 2
) -> t.TensorF32Cpu1D:
    gain = variance / (variance + noise)
    for _ in range(steps):
        predicted = variance + process
        gain = predicted / (predicted + noise)
        variance = predicted - gain * predicted
    return gain


def newton_sqrt(x: t.TensorF32Cpu1D, half: t.TensorF32Cpu1D, steps: int = 4) -> t.TensorF32Cpu1D:
    """Square roots by Newton's iteration."""
    guess = half * x
    for _ in range(steps):
        guess = half * (guess + x / guess)
    return guess.detach()


def damped(
    x: t.TensorF32Cpu2D, kernel: t.TensorF32Cpu2D, strength: float = 1.0, floor: float = 0.2
) -> t.TensorF32Cpu2D:
    y = x
    while strength > floor:
        y = y @ kernel
        strength = strength * 0.5
    return y.tanh()


def trend(first: t.TensorF32Cpu2D, second: t.TensorF32Cpu2D, horizon: int = 0) -> t.TensorF32Cpu2D:
    """Extrapolate linearly, some steps ahead."""
    slope = second - first
    if horizon <= 0:
        return slope.neg()
    out = second + slope
    for _ in range(horizon - 1):
        out += slope
    return out
