"""The inputs of `rextio-torch verify`, shared between tests."""

from __future__ import annotations

from functools import cache

import torch

from rextio_torch.verify.inputs import LAYOUTS, SPECIAL, bits, contiguous, storage_bits, values

__all__ = [
    "LAYOUTS",
    "SPECIAL",
    "VALUE_KINDS",
    "assert_same",
    "bits",
    "contiguous",
    "shared_input",
    "storage_bits",
    "values",
]

VALUE_KINDS = ("normal", "special", "large")


@cache
def shared_input(
    layout: str, shape: tuple[int, ...], kind: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a tensor that many tests read, and the bits that its storage must keep."""
    tensor = LAYOUTS[layout](shape, kind, 0)
    return tensor, storage_bits(tensor)


def assert_same(native: torch.Tensor, eager: torch.Tensor, what: object = "") -> None:
    """Assert equal type, dtype, shape and bits."""
    assert type(native) is torch.Tensor, what
    assert native.dtype == eager.dtype, what
    assert native.shape == eager.shape, what
    assert torch.equal(bits(native.contiguous()), bits(eager.contiguous())), (what, native, eager)
