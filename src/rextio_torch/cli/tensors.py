"""Which functions of a source file have tensor annotations, by the names of the markers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from rextio_torch.ops.model import ALL_TYPES

_MARKERS = frozenset(tensor_type.marker for tensor_type in ALL_TYPES)


def tensor_functions(source: Path) -> list[str]:
    """Return the functions and methods with a marker in their signature, as `f` or `Class.f`.

    Annotations in quotes and other names for a marker are not seen, nor functions in functions.
    """
    try:
        return list(_found(ast.parse(source.read_bytes()), ""))
    except (OSError, SyntaxError, ValueError):
        return []


def _found(node: ast.AST, prefix: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if _has_marker(child):
                yield prefix + child.name
        elif isinstance(child, ast.ClassDef):
            yield from _found(child, f"{prefix}{child.name}.")
        else:
            yield from _found(child, prefix)


def _has_marker(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    signature = [function.args, *([function.returns] if function.returns else [])]
    names = (
        node.id if isinstance(node, ast.Name) else node.attr
        for part in signature
        for node in ast.walk(part)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    return not _MARKERS.isdisjoint(names)
