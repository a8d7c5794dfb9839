"""Progress of long steps: what cargo says, and how it is shown on a terminal and elsewhere."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column

from rextio_torch.cli.processes import run_lines

_STARTED = re.compile(r"^\s*Compiling (\S+) v(\S+)")
_SLOW = {"torch-sys": "takes minutes"}


@dataclass
class CargoProgress:
    """What a `cargo build --message-format=json…` has done so far, from its output."""

    #: The package that is being built around the dependencies; not counted.
    root: str = ""
    #: Packages to compile, dependencies only, once that is known.
    total: int | None = None
    done: set[str] = field(default_factory=set)
    running: dict[str, float] = field(default_factory=dict)
    fresh: int = 0
    #: Cargo's own lines other than `Compiling`, the errors among them.
    notes: list[str] = field(default_factory=list)

    def feed(self, line: str, now: float) -> str | None:
        """Take a line of cargo's output; return the package that it says is finished."""
        if line.startswith("{"):
            try:
                return self._finished(json.loads(line))
            except ValueError:
                pass
        started = _STARTED.match(line)
        if started is None:
            if line.strip():
                self.notes.append(line)
        elif started[1] != self.root:
            self.running[started[1]] = now
        return None

    def _finished(self, message: Mapping[str, Any]) -> str | None:
        reason = message.get("reason")
        if reason not in ("compiler-artifact", "build-script-executed"):
            return None
        package = str(message.get("package_id", ""))
        name = package_name(package)
        kinds = message.get("target", {}).get("kind", [])
        if reason == "build-script-executed" or "custom-build" in kinds:
            # A build script is a step on the way; the library is the package. It may wait long for
            # others now, and cargo does not say when it is compiled.
            if name not in _SLOW:
                self.running.pop(name, None)
            return None
        if name == self.root or package in self.done:
            return None
        self.done.add(package)
        self.running.pop(name, None)
        if message.get("fresh"):
            self.fresh += 1
            return None
        return name

    @property
    def counter(self) -> str:
        """`12/60`, or `12` while the total is not known."""
        return f"{len(self.done)}/{self.total}" if self.total else str(len(self.done))

    @property
    def current(self) -> str:
        """What compiles now, the longest first, with a word on what is known to be slow."""
        names = sorted(self.running, key=lambda name: (name not in _SLOW, self.running[name]))
        return ", ".join(f"{n} ({_SLOW[n]})" if n in _SLOW else n for n in names[:3])


def package_name(package_id: str) -> str:
    """Return the name in cargo's package id."""
    # registry+https://…#anyhow@1.0.105 · path+file:///…/name#0.1.0
    url, _, fragment = package_id.rpartition("#")
    name, at, _ = fragment.partition("@")
    return name if at else url.rstrip("/").rpartition("/")[2]


class Display:
    """Shows steps: a live bar on a terminal, plain lines elsewhere, never long silence."""

    #: A silent step says that it is alive this often, in seconds, where nothing is live.
    HEARTBEAT = 10.0

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self.clock = clock

    def say(self, text: str) -> None:
        """Print one plain line."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def waiting(self, what: str) -> Callable[[str], None]:
        """Return a function that says, given who holds a lock, what is being waited for."""
        return lambda holder: self.say(f"waiting for {what}" + (f" ({holder})" if holder else ""))

    @contextmanager
    def step(self, title: str, cargo: CargoProgress | None = None) -> Iterator[Step]:
        """Show a step while it runs, with a bar if it is one of cargo's."""
        step = Step(self, title, cargo)
        if not self.console.is_terminal:
            self.say(f"{title} …")
            yield step
            return
        columns = [
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            *((BarColumn(bar_width=12), MofNCompleteColumn()) if cargo else ()),
            TimeElapsedColumn(),
            TextColumn(
                "{task.fields[detail]}",
                markup=False,
                table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
            ),
        ]
        with Progress(*columns, console=self.console, transient=True, expand=True) as live:
            live.add_task(title, total=None, detail="")
            step.live = live
            yield step

    def run(
        self,
        title: str,
        command: Sequence[str],
        *,
        variables: Mapping[str, str],
        cwd: Path,
        keep: Sequence[int],
    ) -> tuple[int, str]:
        """Run a program as one step; return its exit status and what it wrote."""
        lines: list[str] = []
        with self.step(title) as step:
            status = run_lines(
                command,
                variables=variables,
                cwd=cwd,
                on_line=lines.append,
                on_tick=step.tick,
                keep=keep,
            )
        return status, "\n".join(lines)


class Step:
    """One step that is being shown: redrawn where it is live, else a line now and then."""

    def __init__(self, display: Display, title: str, cargo: CargoProgress | None) -> None:
        self.display = display
        self.title = title
        self.cargo = cargo
        self.live: Progress | None = None
        #: What of the step is being done, where it is not one of cargo's.
        self.detail = ""
        self.started = self._said = display.clock()

    @property
    def seconds(self) -> float:
        """How long the step has taken."""
        return self.display.clock() - self.started

    def finished(self, name: str) -> None:
        """One of cargo's packages is finished."""
        if self.live is None:
            self._line(name)

    def tick(self) -> None:
        """Nothing new: called several times a second."""
        cargo = self.cargo
        detail = cargo.current if cargo else self.detail
        if self.live is not None:
            self.live.update(
                self.live.task_ids[0],
                total=cargo.total if cargo else None,
                completed=len(cargo.done) if cargo else None,
                detail=detail,
            )
        elif self.display.clock() - self._said >= Display.HEARTBEAT:
            self._line(f"still running: {detail or self.title}")

    def _line(self, text: str) -> None:
        self._said = self.display.clock()
        counter = f"[{self.cargo.counter}] " if self.cargo else ""
        self.display.say(f"  {self.seconds:5.0f} s  {counter}{text}")
