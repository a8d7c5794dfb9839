"""What a process of its own runs to call a freshly built module."""

from __future__ import annotations

import sys


def activate(folder: str, name: str) -> tuple[list[object], list[object]]:
    """Return what the module's native function gives, and what `torch.<name>` gives.

    The native function itself, not the wrapper that may fall back to Python.
    """
    import torch

    sys.path.insert(0, folder)
    import _rextio_native

    x = torch.tensor([[-1.0, 0.5, 2.0]])
    return _rextio_native.model__activate(x).tolist(), getattr(torch, name)(x).tolist()
