"""Tensors to test with: every layout and the special values, of a given shape."""

from __future__ import annotations

import itertools
import math
from functools import cache

import torch

SPECIAL = (
    math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 1e-40, 3.4e38, -3.4e38,
    88.8, -88.8, -103.0, -104.5, 0.625, 1e-8, -2.5,
)  # fmt: skip


def values(kind: str, size: int) -> torch.Tensor:
    """Return `size` float32 values: `normal`, `special` (NaN, infinities, zeros …) or `large`."""
    generator = torch.Generator().manual_seed(size + len(kind))
    if kind == "special":
        repeated = itertools.islice(itertools.cycle(SPECIAL), size)
        return torch.tensor(list(repeated), dtype=torch.float32)
    scale = {"normal": 1.0, "large": 1e4}[kind]
    return torch.randn(size, generator=generator) * scale


VALUE_KINDS = ("normal", "special", "large")


def contiguous(shape: tuple[int, ...], kind: str) -> torch.Tensor:
    return values(kind, math.prod(shape)).reshape(shape)


def transposed(shape: tuple[int, ...], kind: str) -> torch.Tensor:
    return contiguous(shape[::-1], kind).permute(*reversed(range(len(shape))))


def sliced(shape: tuple[int, ...], kind: str) -> torch.Tensor:
    return contiguous((*shape[:-1], shape[-1] * 2), kind)[..., ::2]


def offset(shape: tuple[int, ...], kind: str) -> torch.Tensor:
    whole = contiguous(tuple(size + 1 for size in shape), kind)
    return whole[tuple(slice(1, None) for _ in shape)]


def expanded(shape: tuple[int, ...], kind: str) -> torch.Tensor:
    return contiguous((1, *shape[1:]), kind).expand(shape)


def expanded_last(shape: tuple[int, ...], kind: str) -> torch.Tensor:
    return contiguous((*shape[:-1], 1), kind).expand(shape)


def overlapping(shape: tuple[int, ...], kind: str) -> torch.Tensor:
    storage = values(kind, sum(shape) + 1)
    return storage.as_strided(shape, (1,) * len(shape))


def gapped(shape: tuple[int, ...], kind: str) -> torch.Tensor:
    strides = [3]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * max(size, 1) + 5)
    length = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + 1
    return values(kind, max(length, 1)).as_strided(shape, strides)


LAYOUTS = {
    maker.__name__: maker
    for maker in (
        contiguous, transposed, sliced, offset, expanded, expanded_last, overlapping, gapped,
    )
}  # fmt: skip


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor's bits, so that NaN equals NaN and -0.0 differs from 0.0."""
    if tensor.dtype == torch.float32:
        return tensor.detach().clone().view(torch.int32) if tensor.dim() else tensor
    return tensor.detach().clone()


def storage_bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of the whole storage behind a tensor, to see whether a call wrote to it."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).clone()


@cache
def shared_input(
    layout: str, shape: tuple[int, ...], kind: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a tensor that many tests read, and the bits that its storage must keep."""
    tensor = LAYOUTS[layout](shape, kind)
    return tensor, storage_bits(tensor)


def assert_same(native: torch.Tensor, eager: torch.Tensor, what: object = "") -> None:
    """Assert equal type, dtype, shape and bits."""
    assert type(native) is torch.Tensor, what
    assert native.dtype == eager.dtype, what
    assert native.shape == eager.shape, what
    assert torch.equal(bits(native.contiguous()), bits(eager.contiguous())), (what, native, eager)
