"""Long programs: their output line by line as it comes, and no process left behind."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

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

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
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
    on_line: Callable[[str, str], None],
    on_tick: Callable[[], None],
    keep: Sequence[int] = (),
    interval: float = 0.25,
) -> int:
    """Run a program; `on_line` gets each line with its stream's name, `on_tick` runs meanwhile.

    `keep` names file descriptors that the program inherits: a lock then outlives this process.
    Whatever goes wrong here, the program and all it started are ended first.
    """
    process = subprocess.Popen(
        list(command),
        env=dict(variables),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        pass_fds=tuple(keep),
    )
    lines: queue.Queue[tuple[str, str] | None] = queue.Queue()

    def read(name: str, stream: IO[str]) -> None:
        for line in stream:
            lines.put((name, line.rstrip("\n")))
        lines.put(None)

    readers = [
        threading.Thread(target=read, args=(name, stream), daemon=True)
        for name, stream in (("stdout", process.stdout), ("stderr", process.stderr))
        if stream is not None
    ]
    try:
        for reader in readers:
            reader.start()
        left = len(readers)
        while left:
            try:
                item = lines.get(timeout=interval)
            except queue.Empty:
                on_tick()
                if process.poll() is not None and lines.empty():
                    # Gone, yet something it started still holds the pipe: not waited for.
                    break
                continue
            if item is None:
                left -= 1
            else:
                on_line(*item)
        return process.wait()
    except BaseException:
        end_tree(process)
        raise


def end_tree(process: subprocess.Popen[str]) -> None:
    """End a process and everything that it started, in whatever session."""
    family = [process.pid, *descendants(process.pid)]
    _signal(family, signal.SIGTERM)
    deadline = time.monotonic() + _TERM_SECONDS
    while time.monotonic() < deadline:
        # What a dying process started meanwhile is found here.
        family = list(dict.fromkeys([*family, *descendants(process.pid)]))
        process.poll()
        if not any(_alive(pid) for pid in family):
            return
        time.sleep(0.05)
    _signal(family, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_TERM_SECONDS)


def descendants(root: int) -> list[int]:
    """Return the ids of all processes that descend from one."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    result: list[int] = []
    pending = [root]
    while pending:
        found = children.get(pending.pop(), [])
        result.extend(found)
        pending.extend(found)
    return result


def _parents() -> Iterator[tuple[int, int]]:
    if not os.path.isdir("/proc/self"):
        command = ["ps", "-A", "-o", "pid=,ppid="]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            pid, parent = line.split()
            yield int(pid), int(parent)
        return
    for name in os.listdir("/proc"):
        state = _stat(name) if name.isdigit() else []
        if len(state) > 1:
            yield int(name), int(state[1])


def _stat(pid: str) -> list[str]:
    """Return the fields of /proc/<pid>/stat from the state on."""
    try:
        text = Path("/proc", pid, "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    # The name in parentheses may itself hold spaces and parentheses.
    return text.rpartition(")")[2].split()


def _signal(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return _stat(str(pid))[:1] != ["Z"]
