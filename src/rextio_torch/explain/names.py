"""What the names of a module stand for: imports, aliases, and the marker types behind them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

import libcst as cst
from libcst.helpers import get_full_name_for_node

from rextio_torch.ops.tensor_types import TENSOR_TYPES, TYPES_BY_MARKER, TensorType, cpu_type

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


@dataclass
class Names:
    """The names that a module binds at its top level."""

    module: str
    imports: dict[str, str] = field(default_factory=dict)
    #: `Mat = TensorF32Cpu2D`, as dotted names.
    aliases: dict[str, str] = field(default_factory=dict)
    #: `Mat = Annotated[Tensor, TensorF32Cpu2D]` and other annotations with a name.
    annotations: dict[str, cst.BaseExpression] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)
    stars: list[str] = field(default_factory=list)
    #: Names of `logging.getLogger(…)`, whose methods Rextio knows.
    loggers: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, module: cst.Module, name: str, *, is_package: bool) -> Names:
        """Collect what the module's own statements bind, also inside `if`, `try` and `with`."""
        names = cls(name)
        package = name if is_package else name.rpartition(".")[0]
        for statement in statements(module.body):
            names._bind(statement, package)
        return names

    def _bind(self, statement: cst.CSTNode, package: str) -> None:
        match statement:
            case cst.Import(names=aliases):
                for alias in aliases:
                    target = get_full_name_for_node(alias.name) or ""
                    visible = alias.evaluated_alias
                    self.imports[visible or target.partition(".")[0]] = (
                        target if visible else target.partition(".")[0]
                    )
            case cst.ImportFrom(names=aliases):
                base = _base(statement, package)
                if isinstance(aliases, cst.ImportStar):
                    self.stars.append(base)
                    return
                for alias in aliases:
                    self.imports[alias.evaluated_alias or alias.evaluated_name] = (
                        f"{base}.{alias.evaluated_name}"
                    )
            case cst.Assign(targets=targets, value=value):
                for item in targets:
                    self._assign(item.target, value)
            case cst.AnnAssign(target=target, value=value):
                self._assign(target, value)

    def _assign(self, target: cst.BaseExpression, value: cst.BaseExpression | None) -> None:
        if not isinstance(target, cst.Name):
            return
        if target.value in self.assigned:
            # What it stands for depends on where and when.
            self.aliases.pop(target.value, None)
            self.annotations.pop(target.value, None)
            return
        self.assigned.add(target.value)
        called = dotted_name(value.func) if isinstance(value, cst.Call) else None
        if called is not None and called.rpartition(".")[2] == "getLogger":
            self.loggers.add(target.value)
        dotted = dotted_name(value)
        if dotted is not None:
            self.aliases[target.value] = dotted
        elif isinstance(value, (cst.Subscript, cst.SimpleString)):
            self.annotations[target.value] = value


def _base(statement: cst.ImportFrom, package: str) -> str:
    base = get_full_name_for_node(statement.module) if statement.module is not None else ""
    level = len(statement.relative)
    if not level:
        return base or ""
    parents = package.split(".")
    parents = parents[: len(parents) - level + 1]
    return ".".join([*parents, *([base] if base else [])])


def dotted_name(node: cst.CSTNode | None) -> str | None:
    """Return `a.b.c` of a name or a chain of attributes, else None."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        before = dotted_name(node.value)
        return None if before is None else f"{before}.{node.attr.value}"
    return None


@functools.cache
def _child_fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    layout = ("whitespace", "lpar", "rpar", "comma", "semicolon", "equal", "header", "footer")
    names = (field.name for field in fields(kind))
    return tuple(name for name in names if not name.startswith((*layout, "leading_", "trailing_")))


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the parts of a node without layout; libcst's own `children` takes ten times as long."""
    for name in _child_fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, cst.CSTNode))


def statements(body: object) -> Iterator[cst.CSTNode]:
    """Yield the statements that run when a block runs, those of nested blocks included."""
    for statement in body if isinstance(body, (list, tuple)) else ():
        if isinstance(statement, cst.SimpleStatementLine):
            yield from statement.body
            continue
        yield statement
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            continue
        for part in blocks(statement):
            yield from statements(part.body)


def blocks(statement: cst.CSTNode) -> Iterator[cst.BaseSuite]:
    """Yield the blocks of a compound statement."""
    for name in ("body", "orelse", "finalbody"):
        part = getattr(statement, name, None)
        if isinstance(part, cst.BaseSuite):
            yield part
        elif isinstance(part, cst.CSTNode):
            if isinstance(part, cst.If):
                yield from blocks(part)
            elif isinstance(getattr(part, "body", None), cst.BaseSuite):
                yield part.body  # type: ignore[attr-defined]
    for name in ("handlers", "cases"):
        for part in getattr(statement, name, ()):
            yield part.body


def _elements(node: cst.Subscript) -> list[cst.BaseExpression]:
    return [item.slice.value for item in node.slice if isinstance(item.slice, cst.Index)]


def _jaxtyping(resolved: str, node: cst.Subscript) -> Annotation:
    """Return what `Float32[Tensor, "batch dim"]` says: a dtype, and one word for each dimension."""
    dtypes = {f"jaxtyping.{item.jaxtyping}": item.dtype for item in TENSOR_TYPES}
    dtype = dtypes.get(resolved)
    elements = _elements(node)
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
                return _jaxtyping(resolved, node)
            if inner is None:
                supported = resolved in _CONTAINERS or resolved in _OPTIONAL
                return Annotation("supported" if supported and self._plain(node) else "other")
            if resolved in _OPTIONAL or resolved == "typing.Union":
                return Annotation("optional", inner)
            if resolved in ("typing.Annotated", "typing_extensions.Annotated"):
                of = self.annotation(_elements(node)[0])
                known = of.kind in (*ONE_TENSOR, "plain")
                return Annotation("annotated" if known else of.kind, inner)
            return Annotation("container", inner)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
            if inner is None:
                return Annotation("supported" if self._plain(node) else "other")
            return Annotation("optional", inner)
        return Annotation("other", inner)

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
