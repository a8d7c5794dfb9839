"""Which functions of a source file have tensor annotations, by the names of the markers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from rextio_torch.ops.model import ALL_TYPES

_MARKERS = frozenset(tensor_type.marker for tensor_type in ALL_TYPES)


def tensor_functions(source: Path) -> dict[str, list[str]]:
    """Return the functions and methods with a marker in their signature, as `f` or `Class.f`.

    With each, its tensor parameters whose default is a constant, and so no tensor. Annotations in
    quotes and other names for a marker are not seen, nor functions in functions.
    """
    try:
        return dict(_found(ast.parse(source.read_bytes()), ""))
    except (OSError, SyntaxError, ValueError):
        return {}


def _found(node: ast.AST, prefix: str) -> Iterator[tuple[str, list[str]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            signature = [child.args, *([child.returns] if child.returns else [])]
            if any(map(_has_marker, signature)):
                yield prefix + child.name, list(_constant_defaults(child.args))
        elif isinstance(child, ast.ClassDef):
            yield from _found(child, f"{prefix}{child.name}.")
        else:
            yield from _found(child, prefix)


def _constant_defaults(arguments: ast.arguments) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    first = len(positional) - len(arguments.defaults)
    pairs = [
        *zip(positional[first:], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    for argument, default in pairs:
        annotated = argument.annotation is not None and _has_marker(argument.annotation)
        if annotated and isinstance(default, ast.Constant):
            yield argument.arg


def _has_marker(part: ast.AST) -> bool:
    names = (
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(part)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    return not _MARKERS.isdisjoint(names)
