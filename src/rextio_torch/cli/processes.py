"""Long programs: their output line by line as it comes, and no process left behind."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

_TICK_SECONDS = 0.25
_TERM_SECONDS = 3.0


class Interrupted(BaseException):
    """The process was told to stop; everything is released on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Turn the signals that end a process into `Interrupted`, so that clean-up runs."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    with _handled_by(handle):
        yield


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let what is in here come to its end: a signal that arrives meanwhile counts afterwards."""
    arrived: list[int] = []
    # Only the main thread is told of signals.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        with _handled_by(lambda number, frame: arrived.append(number)):
            yield
    finally:
        for number in arrived[:1]:
            signal.raise_signal(number)


@contextlib.contextmanager
def _handled_by(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle the signals that end a process, but for those that it was told to ignore (nohup)."""
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    numbers = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_lines(
    command: Sequence[str],
    *,
    variables: Mapping[str, str],
    cwd: Path,
    on_line: Callable[[str], object],
    on_tick: Callable[[], None],
    keep: Sequence[int] = (),
) -> int:
    """Run a program; `on_line` gets each line it writes, `on_tick` runs while it writes none.

    `keep` names file descriptors that the program inherits: a lock then outlives this process.
    Whatever goes wrong here, the program and all it started are ended first.
    """
    lines: queue.Queue[str | None] = queue.Queue()

    def read(output: Iterable[str]) -> None:
        for line in output:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    process = None
    try:
        # Between the start and the name nothing could end it.
        with undisturbed():
            process = subprocess.Popen(
                list(command),
                env=dict(variables),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
                pass_fds=tuple(keep),
            )
        threading.Thread(target=read, args=(process.stdout or (),), daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                on_tick()
                if process.poll() is not None and lines.empty():
                    # Gone, yet something it started still holds the pipe: not waited for.
                    break
                continue
            if line is None:
                break
            on_line(line)
        return process.wait()
    except BaseException:
        if process is not None:
            # Not left half done by a second Ctrl-C.
            with undisturbed():
                end_tree(process)
        raise


def end_tree(process: subprocess.Popen[str]) -> None:
    """End a process and everything that it started, in whatever session."""
    family: set[int] = set()
    began = time.monotonic()
    while (passed := time.monotonic() - began) < 2 * _TERM_SECONDS:
        process.poll()
        running = _running()
        # What a dying process started meanwhile is found here.
        new = set(_descendants(process.pid, running)) - family
        family |= new
        left = family & running.keys()
        if not left:
            return
        if passed < _TERM_SECONDS:
            _signal(new, signal.SIGTERM)
        else:
            _signal(left, signal.SIGKILL)
        time.sleep(0.05)


def _descendants(root: int, parents: Mapping[int, int]) -> list[int]:
    """Return a process and all that descend from it."""
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def _running() -> dict[int, int]:
    """Return each process that has not ended, and its parent."""
    if os.path.isdir("/proc/self"):
        entries = [_stat(name) for name in os.listdir("/proc") if name.isdigit()]
    else:
        command = ["ps", "-A", "-o", "pid=,state=,ppid="]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        entries = [line.split() for line in done.stdout.splitlines()]
    return {int(e[0]): int(e[2]) for e in entries if len(e) > 2 and not e[1].startswith("Z")}


def _stat(pid: str) -> list[str]:
    """Return a process's id, state and parent from /proc/<pid>/stat."""
    try:
        text = Path("/proc", pid, "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    # The name in parentheses may itself hold spaces and parentheses.
    return [pid, *text.rpartition(")")[2].split()[:2]]


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)
