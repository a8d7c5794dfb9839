"""Events that a worker process tells, among whatever else is printed in it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Say: TypeAlias = Callable[[Mapping[str, Any]], None]

#: Begins a line with an event.
MARK = "@rextio-torch "


def say(event: Mapping[str, Any]) -> None:
    """Write an event, at the beginning of a line whatever was printed before."""
    sys.stdout.flush()
    os.write(1, f"\n{MARK}{json.dumps(event)}\n".encode())
