"""The mark in a built module of the source it was built from; `rxt_torch/identity.rs` writes it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

#: The build puts the source id into the native module through this variable.
SOURCE_ID_VARIABLE = "REXTIO_TORCH_SOURCE_ID"
PREFIX = b"rextio-torch-source-id:"
#: What a module carries that was built without `rextio-torch build`.
NO_SOURCE_ID = "0" * 64

_MARK = re.compile(re.escape(PREFIX) + rb"([0-9a-f]{64})")


def marked_source_ids(module: Path) -> list[str]:
    """Return the source ids that a built module carries, usually one."""
    return source_ids(module.read_bytes())


def source_ids(module: bytes) -> list[str]:
    """Return the source ids in the bytes of a built module."""
    return sorted({mark.decode() for mark in _MARK.findall(module)})


def shortened(source_ids: Iterable[str]) -> str:
    """Return source ids as a message shows them."""
    return ", ".join(source_id[:12] for source_id in source_ids) or "unknown"
