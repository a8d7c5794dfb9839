"""Locks between processes: advisory `flock` on small files that are never removed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def locked(
    path: Path,
    *,
    shared: bool = False,
    waiting: Callable[[str], None] | None = None,
) -> Iterator[int]:
    """Hold a lock on `path` and give its file descriptor; `waiting` is told who holds it.

    The descriptor can be handed to a child process: the lock then lasts until both are gone.
    """
    # Not at the top: the command line must be able to say that Windows is not supported.
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting(os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip())
            fcntl.flock(descriptor, mode)
        if not shared:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)
