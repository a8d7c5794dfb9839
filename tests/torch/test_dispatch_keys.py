"""The dispatch keys that the boundary knows by number are those of the installed PyTorch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import rextio_torch

RUST = Path(rextio_torch.__file__).parent / "runtime" / "rust" / "src" / "rxt_torch"
CONSTANTS = {
    name: 1 << int(bit)
    for name, bit in re.findall(
        r"const (\w+): u64 = 1 << (\d+);", (RUST / "dispatch_keys.rs").read_text(encoding="utf-8")
    )
}
NAMES = {
    "NEGATIVE": "Negative",
    "ZERO_TENSOR": "ZeroTensor",
    "AD_INPLACE_OR_VIEW": "ADInplaceOrView",
    "AUTOCAST_CPU": "AutocastCPU",
    "AUTOCAST_CUDA": "AutocastCUDA",
    "DENSE": "Dense",
}


def _bits(name: str) -> int:
    return torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name)).raw_repr()


def test_every_constant_is_tested() -> None:
    assert set(CONSTANTS) == {*NAMES, "CPU", "CUDA", "AUTOGRAD"}


@pytest.mark.parametrize("name", NAMES)
def test_functionality(name: str) -> None:
    assert CONSTANTS[name] == _bits(NAMES[name])


@pytest.mark.parametrize("device", ["CPU", "CUDA"])
def test_backend(device: str) -> None:
    """The key of a backend is its bit and that of `Dense`, with autograd another one."""
    assert _bits(device) == CONSTANTS[device] | CONSTANTS["DENSE"]
    assert _bits(f"Autograd{device}") == CONSTANTS[device] | CONSTANTS["AUTOGRAD"]


def test_an_ordinary_tensor_has_no_other_keys() -> None:
    keys = torch._C._dispatch_keys(torch.ones(2)).raw_repr()
    known = ("CPU", "DENSE", "AD_INPLACE_OR_VIEW", "AUTOGRAD", "AUTOCAST_CPU")
    assert keys & ~sum(CONSTANTS[name] for name in known) == 0
