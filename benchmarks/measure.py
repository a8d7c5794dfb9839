"""Times contenders in turns, so that all of them see the same machine."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Mapping

from benchmarks.contender import Contender
from benchmarks.orders import Effort

#: Threads that wait for work spin for a while; they must not take the next contender's core.
_SETTLE_SECONDS = 2e-3


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


def time_in_turns(
    contenders: Mapping[str, Contender], effort: Effort, threads: int
) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Return the seconds per call of each contender in each round, and its calls per round."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        calls = {name: calls_per_round(c, effort) for name, c in contenders.items()}
        rounds: dict[str, list[float]] = {name: [] for name in contenders}
        order = list(contenders)
        shuffle = random.Random(0).shuffle
        begun = time.perf_counter()
        for number in range(effort.most_rounds):
            late = time.perf_counter() - begun > effort.case_seconds
            if late and number >= effort.least_rounds:
                break
            shuffle(order)
            for name in order:
                contender = contenders[name]
                if threads > 1:
                    time.sleep(_SETTLE_SECONDS)
                with contender.context():
                    # Once untimed: what the contender before left in the caches is not its own.
                    contender.sample(1)
                    rounds[name].append(contender.sample(calls[name]) / calls[name])
        return rounds, calls
    finally:
        if was_enabled:
            gc.enable()
