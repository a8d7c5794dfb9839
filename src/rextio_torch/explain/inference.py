"""The types of a function's expressions, as far as annotations and the operator table give them.

It follows the function's statements once, in order, and asks `decide` about every call and operator
as Rextio does. What it cannot type stays unknown, and nothing is said about it.
"""

from __future__ import annotations

import builtins
from dataclasses import replace

import libcst as cst
from rextio.plugins.api import NON_LITERAL, ClaimLiteral, ClaimSite, KeywordArg, ReceiverMeta

from rextio_torch.analysis.decide import Call, CudaRejection, Rejection, decide
from rextio_torch.explain import likely
from rextio_torch.explain.facts import Facts, Site
from rextio_torch.explain.likely import Likely
from rextio_torch.ops.table import BY_SPELLING
from rextio_torch.ops.tensor_types import TENSOR_TYPES, TYPES_BY_KEY, cpu_type
from rextio_torch.syntax.source import Function, SourceFile
from rextio_torch.syntax.tree import (
    assigned_names,
    blocks,
    children,
    dotted_name,
    imported_names,
    literal,
    own_nodes,
    parameters,
    target_names,
)
from rextio_torch.syntax.types import SYMBOLS, TENSOR, arithmetic, is_tensor

#: Methods and attributes of a tensor whose result is none.
_NO_TENSOR = frozenset(
    {"item", "tolist", "dim", "ndimension", "size", "numel", "nelement", "stride", "numpy", "equal"}
    | {"is_contiguous", "data_ptr", "element_size", "storage_offset", "get_device", "allclose"}
)
_TENSOR_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "grad", "real"})


def infer(file: SourceFile, function: Function) -> Facts:
    """Return what is known of a function."""
    facts = Facts(file, function)
    for node in own_nodes(function.node.body):
        facts.add(node)
    _Walk(facts).run()
    return facts


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
                return "bool" if isinstance(operator, cst.Not) else likely.unchanged(inner)
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
        return likely.unchanged(inner)

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
        symbol = SYMBOLS.get(type(node.operator))
        if not any(map(is_tensor, types)):
            return arithmetic(node.operator, types)
        if symbol is None:
            return likely.with_number(types)
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
            again = decide(_from_the_front(site, types[0]))
            if isinstance(again, Call):
                self.facts.from_the_end.add(node)
                return Likely(again.signature.result.key)
            return likely.after_rejection(decision, types)
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


def _from_the_front(site: ClaimSite, first: str | None) -> ClaimSite:
    """Return a site whose dimensions, of its first operand, are counted from the front."""
    rank = TYPES_BY_KEY[first].rank if first in TYPES_BY_KEY else 0

    def counted(found: ClaimLiteral) -> ClaimLiteral:
        value = found.value
        if type(value) is not int or not -rank <= value < 0:
            return found
        return replace(found, value=value + rank)

    return replace(
        site,
        operand_literals=tuple(map(counted, site.operand_literals)),
        keywords=tuple(replace(item, literal=counted(item.literal)) for item in site.keywords),
    )


def _literals(operands: list[cst.BaseExpression]) -> tuple[ClaimLiteral, ...]:
    """Return what Rextio hands over of positional arguments: no bools and no strings."""
    found = [literal(operand) for operand in operands]
    return tuple(
        ClaimLiteral(True, value)
        if is_literal and not isinstance(value, (bool, str))
        else NON_LITERAL
        for is_literal, value in found
    )
