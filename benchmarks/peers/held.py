"""Modules around a function: for peers that hold weights as constants or export modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType

import torch


def fresh(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return a copy of a function that torch.compile has not seen yet."""
    assert isinstance(function, FunctionType)
    # torch.compile keeps what it compiled beside the code object.
    return FunctionType(function.__code__.replace(), function.__globals__, function.__name__)


class Held(torch.nn.Module):
    """Calls a function with its inputs and with the weights that the module holds."""

    def __init__(
        self, function: Callable[..., torch.Tensor], weights: Sequence[torch.Tensor] = ()
    ) -> None:
        super().__init__()
        self._function = function
        self._names = [f"weight{number}" for number in range(len(weights))]
        for name, weight in zip(self._names, weights, strict=True):
            self.register_parameter(name, torch.nn.Parameter(weight, requires_grad=False))
        self.eval()

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Call the function."""
        return self._function(*inputs, *(getattr(self, name) for name in self._names))
