"""A contender of a case, and what it needs to prepare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.cases import Case
from rextio_torch.bench.contender import Contender


class UnavailableError(Exception):
    """A contender cannot run a case; the message says why."""


@dataclass(frozen=True)
class Setting:
    """A case with all that a peer needs to prepare for it."""

    case: Case
    threads: int
    #: The function of `sources/`, in eager PyTorch.
    eager: Callable[..., torch.Tensor]
    #: The same function of the built module, under its Python wrapper.
    built: Callable[..., torch.Tensor]
    tensors: Mapping[str, torch.Tensor]
    #: Where compiled artefacts may be kept from run to run.
    folder: Path
    simd: str

    @property
    def arguments(self) -> tuple[torch.Tensor, ...]:
        """All tensors, in the order of the function's parameters."""
        return tuple(self.tensors.values())

    @property
    def inputs(self) -> tuple[torch.Tensor, ...]:
        """The tensors that are not weights."""
        names = {p.name for p in self.case.program.parameters if not p.weight}
        return tuple(tensor for name, tensor in self.tensors.items() if name in names)

    @property
    def weights(self) -> tuple[torch.Tensor, ...]:
        """The weights, which come last among the parameters."""
        return self.arguments[len(self.inputs) :]


@dataclass(frozen=True)
class Peer:
    """One contender of the benchmark, for all cases; `contenders.py` has its title."""

    key: str
    prepare: Callable[[Setting], Contender]
    #: It holds the weights as constants, so only programs with weights have it.
    constants: bool = False
    #: Preparing it calls a compiler, which takes seconds.
    slow: bool = False
