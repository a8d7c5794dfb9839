"""The tensor type that an annotation means, however it is written."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from rextio_torch.ops.tensor_types import TensorType
from rextio_torch.syntax.source import SourceFile
from rextio_torch.syntax.tree import dotted_name, parameters

#: Which form an annotation of each kind is, for the kinds that mean one tensor type.
_FORMS = {
    "tensor": None,
    "alias": "alias_of_type",
    "quoted": "quoted_annotation",
    "annotated": "annotated_metadata",
    "jaxtyping": "jaxtyping",
}


@dataclass(frozen=True)
class Marked:
    """An annotation's tensor type, and the form that it is written in."""

    type: TensorType
    form: str | None

    @property
    def name(self) -> str:
        """The type of `rextio_torch.types`."""
        return f"rextio_torch.types.{self.type.marker}"


def marker(file: SourceFile, node: cst.BaseExpression) -> Marked | None:
    """Return the tensor type that an annotation means, or None."""
    found = file.resolver.annotation(node)
    if found.tensor is None or found.kind not in _FORMS:
        return None
    head = (dotted_name(node) or "").partition(".")[0]
    if found.kind == "tensor" and head in file.names.conditional:
        return Marked(found.tensor, "conditional_type")
    return Marked(found.tensor, _FORMS[found.kind])


def tensor_parameters(file: SourceFile) -> dict[str, dict[str, str]]:
    """Return the tensor parameters of each function of a file, with the names of their types."""
    return {
        function.name: {
            item.name.value: found.type.marker
            for item in parameters(function.node.params)
            if item.annotation is not None
            and (found := marker(file, item.annotation.annotation)) is not None
        }
        for function in file.functions()
    }
