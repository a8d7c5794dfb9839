"""Expressions, rendered in the dialect with the types that the operator table gives them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import libcst as cst

from rextio_torch.normalize.arguments import Argument, bind, rendered_options, tensor_type
from rextio_torch.normalize.bindings import is_builtin
from rextio_torch.normalize.body import LeftAloneError
from rextio_torch.normalize.code import Code, Origin, joined
from rextio_torch.normalize.constants import Constants, Literal, literal_value
from rextio_torch.normalize.equivalents import EQUIVALENTS, Equivalent, Named
from rextio_torch.normalize.imports import importable
from rextio_torch.normalize.statements import Expr, Frame, Var, parts
from rextio_torch.ops.model import REQUIRED, Operator, Spelling
from rextio_torch.ops.table import BY_ID, BY_SPELLING
from rextio_torch.syntax.source import SourceFile
from rextio_torch.syntax.tree import assigned_names, dotted_name, literal, names_in
from rextio_torch.syntax.types import SYMBOLS, TENSOR, arithmetic, is_tensor

_EQUIVALENTS: dict[tuple[str, str], list[Equivalent]] = {}
for _row in EQUIVALENTS:
    _EQUIVALENTS.setdefault((_row.kind, _row.written), []).append(_row)
#: Names of operations that never give the caller's own tensor, or a view of it.
FRESH_NAMES = {target.rpartition(".")[2] for _, target in BY_SPELLING} | {
    row.written.rpartition(".")[2] for row in EQUIVALENTS if row.fresh
}
_IN_PARENTHESES = (cst.BinaryOperation, cst.IfExp, cst.NamedExpr, cst.Comparison)
#: What numbers are compared with.
_ZERO = {"int": "0", "float": "0.0"}
_OPENING = re.compile(r"\(\s*$")
_CLOSING = re.compile(r"\s*\)")
#: Nodes whose names are not the function's own.
_OWN_SCOPE = (cst.BaseComp, cst.FormattedString)


@dataclass(frozen=True)
class Bound:
    """What a variable is at one point of the function."""

    name: str
    type: str | None
    #: Whether nothing else has the tensor, so that `+=` changes nothing but this variable.
    fresh: bool = False
    #: Whether it may be the caller's own tensor.
    parameter: bool = False
    #: Whether it may have been made in inference mode.
    of_inference: bool = False


@dataclass(frozen=True)
class Value:
    """A rendered expression."""

    code: Code
    type: str | None = None
    #: Whether it stands as an operand anywhere without parentheses.
    atomic: bool = False
    fresh: bool = False
    parameter: bool = False
    of_inference: bool = False
    #: Of `w.T`, the tensor that it is the transposed of.
    transposed: Value | None = None

    @property
    def operand(self) -> Code:
        """The text as a part of a larger expression."""
        return self.code if self.atomic else "(" + self.code + ")"


@dataclass
class Values:
    """Renders the expressions of one function."""

    file: SourceFile
    constants: Constants
    #: The function's own names, which hide those of the module.
    local_names: frozenset[str]
    #: Ids of the forms that were rewritten.
    applied: set[str] = field(default_factory=set)
    #: Import statements that the result needs.
    imports: set[str] = field(default_factory=set)
    env: dict[Var, Bound] = field(default_factory=dict)

    # Places

    def origin(self, frame: Frame, node: cst.CSTNode) -> Origin:
        """Return where a node is in its user's file."""
        return Origin(frame.file, frame.file.span(node))

    def text(self, frame: Frame, node: cst.CSTNode) -> str:
        """Return a node as it is written."""
        start, end = frame.file.offsets(node)
        return frame.file.text[start:end]

    def code(self, frame: Frame, node: cst.CSTNode, text: str | None = None) -> Code:
        """Return a node's text, or another that stands for it, with its place."""
        found = self.text(frame, node) if text is None else text
        return Code(found).at(self.origin(frame, node))

    # Expressions

    def value(self, expr: Expr) -> Value:
        """Render an expression."""
        given = expr.given.get(expr.node)
        if isinstance(given, Var):
            return self.variable(expr, given)
        if given is None:
            return self.rendered(expr)
        # A branch binds less tightly than the conditional expression around it may have to.
        found = self.value(expr.part(given))
        return found if found.atomic else replace(found, code=found.operand, atomic=True)

    def rendered(self, expr: Expr) -> Value:
        """Render an expression that no other stands for."""
        node = expr.node
        match node:
            case cst.Name(value=name):
                var = expr.frame.var(name)
                if name not in expr.frame.literals and var is not None:
                    return self.variable(expr, var)
                return self.outer_name(expr, node)
            case cst.Integer() | cst.Float() | cst.BaseString():
                if isinstance(node, cst.FormattedString):
                    return self.own_scope(expr)
                number = "int" if isinstance(node, cst.Integer) else "float"
                kind = number if isinstance(node, cst.BaseNumber) else "str"
                return Value(self.code(expr.frame, node), kind, atomic=True)
            case cst.UnaryOperation():
                return self.unary(expr, node)
            case cst.BinaryOperation():
                return self.binary(expr, node)
            case cst.Call():
                return self.call(expr, node)
            case cst.Attribute():
                return self.attribute(expr, node)
            case cst.Comparison():
                tensors = self.spliced(expr)
                return replace(tensors, type="bool")
            case cst.BaseComp():
                return self.own_scope(expr)
            case cst.NamedExpr():
                # It may not run, or run again: what its name is afterwards is not known.
                raise LeftAloneError("an assignment expression inside a condition")
        return self.spliced(expr)

    def variable(self, expr: Expr, var: Var) -> Value:
        """Render a read of a variable."""
        bound = self.env.get(var)
        if bound is None:
            raise LeftAloneError(f"{var.name} may have no value")
        return Value(
            self.code(expr.frame, expr.node, bound.name),
            bound.type,
            atomic=True,
            parameter=bound.parameter,
            of_inference=bound.of_inference,
        )

    def outer_name(self, expr: Expr, node: cst.BaseExpression) -> Value:
        """Render a name that is no local one: a literal constant, or something imported."""
        constant = literal_value(expr.frame, node, self.constants)
        if constant is not None and not literal(node)[0]:
            self.applied.add("module_name")
            literally = repr(constant.value)
            negative = literally.startswith("-")
            code = self.code(expr.frame, node, f"({literally})" if negative else literally)
            return Value(code, type(constant.value).__name__, atomic=True)
        dotted = dotted_name(node) or ""
        text = None if expr.frame.number == 0 else self.visible(expr.frame, dotted)
        kind = {"True": "bool", "False": "bool", "None": "None"}.get(dotted)
        return Value(self.code(expr.frame, node, text), kind, atomic=True)

    def visible(self, frame: Frame, dotted: str) -> str:
        """Return how a name that an inlined function reads is reached from here."""
        target = frame.file.resolver.target(dotted)
        if target is not None:
            return self.imported(target)
        head = dotted.partition(".")[0]
        hidden = head in self.local_names or head in frame.local_names
        if hidden or not (frame.file is self.file or is_builtin(frame.file, head, self.file)):
            raise LeftAloneError(f"{dotted} of an inlined function is something else here")
        return dotted

    def imported(self, target: str) -> str:
        """Return a dotted name for something importable, with an import if there is none."""
        name, needed = importable(self.file, target, self.local_names)
        self.imports |= needed
        return name

    def own_scope(self, expr: Expr) -> Value:
        """Render what has names of its own, as it is."""
        if any(assigned_names(expr.node)):
            raise LeftAloneError("an assignment expression inside a comprehension")
        for name in names_in(expr.node):
            var = expr.frame.var(name)
            bound = None if var is None else self.env.get(var)
            if name in expr.frame.literals or (bound is not None and bound.name != name):
                raise LeftAloneError("a renamed variable inside a comprehension")
        return Value(self.code(expr.frame, expr.node))

    def spliced(self, expr: Expr, kind: str | None = None) -> Value:
        """Render a node as it is written, with its parts in their places."""
        found = [(part, self.value(expr.part(part)).code) for part in _operands(expr.node)]
        return self.splice(expr, found, kind)

    def splice(
        self, expr: Expr, found: list[tuple[cst.BaseExpression, Code]], kind: str | None
    ) -> Value:
        """Put rendered parts in the places of the parts as they are written."""
        file = expr.frame.file
        start, end = file.offsets(expr.node)
        code, at = Code(""), start
        for part, text in found:
            begin, finish = file.offsets(part)
            before, after = file.text[at:begin], file.text[finish:end]
            at = finish
            if isinstance(part, _IN_PARENTHESES) and text.text.isidentifier():
                # The parentheses were for what the name replaces.
                opening, closing = _OPENING.search(before), _CLOSING.match(after)
                if opening is not None and closing is not None and part.lpar:
                    before, at = before[: opening.start()], finish + closing.end()
            code = code + before + text
        code = code + file.text[at:end]
        call = isinstance(expr.node, (cst.Call, cst.Attribute, cst.Subscript))
        return Value(code.at(self.origin(expr.frame, expr.node)), kind, atomic=call)

    def unary(self, expr: Expr, node: cst.UnaryOperation) -> Value:
        """Render a unary operator."""
        operand = self.value(expr.part(node.expression))
        if isinstance(node.operator, cst.Minus) and is_tensor(operand.type):
            found = self.equivalent(
                expr, ("unary", "-"), [Argument(None, node.expression, operand)]
            )
            if found is not None:
                self.applied.add("unary_minus")
                return found
        kind = "bool" if isinstance(node.operator, cst.Not) else operand.type
        return self.splice(expr, [(node.expression, operand.code)], kind)

    def truth(self, expr: Expr) -> Value:
        """Render a condition: of a number, whether it is not zero."""
        node = expr.node
        if node not in expr.given:
            match node:
                case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                    operand = self.value(expr.part(inner))
                    if operand.type in _ZERO:
                        return self.compared(expr, operand, "==")
                    return self.splice(expr, [(inner, self.truth(expr.part(inner)).code)], "bool")
                case cst.BooleanOperation(left=left, right=right):
                    both = [(part, self.truth(expr.part(part)).code) for part in (left, right)]
                    return self.splice(expr, both, None)
        value = self.value(expr)
        return self.compared(expr, value, "!=") if value.type in _ZERO else value

    def compared(self, expr: Expr, value: Value, symbol: str) -> Value:
        """Render a comparison of a number with zero."""
        self.applied.add("truth")
        code = value.operand + f" {symbol} {_ZERO[value.type or 'int']}"
        return Value(code.at(self.origin(expr.frame, expr.node)), "bool")

    def binary(self, expr: Expr, node: cst.BinaryOperation) -> Value:
        """Render a binary operator: of tensors as the table of operators has it."""
        left = self.value(expr.part(node.left))
        right = self.value(expr.part(node.right))
        pair = [(node.left, left.code), (node.right, right.code)]
        arguments = [Argument(None, node.left, left), Argument(None, node.right, right)]
        if isinstance(node.operator, cst.Power):
            if is_tensor(left.type):
                found = self.equivalent(expr, ("binary", "**"), arguments)
                if found is not None:
                    self.applied.add("power")
                    return found
            return self.scalar_power(expr, node, left, pair)
        if not is_tensor(left.type) and not is_tensor(right.type):
            return self.splice(expr, pair, arithmetic(node.operator, (left.type, right.type)))
        symbol = SYMBOLS.get(type(node.operator))
        row = BY_SPELLING.get(("operator", symbol or ""))
        if row is None:
            return self.splice(expr, pair, TENSOR)
        linear = self.with_transposed(expr, row[0], [left, right])
        if linear is not None:
            return linear
        bound = bind(row[0], row[1], arguments, self.literal_of(expr))
        if bound is None:
            return self.splice(expr, pair, TENSOR)
        return replace(self.splice(expr, pair, bound.signature.result.key), fresh=True)

    def scalar_power(
        self,
        expr: Expr,
        node: cst.BinaryOperation,
        left: Value,
        pair: list[tuple[cst.BaseExpression, Code]],
    ) -> Value:
        """Render `n ** 2` of an int as a product; a float's power is rounded otherwise."""
        exponent = literal_value(expr.frame, node.right, self.constants)
        power = exponent.value if exponent is not None else None
        if (
            left.type == "int"
            and re.fullmatch(r"\w+", left.code.text)
            and type(power) is int
            and 1 <= power <= 4
        ):
            self.applied.add("power")
            code = "(" + joined(" * ", [left.code] * power) + ")"
            return Value(code.at(self.origin(expr.frame, node)), "int", atomic=True)
        return self.splice(expr, pair, None)

    def attribute(self, expr: Expr, node: cst.Attribute) -> Value:
        """Render an attribute of a tensor, or a dotted name."""
        dotted = dotted_name(node)
        head = (dotted or "").partition(".")[0]
        if dotted is not None and expr.frame.var(head) is None:
            return self.outer_name(expr, node)
        receiver = self.value(expr.part(node.value))
        if is_tensor(receiver.type):
            written = ("attribute", node.attr.value)
            found = self.equivalent(expr, written, [Argument(None, node.value, receiver)])
            if found is not None:
                self.applied.add("attribute")
                return found
        return self.splice(expr, [(node.value, _before_dot(receiver))], None)

    # Calls

    def call(self, expr: Expr, node: cst.Call) -> Value:
        """Render a call: of torch, of a method, or of anything else as it is."""
        dotted = dotted_name(node.func)
        head = (dotted or "").partition(".")[0]
        known = (
            dotted is not None
            and head in expr.frame.file.names.imports
            and head not in expr.frame.file.names.assigned
            and head not in expr.frame.local_names
        )
        receiver: Value | None = None
        found: list[tuple[cst.BaseExpression, Code]] = []
        if known:
            assert dotted is not None
            written = ("function", expr.frame.file.resolver.target(dotted) or dotted)
            if expr.frame.number > 0:
                name = self.imported(written[1])
                found.append((node.func, self.code(expr.frame, node.func, name)))
        elif isinstance(node.func, cst.Attribute):
            receiver = self.value(expr.part(node.func.value))
            written = ("method", node.func.attr.value)
            found.append((node.func.value, _before_dot(receiver)))
        else:
            written = ("builtin", dotted or "")
            if dotted is None or expr.frame.number > 0:
                found.append((node.func, self.value(expr.part(node.func)).code))
        arguments = [
            Argument(
                None if item.keyword is None else item.keyword.value,
                item.value,
                self.value(expr.part(item.value)),
                star=item.star,
            )
            for item in node.args
        ]
        found += [(item.node, item.value.code) for item in arguments]
        if written[0] == "builtin":
            return self.splice(expr, found, self.builtin_type(expr.frame, written[1]))
        if receiver is not None:
            if not is_tensor(receiver.type):
                return self.splice(expr, found, None)
            assert isinstance(node.func, cst.Attribute)
            arguments.insert(0, Argument(None, node.func.value, receiver))
        return self.operation(expr, node, written, arguments, found)

    def builtin_type(self, frame: Frame, name: str) -> str | None:
        """Return the type of what a builtin gives, if its name is that of the builtin here."""
        if name in frame.local_names or not is_builtin(frame.file, name):
            return None
        return {"len": "int", "int": "int", "float": "float", "bool": "bool"}.get(name)

    def operation(
        self,
        expr: Expr,
        node: cst.Call,
        written: tuple[str, str],
        arguments: list[Argument],
        found: list[tuple[cst.BaseExpression, Code]],
    ) -> Value:
        """Render a call of torch: as it is, with its arguments as Rextio takes them, or another."""
        row = BY_SPELLING.get(written)
        if row is not None:
            operator, spelling = row
            linear = self.with_transposed(expr, operator, [item.value for item in arguments])
            if linear is not None and len(arguments) == 2:
                return linear
            bound = bind(operator, spelling, arguments, self.literal_of(expr))
            if bound is not None:
                kind = bound.signature.result.key
                if bound.as_written:
                    return replace(self.splice(expr, found, kind), fresh=True)
                self.applied.add("keyword")
                function = self.function_text(expr, node, arguments, written)
                inner = bound.operands if written[0] == "function" else bound.operands[1:]
                values = [item.value.code if item else Code("None") for item in inner]
                options = rendered_options(operator, bound.options)
                code = function + "(" + joined(", ", [*values, *options]) + ")"
                code = code.at(self.origin(expr.frame, node))
                return Value(code, kind, atomic=True, fresh=True)
        other = self.equivalent(expr, written, arguments)
        if other is not None:
            names = {"function": "unknown_function", "method": "unknown_method"}
            self.applied.add(names[written[0]])
            return other
        tensor = written[0] == "method" or written[1].startswith("torch.")
        return self.splice(expr, found, TENSOR if tensor else None)

    def function_text(
        self, expr: Expr, node: cst.Call, arguments: list[Argument], written: tuple[str, str]
    ) -> Code:
        """Return what is called, without the arguments."""
        if written[0] == "method":
            return arguments[0].value.operand + "." + written[1]
        if expr.frame.number > 0:
            return Code(self.imported(written[1]))
        return Code(self.text(expr.frame, node.func))

    def literal_of(self, expr: Expr) -> Callable[[cst.BaseExpression], Literal | None]:
        """Return what says which literal an argument is."""

        def find(node: cst.BaseExpression) -> Literal | None:
            given = expr.given.get(node)
            if given is not None:
                return None if isinstance(given, Var) else find(given)
            return literal_value(expr.frame, node, self.constants)

        return find

    def equivalent(
        self, expr: Expr, written: tuple[str, str], arguments: list[Argument]
    ) -> Value | None:
        """Return what the table of equivalents says that an operation is."""
        for row in _EQUIVALENTS.get(written, ()):
            found = self.bind_equivalent(expr, row, arguments)
            if found is None:
                continue
            linear = self.with_transposed(expr, BY_ID.get(row.gives), found)
            if linear is not None:
                return linear
            types = tuple(tensor_type(value.type) for value in found)
            origin = self.origin(expr.frame, expr.node)
            if tuple(item.rank if item else 0 for item in types) not in row.ranks:
                continue
            if any(item is None or item.dtype != "float32" for item in types):
                continue
            if row.gives == "identity":
                return replace(found[0], code=found[0].operand.at(origin), atomic=True)
            if row.gives == "transposed":
                pairs = [(item.node, item.value.code) for item in arguments[:1]]
                written_as = self.splice(expr, pairs, TENSOR)
                return replace(written_as, transposed=found[0])
            return self.operator_call(BY_ID[row.gives], found, origin)
        return None

    def bind_equivalent(
        self, expr: Expr, row: Equivalent, arguments: list[Argument]
    ) -> list[Value] | None:
        """Bind arguments to a row's parameters; return its tensors if the row accepts the rest."""
        if any(item.star for item in arguments):
            return None
        positional = [item for item in arguments if item.keyword is None]
        keywords = {item.keyword: item for item in arguments if item.keyword is not None}
        try:
            bound = row.signature.bind(*positional, **keywords)
        except TypeError:
            return None
        names, given = list(bound.arguments), list(bound.arguments.values())
        tensors = [item.value for item in given[: row.tensors]]
        if not all(is_tensor(value.type) for value in tensors):
            return None
        literals: dict[str, object] = {}
        for name, item in list(bound.arguments.items())[row.tensors :]:
            constant = self.literal_of(expr)(item.node)
            dotted = dotted_name(item.node)
            if constant is not None:
                literals[name] = constant.value
            elif dotted is not None and expr.frame.var(dotted.partition(".")[0]) is None:
                target = expr.frame.file.resolver.target(dotted)
                if target is None:
                    return None
                literals[name] = Named(target)
            else:
                return None
        nothing = [None] * row.tensors
        for name, value in (*zip(names, nothing, strict=False), *literals.items()):
            bound.arguments[name] = value
        return tensors if row.accepts(*bound.args, **bound.kwargs) else None

    def in_place(self, symbol: str, left: Value, right: Value, origin: Origin) -> Value | None:
        """Render the value of `left symbol= right`."""
        row = BY_SPELLING.get(("operator", symbol))
        other = None if row is None else row[0].in_place
        return None if other is None else self.operator_call(BY_ID[other], [left, right], origin)

    def operator_call(
        self, operator: Operator, operands: list[Value], origin: Origin
    ) -> Value | None:
        """Render a call of an operator with tensors alone."""
        types = tuple(tensor_type(value.type) for value in operands)
        types += (None,) * (len(operator.tensor_parameters) - len(types))
        options = {item.name: item.default for item in operator.options}
        if any(value is REQUIRED for value in options.values()):
            return None
        signature = operator.match(types, options)  # type: ignore[arg-type]
        if signature is None:
            return None
        spelling = _preferred(operator, operands)
        codes = [value.code for value in operands]
        if spelling.kind == "method":
            code = operands[0].operand + f".{spelling.target}(" + joined(", ", codes[1:]) + ")"
        else:
            code = self.imported(spelling.target) + "(" + joined(", ", codes) + ")"
        return Value(code.at(origin), signature.result.key, atomic=True, fresh=True)

    def with_transposed(
        self, expr: Expr, operator: Operator | None, operands: list[Value]
    ) -> Value | None:
        """Return `x @ w.T` as what it is in PyTorch too: a linear layer without bias."""
        other = None if operator is None else operator.transposed
        if other is None or len(operands) != 2 or operands[1].transposed is None:
            return None
        origin = self.origin(expr.frame, expr.node)
        return self.operator_call(BY_ID[other], [operands[0], operands[1].transposed], origin)


def _before_dot(receiver: Value) -> Code:
    """Return a receiver's text; `2.real` is no Python."""
    number = receiver.code.text[:1].isdigit()
    return "(" + receiver.code + ")" if number else receiver.code


def _preferred(operator: Operator, operands: list[Value]) -> Spelling:
    """Return how to write an operator; Rextio takes no method of an expression in parentheses."""
    as_method = len(operands) == 1 and operands[0].atomic
    for kind in ("method", "function") if as_method else ("function", "method"):
        for spelling in operator.spellings:
            if spelling.kind == kind:
                return spelling
    raise AssertionError(operator.id)


def _operands(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield the outermost expressions inside a node, in the order in which they are written."""
    for part in (
        parts(node)
        if not isinstance(node, cst.IfExp)
        else (
            node.body,
            node.test,
            node.orelse,
        )
    ):
        if isinstance(part, cst.BaseExpression):
            yield part
        else:
            yield from _operands(part)
