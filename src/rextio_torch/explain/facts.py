"""What is known of one function: the types of its expressions, its operations, what is in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import libcst as cst

from rextio_torch.analysis.decide import Call, CudaRejection, Rejection
from rextio_torch.syntax.source import Function, SourceFile
from rextio_torch.syntax.tree import assigned_names, parameters
from rextio_torch.syntax.types import is_tensor

_Node = TypeVar("_Node", bound=cst.CSTNode)


@dataclass
class Site:
    """A call or operator that the operator table accepts, and where its operands come from."""

    node: cst.CSTNode
    call: Call
    #: For each tensor parameter, the site that computed it, where one path decides that.
    operands: list[int | None]
    in_loop: bool
    uses: int = 0


@dataclass
class Facts:
    """What is known of one function; what the detections of the table of forms ask."""

    file: SourceFile
    function: Function
    types: dict[cst.CSTNode, str | None] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    rejections: list[tuple[cst.CSTNode, Rejection | CudaRejection]] = field(default_factory=list)
    #: Those of them whose dimensions are counted from the end, and that have no other reason.
    from_the_end: set[cst.CSTNode] = field(default_factory=set)
    #: Calls and operators with an operand of unknown type.
    unknown_sites: list[cst.CSTNode] = field(default_factory=list)
    #: Those whose operands only forms before them keep from being known, and that have no other
    #: reason.
    following_sites: list[cst.CSTNode] = field(default_factory=list)
    #: Reads of a name that only a block before it assigns, of one of the module, and of none.
    branch_reads: list[cst.Name] = field(default_factory=list)
    module_reads: list[cst.Name] = field(default_factory=list)
    rebound: list[cst.CSTNode] = field(default_factory=list)
    #: Assignments to a name that another block has already declared.
    declared_twice: list[cst.CSTNode] = field(default_factory=list)
    returned_parameters: list[cst.CSTNode] = field(default_factory=list)
    #: Names that are a tensor somewhere in the function.
    tensor_names: set[str] = field(default_factory=set)
    _nodes: dict[type[cst.CSTNode], list[cst.CSTNode]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, node: cst.CSTNode) -> None:
        """Take up a node of the body."""
        self._nodes[type(node)].append(node)

    @property
    def node(self) -> cst.FunctionDef:
        """The function's definition."""
        return self.function.node

    def nodes(self, *kinds: type[_Node]) -> Iterator[_Node]:
        """Yield the nodes of the body of some kinds, without those of functions inside."""
        for kind in kinds:
            yield from self._nodes[kind]  # type: ignore[misc]

    def imports(self) -> Iterator[cst.Import | cst.ImportFrom]:
        """Yield the imports inside the function."""
        yield from self.nodes(cst.Import)
        yield from self.nodes(cst.ImportFrom)

    def is_tensor(self, node: cst.CSTNode | None) -> bool:
        """Whether an expression is a tensor for certain."""
        return is_tensor(None if node is None else self.types.get(node))

    def is_known_module(self, dotted: str) -> bool:
        """Whether a dotted name begins with an imported name that nothing local hides."""
        head = dotted.partition(".")[0]
        return head in self.file.names.imports and head not in self.local_names

    @cached_property
    def local_names(self) -> frozenset[str]:
        """The parameters and every name that the function assigns."""
        names = {item.name.value for item in parameters(self.node.params)}
        return frozenset(names | set(assigned_names(self.node.body)))
