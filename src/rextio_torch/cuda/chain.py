"""The candidate itself: the one chain that exists on CUDA tensors.

This file is the source that is generated and compiled, and, called as it stands, the same chain in
eager PyTorch.
"""

from rextio_torch.types import TensorF32Cuda0_1D, TensorF32Cuda0_2D


def chain(
    x: TensorF32Cuda0_2D, weight: TensorF32Cuda0_2D, bias: TensorF32Cuda0_1D
) -> TensorF32Cuda0_1D:
    product = x @ weight
    biased = product + bias
    activated = biased.relu()
    return activated.mean(dim=1)
