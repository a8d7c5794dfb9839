"""Processes that run a project's functions: orders in, events out, and what ended them."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError
from rextio_torch.cli.processes import run_lines
from rextio_torch.cli.progress import Display, Step
from rextio_torch.verify.events import MARK

Event = Mapping[str, Any]


@dataclass
class Outcome:
    """What a process said: its events, other lines that it printed, and how it ended."""

    status: int = 0
    events: list[Event] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)

    def of(self, kind: str) -> list[Event]:
        """Return the events of one kind."""
        return [event for event in self.events if event["event"] == kind]

    def last(self, kind: str) -> Event:
        """Return the last event of a kind, or an empty one."""
        return next(reversed(self.of(kind)), {})

    @property
    def error(self) -> CliError | None:
        """The error that the process found, as one of the command line."""
        event = self.last("error")
        if not event:
            return None
        return CliError(
            event["message"],
            expected=event["expected"],
            found=event["found"],
            repair=event["repair"],
        )

    @property
    def is_done(self) -> bool:
        """Whether the process came to its own end."""
        return bool(self.of("done"))

    @property
    def ending(self) -> str:
        """How it ended instead."""
        if self.status < 0:
            return f"the process was ended by {signal.Signals(-self.status).name}"
        return f"the process ended with exit status {self.status}"

    def failure(self, what: str) -> CliError:
        """Return the error of a process that ended early."""
        return CliError(
            f"{what} ended early",
            found=self.ending,
            detail="\n".join(self.printed[-20:]) or None,
            repair="rextio-torch doctor",
        )


def run_worker(
    title: str,
    module: str,
    orders: Mapping[str, Any],
    variables: Mapping[str, str],
    display: Display,
    detail: Callable[[Event], str | None] = lambda event: None,
) -> Outcome:
    """Run a module in a process of its own, as one step of the display."""
    outcome = Outcome()
    with display.step(title) as step, tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "orders.json")
        file.write_text(json.dumps(orders), encoding="utf-8")
        outcome.status = run_lines(
            command(module, file),
            variables=variables,
            # Not in the project: a file of it could hide a module of Python.
            cwd=Path(folder),
            on_line=lambda line: _take(line, outcome, step, detail),
            on_tick=step.tick,
        )
    return outcome


def command(module: str, orders: Path) -> Sequence[str]:
    """Return the command of a worker: -P keeps the current folder off its path."""
    return [sys.executable, "-P", "-m", module, str(orders)]


def _take(line: str, outcome: Outcome, step: Step, detail: Callable[[Event], str | None]) -> None:
    if not line.startswith(MARK):
        if line:
            outcome.printed.append(line)
        return
    event = json.loads(line.removeprefix(MARK))
    # Thousands of cases: only the last one matters, and only if the process ends in it.
    if event["event"] == "case" and outcome.events and outcome.events[-1]["event"] == "case":
        outcome.events.pop()
    outcome.events.append(event)
    text = detail(event)
    if text is not None:
        step.detail = text
    step.tick()


def quick(module: str, orders: Mapping[str, Any], environment: Environment) -> Outcome:
    """Run a worker that takes a moment, without showing it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "orders.json")
        file.write_text(json.dumps(orders), encoding="utf-8")
        done = environment.run(*command(module, file), cwd=Path(folder))
    outcome = Outcome(done.returncode)
    for line in (done.stdout + done.stderr).splitlines():
        if line.startswith(MARK):
            outcome.events.append(json.loads(line.removeprefix(MARK)))
        elif line:
            outcome.printed.append(line)
    return outcome
