"""What a build gave, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

import click

from rextio_torch.cli import hiding_file
from rextio_torch.cli.build import BuildResult, python_path
from rextio_torch.cli.errors import quoted
from rextio_torch.cli.report import INLINED


def lines(result: BuildResult) -> Iterator[str]:
    """Yield the functions and how they run, and what was built."""
    native = [function for function in result.functions if function.native]
    if not result.functions:
        yield "no functions"
    width = max((len(function.qualname) for function in result.functions), default=0)
    said = None
    for function in result.functions:
        if function.native:
            mark, text = click.style("native", fg="green", bold=True), function.route
        elif function.route == INLINED:
            mark, text = click.style("inlined", fg="green", bold=True), function.reason or ""
        else:
            mark, text = click.style("python", fg="yellow", bold=True), function.reason or ""
        said, text = text, "(as above)" if not function.native and text == said else text
        yield f"{mark}  {function.qualname:<{width}}  {text}"
        if function.suggestion:
            yield f"        {'':<{width}}  instead: {function.suggestion}"
        if function.native and function.wrong_defaults:
            names = ", ".join(function.wrong_defaults)
            text = f"warning: {names}: the default is no tensor, a call without it is a TypeError"
            yield f"        {'':<{width}}  {text}"
    seconds = result.seconds
    if not native:
        yield "no native function"
    if result.module is not None:
        yield f"module: {result.module} (source {result.source_id[:12]})"
    if native:
        folder = python_path(result.project)
        yield f"use it: PYTHONPATH={quoted(folder)} python -P <script>"
        hiding = hiding_file(str(folder))
        if hiding is not None:
            yield f"warning: {hiding} hides the module of that name from <script>: rename it"
    if result.core_wheel is not None:
        yield (
            f"wheel: {result.core_wheel} is Rextio's: it and Rextio, or it and another such wheel, "
            f"overwrite each other; rextio-torch wheel {quoted(result.project)} "
            "makes one that can stand beside them"
        )
    yield (
        f"{len(native)} of {len(result.functions)} functions native, {seconds['total']:.1f} s "
        f"(dependencies {result.dependencies}, {seconds['dependencies']:.1f} s)"
    )
