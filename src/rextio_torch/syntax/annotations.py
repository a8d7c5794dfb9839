"""What annotations stand for: the marker types behind names, aliases and jaxtyping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import libcst as cst

from rextio_torch.ops.tensor_types import TENSOR_TYPES, TYPES_BY_MARKER, TensorType, cpu_type
from rextio_torch.syntax.names import Names
from rextio_torch.syntax.tree import children, dotted_name

_SCALARS = frozenset({"int", "float", "bool", "str", "bytes", "None"})
_CONTAINERS = frozenset({"list", "set", "dict", "tuple"})
_OPTIONAL = frozenset({"typing.Optional", "Optional"})
#: As many steps of `a = b` and `from a import b` as a name is followed through.
_LONGEST_CHAIN = 20


@dataclass(frozen=True)
class Annotation:
    """An annotation: what kind it is for Rextio, and the first tensor type in it.

    `tensor` is a marker as Rextio knows it; `alias`, `quoted`, `annotated`, `optional` and
    `container` hold one in a way that it does not know; `plain` is `torch.Tensor`.
    """

    kind: Literal[
        "tensor",
        "alias",
        "quoted",
        "annotated",
        "jaxtyping",
        "optional",
        "container",
        "plain",
        "unsized",
        "supported",
        "other",
        "missing",
    ]
    tensor: TensorType | None = None


MISSING = Annotation("missing")
#: Kinds of annotations that stand for one tensor type, however they are written.
ONE_TENSOR = ("tensor", "alias", "quoted", "annotated", "jaxtyping")


def _elements(node: cst.Subscript) -> list[cst.BaseExpression]:
    return [item.slice.value for item in node.slice if isinstance(item.slice, cst.Index)]


def _jaxtyping(resolved: str, elements: list[cst.BaseExpression]) -> Annotation:
    """Return what `Float32[Tensor, "batch dim"]` says: a dtype, and one word for each dimension."""
    dtypes = {f"jaxtyping.{item.jaxtyping}": item.dtype for item in TENSOR_TYPES}
    dtype = dtypes.get(resolved)
    shape = elements[1] if len(elements) == 2 else None
    text = shape.evaluated_value if isinstance(shape, cst.SimpleString) else None
    if dtype is None or not isinstance(text, str) or any(c in text for c in ".*"):
        return Annotation("unsized")
    found = cpu_type(dtype, len(text.split()))
    return Annotation("unsized") if found is None else Annotation("jaxtyping", found)


class Resolver:
    """Resolves the names of one module, through the other modules of the project."""

    def __init__(self, names: Names, project: Mapping[str, Names], depth: int = 0) -> None:
        self.names = names
        #: How many names of annotations were followed to get here.
        self.depth = depth
        self.project = project

    def target(self, dotted: str) -> str | None:
        """Return what Rextio resolves a dotted name to: an import of this module only."""
        head, _, rest = dotted.partition(".")
        found = self.names.imports.get(head)
        if found is None:
            return None
        return f"{found}.{rest}" if rest else found

    def tensor_type(self, dotted: str) -> TensorType | None:
        """Return the marker that a name leads to, through aliases and other modules."""
        names, steps = self.names, 0
        while steps < _LONGEST_CHAIN:
            steps += 1
            head, _, rest = dotted.partition(".")
            if head in names.aliases:
                dotted = ".".join(filter(None, (names.aliases[head], rest)))
                continue
            if not rest and head in names.annotations:
                return self._in(names).one_tensor(names.annotations[head])
            if head in names.imports:
                dotted = ".".join(filter(None, (names.imports[head], rest)))
            elif "rextio_torch.types" in names.stars:
                dotted = f"rextio_torch.types.{dotted}"
            if dotted in TYPES_BY_MARKER:
                return TYPES_BY_MARKER[dotted]
            module, _, name = dotted.rpartition(".")
            if module not in self.project:
                return None
            names, dotted = self.project[module], name
        return None

    def _in(self, names: Names) -> Resolver:
        return Resolver(names, self.project, self.depth + 1)

    def one_tensor(self, node: cst.BaseExpression) -> TensorType | None:
        """Return the tensor type that an annotation stands for as a whole."""
        if self.depth >= _LONGEST_CHAIN:
            return None
        found = self.annotation(node)
        return found.tensor if found.kind in ONE_TENSOR else None

    def annotation(self, node: cst.Annotation | cst.BaseExpression | None) -> Annotation:
        """Say what kind of annotation this is."""
        if isinstance(node, cst.Annotation):
            node = node.annotation
        if node is None:
            return MISSING
        if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
            return self._quoted(node)
        dotted = dotted_name(node)
        if dotted is not None:
            return self._named(dotted)
        inner = self._first_tensor(node)
        if isinstance(node, cst.Subscript):
            head = dotted_name(node.value) or ""
            resolved = self.target(head) or head
            if resolved.startswith("jaxtyping."):
                elements = _elements(node)
                if elements and self._no_tensor(elements[0]):
                    return Annotation("other")
                return _jaxtyping(resolved, elements)
            if resolved in ("typing.Annotated", "typing_extensions.Annotated"):
                return self._annotated(_elements(node), inner)
            if inner is None:
                supported = resolved in _CONTAINERS or resolved in _OPTIONAL
                return Annotation("supported" if supported and self._plain(node) else "other")
            if resolved in _OPTIONAL or resolved == "typing.Union":
                return Annotation("optional", inner)
            return Annotation("container", inner)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
            if inner is None:
                return Annotation("supported" if self._plain(node) else "other")
            return Annotation("optional", inner)
        return Annotation("other", inner)

    def _annotated(
        self, elements: list[cst.BaseExpression], inner: TensorType | None
    ) -> Annotation:
        """Say what `Annotated` is: a type, and what is said of it."""
        of = self.annotation(elements[0]) if elements else MISSING
        said = {found for item in elements[1:] if (found := self.one_tensor(item)) is not None}
        if of.kind in ONE_TENSOR and of.tensor is not None:
            said.add(of.tensor)
        elif of.kind != "plain":
            return Annotation("other") if inner is None else Annotation(of.kind, inner)
        if not said:
            return Annotation("other")
        return Annotation("annotated", said.pop()) if len(said) == 1 else Annotation("unsized")

    def _no_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether the array of a `jaxtyping` annotation is another library's, or several types."""
        if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
            return self.annotation(node).kind != "plain"
        dotted = dotted_name(node) or ""
        dotted = self.names.aliases.get(dotted, dotted)
        return self.target(dotted) not in ("torch.Tensor", "torch.nn.Parameter")

    def _named(self, dotted: str) -> Annotation:
        if dotted in _SCALARS:
            return Annotation("supported")
        target = self.target(dotted)
        if target in TYPES_BY_MARKER and dotted.partition(".")[0] not in self.names.assigned:
            return Annotation("tensor", TYPES_BY_MARKER[target])
        found = self.tensor_type(dotted)
        if found is not None:
            return Annotation("alias", found)
        return Annotation("plain" if target == "torch.Tensor" else "other")

    def _quoted(self, node: cst.SimpleString | cst.ConcatenatedString) -> Annotation:
        value = node.evaluated_value
        try:
            parsed = cst.parse_expression(value) if isinstance(value, str) else None
        except cst.ParserSyntaxError:
            parsed = None
        found = Annotation("other") if parsed is None else self.annotation(parsed)
        known = found.kind in ONE_TENSOR
        return Annotation("quoted", found.tensor) if known else found

    def _first_tensor(self, node: cst.CSTNode) -> TensorType | None:
        if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
            return self._quoted(node).tensor
        dotted = dotted_name(node)
        if dotted is not None:
            return self.tensor_type(dotted)
        return next(filter(None, map(self._first_tensor, children(node))), None)

    def _plain(self, node: cst.CSTNode) -> bool:
        """Whether an annotation is built of Python's own scalars and containers only."""
        if isinstance(node, cst.BaseString):
            return False
        dotted = dotted_name(node)
        if dotted is not None:
            resolved = self.target(dotted) or dotted
            return resolved in _SCALARS | _CONTAINERS | _OPTIONAL
        return all(map(self._plain, children(node)))
