# Rextio keeps a function with a docstring on Python, so these have none.
# ruff: noqa: D100, D103

from rextio_torch.types import TensorF32Cpu1D


def binary_add(a: TensorF32Cpu1D, b: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return a + b


def binary_sub(a: TensorF32Cpu1D, b: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return a - b


def binary_mul(a: TensorF32Cpu1D, b: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return a * b


def binary_div(a: TensorF32Cpu1D, b: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return a / b
