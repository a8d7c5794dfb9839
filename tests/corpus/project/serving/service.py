"""A module as services have them: a logger, classes, settings, and a program to try it with."""

import logging
import sys
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

import torch
from torch import nn
from torch.nn import functional as F

from rextio_torch.types import TensorF32Cpu1D, TensorF32Cpu2D, TensorI64Cpu1D
from serving.common import unit_rows

T = TypeVar("T")
logger = logging.getLogger(__name__)
torch.set_flush_denormal(False)
LABELS = {}
LABELS["spam"] = 1
_CALLS = []


@dataclass
class Settings:
    """What the service is started with."""

    kind: ClassVar[str] = "settings"
    labels: list[str] = field(default_factory=lambda: sorted(LABELS))


def embed(
    x: TensorF32Cpu2D, weight: TensorF32Cpu2D, bias: TensorF32Cpu1D, eps: TensorF32Cpu1D
) -> TensorF32Cpu2D:
    """Embed rows on the unit sphere."""
    return unit_rows(F.gelu(F.linear(x, weight, bias)), eps)


@torch.inference_mode()
def classify(x: TensorF32Cpu2D, weight: TensorF32Cpu2D, bias: TensorF32Cpu1D) -> TensorI64Cpu1D:
    """Return the label of each row."""
    logits = F.gelu(F.linear(x, weight, bias))
    return logits.argmax(dim=-1)


def _spread(x: TensorF32Cpu2D) -> TensorF32Cpu1D:
    centred = x - x.mean(dim=0)
    return (centred**2).mean(dim=0).sqrt()


class Classifier(nn.Module):
    """The functions above with weights."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((classes, width), 0.5))
        self.bias = nn.Parameter(torch.arange(classes, dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _CALLS.append(len(x))
        return classify(x, self.weight, self.bias)


if __name__ == "__main__":
    model = Classifier(3, 4)
    labels = model(torch.ones(len(sys.argv), 3))
    print(__name__, type(model).__module__, labels.tolist(), _CALLS)
