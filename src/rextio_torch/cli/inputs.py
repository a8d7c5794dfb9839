"""What `verify` and `bench` call functions with, as the user says it: sizes, scalars, a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click


@dataclass(frozen=True)
class InputOptions:
    """The options that say what functions are called with."""

    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    inputs: Path | None = None

    def orders(self) -> dict[str, Any]:
        """Return them as JSON-ready data for the process that makes the inputs."""
        return {
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "values": dict(self.values),
            "inputs": None if self.inputs is None else str(self.inputs.absolute()),
        }


def _named(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> Any:
    """Read options of the form name=value."""
    pairs = [text.partition("=") for text in given]
    for name, equals, value in pairs:
        if not (name and equals and value):
            raise click.BadParameter(f"{name or value!r} is not of the form name=value")
    return {name: value for name, _, value in pairs}


def _shapes(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> Any:
    named = _named(context, option, given)
    try:
        shapes = {name: [int(size) for size in text.split("x")] for name, text in named.items()}
    except ValueError:
        raise click.BadParameter("sizes are written as 8x16") from None
    if any(size < 0 for shape in shapes.values() for size in shape):
        raise click.BadParameter("sizes are not negative")
    return shapes


def input_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say what functions are called with."""
    options = (
        click.option(
            "--shape",
            "shapes",
            multiple=True,
            callback=_shapes,
            help="Sizes of a parameter: x=8x16. Sizes that are not given follow from the "
            "operations, or are chosen.",
        ),
        click.option(
            "--value", "values", multiple=True, callback=_named, help="A scalar parameter: n=3."
        ),
        click.option(
            "--inputs",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            help="Recorded inputs by parameter: a dictionary saved by torch.save (.pt) or arrays "
            "of numpy (.npz).",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
