"""From a function's syntax tree to plain statements: what is done without knowing types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import libcst as cst

from rextio_torch.normalize.constants import Constants, defined, literal_value, module_literal
from rextio_torch.normalize.exits import NotInlinedError, SingleExit
from rextio_torch.normalize.inference_mode import (
    is_inference_context,
    is_inference_decorator,
    is_inference_mode,
)
from rextio_torch.normalize.order import evaluated_before, reassigns
from rextio_torch.normalize.statements import (
    Assign,
    Augment,
    Block,
    Expr,
    For,
    Forget,
    Frame,
    Given,
    If,
    Jump,
    Raw,
    Return,
    Statement,
    Var,
    While,
    in_inference_mode,
    inside,
    own_statements,
    parts,
)
from rextio_torch.syntax.source import Function, SourceFile
from rextio_torch.syntax.tree import assigned_names, dotted_name, literal, names_in, parameters

#: A normalised function has no more statements than this; inlining and branches multiply them.
MOST_STATEMENTS = 500
#: What makes a function be left as it is.
_OPAQUE = (
    cst.Try,
    cst.TryStar,
    cst.Match,
    cst.Global,
    cst.Nonlocal,
    cst.FunctionDef,
    cst.ClassDef,
    cst.Import,
    cst.ImportFrom,
    cst.Yield,
    cst.Await,
    # They read variables later, by the names that these have as written.
    cst.Lambda,
    cst.GeneratorExp,
)
#: Builtins that do so too.
_BY_NAME = frozenset({"locals", "vars", "dir", "eval", "exec"})


class LeftAloneError(Exception):
    """The function is not rewritten: it has a form that nothing here understands.

    The message says why where the table of forms does not.
    """


@dataclass
class Bodies:
    """The functions of a project with tensor annotations, and how bodies are read."""

    functions: Mapping[str, tuple[SourceFile, Function]]
    constants: Constants

    @property
    def unsettled(self) -> frozenset[str]:
        """Names of modules, `module.NAME`, that have more than one value."""
        return self.constants.unsettled


@dataclass
class _Body:
    bodies: Bodies
    frames: list[Frame] = field(default_factory=list)
    #: Ids of the forms that were rewritten.
    applied: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    temporaries: int = 0
    size: int = 0

    def frame(self, file: SourceFile, function: Function) -> Frame:
        node = function.node
        names = {item.name.value for item in parameters(node.params)}
        names |= set(assigned_names(node.body))
        for name in names_in(node.body) - names:
            if f"{file.module}.{name}" in self.bodies.unsettled:
                raise LeftAloneError(f"{name} has more than one value in its module")
        frame = Frame(len(self.frames), file, function, local_names=frozenset(names))
        self.frames.append(frame)
        return frame

    def temporary(self) -> Var:
        self.temporaries += 1
        return Var(-1, str(self.temporaries))

    # Statements

    def suite(self, frame: Frame, suite: cst.BaseSuite) -> Block:
        found: list[Statement] = []
        for index, statement in enumerate(suite.body):
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    first = index == 0 and suite is frame.function.node.body
                    found += self.small(frame, small, first=first)
            elif isinstance(statement, cst.BaseSmallStatement):
                found += self.small(frame, statement, first=False)
            else:
                found += self.compound(frame, statement)
        self.size += len(found)
        if self.size > MOST_STATEMENTS:
            raise LeftAloneError("too many statements")
        return tuple(found)

    def small(self, frame: Frame, node: cst.CSTNode, *, first: bool) -> Block:
        match node:
            case cst.Pass():
                self.applied.add("pass_statement")
                return ()
            case cst.Expr(value=value):
                return self.expression_statement(frame, node, value, first=first)
            case cst.Return(value=None):
                return (Raw(frame, node),)
            case cst.Return(value=value) if value is not None:
                return self.returned(frame, node, value)
            case cst.Assign(targets=targets, value=value):
                return self.assignment(frame, node, [item.target for item in targets], value)
            case cst.AnnAssign(value=None, target=cst.Name()):
                self.applied.add("declared_local")
                return ()
            case cst.AnnAssign(target=target, value=value) if value is not None:
                if frame.file.resolver.annotation(node.annotation).kind != "supported":
                    self.applied.add("annotated_local")
                return self.assignment(frame, node, [target], value)
            case cst.AugAssign(target=cst.Name(value=name), operator=operator, value=value):
                var = frame.var(name)
                assert var is not None
                if name in assigned_names(value):
                    raise LeftAloneError("an augmented assignment that assigns its target twice")
                return self.with_value(
                    Expr(frame, value), lambda found: (Augment(frame, node, var, operator, found),)
                )
            case cst.Del(target=target):
                names = [target] if isinstance(target, cst.Name) else []
                if isinstance(target, cst.Tuple):
                    names = [e.value for e in target.elements if isinstance(e.value, cst.Name)]
                    names = names if len(names) == len(target.elements) else []
                variables = [frame.var(name.value) for name in names]
                self.applied.add("delete")
                if variables:
                    return tuple(Forget(frame, node, var) for var in variables if var)
            case cst.Break() | cst.Continue():
                return (Jump(frame, node),)
        return (Raw(frame, node),)

    def expression_statement(
        self, frame: Frame, node: cst.CSTNode, value: cst.BaseExpression, *, first: bool
    ) -> Block:
        match value:
            case cst.SimpleString() | cst.ConcatenatedString():
                self.applied.add("docstring" if first else "bare_expression")
                return ()
            case cst.Ellipsis() | cst.Integer() | cst.Float():
                self.applied.add("bare_expression")
                return ()
        return self.with_value(
            Expr(frame, value), lambda found: (Assign(frame, node, None, found),)
        )

    def assignment(
        self,
        frame: Frame,
        node: cst.CSTNode,
        targets: list[cst.BaseExpression],
        value: cst.BaseExpression,
    ) -> Block:
        names = [item for item in targets if isinstance(item, cst.Name)]
        if len(targets) == 1 and isinstance(targets[0], (cst.Tuple, cst.List)):
            return self.unpacking(frame, node, targets[0], value)
        if len(names) < len(targets):
            return (Raw(frame, node),)
        variables = [Var(frame.number, name.value) for name in names]

        def build(found: Expr) -> Block:
            first = Assign(frame, node, variables[0], found)
            again = [
                Assign(frame, node, var, Expr(frame, name, {name: variables[0]}))
                for var, name in zip(variables[1:], names[1:], strict=True)
            ]
            return (first, *again)

        if len(variables) > 1:
            self.applied.add("several_targets")
            return self.with_value(Expr(frame, value), build)
        return self.named(frame, node, variables[0], value)

    def unpacking(
        self,
        frame: Frame,
        node: cst.CSTNode,
        target: cst.Tuple | cst.List,
        value: cst.BaseExpression,
    ) -> Block:
        names = [item.value for item in target.elements]
        variables = [Var(frame.number, name.value) for name in names if isinstance(name, cst.Name)]
        starred = any(isinstance(item, cst.StarredElement) for item in target.elements)
        if starred or len(variables) != len(names):
            return (Raw(frame, node),)
        if isinstance(value, cst.IfExp):
            then = self.unpacking(frame, node, target, value.body)
            other = self.unpacking(frame, node, target, value.orelse)
            if any(isinstance(item, Raw) for item in inside((*then, *other))):
                # It is the whole statement, not a branch of it.
                return (Raw(frame, node),)
            self.applied.add("conditional_expression")
            return self.with_value(
                Expr(frame, value.test), lambda found: (If(frame, value, found, then, other),)
            )
        whole = self.whole_call(Expr(frame, value), variables, node)
        if whole is not None:
            self.applied.add("tuple_unpacking")
            return whole
        if not isinstance(value, (cst.Tuple, cst.List)) or len(value.elements) != len(names):
            return (Raw(frame, node),)
        if any(isinstance(item, cst.StarredElement) for item in value.elements):
            return (Raw(frame, node),)
        self.applied.add("tuple_unpacking")
        found: list[Statement] = []
        values = [item.value for item in value.elements]
        again: list[tuple[Var, Var, cst.BaseExpression]] = []
        for index, (var, part) in enumerate(zip(variables, values, strict=True)):
            later = {v for rest in values[index + 1 :] for v in Expr(frame, rest).reads()}
            into = var
            if var in later:
                # `a, b = b, a` reads all values before it assigns any.
                into = self.temporary()
                again.append((var, into, part))
            found += self.named(frame, node, into, part)
        for var, temporary, part in again:
            found.append(Assign(frame, node, var, Expr(frame, part, {part: temporary})))
        return tuple(found)

    def returned(self, frame: Frame, node: cst.CSTNode, value: cst.BaseExpression) -> Block:
        if isinstance(value, cst.Tuple) and frame.number > 0:
            if any(isinstance(item, cst.StarredElement) for item in value.elements):
                return (Raw(frame, node),)
            exprs = [Expr(frame, item.value) for item in value.elements]
            if not any(any(self.special(expr, expr.node)) for expr in exprs):
                return (Return(frame, node, tuple(exprs)),)
            variables = [self.temporary() for _ in exprs]
            found: list[Statement] = []
            for var, expr in zip(variables, exprs, strict=True):
                found += self.named(frame, node, var, expr.node)
            values = [
                replace(expr, given={expr.node: var})
                for var, expr in zip(variables, exprs, strict=True)
            ]
            return (*found, Return(frame, node, tuple(values)))
        return self.with_value(Expr(frame, value), lambda found: (Return(frame, node, (found,)),))

    def compound(self, frame: Frame, node: cst.CSTNode) -> Block:
        match node:
            case cst.If(test=test, body=body, orelse=orelse):
                other: Block = ()
                if isinstance(orelse, cst.If):
                    other = self.compound(frame, orelse)
                elif orelse is not None:
                    other = self.suite(frame, orelse.body)
                inner = self.suite(frame, body)
                return self.with_value(
                    Expr(frame, test), lambda found: (If(frame, node, found, inner, other),)
                )
            case cst.For(target=cst.Name(value=name), iter=iterable, body=body, orelse=orelse):
                if node.asynchronous is not None:
                    raise LeftAloneError
                inner = self.suite(frame, body)
                after = self.loop_else(frame, inner, orelse)
                loop = For(frame, node, Var(frame.number, name), Expr(frame, iterable), inner)
                return (*self.lists(loop), *after)
            case cst.While(test=test, body=body, orelse=orelse):
                inner = self.suite(frame, body)
                after = self.loop_else(frame, inner, orelse)
                return (While(frame, node, Expr(frame, test), inner), *after)
            case cst.With(items=items, body=body):
                contexts = [item.item for item in items if item.asname is None]
                resolver = frame.file.resolver
                if len(contexts) == len(items) and all(
                    is_inference_context(item, resolver) for item in contexts
                ):
                    self.applied.add("with_statement")
                    inner = self.suite(frame, body)
                    modes = (is_inference_mode(item, resolver) for item in contexts)
                    return in_inference_mode(inner) if any(modes) else inner
        raise LeftAloneError

    def loop_else(self, frame: Frame, body: Block, orelse: cst.Else | None) -> Block:
        """Return what runs after a loop: without `break` that is its `else`."""
        if orelse is None:
            return ()
        if any(isinstance(item.node, cst.Break) for item in own_statements(body)):
            raise LeftAloneError("else of a loop with break")
        self.applied.add("loop_else")
        return self.suite(frame, orelse.body)

    def lists(self, loop: For) -> Block:
        """Give a list that is written in the `for` a name."""
        node = loop.iterable.node
        if not isinstance(node, (cst.List, cst.Tuple)):
            return (loop,)
        self.applied.add("written_list")
        var = self.temporary()
        named = Assign(loop.frame, loop.node, var, loop.iterable)
        return (named, replace(loop, iterable=Expr(loop.frame, node, {node: var})))

    # Expressions

    def named(self, frame: Frame, node: cst.CSTNode, var: Var, value: cst.BaseExpression) -> Block:
        """Return the statements that give a variable a value."""
        whole = self.whole_call(Expr(frame, value), [var], node)
        if whole is not None:
            return whole
        return self.with_value(Expr(frame, value), lambda found: (Assign(frame, node, var, found),))

    def whole_call(self, expr: Expr, results: list[Var], node: cst.CSTNode) -> Block | None:
        """Return the statements of a value that is a call of a function of the project."""
        call = expr.node
        if not isinstance(call, cst.Call) or self.callee(expr, call) is None:
            return None
        try:
            block = self.with_value(
                expr, lambda found: self.inline(found, results, node), until=call
            )
        except NotInlinedError:
            return None
        self.applied.add("tensor_function")
        return block

    def with_value(
        self, expr: Expr, build: Callable[[Expr], Block], until: cst.CSTNode | None = None
    ) -> Block:
        """Return what a statement becomes once its expression has no part that needs its own.

        The part `until` is left to `build`.
        """
        found = next(self.special(expr, expr.node), None)
        if found is None or found is until:
            return build(expr)
        frame = expr.frame
        before, given = self.before(expr, found)
        expr = replace(expr, given=given)
        match found:
            case cst.IfExp(test=test, body=body, orelse=orelse):
                self.applied.add("conditional_expression")
                self.size += 1
                if self.size > MOST_STATEMENTS:
                    # Each doubles what is around it.
                    raise LeftAloneError("too many statements")
                then = self.with_value(replace(expr, given={**given, found: body}), build, until)
                other = self.with_value(replace(expr, given={**given, found: orelse}), build, until)
                return (*before, If(frame, found, expr.part(test), then, other))
            case cst.NamedExpr(target=cst.Name(value=name), value=value):
                self.applied.add("assignment_expression")
                var = self.temporary()
                named: Block = (
                    Assign(frame, found, var, expr.part(value)),
                    Assign(frame, found, Var(frame.number, name), Expr(frame, value, {value: var})),
                )
                rest = self.with_value(replace(expr, given={**given, found: var}), build, until)
                return (*before, *named, *rest)
            case cst.Call(func=cst.Attribute(value=receiver)) if self.callee(expr, found) is None:
                self.applied.add("expression_receiver")
                var = self.temporary()
                named = (Assign(frame, found, var, expr.part(receiver)),)
                rest = self.with_value(replace(expr, given={**given, receiver: var}), build, until)
                return (*before, *named, *rest)
            case cst.Call():
                var = self.temporary()
                try:
                    block = self.inline(expr.part(found), [var], found)
                except NotInlinedError:
                    return build(expr)
                self.applied.add("tensor_function")
                rest = self.with_value(replace(expr, given={**given, found: var}), build, until)
                return (*before, *block, *rest)
        raise LeftAloneError(type(found).__name__)

    def special(self, expr: Expr, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """Yield the parts that become statements, in the order in which they are evaluated."""
        given = expr.given.get(node)
        if isinstance(given, Var):
            return
        if given is not None:
            yield from self.special(expr, given)
            return
        match node:
            case cst.IfExp(test=test):
                yield from self.special(expr, test)
                yield node
                return
            case cst.BooleanOperation(left=left):
                # What comes after it may not run.
                yield from self.special(expr, left)
                return
            case cst.Comparison(left=left, comparisons=comparisons):
                yield from self.special(expr, left)
                yield from self.special(expr, comparisons[0].comparator)
                return
            case cst.BaseComp() | cst.FormattedString():
                return
        for part in parts(node):
            yield from self.special(expr, part)
        match node:
            case cst.NamedExpr():
                yield node
            case cst.Call(func=cst.Attribute(value=receiver)):
                compound = isinstance(receiver, (cst.BinaryOperation, cst.Comparison))
                if self.callee(expr, node) is not None or (compound and receiver not in expr.given):
                    yield node
            case cst.Call():
                if self.callee(expr, node) is not None:
                    yield node

    def before(self, expr: Expr, found: cst.CSTNode) -> tuple[Block, Given]:
        """Give what is evaluated before a part a name of its own; the order stays as it was."""
        block: list[Statement] = []
        given = dict(expr.given)
        for node in evaluated_before(expr, expr.node, found):
            if self.computes(expr, node) or reassigns(found, node):
                var = self.temporary()
                block.append(
                    Assign(expr.frame, node, var, replace(expr, node=node, given={**given}))
                )
                given[node] = var
        return tuple(block), given

    def computes(self, expr: Expr, node: cst.BaseExpression) -> bool:
        """Whether a part does more than read a name or a literal."""
        if node in expr.given or literal(node)[0]:
            return False
        dotted = dotted_name(node)
        if dotted is not None:
            # A module or function, or a local; attributes of tensors are computed.
            return "." in dotted and expr.frame.var(dotted.partition(".")[0]) is not None
        return not isinstance(node, (cst.BaseNumber, cst.BaseString))

    # Calls of the project's own functions

    def callee(self, expr: Expr, call: cst.Call) -> tuple[SourceFile, Function] | None:
        name = dotted_name(call.func)
        head = (name or "").partition(".")[0]
        file = expr.frame.file
        if name is None or head in expr.frame.local_names or head in file.names.assigned:
            return None
        for target in (*defined(file, name, self.bodies.unsettled), f"{file.module}.{name}"):
            found = self.bodies.functions.get(target)
            if found is not None and target not in self.calls:
                return found
        return None

    def inline(self, call: Expr, results: list[Var], node: cst.CSTNode) -> Block:
        """Return the statements that a call stands for, its results assigned."""
        assert isinstance(call.node, cst.Call)
        found = self.callee(call, call.node)
        if found is None:
            raise NotInlinedError
        file, function = found
        definition = function.node
        if definition.decorators and not all(
            is_inference_decorator(item.decorator, file.resolver) for item in definition.decorators
        ):
            raise NotInlinedError
        if "." in function.name or definition.asynchronous or has_opaque(definition):
            raise NotInlinedError
        frames, applied = len(self.frames), set(self.applied)
        frame = self.frame(file, function)
        self.calls.append(f"{file.module}.{function.name}")
        try:
            begin = self.bind(call, frame, node)
            body = self.suite(frame, definition.body)
            body = SingleExit(results, self.temporary, MOST_STATEMENTS).of(body)
            decorators = (item.decorator for item in definition.decorators)
            if any(is_inference_mode(item, file.resolver) for item in decorators):
                body = in_inference_mode(body)
            return (*begin, *body)
        except NotInlinedError:
            # Nothing of it is in the result.
            del self.frames[frames:]
            self.applied = applied
            raise
        finally:
            self.calls.pop()

    def bind(self, call: Expr, frame: Frame, node: cst.CSTNode) -> Block:
        """Bind the arguments of a call to the parameters, in the order of the call."""
        assert isinstance(call.node, cst.Call)
        params = frame.function.node.params
        if isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None:
            raise NotInlinedError
        positional = [*params.posonly_params, *params.params]
        by_name = {item.name.value: item for item in (*params.params, *params.kwonly_params)}
        bound: dict[str, cst.BaseExpression] = {}
        for index, item in enumerate(call.node.args):
            if item.star or (item.keyword is None and index >= len(positional)):
                raise NotInlinedError
            name = positional[index].name.value if item.keyword is None else item.keyword.value
            if name in bound or (item.keyword is not None and name not in by_name):
                raise NotInlinedError
            bound[name] = item.value
        block: list[Statement] = []
        changed = set(assigned_names(frame.function.node.body))
        for name, value in bound.items():
            expr = call.part(value)
            var = call.given.get(value)
            if not isinstance(var, Var):
                var = call.frame.var(value.value) if isinstance(value, cst.Name) else None
            constant = literal_value(call.frame, value, self.bodies.constants)
            if name not in changed and constant is not None:
                frame.literals[name] = constant.value
            elif name not in changed and var is not None:
                frame.aliases[name] = var
            else:
                block.append(Assign(call.frame, node, Var(frame.number, name), expr))
        for parameter in (*positional, *params.kwonly_params):
            name, default = parameter.name.value, parameter.default
            if name in bound:
                continue
            if default is None:
                raise NotInlinedError
            # It is evaluated where the function is defined: only a literal can be repeated here.
            constant = module_literal(frame.file, default, self.bodies.constants)
            if constant is None:
                raise NotInlinedError
            if name in changed:
                outer = Frame(frame.number, frame.file, frame.function)
                written = Expr(outer, default)
                block.append(Assign(frame, node, Var(frame.number, name), written))
            else:
                frame.literals[name] = constant.value
        return tuple(block)


def has_opaque(node: cst.FunctionDef) -> bool:
    """Whether a function has a form that is not rewritten, so that all of it stays as it is."""

    def look(node: cst.CSTNode) -> bool:
        called = node.func if isinstance(node, cst.Call) else None
        named = isinstance(called, cst.Name) and called.value in _BY_NAME
        return named or isinstance(node, _OPAQUE) or any(map(look, parts(node)))

    return look(node.body)


@dataclass(frozen=True)
class Plain:
    """A function's body as plain statements, and what was rewritten for it."""

    block: Block
    frames: tuple[Frame, ...]
    applied: frozenset[str]

    @property
    def inlined(self) -> tuple[str, ...]:
        """The functions whose bodies are inside."""
        return tuple(f"{f.file.module}.{f.function.name}" for f in self.frames[1:])


def plain(bodies: Bodies, file: SourceFile, function: Function) -> Plain:
    """Return a function's body as plain statements; raises `LeftAloneError`."""
    if has_opaque(function.node) or function.node.asynchronous is not None:
        raise LeftAloneError
    body = _Body(bodies)
    body.calls.append(f"{file.module}.{function.name}")
    block = body.suite(body.frame(file, function), function.node.body)
    return Plain(block, tuple(body.frames), frozenset(body.applied))
