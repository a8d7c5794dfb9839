"""The Rust runtime as helper text for generated crates.

Rextio takes Rust only as module-level items. Each top-level directory module of the crate in
`rust/src` is one group: its files, byte for byte, nested in `mod` blocks as cargo nests them. One
helper string per group, so that Rextio's deduplication by exact text keeps one copy.

Files refer to each other by `super::` paths: a `crate::` path would mean another place in the
generated crate.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

RUST_SOURCE = Path(__file__).parent / "rust" / "src"
#: Top-level modules that generated code needs, in the order of their dependencies.
GROUPS = ("rxt_core", "rxt_kernels", "rxt_engine", "rxt_torch")

_MODULE_DECLARATION = re.compile(r"^(?P<visibility>pub(?:\([a-z]+\))? )?mod (?P<name>\w+);$", re.M)


@cache
def helpers() -> tuple[str, ...]:
    """Return the module-level Rust items that any claimed function needs.

    Raises `ValueError` if a file of the crate cannot be nested (a `crate::` path, a module file
    that is not there).
    """
    return tuple(_group(name) for name in GROUPS)


def _group(name: str) -> str:
    # Not every project calls every function of the runtime.
    return f"#[allow(dead_code, unused_imports)]\n{_module('', name, RUST_SOURCE)}"


def _module(visibility: str, name: str, parent: Path) -> str:
    """Return `mod name { … }` with the module's file and those of its children inside."""
    children = parent / name
    path = next(
        (path for path in (parent / f"{name}.rs", children / "mod.rs") if path.is_file()), None
    )
    if path is None:
        raise ValueError(f"Rust module {name!r} has no file in {parent}")
    text = path.read_text(encoding="utf-8")
    if "crate::" in text:
        raise ValueError(f"{path}: use super:: instead of crate:: (the file is nested elsewhere)")
    body = _MODULE_DECLARATION.sub(
        lambda match: _module(match["visibility"] or "", match["name"], children), text
    )
    return f"{visibility}mod {name} {{\n{body}\n}}"
