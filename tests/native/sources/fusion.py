import torch
import torch.nn.functional as F

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D


def chain(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.exp(torch.tanh(x) + y).sqrt()


def layer(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu2D:
    return F.relu(F.linear(x, w, b))


def named_layers(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu2D:
    h = F.linear(x, w, b)
    h2 = F.gelu(h)
    h3 = F.linear(h2, w, b)
    return torch.tanh(h3)


def product_in_a_chain(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    h = x @ y
    return torch.sigmoid(h) * h


def activation_in_a_chain(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.sigmoid(x @ y) * y


def rows(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu1D:
    return torch.exp(x * y).sum(dim=1)


def columns(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu1D:
    return torch.exp(x * y).sum(dim=0)


def softmax_rows(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return F.softmax(x * y + y, dim=1)


def attention(q: TensorF32Cpu2D, k: TensorF32Cpu2D, v: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return F.softmax((q @ k) * q, dim=1) @ v


def normalised(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    centred = x - x.mean(dim=1, keepdim=True)
    spread = torch.mean(centred * centred, dim=1, keepdim=True)
    return centred / torch.sqrt(spread)


def broadcast(x: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu2D:
    return torch.tanh(x) + torch.exp(b)


def used_twice(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    h = torch.tanh(x)
    return (h @ y) + h


def pooled(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return F.relu(F.linear(x, w, b)).mean(dim=1)


def shared(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    h = torch.exp(x)
    return torch.tanh(h) * h + y


def picked(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    h = torch.exp(x).relu()
    return torch.softmax(h, dim=0)
