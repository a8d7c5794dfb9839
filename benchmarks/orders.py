"""What a measuring process is told to do: plain data that goes through a pipe as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from rextio_torch.bench.effort import Effort

FULL = Effort(
    block_seconds=2e-3,
    case_seconds=3.0,
    least_rounds=11,
    most_rounds=51,
    attempts=3,
    quiet_seconds=60.0,
)
BRIEF = Effort(
    block_seconds=5e-4,
    case_seconds=0.5,
    least_rounds=7,
    most_rounds=21,
    attempts=1,
    quiet_seconds=0.0,
)


@dataclass(frozen=True)
class Orders:
    """What one process has to do."""

    cases: list[str]
    threads: int
    folder: str
    effort: Effort
    simd: str | None = None
    #: Only compile what slow peers need, so that the timed run finds it ready.
    prepare_only: bool = False
    #: Slow peers are left out once preparing them has taken so long.
    prepare_seconds: float = float("inf")
    #: Pairs of case and contender that ended an earlier process, with the reason.
    failed: dict[str, dict[str, str]] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the orders as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Orders:
        """Read orders."""
        data = json.loads(text)
        return cls(**{**data, "effort": Effort(**data["effort"])})
