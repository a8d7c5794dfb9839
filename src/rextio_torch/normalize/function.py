"""One function, rewritten: names and types of its variables settled, statement by statement.

A variable that changes its type gets another name. Where branches leave a name in different
states, the rest of the function is written into both.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import libcst as cst

from rextio_torch.normalize.bindings import bindings, is_builtin
from rextio_torch.normalize.body import Bodies, LeftAloneError, Plain, plain
from rextio_torch.normalize.code import Code, joined
from rextio_torch.normalize.constants import literal_value
from rextio_torch.normalize.signature import SCALARS, bound_parameters, written_signature
from rextio_torch.normalize.statements import (
    Assign,
    Augment,
    Block,
    Expr,
    For,
    Forget,
    Frame,
    If,
    Jump,
    Raw,
    Return,
    Statement,
    Var,
    Ways,
    While,
    assigned,
    inside,
    live,
    loop_ways,
)
from rextio_torch.normalize.values import FRESH_NAMES, Bound, Value, Values
from rextio_torch.syntax.source import Function, SourceFile
from rextio_torch.syntax.tree import assigned_names, literal, names_in
from rextio_torch.syntax.types import TENSOR, is_tensor

#: A normalised function has no more lines than this; branches written twice multiply them.
MOST_LINES = 400
#: What is tried for them; branches inside each other are tried twice on each level.
MOST_WRITTEN = 2000
#: Values of numbers that are never read.
_NUMBERS = {"int": "0", "float": "0.0", "bool": "False"}
_AUGMENTED: dict[type[cst.BaseAugOp], cst.BaseBinaryOp] = {
    cst.AddAssign: cst.Add(),
    cst.SubtractAssign: cst.Subtract(),
    cst.MultiplyAssign: cst.Multiply(),
    cst.DivideAssign: cst.Divide(),
}


class _MismatchError(Exception):
    """Branches leave a variable in states that no one name holds.

    `type` is its type, if a name declared before them could hold it.
    """

    def __init__(self, var: Var, type: str | None = None) -> None:
        super().__init__(var.name)
        self.var = var
        self.type = type


@dataclass(frozen=True)
class Normal:
    """A function in the dialect."""

    lines: tuple[Code, ...]
    #: Ids of the forms that were rewritten; without any the function stays as it is written.
    applied: frozenset[str]
    #: The functions whose bodies it holds.
    inlined: tuple[str, ...]
    #: Import statements that it needs.
    imports: frozenset[str]


@dataclass
class _State:
    """What is known at one point: the variables, and the names that are declared there."""

    env: dict[Var, Bound] = field(default_factory=dict)
    #: For each variable the name that an assignment may reuse, with its type.
    homes: dict[Var, tuple[str, str | None]] = field(default_factory=dict)
    #: Variables that a loop around must find in their homes again.
    carried: dict[Var, Bound] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.env), dict(self.homes), self.carried)


class _Writer:
    def __init__(self, bodies: Bodies, body: Plain, file: SourceFile, function: Function) -> None:
        self.file = file
        self.function = function
        self.body = body
        frame = body.frames[0]
        taken = set(frame.local_names) | names_in(function.node.body)
        self.values = Values(file, bodies.constants, frame.local_names)
        self.reserved = taken | bindings(file).names
        self.lines: list[tuple[int, Code]] = []
        #: How many lines were written, those included that were taken back.
        self.written = 0
        #: Names that are declared somewhere in the function, and those of loops.
        self.declared: set[str] = set()
        self.loop_names: set[str] = set()
        self.returned = _returned(body.block)

    # Names

    def declare(self, var: Var) -> str:
        """Return a new name for a variable: Rextio declares a name once in a whole function."""
        number = 0
        base = var.name if var.frame >= 0 else f"t{var.name}"
        if var.frame > 0 and base.startswith("_"):
            # Imports that are added have such names.
            base = f"t{base}"
        while True:
            name = base if not number else f"{base}_{number}"
            number += 1
            own = var.frame == 0 and name == var.name
            free = name not in self.reserved and not hasattr(builtins, name)
            if name not in self.declared and (own or (free and not keyword.iskeyword(name))):
                self.declared.add(name)
                return name

    def line(self, depth: int, code: Code, statement: Statement) -> None:
        """Write a line for a statement of the user's."""
        self.lines.append((depth, code.at(self.values.origin(statement.frame, statement.node))))
        self.written += 1
        if len(self.lines) > MOST_LINES or self.written > MOST_WRITTEN:
            raise LeftAloneError("too many lines")

    def render(self, expr: Expr, state: _State, *, test: bool = False) -> Value:
        """Render an expression in a state; one of several lines in parentheses."""
        self.values.env = state.env
        value = self.values.truth(expr) if test else self.values.value(expr)
        bare = isinstance(expr.node, cst.Tuple) and expr.node not in expr.given
        if "\n" in value.code.text or (bare and expr.node.lpar):
            return replace(value, code="(" + value.code + ")", atomic=True)
        return value

    # Statements

    def run(self, block: Block, state: _State, ways: Ways, depth: int) -> _State | None:
        """Write a block; return the state at its end, or None if it never gets there.

        `ways` are the variables that are read where it may go on.
        """
        for index, statement in enumerate(block):
            rest = block[index + 1 :]
            match statement:
                case Assign(target=target, value=value):
                    found = self.render(value, state)
                    self.assign(statement, target, found, state, depth, list(value.reads()))
                case Augment():
                    self.augment(statement, state, depth)
                case Forget(target=target):
                    if state.env.pop(target, None) is None:
                        raise LeftAloneError(f"{target.name} may have no value")
                case Return(values=values):
                    code = joined(", ", [self.render(value, state).code for value in values])
                    self.line(depth, "return " + code, statement)
                    return None
                case Jump(node=node):
                    self.require_homes(state)
                    text = "break" if isinstance(node, cst.Break) else "continue"
                    self.line(depth, Code(text), statement)
                    return None
                case If() if (taken := self.decided(statement.test, state)) is not None:
                    self.values.applied.add("none_test")
                    chosen = statement.body if taken else statement.orelse
                    return self.run((*chosen, *rest), state, ways, depth)
                case If():
                    after = replace(ways, end=live(rest, ways))
                    known = len(self.lines), set(self.declared), set(self.values.applied)
                    try:
                        end = self.declared_branch(statement, state.copy(), after, depth)
                    except _MismatchError:
                        self.go_back(*known)
                        return self.twice(statement, rest, state, ways, depth)
                    if end is None:
                        return None
                    state = end
                case For() | While():
                    state = self.loop(statement, state, live(rest, ways), depth)
                case Raw(frame=frame, node=node):
                    if any(assigned_names(node)):
                        # Nothing is known of them.
                        raise LeftAloneError
                    self.line(depth, self.raw(frame, node, state), statement)
                    names = (frame.var(name) for name in names_in(node))
                    self.share((var for var in names if var is not None), state)
                    if isinstance(node, (cst.Return, cst.Raise)):
                        return None
        return state

    def raw(self, frame: Frame, node: cst.CSTNode, state: _State) -> Code:
        """Return a statement as it is, if none of its names has another here."""
        for name in names_in(node):
            var = frame.var(name)
            bound = None if var is None else state.env.get(var)
            if name in frame.literals or (bound is not None and bound.name != name):
                raise LeftAloneError("a renamed variable in a statement that is not rewritten")
        return self.values.code(frame, node)

    def assign(
        self,
        statement: Statement,
        target: Var | None,
        value: Value,
        state: _State,
        depth: int,
        read_vars: Iterable[Var] = (),
    ) -> None:
        """Write an assignment, to the variable's own name if that has the type."""
        if target is None:
            read = any(bound.name == value.code.text for bound in state.env.values())
            if read and not value.fresh:
                self.values.applied.add("bare_expression")
                return
            if not is_tensor(value.type) or not value.fresh:
                self.line(depth, value.code, statement)
                # What is called may keep a tensor.
                self.share(read_vars, state)
                return
            self.values.applied.add("bare_expression")
            target = Var(-2, "unused")
        home = state.homes.get(target)
        if home is not None and (home[1] == value.type or not _known(home[1], value.type)):
            name = home[0]
        else:
            if home is not None:
                self.values.applied.add("changed_type")
            elif target.frame == 0 and target.name in self.declared:
                self.values.applied.add("declared_twice")
            # Rust has no variable `_`.
            name = self.declare(Var(-2, "_") if target.name == "_" else target)
            state.homes[target] = (name, value.type)
        own = statement.frame.number == 0 and isinstance(statement.node, cst.AnnAssign)
        annotated = own and not is_tensor(value.type) and self.is_scalar(statement)
        head = self.annotated(statement, name) if annotated else name
        self.line(depth, f"{head} = " + value.code, statement)
        if value.type not in SCALARS and not value.fresh:
            # From here on both names have one tensor, or one is a list of it.
            self.share(read_vars, state)
        of_inference = value.of_inference or statement.in_inference_mode
        state.env[target] = Bound(name, value.type, value.fresh, value.parameter, of_inference)

    def share(self, variables: Iterable[Var], state: _State) -> None:
        """Note that something else may have the tensors of variables too."""
        for var in variables:
            if var in state.env:
                state.env[var] = replace(state.env[var], fresh=False)

    def is_scalar(self, statement: Statement) -> bool:
        """Whether a local's annotation is one that Rextio takes; no other is ever evaluated."""
        assert isinstance(statement.node, cst.AnnAssign)
        annotation = statement.frame.file.resolver.annotation(statement.node.annotation)
        return annotation.kind == "supported"

    def annotated(self, statement: Statement, name: str) -> str:
        """Return the target of a scalar's annotated assignment, which Rextio takes."""
        assert isinstance(statement.node, cst.AnnAssign)
        return f"{name}: {self.values.text(statement.frame, statement.node.annotation.annotation)}"

    def augment(self, statement: Augment, state: _State, depth: int) -> None:
        """Write `h += x`, of a tensor that nothing else has as `h = h + x`."""
        target = statement.target
        bound = state.env.get(target)
        value = self.render(statement.value, state)
        if bound is None:
            raise LeftAloneError(f"{target.name} may have no value")
        operator = _AUGMENTED.get(type(statement.operator))
        start, end = statement.frame.file.offsets(statement.node)
        text = statement.frame.file.text[start:end]
        symbol = text[len(target.name) :].lstrip().partition("=")[0]
        may_change = bound.fresh and (statement.in_inference_mode or not bound.of_inference)
        if operator is not None and is_tensor(bound.type) and may_change:
            code = self.in_place(statement, bound, value, symbol)
            if code is not None:
                self.values.applied.add("augmented_tensor")
                self.line(depth, f"{bound.name} = " + code, statement)
                return
        scalar = bound.type in SCALARS
        widens = scalar and bound.type == "int" and (value.type == "float" or symbol == "/")
        if operator is not None and widens:
            result = Value(f"{bound.name} {symbol} " + value.operand, "float")
            self.assign(statement, target, result, state, depth)
            return
        self.line(depth, f"{bound.name} {symbol}= " + value.code, statement)

    def in_place(self, statement: Augment, bound: Bound, value: Value, symbol: str) -> Code | None:
        """Return the new tensor of an in-place operation, or None where PyTorch would raise."""
        origin = self.values.origin(statement.frame, statement.node)
        before = Value(Code(bound.name), bound.type, atomic=True)
        result = self.values.in_place(symbol, before, value, origin)
        return None if result is None or result.type != bound.type else result.code

    # Branches

    def decided(self, test: Expr, state: _State) -> bool | None:
        """Return what `x is None` or `x is not None` says where `x` is a tensor or a literal."""
        match test.node:
            case cst.Comparison(
                left=left,
                comparisons=[
                    cst.ComparisonTarget(
                        operator=cst.Is() | cst.IsNot() as operator,
                        comparator=cst.Name(value="None"),
                    )
                ],
            ) if left not in test.given:
                pass
            case _:
                return None
        var = test.frame.var(left.value) if isinstance(left, cst.Name) else None
        bound = None if var is None else state.env.get(var)
        known = literal_value(test.frame, left, self.values.constants)
        if known is not None:
            is_none = known.value is None
        elif bound is not None and is_tensor(bound.type):
            is_none = False
        else:
            return None
        return is_none == isinstance(operator, cst.Is)

    def go_back(self, lines: int, declared: set[str], applied: set[str]) -> None:
        """Forget what was written since."""
        del self.lines[lines:]
        self.declared = declared
        self.values.applied = applied

    def declared_branch(
        self, statement: If, state: _State, ways: Ways, depth: int
    ) -> _State | None:
        """Write an `if`, before it the names that only its branches give a value."""
        while True:
            known = len(self.lines), set(self.declared), set(self.values.applied)
            try:
                return self.branch(statement, state, ways, depth)
            except _MismatchError as mismatch:
                self.go_back(*known)
                value = self.any_value(mismatch, state)
                if value is None:
                    raise
                self.values.applied.add("first_in_block")
                name = self.declare(mismatch.var)
                state.homes[mismatch.var] = (name, mismatch.type)
                self.line(depth, Code(f"{name} = {value}"), statement)

    def any_value(self, mismatch: _MismatchError, state: _State) -> str | None:
        """Return something of a type that both branches replace: what costs nothing."""
        if mismatch.type in _NUMBERS:
            return _NUMBERS[mismatch.type]
        if not is_tensor(mismatch.type):
            return None
        for bound in state.env.values():
            if bound.type == mismatch.type and not bound.parameter:
                return bound.name
        if mismatch.var in self.returned:
            # Rextio would take it for the parameter itself.
            return None
        return next((b.name for b in state.env.values() if b.type == mismatch.type), None)

    def branch(self, statement: If, state: _State, ways: Ways, depth: int) -> _State | None:
        """Write an `if`, and what follows it once."""
        test = self.render(statement.test, state, test=True)
        header = len(self.lines)
        self.line(depth, "if " + test.code + ":", statement)
        then = self.run(statement.body, state.copy(), ways, depth + 1)
        if len(self.lines) == header + 1:
            # An empty block is no Python; what is left is the other branch.
            if not statement.orelse:
                self.only_test(statement, test)
                del self.lines[header:]
                return state if then is None else self.merge(state, then, state, ways.end)
            negated = "if not " + test.operand + ":"
            del self.lines[header:]
            self.line(depth, negated, statement)
        elif statement.orelse:
            self.line(depth, Code("else:"), statement)
        before = len(self.lines)
        other = self.run(statement.orelse, state.copy(), ways, depth + 1)
        if statement.orelse and len(self.lines) == before:
            if before == header + 1:
                self.only_test(statement, test)
            del self.lines[before - 1 :]
        if then is None and other is None:
            return None
        if then is None or other is None:
            left = then if other is None else other
            assert left is not None
            return self.merge(state, left, left, ways.end)
        return self.merge(state, then, other, ways.end)

    def only_test(self, statement: If, test: Value) -> None:
        """Require that the test of an `if` without anything in it cannot raise."""
        name = re.fullmatch(r"\w+( [!=]= [0.]+)?", test.code.text)
        if test.type not in SCALARS or not (name or literal(statement.test.node)[0]):
            raise LeftAloneError("a condition that decides nothing")

    def merge(self, before: _State, one: _State, two: _State, needed: frozenset[Var]) -> _State:
        """Return the state after two branches, or raise `_MismatchError`."""
        env: dict[Var, Bound] = {}
        declared = {name for name, _ in before.homes.values()}
        for var in one.env.keys() | two.env.keys():
            first, second = one.env.get(var), two.env.get(var)
            if first is None or second is None:
                if var in needed:
                    raise _MismatchError(var)
                continue
            if first.name != second.name or first.name not in declared:
                if var in needed:
                    same = first.type if first.type == second.type else None
                    raise _MismatchError(var, same)
                continue
            known = before.env.get(var)
            given = first.parameter or second.parameter
            if known is not None and known.parameter and not given and var in self.returned:
                # Rextio does not see that both branches replaced the parameter.
                raise _MismatchError(var)
            env[var] = replace(
                first,
                fresh=first.fresh and second.fresh,
                parameter=given,
                of_inference=first.of_inference or second.of_inference,
            )
        return _State(env, dict(before.homes), before.carried)

    def twice(
        self, statement: If, rest: Block, state: _State, ways: Ways, depth: int
    ) -> _State | None:
        """Write an `if` with what follows it in both branches."""
        self.values.applied.add("first_in_block")
        test = self.render(statement.test, state, test=True)
        self.line(depth, "if " + test.code + ":", statement)
        then = self.run((*statement.body, *rest), state.copy(), ways, depth + 1)
        if then is None:
            # No `else` is needed after a return, and names live on.
            return self.run((*statement.orelse, *rest), state, ways, depth)
        before = len(self.lines)
        self.line(depth, Code("else:"), statement)
        other = self.run((*statement.orelse, *rest), state.copy(), ways, depth + 1)
        if len(self.lines) == before + 1:
            del self.lines[before:]
        if other is None:
            return self.merge(state, then, then, ways.end)
        return self.merge(state, then, other, ways.end)

    # Loops

    def loop(
        self, statement: For | While, state: _State, after: frozenset[Var], depth: int
    ) -> _State:
        """Write a loop; `after` is read after it."""
        changed = assigned(statement.body)
        ways = loop_ways(statement, after)
        for var in changed:
            if var in after and var not in state.env:
                raise LeftAloneError(f"{var.name} has a value only after the loop ran")
        head = state.copy()
        head.carried = {
            var: state.env[var] for var in changed if var in ways.again and var in state.env
        }
        for var, bound in head.carried.items():
            if state.homes.get(var, ("", None))[0] != bound.name:
                raise LeftAloneError(f"{var.name} has no name of its own before the loop")
        for var in _shared(statement.body):
            if var in head.env:
                head.env[var] = replace(head.env[var], fresh=False)
        for item in inside(statement.body):
            if isinstance(item, Assign) and item.in_inference_mode and item.target in head.env:
                # In the next round it is what inference mode made.
                head.env[item.target] = replace(head.env[item.target], of_inference=True)
        inner = head.copy()
        if isinstance(statement, For):
            code = self.render(statement.iterable, state).code
            target, frame = statement.target, statement.frame
            if target in after:
                raise LeftAloneError("the variable of a loop, read after it")
            counted = code.text.startswith("range(") and "range" not in frame.local_names
            kind = "int" if counted and is_builtin(frame.file, "range") else None
            inner.homes.pop(target, None)
            # Loops may share the name of their variable.
            again = target.frame == 0 and target.name in self.loop_names
            name = target.name if again else self.declare(target)
            self.loop_names.add(name)
            inner.env[target] = Bound(name, kind)
            inner.homes[target] = (name, kind)
            self.line(depth, f"for {name} in " + code + ":", statement)
        else:
            test = self.render(statement.test, state, test=True)
            self.line(depth, "while " + test.code + ":", statement)
        size = len(self.lines)
        try:
            end = self.run(statement.body, inner, ways, depth + 1)
        except _MismatchError as error:
            raise LeftAloneError("a name that changes inside a loop") from error
        if len(self.lines) == size:
            # What is left of an empty body.
            self.line(depth + 1, Code(self.declare(Var(-2, "unused")) + " = 0"), statement)
        if end is not None:
            end.carried = head.carried
            self.require_homes(end)
        env = dict(head.env)
        for var in changed:
            if var in env:
                last = env[var] if end is None else end.env.get(var, env[var])
                env[var] = replace(
                    env[var],
                    parameter=env[var].parameter or last.parameter,
                    fresh=env[var].fresh and last.fresh,
                    of_inference=env[var].of_inference or last.of_inference,
                )
        return _State(env, dict(state.homes), state.carried)

    def require_homes(self, state: _State) -> None:
        """Require that what a loop carries is where the next round looks for it."""
        for var, bound in state.carried.items():
            found = state.env.get(var)
            if found is None or found.name != bound.name:
                raise LeftAloneError(f"{var.name} changes its type in a loop")

    # The whole function

    def write(self) -> Normal:
        """Write the whole function."""
        frame = self.body.frames[0]
        state = _State()
        for var, bound in bound_parameters(frame):
            state.env[var] = bound
            state.homes[var] = (bound.name, bound.type)
            self.declared.add(bound.name)
        signature = written_signature(frame, self.values)
        try:
            self.run(self.body.block, state, Ways(), 1)
        except _MismatchError as error:
            raise LeftAloneError("branches that leave a name in different states") from error
        if not self.lines:
            raise LeftAloneError("nothing is left of it")
        return Normal(
            (signature, *("    " * depth + code for depth, code in self.lines)),
            self.body.applied | self.values.applied,
            self.body.inlined,
            frozenset(self.values.imports),
        )


def _known(*types: str | None) -> bool:
    return not {None, TENSOR} & set(types)


def _shared(block: Block) -> set[Var]:
    """Return the variables that may have a tensor in common with another one."""
    found: set[Var] = set()
    for statement in inside(block):
        if isinstance(statement, Raw):
            names = map(statement.frame.var, names_in(statement.node))
            found.update(var for var in names if var is not None)
        if not isinstance(statement, Assign):
            continue
        if _may_alias(statement.value):
            found.update(statement.value.reads())
            if statement.target is not None:
                found.add(statement.target)
    return found


def _may_alias(expr: Expr) -> bool:
    """Whether an expression may be one of its variables itself, or a view of it."""
    given = expr.given.get(expr.node)
    if isinstance(given, Var):
        return True
    match expr.node if given is None else given:
        case cst.UnaryOperation() | cst.BinaryOperation() | cst.BaseNumber():
            return False
        case cst.Call(func=cst.Attribute(attr=name)) | cst.Call(func=cst.Name() as name):
            return name.value not in FRESH_NAMES
    return True


def _returned(block: Block) -> set[Var]:
    return {
        var
        for statement in inside(block)
        if isinstance(statement, Return)
        for value in statement.values
        if isinstance(value.node, cst.Name)
        for var in value.reads()
    }


def normalize(bodies: Bodies, file: SourceFile, function: Function) -> Normal:
    """Return a function in the dialect; raises `LeftAloneError` if it stays as it is."""
    return _Writer(bodies, plain(bodies, file, function), file, function).write()
