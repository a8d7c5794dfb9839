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
from rextio_torch.cli.progress import Display
from rextio_torch.verify.events import event_of

Event = Mapping[str, Any]


@dataclass
class Outcome:
    """What a process said: its events, other lines that it printed, and how it ended."""

    status: int = 0
    events: list[Event] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)

    def take(self, line: str) -> Event | None:
        """Take a line of its output; return the event in it, if there is one."""
        event = event_of(line)
        if event is None:
            self.printed += [line] if line else []
            return None
        # Thousands of cases: only the last one matters, and only if the process ends in it.
        if event["event"] == "case" and self.events and self.events[-1]["event"] == "case":
            self.events.pop()
        self.events.append(event)
        return event

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

    def require(self, what: str, *, started: str = "done") -> None:
        """Raise `CliError` if it found an error, or ended before an event of this kind."""
        if self.error is not None:
            raise self.error
        if not self.is_done and not self.of(started):
            raise self.failure(what)

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

    def on_line(line: str) -> None:
        event = outcome.take(line)
        if event is not None:
            step.detail = detail(event) or step.detail
            step.tick()

    with display.step(title) as step, tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "orders.json")
        file.write_text(json.dumps(orders), encoding="utf-8")
        outcome.status = run_lines(
            command(module, file),
            variables=variables,
            # Not in the project: a file of it could hide a module of Python.
            cwd=Path(folder),
            on_line=on_line,
            on_tick=step.tick,
        )
    return outcome


def command(module: str, orders: Path) -> Sequence[str]:
    """Return the command of a worker: -P keeps the current folder off its path."""
    return [sys.executable, "-P", "-m", module, str(orders)]


def quick(module: str, orders: Mapping[str, Any], environment: Environment) -> Outcome:
    """Run a worker that takes a moment, without showing it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "orders.json")
        file.write_text(json.dumps(orders), encoding="utf-8")
        done = environment.run(*command(module, file), cwd=Path(folder))
    outcome = Outcome(done.returncode)
    for line in (done.stdout + done.stderr).splitlines():
        outcome.take(line)
    return outcome
