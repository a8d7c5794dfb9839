"""Marker types for annotations: dtype, device and rank of a tensor, never its sizes.

To a type checker each name is `torch.Tensor`, so annotated code checks as ordinary PyTorch code.
At run time each is an inert class that Rextio resolves by its name; nothing here imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor as TensorF32Cpu1D
    from torch import Tensor as TensorF32Cpu2D
    from torch import Tensor as TensorF32Cuda0_1D
    from torch import Tensor as TensorF32Cuda0_2D
    from torch import Tensor as TensorI64Cpu1D
else:

    class TensorF32Cpu2D:
        """A `torch.float32` tensor of rank 2 on the CPU."""

    class TensorF32Cpu1D:
        """A `torch.float32` tensor of rank 1 on the CPU."""

    class TensorI64Cpu1D:
        """A `torch.int64` tensor of rank 1 on the CPU: a classification result."""

    class TensorF32Cuda0_2D:
        """A `torch.float32` tensor of rank 2 on `cuda:0`, of the build-only CUDA candidate."""

    class TensorF32Cuda0_1D:
        """A `torch.float32` tensor of rank 1 on `cuda:0`, of the build-only CUDA candidate."""


__all__ = [
    "TensorF32Cpu1D",
    "TensorF32Cpu2D",
    "TensorF32Cuda0_1D",
    "TensorF32Cuda0_2D",
    "TensorI64Cpu1D",
]
