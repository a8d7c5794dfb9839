import torch

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D


def matrix(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.relu(x)


def vector(x: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return torch.exp(x)


def both(x: TensorF32Cpu2D, y: TensorF32Cpu1D) -> TensorF32Cpu2D:
    return x + y


def classes(labels: TensorI64Cpu1D, x: TensorF32Cpu2D) -> TensorI64Cpu1D:
    return x.argmax(dim=1)


def matmul(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x @ y


def linear_chain(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu1D:
    y = torch.nn.functional.linear(x, w, b)
    return y.relu().mean(dim=1)
