"""Small networks and classifier heads."""

import torch
from torch import nn
from torch.nn import functional as F

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D


def mlp(
    x: "TensorF32Cpu2D",
    w1: "TensorF32Cpu2D",
    b1: "TensorF32Cpu1D",
    w2: "TensorF32Cpu2D",
    b2: "TensorF32Cpu1D",
) -> "TensorF32Cpu2D":
    x = F.relu(F.linear(x, w1, b1))
    x = F.linear(x, w2, b2)
    return x


def gelu_mlp(x: "TensorF32Cpu2D", w1: "TensorF32Cpu2D", w2: "TensorF32Cpu2D") -> "TensorF32Cpu2D":
    """Two layers without bias."""
    return F.linear(F.gelu(F.linear(x, w1, bias=None)), w2)


def predict(x: TensorF32Cpu2D, weight: TensorF32Cpu2D, bias: TensorF32Cpu1D) -> TensorI64Cpu1D:
    """Label of each row."""
    logits = F.linear(input=x, weight=weight, bias=bias)
    return logits.argmax(-1)


def predict_proba(
    x: TensorF32Cpu2D, weight: TensorF32Cpu2D, bias: TensorF32Cpu1D
) -> TensorF32Cpu2D:
    return (x @ weight.t() + bias).softmax(dim=1)


def residual_block(
    x: "TensorF32Cpu2D", weight: "TensorF32Cpu2D", bias: "TensorF32Cpu1D"
) -> "TensorF32Cpu2D":
    """A layer around which the input goes."""
    h = (x @ weight + bias).relu()
    h += x
    return h


def residual_tower(
    x: TensorF32Cpu2D, weight: TensorF32Cpu2D, bias: TensorF32Cpu1D, depth: int = 4
) -> TensorF32Cpu2D:
    h = x
    for _ in range(depth):
        h = h + torch.tanh(h.mm(weight) + bias)
    h = F.relu(h)
    return h


def selectable_head(
    x: TensorF32Cpu2D, weight: TensorF32Cpu2D, bias: TensorF32Cpu1D, kind: int = 0
) -> TensorF32Cpu2D:
    """Several kinds of output from the same layer."""
    out = nn.functional.linear(x, weight, bias)
    if kind == 0:
        return out
    if kind == 1:
        return out.sigmoid()
    elif kind == 2:
        return out.softmax(dim=-1)
    else:
        return F.relu(out)


def highway(
    x: TensorF32Cpu2D,
    w_gate: TensorF32Cpu2D,
    b_gate: TensorF32Cpu1D,
    w: TensorF32Cpu2D,
    b: TensorF32Cpu1D,
) -> TensorF32Cpu2D:
    """Mix the input with its transformation."""
    z = x @ w_gate + b_gate
    keep, carry = torch.sigmoid(z), torch.sigmoid(-z)
    return keep * torch.relu(x @ w + b) + carry * x


def regression_head(
    x: TensorF32Cpu2D, hidden: TensorF32Cpu2D, bias: TensorF32Cpu1D, out: TensorF32Cpu1D
) -> TensorF32Cpu1D:
    x = F.relu(F.linear(x, hidden, bias), inplace=False)
    x = x @ out
    return x


def squeeze_excite(x: TensorF32Cpu2D, w1: TensorF32Cpu2D, w2: TensorF32Cpu2D) -> TensorF32Cpu2D:
    """Weigh channels by what the whole batch says."""
    s = x.mean(dim=0)
    s = (s @ w1).relu()
    s = (s @ w2).sigmoid()
    return x * s


def autoencoder_error(
    x: TensorF32Cpu2D, encode: TensorF32Cpu2D, decode: TensorF32Cpu2D
) -> TensorF32Cpu1D:
    code: TensorF32Cpu2D = torch.relu(x @ encode)
    error: TensorF32Cpu2D = code @ decode - x
    return (error**2).mean(dim=-1)


def multi_layer(
    x: TensorF32Cpu2D,
    w1: TensorF32Cpu2D,
    w2: TensorF32Cpu2D,
    layers: int = 2,
    activate_last: bool = True,
) -> TensorF32Cpu2D:
    """Alternate two square layers."""
    h: TensorF32Cpu2D = x.detach().relu()
    for i in range(layers):
        if i % 2 == 0:
            h = h @ w1
        else:
            h = h @ w2
        h = h.tanh()
    if activate_last:
        h = h.relu()
    return h
