"""The parameters of a function, from its annotations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from rextio_torch.ops.tensor_types import TENSOR_TYPES, TensorType
from rextio_torch.verify.problems import VerifyError

Scalar: TypeAlias = bool | int | float | str
SCALAR_TYPES: dict[str, type[bool] | type[int] | type[float] | type[str]] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
}
_TENSORS = {tensor_type.marker: tensor_type for tensor_type in TENSOR_TYPES}


@dataclass(frozen=True)
class Parameter:
    """A parameter: a tensor of some type, or a scalar of a type with this name."""

    name: str
    tensor: TensorType | None
    scalar: str | None

    @property
    def text(self) -> str:
        """The annotation."""
        return self.tensor.marker if self.tensor else str(self.scalar)


def parameters_of(
    function: Callable[..., Any], name: str, tensors: Mapping[str, str] | None = None
) -> list[Parameter]:
    """Return a function's parameters; raises `VerifyError` where an annotation says too little.

    `tensors` are the names of the types of tensor parameters that are annotated in another way.
    """
    found = []
    for parameter in inspect.signature(function).parameters.values():
        annotation = (tensors or {}).get(parameter.name, parameter.annotation)
        # Under `from __future__ import annotations` it is text.
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        text = text.strip("\"' ").rpartition(".")[2]
        if text in _TENSORS:
            found.append(Parameter(parameter.name, _TENSORS[text], None))
        elif text in SCALAR_TYPES:
            found.append(Parameter(parameter.name, None, text))
        else:
            raise VerifyError(
                f"{name}: no value can be made for parameter {parameter.name}",
                expected=f"{', '.join(_TENSORS)}, {', '.join(SCALAR_TYPES)}",
                found=str(annotation),
                repair="compare this function in a test of your own",
            )
    return found
