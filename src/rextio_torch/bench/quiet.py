"""How much of the processor other programs use; known on Linux only."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")
#: Columns of /proc/stat in which a core does not work: idle, and waiting for a disk. Time that a
#: virtual machine did not get counts as work of others.
_IDLE = (3, 4)
#: Guest time is part of user time already.
_COLUMNS = 8
#: Others may use this much of a core before a measurement counts as disturbed.
QUIET_CORES = 0.1


class Watch:
    """Counts from when it is made."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._busy = _busy_seconds()
        self._own = time.process_time()

    def others(self) -> float | None:
        """Return how many cores other programs have used on average, if that is known."""
        busy = _busy_seconds()
        if busy is None or self._busy is None:
            return None
        own = time.process_time() - self._own
        elapsed = max(time.monotonic() - self._begun, 1e-9)
        return max(0.0, (busy - self._busy - own) / elapsed)


def is_quiet(others: float | None) -> bool:
    """Whether a measurement was not disturbed; unknown counts as quiet."""
    return others is None or others <= QUIET_CORES


def wait_until_quiet(most_seconds: float) -> bool:
    """Wait until other programs leave the processor alone, and return whether they do."""
    end = time.monotonic() + most_seconds
    while True:
        watch = Watch()
        time.sleep(0.3)
        if is_quiet(watch.others()):
            return True
        if time.monotonic() >= end:
            return False


def _busy_seconds() -> float | None:
    try:
        first = _STAT.read_text(encoding="ascii").splitlines()[0]
    except (OSError, IndexError):
        return None
    ticks = [int(value) for value in first.split()[1 : 1 + _COLUMNS]]
    busy = sum(value for column, value in enumerate(ticks) if column not in _IDLE)
    return busy / os.sysconf("SC_CLK_TCK")
