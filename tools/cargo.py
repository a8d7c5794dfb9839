"""The test programs of a crate, built by cargo and run without it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

#: A clean machine compiles proptest first.
TIMEOUT = 900


class BuildError(Exception):
    """The tests do not compile; the message is the compiler's."""


def test_programs(crate: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Build the tests of a crate; return the programs: `lib` for the crate's own, else by name."""
    done = subprocess.run(
        ["cargo", "test", "--no-run", "--message-format=json"],
        cwd=crate,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    # cargo's own errors are no messages.
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0:
        rendered = [m["message"]["rendered"] for m in messages if m["reason"] == "compiler-message"]
        errors = "".join(text for text in rendered if text.startswith("error"))
        raise BuildError(errors or done.stderr)
    programs = {}
    for message in messages:
        if message.get("executable") and message["profile"]["test"]:
            target = message["target"]
            programs["lib" if "lib" in target["kind"] else target["name"]] = message["executable"]
    return programs
