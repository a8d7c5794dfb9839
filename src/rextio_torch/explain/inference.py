"""The types of a function's expressions, as far as annotations and the operator table give them.

It follows the function's statements once, in order, and asks `decide` about every call and operator
as Rextio does. What it cannot type stays unknown, and nothing is said about it.
"""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import libcst as cst
from rextio.plugins.api import NON_LITERAL, ClaimLiteral, ClaimSite, KeywordArg, ReceiverMeta

from rextio_torch.analysis.decide import Call, CudaRejection, Rejection, decide
from rextio_torch.explain.names import blocks, children, dotted_name
from rextio_torch.explain.source import Function, SourceFile, parameters
from rextio_torch.ops.model import Operator, OptionValue
from rextio_torch.ops.table import BY_SPELLING
from rextio_torch.ops.tensor_types import TENSOR_TYPES, TYPES_BY_KEY, cpu_type

#: A tensor whose dtype or rank is not known, because an operation before it is not claimed.
TENSOR = "tensor"
_CPU_KEYS = {item.key for item in TENSOR_TYPES}
_FLOATS = {item.key for item in TENSOR_TYPES if item.is_floating}
_NUMBERS = frozenset({"int", "float", "bool"})
_SYMBOLS: dict[type[cst.BaseBinaryOp], str] = {
    cst.Add: "+",
    cst.Subtract: "-",
    cst.Multiply: "*",
    cst.Divide: "/",
    cst.MatrixMultiply: "@",
}
#: Methods and attributes of a tensor whose result is none.
_NO_TENSOR = frozenset(
    {"item", "tolist", "dim", "ndimension", "size", "numel", "nelement", "stride", "numpy", "equal"}
    | {"is_contiguous", "data_ptr", "element_size", "storage_offset", "get_device", "allclose"}
)
_TENSOR_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "grad", "real"})
_Node = TypeVar("_Node", bound=cst.CSTNode)


class Likely(str):
    """The type of a tensor that PyTorch gives, but Rextio does not know: of a form before it.

    So an operation that follows is judged as it would be once that form is gone.
    """

    __slots__ = ()


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

    @classmethod
    def of(cls, file: SourceFile, function: Function) -> Facts:
        """Infer the facts of a function."""
        facts = cls(file, function)
        for node in _own_nodes(function.node.body):
            facts._nodes[type(node)].append(node)
        _Walk(facts).run()
        return facts

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


def is_tensor(type_key: str | None) -> bool:
    """Whether a type is that of a tensor, known or unknown."""
    return type_key == TENSOR or type_key in TYPES_BY_KEY


def _own_nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.Import, cst.ImportFrom)):
        return
    for child in children(node):
        if not isinstance(child, cst.Annotation):
            yield from _own_nodes(child)


def target_names(target: cst.CSTNode) -> Iterator[str]:
    """Yield the names that an assignment to a target binds."""
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from target_names(element.value)


def assigned_names(node: cst.CSTNode, *, imports: bool = True) -> Iterator[str]:
    """Yield the names that a statement or block assigns, blocks inside included."""
    for item in _own_nodes(node):
        match item:
            case cst.AssignTarget(target=target) | cst.AnnAssign(target=target):
                yield from target_names(target)
            case cst.AugAssign(target=target) | cst.For(target=target):
                yield from target_names(target)
            case cst.NamedExpr(target=target):
                yield from target_names(target)
            case cst.FunctionDef(name=name) | cst.ClassDef(name=name) if item is not node:
                yield name.value
            case cst.Import() | cst.ImportFrom() if imports:
                yield from imported_names(item)
            case cst.AsName(name=name):
                yield from target_names(name)
            case cst.Del(target=target):
                yield from target_names(target)


def imported_names(node: cst.Import | cst.ImportFrom) -> Iterator[str]:
    """Yield the names that an import binds."""
    if not isinstance(node.names, cst.ImportStar):
        for alias in node.names:
            yield alias.evaluated_alias or alias.evaluated_name.partition(".")[0]


def names_in(node: cst.CSTNode) -> set[str]:
    """Return every name that a node mentions."""
    return {item.value for item in _own_nodes(node) if isinstance(item, cst.Name)}


def literal(node: cst.BaseExpression) -> tuple[bool, OptionValue]:
    """Return whether an expression is a literal that Rextio hands over, and its value."""
    match node:
        case cst.Integer():
            return True, node.evaluated_value
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer() as number):
            return True, -number.evaluated_value
        case cst.Name(value="None" | "True" | "False" as name):
            return True, {"None": None, "True": True, "False": False}[name]
        case cst.SimpleString(evaluated_value=str() as text):
            return True, text
        case cst.Tuple(elements=elements):
            values = [literal(element.value) for element in elements]
            if all(found and type(value) is int for found, value in values):
                return True, tuple(value for _, value in values if isinstance(value, int))
    return False, None


class _Walk:
    """One pass over a function's statements."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.file = facts.file
        #: Types by name, the outermost block first.
        self.scopes: list[dict[str, str | None]] = [{}]
        #: Types of names that only a block which has ended assigned.
        self.lost: dict[str, str | None] = {}
        #: Names that may still be the caller's own tensor.
        self.aliases: set[str] = set()
        #: The site that computed a name, where one path decides that.
        self.defined: dict[str, int] = {}
        #: The site of an expression.
        self.site_of: dict[cst.CSTNode, int] = {}
        self.loops = 0

    def run(self) -> None:
        for parameter in parameters(self.facts.node.params):
            annotation = self.file.resolver.annotation(parameter.annotation)
            name = parameter.name.value
            if parameter.star:
                self.scopes[0][name] = None
            elif annotation.tensor is not None and annotation.kind != "container":
                self.scopes[0][name] = annotation.tensor.key
                self.aliases.add(name)
            elif annotation.kind == "plain":
                self.scopes[0][name] = TENSOR
                self.aliases.add(name)
            elif parameter.annotation is not None:
                text = dotted_name(parameter.annotation.annotation)
                known = text in ("int", "float", "bool", "str")
                self.scopes[0][name] = text if known else None
            else:
                self.scopes[0][name] = None
        self.facts.tensor_names |= self.aliases
        self.block(self.facts.node.body)

    # Statements

    def block(self, suite: cst.BaseSuite) -> None:
        for statement in suite.body:
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    self.small(small)
            elif isinstance(statement, cst.BaseSmallStatement):
                self.small(statement)
            else:
                self.compound(statement)

    def small(self, statement: cst.CSTNode) -> None:
        match statement:
            case cst.Assign(targets=targets, value=value):
                type_key = self.expression(value)
                for target in targets:
                    self.assign(target.target, value, type_key)
            case cst.AnnAssign(target=target, value=value) if value is not None:
                self.assign(target, value, self.expression(value))
            case cst.AugAssign(target=target, value=value):
                self.expression(value)
                self.expression(target)
                if isinstance(target, cst.Name):
                    self.defined.pop(target.value, None)
            case cst.Return(value=value):
                if value is not None:
                    self.expression(value)
                    if isinstance(value, cst.Name) and value.value in self.aliases:
                        self.facts.returned_parameters.append(statement)
            case cst.Del():
                return
            case cst.Import() | cst.ImportFrom():
                self.scopes[-1].update(dict.fromkeys(imported_names(statement)))
            case _:
                for child in children(statement):
                    if isinstance(child, cst.BaseExpression):
                        self.expression(child)

    def compound(self, statement: cst.CSTNode) -> None:
        match statement:
            case cst.FunctionDef() | cst.ClassDef():
                self.scopes[-1][statement.name.value] = None
            case cst.If(test=test):
                self.expression(test)
                for part in blocks(statement):
                    self.nested(part)
            case cst.While(test=test, body=body):
                self.nested(body, test=test, loop=True)
            case cst.For(target=target, iter=iterable, body=body):
                self.expression(iterable)
                in_range = isinstance(iterable, cst.Call) and dotted_name(iterable.func) == "range"
                item_type = "int" if in_range else None
                bound: dict[str, str | None] = dict.fromkeys(target_names(target), item_type)
                self.nested(body, bound=bound, loop=True)
            case cst.With(items=items, body=body):
                for item in items:
                    self.expression(item.item)
                names = [n for i in items if i.asname for n in target_names(i.asname.name)]
                self.nested(body, bound=dict.fromkeys(names))
            case cst.Match(subject=subject, cases=cases):
                self.expression(subject)
                for case in cases:
                    self.nested(case.body, bound=dict.fromkeys(assigned_names(case)))
            case _:
                for part in blocks(statement):
                    self.nested(part)
                return
        orelse = getattr(statement, "orelse", None)
        if isinstance(orelse, cst.Else) and not isinstance(statement, cst.If):
            self.nested(orelse.body)

    def nested(
        self,
        suite: cst.BaseSuite,
        *,
        bound: dict[str, str | None] | None = None,
        test: cst.BaseExpression | None = None,
        loop: bool = False,
    ) -> None:
        """Follow a block that may not run, or run more than once."""
        changed = set(assigned_names(suite)) | set(bound or {})
        before = {name: site for name, site in self.defined.items() if name not in changed}
        entry = before if loop else self.defined
        self.defined = dict(entry)
        self.loops += loop
        if test is not None:
            self.expression(test)
        self.scopes.append(dict(bound or {}))
        aliases = set(self.aliases)
        self.block(suite)
        self.aliases |= aliases
        self.lost.update(self.scopes.pop())
        self.loops -= loop
        self.defined = before

    def assign(self, target: cst.CSTNode, value: cst.BaseExpression, type_key: str | None) -> None:
        if not isinstance(target, cst.Name):
            pairs: list[tuple[cst.CSTNode, cst.BaseExpression]] = []
            if isinstance(target, (cst.Tuple, cst.List)) and isinstance(value, cst.Tuple):
                pairs = [
                    (left.value, right.value)
                    for left, right in zip(target.elements, value.elements, strict=False)
                ]
            for left, right in pairs:
                self.assign(left, right, self.facts.types.get(right))
            if not pairs:
                for name in target_names(target):
                    self.scopes[-1][name] = None
                self.expression_of(target)
            return
        name = target.value
        home = next((scope for scope in reversed(self.scopes) if name in scope), self.scopes[-1])
        if name not in home and name in self.lost:
            self.facts.declared_twice.append(target)
        known = home.get(name)
        certain = not isinstance(known, Likely) and not isinstance(type_key, Likely)
        if certain and not {None, TENSOR} & {known, type_key} and known != type_key:
            self.facts.rebound.append(target)
        home[name] = type_key
        if is_tensor(type_key):
            self.facts.tensor_names.add(name)
        if isinstance(value, cst.Name) and value.value in self.aliases:
            self.aliases.add(name)
        elif len(self.scopes) == 1:
            # In a block Rextio does not take it back, even where the block returns.
            self.aliases.discard(name)
        site = self.site_of.get(value)
        if site is None and isinstance(value, cst.Name):
            site = self.defined.get(value.value)
        if site is None:
            self.defined.pop(name, None)
        else:
            self.defined[name] = site

    # Expressions

    def expression_of(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.BaseExpression) and not isinstance(node, cst.Name):
            self.expression(node)

    def expression(self, node: cst.BaseExpression) -> str | None:
        found = self._expression(node)
        self.facts.types[node] = found
        return found

    def _expression(self, node: cst.BaseExpression) -> str | None:
        match node:
            case cst.Name():
                return self.name(node)
            case cst.Integer():
                return "int"
            case cst.Float():
                return "float"
            case cst.SimpleString() | cst.ConcatenatedString():
                return "str"
            case cst.Call():
                return self.call(node)
            case cst.BinaryOperation():
                return self.binary(node)
            case cst.UnaryOperation(operator=operator, expression=operand):
                inner = self.expression(operand)
                return "bool" if isinstance(operator, cst.Not) else _likely(inner, inner)
            case cst.Comparison(left=left, comparisons=comparisons):
                operands = [left, *(item.comparator for item in comparisons)]
                types = [self.expression(operand) for operand in operands]
                by_value = not any(
                    isinstance(item.operator, (cst.Is, cst.IsNot, cst.In, cst.NotIn))
                    for item in comparisons
                )
                return TENSOR if by_value and any(map(is_tensor, types)) else "bool"
            case cst.BooleanOperation(left=left, right=right):
                types = [self.expression(left), self.expression(right)]
                return types[0] if types[0] == types[1] else None
            case cst.IfExp(test=test, body=body, orelse=orelse):
                self.expression(test)
                types = [self.expression(body), self.expression(orelse)]
                return next((item for item in types if item is not None), None)
            case cst.NamedExpr(target=target, value=value):
                inner = self.expression(value)
                self.assign(target, value, inner)
                return inner
            case cst.Attribute():
                return self.attribute(node)
            case cst.Subscript(value=value):
                inner = self.expression(value)
                for element in node.slice:
                    for part in children(element.slice):
                        self.expression_of(part)
                return self.indexed(inner, node) if is_tensor(inner) else None
            case cst.Lambda():
                return None
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                for item in elements:
                    self.expression(item.value)
                return None
            case cst.FormattedString() | cst.BaseComp():
                # Names inside are seen by the detections that look at the whole expression.
                return None
        for child in children(node):
            if isinstance(child, cst.BaseExpression):
                self.expression(child)
        return None

    def name(self, node: cst.Name) -> str | None:
        name = node.value
        if name in ("True", "False"):
            return "bool"
        if name == "None":
            return "None"
        for scope in reversed(self.scopes):
            if name in scope:
                self.use(self.defined.get(name))
                return scope[name]
        if name in self.lost:
            self.facts.branch_reads.append(node)
            return self.lost[name]
        names = self.file.names
        if name in names.assigned or (
            not hasattr(builtins, name) and name not in self.facts.local_names
        ):
            self.facts.module_reads.append(node)
        return None

    def use(self, site: int | None) -> None:
        if site is not None:
            # What a loop reads, it reads many times.
            again = 2 if self.loops and not self.facts.sites[site].in_loop else 1
            self.facts.sites[site].uses += again

    def attribute(self, node: cst.Attribute) -> str | None:
        dotted = dotted_name(node)
        if dotted is not None and self.facts.is_known_module(dotted):
            return None
        inner = self.expression(node.value)
        if not is_tensor(inner) or node.attr.value not in _TENSOR_ATTRIBUTES:
            return None
        return _likely(inner, inner)

    def indexed(self, tensor: str | None, node: cst.Subscript) -> str:
        """Return the type of a tensor with indices: an int takes a dimension away."""
        of = next((item for item in TENSOR_TYPES if item.key == tensor), None)
        if of is None:
            return TENSOR
        rank = of.rank
        for element in node.slice:
            if isinstance(element.slice, cst.Index):
                if self.facts.types.get(element.slice.value) != "int":
                    return TENSOR
                rank -= 1
        found = cpu_type(of.dtype, rank)
        return TENSOR if found is None else Likely(found.key)

    def binary(self, node: cst.BinaryOperation) -> str | None:
        types = [self.expression(node.left), self.expression(node.right)]
        symbol = _SYMBOLS.get(type(node.operator))
        if not any(map(is_tensor, types)):
            return _arithmetic(node.operator, types)
        if symbol is None:
            return _with_number(types)
        operands = [node.left, node.right]
        site = ClaimSite(
            kind="binop",
            target=symbol,
            operand_types=tuple(types),
            operand_literals=_literals(operands),
            file_path="",
            line=0,
            column=0,
        )
        return self.offer(node, site, operands, types)

    def call(self, node: cst.Call) -> str | None:
        arguments = [item for item in node.args if item.keyword is None and not item.star]
        keywords = [item for item in node.args if item.keyword is not None]
        types = [self.expression(item.value) for item in arguments]
        keyword_types = [self.expression(item.value) for item in keywords]
        for item in node.args:
            if item.star:
                self.expression(item.value)
        values = [item.value for item in arguments]
        dotted = dotted_name(node.func)
        receiver = None
        if dotted is not None and self.facts.is_known_module(dotted):
            target = self.file.resolver.target(dotted) or dotted
        elif dotted is not None and dotted.partition(".")[0] in self.file.names.loggers:
            return None
        elif isinstance(node.func, cst.Attribute):
            inner = self.expression(node.func.value)
            if not is_tensor(inner):
                return None
            target = node.func.attr.value
            receiver = ReceiverMeta(inner, "name", True)
        elif isinstance(node.func, cst.Name) and node.func.value not in self.facts.local_names:
            return {"len": "int", "int": "int", "float": "float", "bool": "bool"}.get(
                node.func.value
            )
        else:
            return None
        kind = "function" if receiver is None else "method"
        if (kind, target) not in BY_SPELLING:
            if receiver is None and not target.startswith("torch."):
                return None
            tensor = target not in _NO_TENSOR and not target.rpartition(".")[2].startswith("is_")
            return TENSOR if tensor else None
        known = all(literal(item.value)[0] for item in keywords)
        if not known or len(arguments) + len(keywords) != len(node.args):
            return TENSOR
        site = ClaimSite(
            kind="call",
            target=target if receiver is None else f"receiver.{target}",
            operand_types=tuple(types),
            operand_literals=_literals(values),
            keywords=tuple(
                KeywordArg(
                    item.keyword.value if item.keyword else "",
                    type_key,
                    ClaimLiteral(*literal(item.value)),
                )
                for item, type_key in zip(keywords, keyword_types, strict=True)
            ),
            receiver=receiver,
            file_path="",
            line=0,
            column=0,
        )
        if receiver is not None and isinstance(node.func, cst.Attribute):
            values.insert(0, node.func.value)
            types.insert(0, receiver.arg_type)
        return self.offer(node, site, values, types)

    def offer(
        self,
        node: cst.CSTNode,
        site: ClaimSite,
        operands: list[cst.BaseExpression],
        types: list[str | None],
    ) -> str | None:
        """Ask the operator table about a site whose operands are these."""
        if None in types or TENSOR in types:
            self.facts.unknown_sites.append(node)
            if None not in types:
                self.facts.following_sites.append(node)
            return TENSOR
        decision = decide(site)
        is_likely = any(isinstance(item, Likely) for item in types)
        if is_likely:
            self.facts.unknown_sites.append(node)
        if isinstance(decision, Rejection | CudaRejection):
            self.facts.rejections.append((node, decision))
            return _rejected(decision, types)
        if decision is None:
            return TENSOR
        if is_likely:
            self.facts.following_sites.append(node)
            return Likely(decision.signature.result.key)
        sources = []
        for index in decision.operands:
            source = None if index is None else self.source(operands[index])
            sources.append(source)
        for operand in operands:
            self.use(self.site_of.get(operand))
        self.site_of[node] = len(self.facts.sites)
        self.facts.sites.append(Site(node, decision, sources, self.loops > 0))
        return decision.signature.result.key

    def source(self, operand: cst.BaseExpression) -> int | None:
        if isinstance(operand, cst.Name):
            return self.defined.get(operand.value)
        return self.site_of.get(operand)


def _literals(operands: list[cst.BaseExpression]) -> tuple[ClaimLiteral, ...]:
    """Return what Rextio hands over of positional arguments: no bools and no strings."""
    found = [literal(operand) for operand in operands]
    return tuple(
        ClaimLiteral(True, value)
        if is_literal and not isinstance(value, (bool, str))
        else NON_LITERAL
        for is_literal, value in found
    )


def _likely(type_key: str | None, otherwise: str | None) -> str | None:
    return Likely(type_key) if type_key in _CPU_KEYS else otherwise


def _with_number(types: list[str | None]) -> str:
    """Return the type of an elementwise operation on a tensor and a number."""
    tensors = [item for item in types if is_tensor(item)]
    if len(tensors) == 1 and tensors[0] in _FLOATS and _NUMBERS.issuperset(set(types) - {*tensors}):
        return Likely(tensors[0])
    return TENSOR


def _rejected(decision: Rejection | CudaRejection, types: list[str | None]) -> str:
    """Return the type of a rejected operation, where all its signatures for the operands agree."""
    if isinstance(decision, CudaRejection):
        return TENSOR
    operator: Operator = decision.operator
    tensors = [item for item in types if is_tensor(item)]
    results = {
        signature.result.key
        for signature in operator.signatures
        if [operand.key for operand in signature.operands if operand is not None] == tensors
    }
    if len(results) == 1:
        return Likely(results.pop())
    return _with_number(types) if operator.fusion == "elementwise" else TENSOR


def _arithmetic(operator: cst.BaseBinaryOp, types: list[str | None]) -> str | None:
    if not all(item in _NUMBERS for item in types):
        return None
    return "float" if "float" in types or isinstance(operator, cst.Divide) else "int"
