"""How long the random tests run."""

from __future__ import annotations

import os

#: `make fuzz` asks for more than `make test`.
TIMES = int(os.environ.get("REXTIO_TORCH_FUZZ_TIMES", "1"))


def examples(usual: int) -> int:
    """Return how many examples a random test draws."""
    return usual * TIMES
