"""Calls that write something somewhere: `print` and logging."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from rextio_torch.syntax.source import SourceFile
from rextio_torch.syntax.tree import dotted_name, own_nodes


def output_calls(file: SourceFile, node: cst.FunctionDef) -> Iterator[cst.Call]:
    """Yield the calls of a function that print or log."""
    for item in own_nodes(node.body):
        name = dotted_name(item.func) if isinstance(item, cst.Call) else None
        if name is None or not isinstance(item, cst.Call):
            continue
        target = file.resolver.target(name) or ""
        logs = name.partition(".")[0] in file.names.loggers or target.startswith("logging.")
        if name == "print" or logs:
            yield item
