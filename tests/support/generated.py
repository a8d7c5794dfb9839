"""The Rust that `rextio generate` writes for a project."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rextio.cli.main import main

from support.analysis import write_project

_FUNCTION = re.compile(r"^#\[pyfunction\]\nfn (?P<name>\w+).*?^\}$", re.M | re.S)


def generate(root: Path, modules: Mapping[str, str]) -> str:
    """Run `rextio generate` on modules and return the text of the generated crate."""
    write_project(root, modules)
    status = main(["generate", str(root), "--quiet"])
    if status != 0:
        raise AssertionError(f"rextio generate exited with {status}")
    return (root / ".rextio" / "generated" / "rust" / "src" / "lib.rs").read_text(encoding="utf-8")


def functions(crate: str) -> dict[str, str]:
    """Return the generated functions by name (`<module>__<function>`), without the rest."""
    return {match["name"]: match[0] for match in _FUNCTION.finditer(crate)}


def statements(function: str) -> list[str]:
    """Return the lines of a function's body."""
    return [line.strip() for line in function.splitlines()[2:-1]]
