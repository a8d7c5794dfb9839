"""Largest errors of the unary kernels over all 2^32 float32 inputs, beside eager PyTorch's own.

    python -m tools.accuracy [--step N] [--output accuracy.md]

Runs the runtime crate's `accuracy` example (our kernels on every instruction set of the machine,
against float64) and eager on the same inputs, and writes a table. All inputs take hours on
two cores; `--step N` takes every Nth. Errors are in units in the last place of the true value.
"""

from __future__ import annotations

import argparse
import json
import operator
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from rextio_torch.ops import pointwise
from rextio_torch.ops.model import Operator
from tools.paths import CRATE

INPUTS = 1 << 32
CHUNK = 1 << 20
Function = Callable[[torch.Tensor], torch.Tensor]


def _eager(row: Operator) -> Function:
    """Return PyTorch's function for a row."""
    target = next(item.target for item in row.spellings if item.kind == "function")
    return operator.attrgetter(target.removeprefix("torch."))(torch)


EAGER = {row.id: _eager(row) for row in pointwise.ROWS}
EXACT = {row.id: row.reference or EAGER[row.id] for row in pointwise.ROWS}


def eager_error(name: str, step: int) -> dict[str, float]:
    """Return eager's largest error, where, and how many results were flushed to zero."""
    worst, at, flushed = 0.0, 0.0, 0
    count = -(-INPUTS // step)
    for first in range(0, count, CHUNK):
        indices = np.arange(first, min(first + CHUNK, count), dtype=np.uint64) * step
        x = torch.from_numpy(indices.astype(np.uint32).view(np.float32))
        got, want = EAGER[name](x).double(), EXACT[name](x.double())
        nearest = want.float().double()
        special = got.isnan() | nearest.isnan() | nearest.isinf()
        lost = ~special & (got == 0) & (nearest != 0)
        flushed += int(lost.sum())
        # An infinity instead of a large number counts as the power of two above it.
        got = torch.where(got.isinf(), torch.sign(got) * 2.0**128, got)
        unit = torch.ldexp(torch.ones_like(want), (torch.frexp(want).exponent - 24).clamp(-149))
        error = torch.where(special | lost, 0.0, (got - want).abs() / unit)
        index = int(error.argmax())
        if error[index] > worst:
            worst, at = float(error[index]), float(x[index])
    return {"max_ulp": worst, "x": at, "flushed": flushed, "inputs": count}


def our_errors(step: int) -> dict[tuple[str, str], dict[str, str]]:
    """Return the records of the crate's example, by operation and instruction set."""
    command = ["cargo", "run", "--release", "--example", "accuracy", "--", "--step", str(step)]
    done = subprocess.run(command, cwd=CRATE, check=True, stdout=subprocess.PIPE, text=True)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return {(record["op"], record["isa"]): record for record in records}


def page(ours: dict[tuple[str, str], dict[str, str]], step: int) -> str:
    """Return the table as a Markdown page."""
    levels = list(dict.fromkeys(level for _, level in ours))
    inputs = "all 2^32 inputs" if step == 1 else f"every {step}th of 2^32 inputs"
    lines = [
        "<!-- Written by `python -m tools.accuracy`. -->",
        "",
        "# Accuracy of the fused engine",
        "",
        f"Largest error in ULP of the true value over {inputs}, and where; eager is torch "
        f"{torch.__version__.partition('+')[0]} on the same machine. Results that eager flushes to "
        "zero are counted apart.",
        "",
        "| operation | bound | " + " | ".join(levels) + " | eager | eager gives 0 instead |",
        "| --- | --- |" + " --- |" * (len(levels) + 2),
    ]
    for name in EAGER:
        eager = eager_error(name, step)
        cells = [
            f"{float(ours[name, level]['max_ulp']):.3f} at {float(ours[name, level]['x']):.5g}"
            for level in levels
        ]
        lines.append(
            f"| {name} | {ours[name, levels[0]]['bound']} | {' | '.join(cells)} "
            f"| {eager['max_ulp']:.4g} at {eager['x']:.5g} | {eager['flushed']} |"
        )
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run both sides and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("accuracy.md"))
    arguments = parser.parse_args()
    arguments.output.write_text(page(our_errors(arguments.step), arguments.step), encoding="utf-8")


if __name__ == "__main__":
    main()
