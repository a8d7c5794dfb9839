"""Recorded calls in a file: inputs, what eager gave, and how far a native result may be off.

A bundle holds plain data and tensors only, so that reading one from elsewhere runs nothing.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from rextio_torch import versions
from rextio_torch.verify.judgement import Expectation
from rextio_torch.verify.parameters import Scalar
from rextio_torch.verify.problems import VerifyError

_FORMAT = 1


@dataclass(frozen=True)
class Origin:
    """What eager ran on: elsewhere its own last digits may differ."""

    torch: str
    machine: str
    capability: str

    @classmethod
    def here(cls) -> Origin:
        """Describe this process."""
        return cls(
            str(torch.__version__),
            platform.machine(),
            torch.backends.cpu.get_cpu_capability(),
        )


@dataclass(frozen=True)
class Recorded:
    """A call, and what eager made of it: a tensor, another value, or the name of an exception."""

    case: str
    arguments: tuple[torch.Tensor | Scalar, ...]
    #: With another number of threads, libtorch may round otherwise.
    threads: int = 1
    tensor: Expectation | None = None
    value: Scalar | None = None
    raises: str | None = None


@dataclass(frozen=True)
class RecordedFunction:
    """A function's calls."""

    name: str
    calls: list[Recorded] = field(default_factory=list)


@dataclass(frozen=True)
class Bundle:
    """The calls of some functions of one source."""

    source_id: str
    origin: Origin
    functions: list[RecordedFunction]

    def save(self, path: Path) -> None:
        """Write the bundle to a file."""
        functions = [
            {"name": function.name, "calls": [_call_to_dict(call) for call in function.calls]}
            for function in self.functions
        ]
        data = {
            "format": _FORMAT,
            "rextio-torch": versions.__version__,
            "source_id": self.source_id,
            "origin": asdict(self.origin),
            "functions": functions,
        }
        torch.save(data, path)


def load(path: Path) -> Bundle:
    """Read a bundle; raises `VerifyError` if it is none."""
    data: Any = None
    with contextlib.suppress(Exception):
        data = torch.load(path, weights_only=True)
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise VerifyError(
            f"{path} is not a bundle of this version",
            expected="a file that rextio-torch verify --save wrote",
            found=f"format {data.get('format')}" if isinstance(data, dict) else "something else",
            repair=f"rextio-torch verify <project> --save {path}",
        )
    return Bundle(
        data["source_id"],
        Origin(**data["origin"]),
        [
            RecordedFunction(item["name"], [_call_of_dict(call) for call in item["calls"]])
            for item in data["functions"]
        ],
    )


def _call_to_dict(call: Recorded) -> dict[str, Any]:
    return {
        "case": call.case,
        "arguments": list(call.arguments),
        "threads": call.threads,
        "tensor": None if call.tensor is None else call.tensor.to_dict(),
        "value": call.value,
        "raises": call.raises,
    }


def _call_of_dict(data: Mapping[str, Any]) -> Recorded:
    tensor = data["tensor"]
    return Recorded(
        data["case"],
        tuple(data["arguments"]),
        data["threads"],
        None if tensor is None else Expectation.from_dict(tensor),
        data["value"],
        data["raises"],
    )
