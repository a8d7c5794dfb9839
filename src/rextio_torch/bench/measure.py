"""Times contenders in turns, so that all of them see the same machine."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

from rextio_torch.bench.contender import Contender
from rextio_torch.bench.effort import Effort
from rextio_torch.bench.quiet import Watch, is_quiet, wait_until_quiet

#: How long a contender with several threads runs before it is timed. OpenMP's threads spin for
#: about 20 ms when their work is done and take a core from the contender that follows; and threads
#: that slept may need some milliseconds to get a core each.
_WARM_SECONDS = 40e-3


def calls_per_round(contender: Contender, effort: Effort) -> int:
    """Warm a contender up and return how many calls of it fill a block."""
    count = 1
    with contender.context():
        contender.sample(1)
        while True:
            seconds = contender.sample(count)
            if seconds >= effort.block_seconds / 4 or count >= 1 << 24:
                # Twice, since the first of these runs was still warming up.
                seconds = min(seconds, contender.sample(count))
                return max(1, round(count * effort.block_seconds / max(seconds, 1e-9)))
            count *= 4


@dataclass(frozen=True)
class Measured:
    """The seconds per call of each contender in each round, and its calls per round."""

    rounds: dict[str, list[float]]
    calls: dict[str, int]
    #: Cores that other programs used meanwhile, if known.
    others: float | None


@dataclass
class Patience:
    """How long a process may still wait for a quiet machine."""

    seconds: float

    def wait(self, most_seconds: float) -> None:
        """Wait until the machine is quiet, or so long at most."""
        begun = time.monotonic()
        if self.seconds > 0:
            wait_until_quiet(min(most_seconds, self.seconds))
        self.seconds -= time.monotonic() - begun


def measure(
    contenders: Mapping[str, Contender], effort: Effort, threads: int, patience: Patience
) -> Measured:
    """Time contenders when the machine is quiet; again if it was not, and keep the quietest."""
    found: list[Measured] = []
    while len(found) < effort.attempts:
        patience.wait(effort.quiet_seconds)
        found.append(time_in_turns(contenders, effort, threads))
        if is_quiet(found[-1].others) or patience.seconds <= 0:
            break
    return min(found, key=lambda measured: measured.others or 0.0)


def time_in_turns(contenders: Mapping[str, Contender], effort: Effort, threads: int) -> Measured:
    """Time contenders once."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        calls = {name: calls_per_round(c, effort) for name, c in contenders.items()}
        rounds: dict[str, list[float]] = {name: [] for name in contenders}
        order = list(contenders)
        shuffle = random.Random(0).shuffle
        begun = time.perf_counter()
        watch = Watch()
        for number in range(effort.most_rounds):
            late = time.perf_counter() - begun > effort.case_seconds
            if late and number >= effort.least_rounds:
                break
            shuffle(order)
            for name in order:
                contender = contenders[name]
                with contender.context():
                    _warm(contender, _WARM_SECONDS if threads > 1 else 0.0)
                    rounds[name].append(contender.sample(calls[name]) / calls[name])
        return Measured(rounds, calls, watch.others())
    finally:
        if was_enabled:
            gc.enable()


def _warm(contender: Contender, seconds: float) -> None:
    """Run untimed, once at least: what the contender before left in the caches is not its own."""
    end = time.perf_counter() + seconds
    while True:
        contender.sample(1)
        if time.perf_counter() >= end:
            return
