"""One check and its result, as lines and as an error."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import click

from rextio_torch.cli.errors import CliError

Status = Literal["ok", "warn", "fail"]
_MARKS: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "red"}


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    status: Status
    expected: str
    found: str
    repair: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """Return the check as JSON-ready data."""
        return asdict(self)


def checked(
    name: str,
    right: bool,
    expected: str,
    found: str,
    repair: str | None,
    *,
    otherwise: Status = "fail",
) -> Check:
    """Return a check that is ok and needs no repair, or `otherwise` and does."""
    return Check(name, "ok" if right else otherwise, expected, found, None if right else repair)


def failures(checks: list[Check]) -> list[Check]:
    """Return the checks that a native build would fail on."""
    return [check for check in checks if check.status == "fail"]


def lines(checks: list[Check]) -> list[str]:
    """Return one line per check, and two more where it is not well."""
    width = max(len(check.name) for check in checks)
    result = []
    for check in checks:
        mark = click.style(f"{check.status:<4}", fg=_MARKS[check.status], bold=True)
        result.append(f"{mark}  {check.name:<{width}}  {check.found}")
        if check.status != "ok":
            result.append(f"      {'':<{width}}  expected: {check.expected}")
            if check.repair is not None:
                result.append(f"      {'':<{width}}  repair:   {check.repair}")
    return result


class UnfitEnvironmentError(CliError):
    """No build was started: it would fail. Carries the checks that say why."""

    def __init__(self, checks: list[Check]) -> None:
        super().__init__("a native build would fail, so none was started")
        self.checks = checks

    def lines(self) -> list[str]:
        """Return the error and its checks as lines of text."""
        return [*super().lines(), *lines(self.checks)]

    def to_dict(self) -> dict[str, Any]:
        """Return the error and its checks as JSON-ready data."""
        return {**super().to_dict(), "checks": [check.to_dict() for check in self.checks]}
