"""A native function of a project, as the processes that run its source are told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class SourceFunction:
    """A function of a module, and the file of its source."""

    module: str
    name: str
    file: Path
    #: The parameters whose annotation means a tensor type, and its name in `rextio_torch.types`.
    tensors: Mapping[str, str] = field(default_factory=dict)

    @property
    def qualname(self) -> str:
        """Its dotted name."""
        return f"{self.module}.{self.name}"

    @property
    def root(self) -> Path:
        """The folder that its module is imported from."""
        return self.file.parents[self.module.count(".") + (self.file.name == "__init__.py")]

    def to_dict(self) -> dict[str, Any]:
        """Return the function as JSON-ready data."""
        return {
            "module": self.module,
            "name": self.name,
            "file": str(self.file),
            "tensors": dict(self.tensors),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SourceFunction:
        """Return the function that `to_dict` wrote down."""
        return cls(data["module"], data["name"], Path(data["file"]), data["tensors"])
