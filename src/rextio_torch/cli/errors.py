"""The one error of the command line: what was expected, what came, what to do."""

from __future__ import annotations

import shlex
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any


def quoted(path: Path) -> str:
    """Return a path as a command takes it."""
    return shlex.quote(str(path))


@dataclass(eq=False)
class CliError(Exception):
    """A failure that the user can act on; shown without a traceback, exit status 1."""

    message: str
    _: KW_ONLY
    expected: str | None = None
    found: str | None = None
    repair: str | None = None
    detail: str | None = None

    def __str__(self) -> str:
        return self.message

    def lines(self) -> list[str]:
        """Return the error as lines of plain text."""
        result = [f"error: {self.message}"]
        if self.expected is not None:
            result.append(f"  expected: {self.expected}")
        if self.found is not None:
            result.append(f"  found:    {self.found}")
        if self.detail is not None:
            result.extend(f"  | {line}" for line in self.detail.rstrip().splitlines())
        if self.repair is not None:
            result.append(f"  repair:   {self.repair}")
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON-ready data."""
        return {field.name: getattr(self, field.name) for field in fields(CliError)}
