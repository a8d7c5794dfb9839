# Rextio keeps a function with a docstring on Python, so these have none.
# ruff: noqa: D100, D103

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D


def softmax_vector(x: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return x.softmax(dim=0)


def softmax_rows(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.softmax(dim=1)


def softmax_columns(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.softmax(dim=0)


def sum_vector(x: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return x.sum(dim=0, keepdim=True)


def sum_rows(x: TensorF32Cpu2D) -> TensorF32Cpu1D:
    return x.sum(dim=1)


def sum_columns(x: TensorF32Cpu2D) -> TensorF32Cpu1D:
    return x.sum(dim=0)


def mean_vector(x: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return x.mean(dim=0, keepdim=True)


def mean_rows(x: TensorF32Cpu2D) -> TensorF32Cpu1D:
    return x.mean(dim=1)


def mean_columns(x: TensorF32Cpu2D) -> TensorF32Cpu1D:
    return x.mean(dim=0)


def argmax_vector(x: TensorF32Cpu1D) -> TensorI64Cpu1D:
    return x.argmax(dim=0, keepdim=True)


def argmax_rows(x: TensorF32Cpu2D) -> TensorI64Cpu1D:
    return x.argmax(dim=1)


def argmax_columns(x: TensorF32Cpu2D) -> TensorI64Cpu1D:
    return x.argmax(dim=0)
