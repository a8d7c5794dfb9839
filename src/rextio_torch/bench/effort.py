"""How long to measure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How long to measure a case."""

    #: A contender is called so often in a round that it takes about this long.
    block_seconds: float
    #: Rounds end after this time, within these bounds.
    case_seconds: float
    least_rounds: int
    most_rounds: int
    #: A disturbed measurement is made again, so often at most, each time after waiting so long at
    #: most for other programs to leave the processor alone.
    attempts: int
    quiet_seconds: float
