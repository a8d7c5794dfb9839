"""The protocol of a worker process: orders in a JSON file, events among whatever else it prints."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from rextio_torch.verify.problems import VerifyError

Say: TypeAlias = Callable[[Mapping[str, Any]], None]

#: Begins a line with an event.
MARK = "@rextio-torch "


def say(event: Mapping[str, Any]) -> None:
    """Write an event, at the beginning of a line whatever was printed before."""
    sys.stdout.flush()
    os.write(1, f"\n{MARK}{json.dumps(event)}\n".encode())


def event_of(line: str) -> Mapping[str, Any] | None:
    """Return the event that a line of output holds, if it holds one."""
    if not line.startswith(MARK):
        return None
    event: Mapping[str, Any] = json.loads(line.removeprefix(MARK))
    return event


def serve(follow: Callable[[Mapping[str, Any]], None]) -> None:
    """Follow the orders in the file that is named, and say that it went well or why not."""
    orders = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        follow(orders)
    except VerifyError as error:
        say({"event": "error", **error.to_dict()})
    else:
        say({"event": "done"})
