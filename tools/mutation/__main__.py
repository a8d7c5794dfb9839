"""Check that the tests notice deliberate mistakes.

    python -m tools.mutation [FAMILY...]

A family is the first word of a row, such as `softmax` or `matmul`. The family `native` takes
minutes and runs only where it is named. Exit 1 if a mistake survives.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tools.mutation.check import (
    MutationError,
    survivors_in_kernels,
    survivors_in_native,
    survivors_in_rules,
)
from tools.mutation.front_end import FRONT_END
from tools.mutation.kernels import KERNELS
from tools.mutation.native import NATIVE
from tools.mutation.rules import RULES


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rows of the chosen families; return 1 if a mistake survives, 2 if a row is wrong."""
    usual = list(dict.fromkeys(row.family for row in (*RULES, *FRONT_END, *KERNELS)))
    families = [*usual, "native"]
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument(
        "family", nargs="*", help=f"one of {', '.join(families)}; all but native if none"
    )
    chosen = parser.parse_args(arguments).family or usual
    began = time.monotonic()
    done, survived = 0, []
    try:
        for check, table in (
            (survivors_in_rules, RULES),
            (survivors_in_rules, FRONT_END),
            (survivors_in_kernels, KERNELS),
            (survivors_in_native, NATIVE),
        ):
            rows = [row for row in table if row.family.startswith(tuple(chosen))]
            for row, survives in check(rows) if rows else ():
                done += 1
                survived += [row] if survives else []
                print(f"{'SURVIVES' if survives else 'noticed '}  {row}  ({row.test})", flush=True)
    except (MutationError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{done} mistakes, {len(survived)} survive, {time.monotonic() - began:.0f} s")
    return 1 if survived or not done else 0


if __name__ == "__main__":
    sys.exit(main())
