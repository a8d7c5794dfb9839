"""Gates and mixtures."""

import torch
import torch.nn.functional as F

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D
from serving.common import halves


def glu(x: TensorF32Cpu2D, w: TensorF32Cpu2D, v: TensorF32Cpu2D) -> TensorF32Cpu2D:
    """Gated linear unit."""
    value, gate = halves(x, w, v)
    return value * gate.sigmoid()


def swiglu(x: TensorF32Cpu2D, w: TensorF32Cpu2D, v: TensorF32Cpu2D) -> TensorF32Cpu2D:
    a, b = x @ w, x @ v
    return a * torch.sigmoid(a) * b


def geglu(x: TensorF32Cpu2D, w: TensorF32Cpu2D, v: TensorF32Cpu2D) -> TensorF32Cpu2D:
    """Gated unit with a gelu."""
    return F.gelu(x @ w) * (x @ v)


def gru_cell(
    x: TensorF32Cpu2D,
    h: TensorF32Cpu2D,
    w_reset: TensorF32Cpu2D,
    w_update: TensorF32Cpu2D,
    w_new: TensorF32Cpu2D,
    u: TensorF32Cpu2D,
) -> TensorF32Cpu2D:
    hu = h @ u
    reset = (x @ w_reset + hu).sigmoid()
    update = (x @ w_update + hu).sigmoid()
    candidate = (x @ w_new + reset * hu).tanh()
    # update * h + (1 - update) * candidate, with one product less
    return candidate + update * (h - candidate)


def mixture_of_two(
    x: TensorF32Cpu2D,
    expert_a: TensorF32Cpu2D,
    expert_b: TensorF32Cpu2D,
    gate: TensorF32Cpu1D,
    column: TensorF32Cpu2D,
) -> TensorF32Cpu2D:
    """Two experts, mixed by a gate for each row."""
    ya, yb = torch.relu(x @ expert_a), torch.relu(x @ expert_b)
    g = torch.sigmoid((x * gate) @ column)
    return g * ya + torch.sigmoid(-((x * gate) @ column)) * yb


def route(x: TensorF32Cpu2D, router: TensorF32Cpu2D, noise: TensorF32Cpu1D) -> TensorI64Cpu1D:
    """Expert of each token."""
    logits = x @ router
    logits += noise
    del noise
    return logits.softmax(dim=-1).argmax(dim=-1)


def film(
    x: TensorF32Cpu2D, context: TensorF32Cpu1D, w_scale: TensorF32Cpu2D, w_shift: TensorF32Cpu2D
) -> TensorF32Cpu2D:
    scale, shift = context @ w_scale, context @ w_shift
    return x * scale + shift


def gated_residual(
    x: TensorF32Cpu2D, update: TensorF32Cpu2D, gate: TensorF32Cpu1D, open_gate: bool = True
) -> TensorF32Cpu2D:
    """Residual whose branch can be shut."""
    y = x + update * gate.tanh() if open_gate else x - update
    return y
