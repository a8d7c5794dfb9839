"""Annotated code without any build: it runs eagerly, and the annotations do nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """\
import sys

import rextio
import torch
import torch.nn.functional as F
from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D


def logits(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu2D:
    return F.linear(x, w, b).relu()


@rextio.native
def classify(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorI64Cpu1D:
    return logits(x, w, b).argmax(dim=1)


x = torch.arange(6.0).view(2, 3).requires_grad_()
w, b = torch.eye(3), torch.tensor([0.0, 9.0, 0.0])
y = logits(x, w, b)
assert torch.equal(y, torch.relu(x @ w.t() + b)), y
assert y.requires_grad
assert classify(x, w, b).tolist() == [1, 1]
# Neither sizes nor dtypes nor ranks are checked: this is Python.
assert logits(x.double(), w.double(), b.double()).dtype is torch.float64
assert not [name for name in sys.modules if name.startswith("_rextio_native")]
print("ran")
"""


def test_runs_eagerly(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout == "ran\n", done.stderr
    assert done.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]
