"""The value of an in-place operation on a tensor that nothing else has.

The front end writes these functions for `h += x`, `h -= x`, `h *= x` and `h /= x` where no other
name and no view could see that h's memory changes: the assignment `h = add_(h, x)` is then the
same. The result has the dtype and the shape of `input`; like `h += x`, and unlike `h + x`, they
raise `RuntimeError` where `other` does not broadcast to that shape. Each is an operator of the
table, native for float32 CPU tensors of rank 1 or 2; in Python it takes what PyTorch takes, and
leaves its operands as they are.

Importing this module does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["add_", "div_", "mul_", "sub_"]


def add_(input: Tensor, other: Tensor) -> Tensor:
    """Return what `input += other` makes of `input`, in memory of its own."""
    return input.clone().add_(other)


def sub_(input: Tensor, other: Tensor) -> Tensor:
    """Return what `input -= other` makes of `input`, in memory of its own."""
    return input.clone().sub_(other)


def mul_(input: Tensor, other: Tensor) -> Tensor:
    """Return what `input *= other` makes of `input`, in memory of its own."""
    return input.clone().mul_(other)


def div_(input: Tensor, other: Tensor) -> Tensor:
    """Return what `input /= other` makes of `input`, in memory of its own."""
    return input.clone().div_(other)
