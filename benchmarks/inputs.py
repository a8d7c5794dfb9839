"""The input tensors of a case, the same in every run."""

from __future__ import annotations

import zlib

import torch

from benchmarks.cases import Case, Parameter


def make_tensors(case: Case) -> dict[str, torch.Tensor]:
    """Return one tensor per parameter of the case's program."""
    generator = torch.Generator().manual_seed(zlib.crc32(case.id.encode()))
    return {
        parameter.name: _make(parameter, case.shape(parameter.dims), generator)
        for parameter in case.program.parameters
    }


def _make(parameter: Parameter, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    if parameter.values == "positive":
        return torch.rand(shape, generator=generator) * 1.5 + 0.5
    values = torch.randn(shape, generator=generator)
    # As layers are initialised: keeps the values of deeper layers near one.
    return values / shape[-1] ** 0.5 if parameter.weight and len(shape) == 2 else values
