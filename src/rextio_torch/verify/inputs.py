"""Tensors to test with: every layout and the special values, of a given shape."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch

from rextio_torch.ops.model import Shape

SPECIAL = (
    math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 1e-40, 3.4e38, -3.4e38,
    88.8, -88.8, -103.0, -104.5, 0.625, 1e-8, -2.5,
)  # fmt: skip
_SCALES = {"normal": 1.0, "large": 1e4, "small": 0.125, "denormal": 1e-39}
#: One special value among this many ordinary ones: in a sum of them the others still count.
_SPRINKLED = 37


def values(kind: str, size: int, seed: int = 0) -> torch.Tensor:
    """Return `size` float32 values of a kind.

    `normal`, `small`, `large` and `denormal` differ in scale; `special` holds NaN, infinities,
    zeros, denormal and extreme numbers only, `sprinkled` a few of them among normal ones.
    """
    generator = torch.Generator().manual_seed(size + len(kind) + 1_000_003 * seed)
    repeated = itertools.islice(itertools.cycle(SPECIAL), seed, seed + size)
    if kind == "special":
        return torch.tensor(list(repeated), dtype=torch.float32)
    if kind == "sprinkled":
        ordinary = torch.randn(size, generator=generator)
        places = torch.arange(size)[seed % _SPRINKLED :: _SPRINKLED]
        special = torch.tensor(list(repeated)[: len(places)], dtype=torch.float32)
        return ordinary.index_put((places,), special)
    return torch.randn(size, generator=generator) * _SCALES[kind]


#: Moves values of a shape into memory of some layout.
Layout: TypeAlias = Callable[[Shape, str, int], torch.Tensor]


def contiguous(shape: Shape, kind: str, seed: int = 0) -> torch.Tensor:
    """Return a contiguous tensor."""
    return values(kind, math.prod(shape), seed).reshape(shape)


def transposed(shape: Shape, kind: str, seed: int = 0) -> torch.Tensor:
    """Return a tensor whose dimensions lie in memory in reverse."""
    return contiguous(shape[::-1], kind, seed).permute(*reversed(range(len(shape))))


def sliced(shape: Shape, kind: str, seed: int = 0) -> torch.Tensor:
    """Return every other column of a tensor."""
    return contiguous((*shape[:-1], shape[-1] * 2), kind, seed)[..., ::2]


def offset(shape: Shape, kind: str, seed: int = 0) -> torch.Tensor:
    """Return a tensor that does not begin where its storage does."""
    whole = contiguous(tuple(size + 1 for size in shape), kind, seed)
    return whole[tuple(slice(1, None) for _ in shape)]


def expanded(shape: Shape, kind: str, seed: int = 0) -> torch.Tensor:
    """Return a tensor whose first dimension has stride 0."""
    return contiguous((1, *shape[1:]), kind, seed).expand(shape)


def expanded_last(shape: Shape, kind: str, seed: int = 0) -> torch.Tensor:
    """Return a tensor whose last dimension has stride 0."""
    return contiguous((*shape[:-1], 1), kind, seed).expand(shape)


def overlapping(shape: Shape, kind: str, seed: int = 0) -> torch.Tensor:
    """Return a tensor whose rows share memory."""
    storage = values(kind, sum(shape) + 1, seed)
    return storage.as_strided(shape, (1,) * len(shape))


def gapped(shape: Shape, kind: str, seed: int = 0) -> torch.Tensor:
    """Return a tensor with gaps between its elements and between its rows."""
    strides = [3]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * max(size, 1) + 5)
    length = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + 1
    return values(kind, max(length, 1), seed).as_strided(shape, strides)


LAYOUTS: Mapping[str, Layout] = {
    "contiguous": contiguous,
    "transposed": transposed,
    "sliced": sliced,
    "offset": offset,
    "expanded": expanded,
    "expanded_last": expanded_last,
    "overlapping": overlapping,
    "gapped": gapped,
}


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor's bits, so that NaN equals NaN and -0.0 differs from 0.0."""
    if tensor.dtype == torch.float32:
        return tensor.detach().clone().view(torch.int32) if tensor.dim() else tensor
    return tensor.detach().clone()


def storage_bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of the whole storage behind a tensor, to see whether a call wrote to it."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).clone()
