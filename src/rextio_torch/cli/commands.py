"""What every command does alike: JSON for programs, errors as text or JSON, the exit status."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

import click

from rextio_torch.cli.errors import CliError
from rextio_torch.cli.processes import Interrupted, stoppable

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def print_json(data: Mapping[str, Any], *, ok: bool = True) -> None:
    """Print a result, and whether it is as it should be."""
    click.echo(json.dumps({"ok": ok, **data}, indent=2))


def reporting(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command show what goes wrong in it, as text or as JSON, and exit with 1."""

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        try:
            with stoppable():
                return command(**arguments)
        except BrokenPipeError:
            raise
        except (CliError, OSError) as raised:
            error = raised if isinstance(raised, CliError) else _from_system(raised)
        except Interrupted as interrupted:
            click.echo("interrupted: nothing was left running, it can be started again", err=True)
            raise SystemExit(interrupted.status) from None
        if arguments.get("as_json"):
            print_json({"error": error.to_dict()}, ok=False)
        else:
            for line in error.lines():
                click.echo(line, err=True)
        raise SystemExit(1)

    return run


def _from_system(error: OSError) -> CliError:
    place = f" ({error.filename})" if error.filename else ""
    return CliError(
        f"the system refused: {error.strerror or error}{place}",
        expected="files that can be read and written, and room on the disk",
        found=str(error)[:500],
        repair="make room or give permission there, then run the command again; "
        "rextio-torch doctor looks at both",
    )
