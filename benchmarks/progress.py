"""Progress of a run: a live bar on a terminal, plain lines elsewhere, never long silence."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)


class Display:
    """Shows steps."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, text: str) -> None:
        """Print one plain line."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Step]:
        """Show a step of so many parts while it runs."""
        if not self.console.is_terminal:
            self.say(f"{title}: {total} cases")
            yield PlainStep(self, total)
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[now]}", markup=False),
        )
        with Progress(*columns, console=self.console, transient=True) as progress:
            yield LiveStep(progress, progress.add_task(title, total=total, now=""))


class Step:
    """One step that is being shown; several threads may report to it."""

    def now(self, what: str) -> None:
        """Say what is being done."""

    def finished(self, what: str) -> None:
        """One of the step's parts is finished."""


class LiveStep(Step):
    """A step on a terminal."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def now(self, what: str) -> None:
        """Show what is being done."""
        self._progress.update(self._task, now=what)

    def finished(self, what: str) -> None:
        """Advance."""
        self._progress.update(self._task, advance=1, now=what)


class PlainStep(Step):
    """A step in a log: a line per part, and one when a part takes long."""

    QUIET_SECONDS = 15.0

    def __init__(self, display: Display, total: int) -> None:
        self._display = display
        self._total = total
        self._done = 0
        self._begun = self._said = time.monotonic()
        self._lock = threading.Lock()

    def now(self, what: str) -> None:
        """Print a line if it has been quiet for long."""
        with self._lock:
            if time.monotonic() - self._said >= self.QUIET_SECONDS:
                self._line(what)

    def finished(self, what: str) -> None:
        """Print a line."""
        with self._lock:
            self._done += 1
            self._line(what)

    def _line(self, what: str) -> None:
        self._said = time.monotonic()
        seconds = self._said - self._begun
        self._display.say(f"  {seconds:5.0f} s  [{self._done}/{self._total}] {what}")
