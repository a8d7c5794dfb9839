"""The statements that a function's body comes down to, before types and names are settled.

`with torch.no_grad()`, docstrings, tuple assignments and the like are gone here; calls of other
functions of the project are replaced by their bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import libcst as cst

from rextio_torch.ops.model import OptionValue
from rextio_torch.syntax.source import Function, SourceFile
from rextio_torch.syntax.tree import children


class Var(NamedTuple):
    """A variable of one frame; the names of temporaries are numbers."""

    frame: int
    name: str


@dataclass(eq=False)
class Frame:
    """One function whose statements take part: the normalised one, or one that it calls."""

    number: int
    file: SourceFile
    function: Function
    #: Parameters that stand for a variable of the caller, or for a literal.
    aliases: dict[str, Var] = field(default_factory=dict)
    literals: dict[str, OptionValue | float] = field(default_factory=dict)
    local_names: frozenset[str] = frozenset()

    def var(self, name: str) -> Var | None:
        """Return the variable that a name is, or None if it is no local one."""
        if name in self.aliases:
            return self.aliases[name]
        return Var(self.number, name) if name in self.local_names else None


#: What stands for a part of an expression: a variable, or the chosen branch of a conditional.
Given: TypeAlias = Mapping[cst.CSTNode, "Var | cst.BaseExpression"]


@dataclass(frozen=True, eq=False)
class Expr:
    """An expression of one frame, in which some parts stand for something else."""

    frame: Frame
    node: cst.BaseExpression
    given: Given = field(default_factory=dict)

    def part(self, node: cst.BaseExpression) -> Expr:
        """Return a part of it."""
        return Expr(self.frame, node, self.given)

    def reads(self) -> Iterator[Var]:
        """Yield the variables that it reads."""
        yield from _reads(self, self.node)


def _reads(expr: Expr, node: cst.CSTNode) -> Iterator[Var]:
    found = expr.given.get(node)
    if isinstance(found, Var):
        yield found
    elif found is not None:
        yield from _reads(expr, found)
    elif isinstance(node, cst.Name):
        var = expr.frame.var(node.value)
        if var is not None:
            yield var
    else:
        for child in parts(node):
            yield from _reads(expr, child)


def parts(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the parts of an expression that are evaluated, in that order."""
    match node:
        case cst.Attribute(value=value):
            yield value
        case cst.Arg(value=value):
            yield value
        case cst.Comparison(left=left, comparisons=comparisons):
            yield left
            yield from (item.comparator for item in comparisons)
        case cst.IfExp(test=test, body=body, orelse=orelse):
            yield from (test, body, orelse)
        case _:
            yield from children(node)


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement, and the node of the user's file that it is for."""

    frame: Frame
    node: cst.CSTNode
    #: Whether it is inside `torch.inference_mode()`: what is made there is not changed outside.
    in_inference_mode: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, eq=False)
class Assign(Statement):
    """`target = value`; without a target the value is computed and dropped."""

    target: Var | None
    value: Expr


@dataclass(frozen=True, eq=False)
class Augment(Statement):
    """`target += value` with any operator."""

    target: Var
    operator: cst.BaseAugOp
    value: Expr


@dataclass(frozen=True, eq=False)
class Forget(Statement):
    """`del target`."""

    target: Var


@dataclass(frozen=True, eq=False)
class Return(Statement):
    """`return value`, or several in a function that is inlined."""

    values: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class If(Statement):
    """A branch; `elif` is one inside the other's `orelse`."""

    test: Expr
    body: Block
    orelse: Block


@dataclass(frozen=True, eq=False)
class For(Statement):
    """A loop over what Rextio loops over."""

    target: Var
    iterable: Expr
    body: Block


@dataclass(frozen=True, eq=False)
class While(Statement):
    """A loop with a condition."""

    test: Expr
    body: Block


@dataclass(frozen=True, eq=False)
class Jump(Statement):
    """`break` or `continue`."""


@dataclass(frozen=True, eq=False)
class Raw(Statement):
    """A statement that has no rewrite and is no dialect: it stays as it is, with its reason."""


Block: TypeAlias = tuple[Statement, ...]


def inside(block: Block) -> Iterator[Statement]:
    """Yield all statements of a block, those of nested blocks included."""
    for statement in block:
        yield statement
        match statement:
            case If(body=body, orelse=orelse):
                yield from inside(body)
                yield from inside(orelse)
            case For(body=body) | While(body=body):
                yield from inside(body)


def in_inference_mode(block: Block) -> Block:
    """Return a block as one inside `torch.inference_mode()`."""
    found: list[Statement] = []
    for statement in block:
        if isinstance(statement, If):
            body, orelse = in_inference_mode(statement.body), in_inference_mode(statement.orelse)
            statement = replace(statement, body=body, orelse=orelse)
        elif isinstance(statement, For | While):
            statement = replace(statement, body=in_inference_mode(statement.body))
        found.append(replace(statement, in_inference_mode=True))
    return tuple(found)


def own_statements(body: Block) -> Iterator[Statement]:
    """Yield the statements of a loop's body, without those of loops inside."""
    for statement in body:
        yield statement
        if isinstance(statement, If):
            yield from own_statements(statement.body)
            yield from own_statements(statement.orelse)


def assigned(block: Block) -> set[Var]:
    """Return the variables that a block assigns."""
    found = set()
    for statement in inside(block):
        if isinstance(statement, (Assign, Augment, For)) and statement.target is not None:
            found.add(statement.target)
    return found


@dataclass(frozen=True)
class Ways:
    """The variables that are read where a block may go on: at its end, by `break`, `continue`."""

    end: frozenset[Var] = frozenset()
    leave: frozenset[Var] = frozenset()
    again: frozenset[Var] = frozenset()


def live(block: Block, ways: Ways) -> frozenset[Var]:
    """Return the variables whose values at the start of a block are read, in it or after it."""
    now = ways.end
    for statement in reversed(block):
        match statement:
            case Assign(target=target, value=value):
                now = (now - {target}) | frozenset(value.reads())
            case Augment(target=target, value=value):
                now |= {target, *value.reads()}
            case Forget(target=target):
                # It raises where there is no value: branches before it must agree on that.
                now |= {target}
            case Return(values=values):
                now = frozenset(var for value in values for var in value.reads())
            case If(test=test, body=body, orelse=orelse):
                inner = Ways(now, ways.leave, ways.again)
                now = live(body, inner) | live(orelse, inner) | frozenset(test.reads())
            case For() | While():
                now = loop_ways(statement, now).again
                if isinstance(statement, For):
                    now |= frozenset(statement.iterable.reads())
            case Jump(node=node):
                now = ways.leave if isinstance(node, cst.Break) else ways.again
            case Raw(frame=frame, node=node):
                ends = isinstance(node, (cst.Return, cst.Raise))
                found = frozenset(_reads(Expr(frame, cst.Ellipsis()), node))
                now = found if ends else now | found
    return now


def loop_ways(loop: For | While, after: frozenset[Var]) -> Ways:
    """Return what is read where a loop's body goes on; `again` is what each round begins with."""
    test = frozenset(loop.test.reads()) if isinstance(loop, While) else frozenset()
    target = {loop.target} if isinstance(loop, For) else set()
    again = after | test
    while True:
        found = again | (live(loop.body, Ways(again, after, again)) - target)
        if found == again:
            return Ways(again, after, again)
        again = found


def returns(block: Block) -> bool:
    """Whether a block has a return anywhere."""
    return any(isinstance(statement, Return) for statement in inside(block))
