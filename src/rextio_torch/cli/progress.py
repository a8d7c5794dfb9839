"""Progress of long steps: what cargo says, and how it is shown on a terminal and elsewhere."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column

_STARTED = re.compile(r"^\s*Compiling (\S+) v(\S+)")
_SLOW = {"torch-sys": "takes minutes"}


@dataclass
class CargoProgress:
    """What a `cargo build --message-format=json…` has done so far, from its output."""

    #: Packages to compile, dependencies only; unknown until cargo's metadata is read.
    total: int | None = None
    #: The package that is being built around the dependencies; not counted.
    root: str = ""
    done: set[str] = field(default_factory=set)
    running: dict[str, float] = field(default_factory=dict)
    fresh: int = 0
    success: bool | None = None
    #: Cargo's own lines other than `Compiling`, the errors among them.
    notes: list[str] = field(default_factory=list)

    def feed_message(self, line: str) -> str | None:
        """Take a line of standard output; return the package that it says is finished."""
        try:
            message: Any = json.loads(line)
        except ValueError:
            return None
        if not isinstance(message, dict):
            return None
        reason = message.get("reason")
        if reason == "build-finished":
            self.success = bool(message.get("success"))
            return None
        if reason != "compiler-artifact":
            return None
        kinds = message.get("target", {}).get("kind", [])
        package = str(message.get("package_id", ""))
        name = package_name(package)
        # A build script is a step on the way; the library is the package.
        if "custom-build" in kinds or name == self.root or package in self.done:
            return None
        self.done.add(package)
        self.running.pop(name, None)
        if message.get("fresh"):
            self.fresh += 1
            return None
        return name

    def feed_status(self, line: str, now: float) -> str | None:
        """Take a line of standard error; return the package that it says is started."""
        started = _STARTED.match(line)
        if started is None:
            if line.strip():
                self.notes.append(line)
            return None
        name = started.group(1)
        if name == self.root:
            return None
        self.running[name] = now
        return name

    @property
    def counter(self) -> str:
        """`12/60`, or `12` while the total is not known."""
        return f"{len(self.done)}/{self.total}" if self.total else str(len(self.done))

    @property
    def current(self) -> str:
        """What compiles now, the longest first, with a word on what is known to be slow."""
        names = sorted(self.running, key=lambda name: self.running[name])
        slow = [name for name in names if name in _SLOW]
        shown = [*slow, *(name for name in names if name not in _SLOW)][:3]
        return ", ".join(f"{n} ({_SLOW[n]})" if n in _SLOW else n for n in shown)


def package_name(package_id: str) -> str:
    """Return the name in cargo's package id, in its present form and the older one."""
    # registry+https://…#anyhow@1.0.105 · path+file:///…/name#0.1.0 · anyhow 1.0.105 (registry+…)
    if "#" in package_id:
        url, _, fragment = package_id.rpartition("#")
        if "@" in fragment:
            return fragment.partition("@")[0]
        return url.rstrip("/").rpartition("/")[2]
    return package_id.partition(" ")[0]


class Display:
    """Shows steps: a live bar on a terminal, plain lines elsewhere, never long silence."""

    #: A silent step says that it is alive this often, in seconds, where nothing is live.
    HEARTBEAT = 10.0

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self.clock = clock
        self.started = clock()

    def say(self, text: str) -> None:
        """Print one plain line."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, title: str, total: int | None = None) -> Iterator[Step]:
        """Show a step while it runs."""
        step: Step
        if self.console.is_terminal:
            columns = [
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                *((BarColumn(bar_width=12), MofNCompleteColumn()) if total else ()),
                TimeElapsedColumn(),
                TextColumn(
                    "{task.fields[detail]}",
                    markup=False,
                    table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
                ),
            ]
            with Progress(*columns, console=self.console, transient=True, expand=True) as progress:
                task = progress.add_task(title, total=total, detail="")
                step = LiveStep(self, title, progress, task)
                yield step
        else:
            self.say(f"{title} …")
            step = PlainStep(self, title)
            yield step


class Step:
    """One step that is being shown."""

    def __init__(self, display: Display, title: str) -> None:
        self.display = display
        self.title = title
        self.started = display.clock()

    @property
    def seconds(self) -> float:
        """How long the step has taken."""
        return self.display.clock() - self.started

    def finished(self, name: str, counter: str) -> None:
        """One of the step's parts is finished."""

    def tick(self, counter: str, done: int, detail: str) -> None:
        """Nothing new: called several times a second."""


class LiveStep(Step):
    """A step on a terminal."""

    def __init__(self, display: Display, title: str, progress: Progress, task: TaskID) -> None:
        super().__init__(display, title)
        self._progress = progress
        self._task = task

    def tick(self, counter: str, done: int, detail: str) -> None:
        """Redraw."""
        self._progress.update(self._task, completed=done, detail=detail)


class PlainStep(Step):
    """A step in a log."""

    def __init__(self, display: Display, title: str) -> None:
        super().__init__(display, title)
        self._said = display.clock()

    def finished(self, name: str, counter: str) -> None:
        """Print a line per part."""
        self._line(f"[{counter}] {name}")

    def tick(self, counter: str, done: int, detail: str) -> None:
        """Print a line when it has been quiet for long."""
        if self.display.clock() - self._said >= Display.HEARTBEAT:
            prefix = f"[{counter}] " if counter else ""
            self._line(f"{prefix}still running: {detail or self.title}")

    def _line(self, text: str) -> None:
        self._said = self.display.clock()
        self.display.say(f"  {self.seconds:5.0f} s  {text}")
