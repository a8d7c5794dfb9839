# Rextio keeps a function with a docstring on Python, so these have none.
# ruff: noqa: D100, D103

import torch.nn.functional as F

from rextio_torch.types import TensorF32Cpu1D


def unary_relu(x: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return x.relu()


def unary_sigmoid(x: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return x.sigmoid()


def unary_tanh(x: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return x.tanh()


def unary_abs(x: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return x.abs()


def unary_neg(x: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return x.neg()


def unary_square(x: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return x.square()


def unary_exp(x: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return x.exp()


def unary_log(x: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return x.log()


def unary_sqrt(x: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return x.sqrt()


def unary_gelu(x: TensorF32Cpu1D) -> TensorF32Cpu1D:
    return F.gelu(x)
