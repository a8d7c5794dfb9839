"""Forms of expressions."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

import libcst as cst

from rextio_torch.explain.inference import Facts, imported_names, literal, names_in
from rextio_torch.explain.model import Form
from rextio_torch.explain.names import dotted_name
from rextio_torch.ops.table import BY_SPELLING

_RELU = """\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
"""
_BRANCHES = """\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n > 0:
        return x.relu()
    return x.tanh()
"""
_UNSUPPORTED = (
    cst.FloorDivide,
    cst.BitAnd,
    cst.BitOr,
    cst.BitXor,
    cst.LeftShift,
    cst.RightShift,
)
#: What Rextio translates with scalar arguments.
_SCALAR_BUILTINS = frozenset(
    {"abs", "all", "any", "enumerate", "len", "max", "min", "print", "range", "sum", "zip"}
    | {"sorted"}
)


def _unary_minus(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.UnaryOperation):
        if isinstance(item.operator, cst.Minus) and facts.is_tensor(item.expression):
            yield item


def _other_unary(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.UnaryOperation):
        if isinstance(item.operator, (cst.Plus, cst.BitInvert)):
            yield item


def _power(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.BinaryOperation):
        if isinstance(item.operator, cst.Power):
            yield item


def _other_binary(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.BinaryOperation):
        remainder = isinstance(item.operator, cst.Modulo)
        tensors = facts.is_tensor(item.left) or facts.is_tensor(item.right)
        if isinstance(item.operator, _UNSUPPORTED) or (remainder and tensors):
            yield item


def _integer_division(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.BinaryOperation):
        types = [facts.types.get(side) for side in (item.left, item.right)]
        if isinstance(item.operator, cst.Divide) and types == ["int", "int"]:
            yield item


def _tensor_comparison(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.Comparison):
        operands = [item.left, *(part.comparator for part in item.comparisons)]
        if any(map(facts.is_tensor, operands)):
            yield item


def _membership(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.Comparison):
        if any(isinstance(part.operator, (cst.In, cst.NotIn)) for part in item.comparisons):
            yield item


def _truth(facts: Facts) -> Iterator[cst.CSTNode]:
    """Yield what is asked for its truth and is no bool."""
    tests = [item.test for item in facts.nodes(cst.If)]
    tests += [item.test for item in facts.nodes(cst.While)]
    tests += [item.test for item in facts.nodes(cst.IfExp)]
    for item in facts.nodes(cst.UnaryOperation):
        if isinstance(item.operator, cst.Not):
            tests.append(item.expression)
    for operation in facts.nodes(cst.BooleanOperation):
        tests += [operation.left, operation.right]
    for test in dict.fromkeys(tests):
        compared = isinstance(test, cst.Comparison)
        scalar = facts.types.get(test) in ("int", "float", "str")
        if not compared and (facts.is_tensor(test) or scalar):
            yield test


def _attribute(facts: Facts) -> Iterator[cst.CSTNode]:
    called = {item.func for item in facts.nodes(cst.Call)}
    inside = {item.value for item in facts.nodes(cst.Attribute)}
    for item in facts.nodes(cst.Attribute):
        target = facts.file.resolver.target(dotted_name(item) or "") or ""
        if item not in called and item not in inside and not target.startswith("math."):
            yield item
    # Of `x.T.relu()` the part before the method, if it is no module.
    for call in facts.nodes(cst.Call):
        receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
        dotted = dotted_name(receiver)
        if isinstance(receiver, cst.Attribute) and not facts.is_known_module(dotted or "?"):
            yield receiver


def _index(facts: Facts) -> Iterator[cst.CSTNode]:
    written = {t.target for t in facts.nodes(cst.AssignTarget)}
    for item in facts.nodes(cst.Subscript):
        if facts.is_tensor(item.value) and item not in written:
            yield item


def _keyword(facts: Facts) -> Iterator[cst.CSTNode]:
    for call in facts.nodes(cst.Call):
        for item in call.args:
            value = item.keyword is not None and not literal(item.value)[0]
            if value or item.star == "**":
                yield item


def _starred(facts: Facts) -> Iterator[cst.CSTNode]:
    for call in facts.nodes(cst.Call):
        yield from (item for item in call.args if item.star == "*")


def _receiver(facts: Facts) -> Iterator[cst.CSTNode]:
    bare = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.IfExp, cst.NamedExpr)
    for call in facts.nodes(cst.Call):
        receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
        if isinstance(receiver, bare) and facts.is_tensor(receiver):
            yield receiver


def _tensor_function(facts: Facts) -> Iterator[cst.CSTNode]:
    for call in facts.nodes(cst.Call):
        if _callee_has_tensors(facts, call):
            yield call


def _callee_has_tensors(facts: Facts, call: cst.Call) -> bool:
    name = dotted_name(call.func)
    if name is None or name.partition(".")[0] in facts.local_names:
        return False
    return facts.file.is_tensor_function(name)


def _unknown_function(facts: Facts) -> Iterator[cst.CSTNode]:
    managers = {item.item for statement in facts.nodes(cst.With) for item in statement.items}
    for call in facts.nodes(cst.Call):
        name = dotted_name(call.func)
        if name is None or not facts.is_known_module(name) or call in managers:
            continue
        target = facts.file.resolver.target(name) or ""
        if target.startswith("torch.") and ("function", target) not in BY_SPELLING:
            yield call


def _method_name(facts: Facts, call: cst.Call, *, of_call: bool = False) -> str | None:
    """Return the name of the method that is called on a tensor, itself a call's result or not."""
    if not isinstance(call.func, cst.Attribute) or not facts.is_tensor(call.func.value):
        return None
    return call.func.attr.value if isinstance(call.func.value, cst.Call) == of_call else None


def _method_of_call(facts: Facts) -> Iterator[cst.CSTNode]:
    for call in facts.nodes(cst.Call):
        name = _method_name(facts, call, of_call=True)
        if name is not None and ("method", name) not in BY_SPELLING:
            yield call


def _in_place(facts: Facts) -> Iterator[cst.CSTNode]:
    for call in facts.nodes(cst.Call):
        name = _method_name(facts, call) or ""
        if name.endswith("_") and not name.endswith("__"):
            yield call


def _unknown_method(facts: Facts) -> Iterator[cst.CSTNode]:
    for call in facts.nodes(cst.Call):
        name = _method_name(facts, call)
        if name is not None and ("method", name) not in BY_SPELLING and not name.endswith("_"):
            yield call


def _python_call(facts: Facts) -> Iterator[cst.CSTNode]:
    """Yield calls of builtins with a tensor, or of builtins that Rextio does not translate.

    Exceptions belong to the `raise` around them.
    """
    for call in facts.nodes(cst.Call):
        name = call.func.value if isinstance(call.func, cst.Name) else None
        names = facts.file.names
        value = None if name is None else getattr(builtins, name, None)
        if value is None or (isinstance(value, type) and issubclass(value, BaseException)):
            continue
        if name in facts.local_names | names.assigned or name in names.imports:
            continue
        tensors = any(facts.is_tensor(item.value) for item in call.args)
        if tensors or name not in _SCALAR_BUILTINS:
            yield call


def _hidden_module(facts: Facts) -> Iterator[cst.CSTNode]:
    # An import inside the function is a form of its own.
    inside = {name for statement in facts.imports() for name in imported_names(statement)}
    for call in facts.nodes(cst.Call):
        head = (dotted_name(call.func) or "").partition(".")[0]
        if head in facts.local_names - inside and head in facts.file.names.imports:
            yield call


def _module_name(facts: Facts) -> Iterator[cst.CSTNode]:
    return iter(facts.module_reads)


def _list_of_tensors(facts: Facts) -> Iterator[cst.CSTNode]:
    unpacked = {item.value for item in facts.nodes(cst.Assign)}
    loops = {item.iter for item in facts.nodes(cst.For)}
    displays: list[cst.List | cst.Tuple] = [*facts.nodes(cst.List), *facts.nodes(cst.Tuple)]
    for item in displays:
        tuple_value = isinstance(item, cst.Tuple) and item in unpacked
        if tuple_value or item in loops or _returned_tuple(facts, item):
            continue
        if any(facts.is_tensor(element.value) for element in item.elements):
            yield item


def _returned_tuple(facts: Facts, item: cst.CSTNode) -> bool:
    return any(statement.value is item for statement in facts.nodes(cst.Return))


def _comprehension(facts: Facts) -> Iterator[cst.CSTNode]:
    yield from facts.nodes(cst.GeneratorExp)
    for item in facts.nodes(cst.ListComp, cst.SetComp, cst.DictComp):
        if facts.tensor_names & names_in(item):
            yield item


ROWS = (
    Form(
        code="RXTP-FORM-060",
        id="unary_minus",
        title="minus before a tensor",
        reason="Rextio does not offer it to plugins.",
        advice="Write `x.neg()`.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return -x
""",
        instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.neg()
""",
        detect=_unary_minus,
    ),
    Form(
        code="RXTP-FORM-061",
        id="unary_operator",
        title="the operator ~ or unary +",
        reason="Rextio does not translate it.",
        advice="Leave `+` out; there is no native `~`.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.relu()
    return +y
""",
        instead=_RELU,
        detect=_other_unary,
    ),
    Form(
        code="RXTP-FORM-062",
        id="power",
        title="the operator **",
        reason="Rextio does not translate it, for numbers neither.",
        advice="Write `x.square()`, `x.sqrt()` or products.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x**2
""",
        instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.square()
""",
        detect=_power,
    ),
    Form(
        code="RXTP-FORM-063",
        id="binary_operator",
        title="an operator without native code",
        reason="Rextio does not translate `//`, `&`, `|`, `^`, `<<` and `>>`, nor `%` of tensors.",
        advice="Compute the number in the caller, or write it with `+`, `-`, `*` and `/`.",
        example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    for _ in range(n // 2):
        h = h.tanh()
    return h
""",
        instead="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    for _ in range(0, n - 1, 2):
        h = h.tanh()
    return h
""",
        detect=_other_binary,
    ),
    Form(
        code="RXTP-FORM-064",
        id="integer_division",
        title="int divided by int",
        reason="Rextio divides floats only.",
        advice="Divide by a float literal, or pass the number as float.",
        example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n / 2 > 1.0:
        return x.relu()
    return x.tanh()
""",
        instead="""\
def f(x: TensorF32Cpu2D, n: float) -> TensorF32Cpu2D:
    if n / 2.0 > 1.0:
        return x.relu()
    return x.tanh()
""",
        detect=_integer_division,
    ),
    Form(
        code="RXTP-FORM-065",
        id="tensor_comparison",
        title="a comparison of tensors",
        reason="There is no native type for a tensor of bools, and a tensor is never None here.",
        advice="Compare scalars; leave a comparison with None out.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    if x is None:
        return x.tanh()
    return x.relu()
""",
        instead=_RELU,
        detect=_tensor_comparison,
    ),
    Form(
        code="RXTP-FORM-066",
        id="membership",
        title="in or not in",
        reason="Rextio does not translate it.",
        advice="Compare with `==`.",
        example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n in (1, 2):
        return x.relu()
    return x.tanh()
""",
        instead="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n == 1 or n == 2:
        return x.relu()
    return x.tanh()
""",
        detect=_membership,
    ),
    Form(
        code="RXTP-FORM-067",
        id="truth",
        title="the truth of what is no bool",
        reason="A native condition is a bool. Of a tensor only the run time knows it.",
        advice="Compare a scalar: `n != 0`.",
        example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n:
        return x.relu()
    return x.tanh()
""",
        instead="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n != 0:
        return x.relu()
    return x.tanh()
""",
        detect=_truth,
    ),
    Form(
        code="RXTP-FORM-068",
        id="conditional_expression",
        title="a conditional expression",
        reason="Rextio does not translate it.",
        advice="Write `if` with a `return` in each branch, or assign before the `if`.",
        example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    return x.relu() if n > 0 else x.tanh()
""",
        instead=_BRANCHES,
        detect=lambda facts: facts.nodes(cst.IfExp),
    ),
    Form(
        code="RXTP-FORM-069",
        id="attribute",
        title="an attribute",
        reason="Rextio reads no attributes, neither of tensors (`x.T`, `x.shape`) nor of modules "
        "(`torch.float32`).",
        advice="Pass it in: the transposed tensor, or the size as int. `F.linear(x, w)` is "
        "`x @ w.T`.",
        example="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x @ w.T
""",
        instead="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return F.linear(x, w)
""",
        detect=_attribute,
    ),
    Form(
        code="RXTP-FORM-070",
        id="index",
        title="an index or slice of a tensor",
        reason="Rextio does not offer it to plugins.",
        advice="Pass the part in: what the caller slices is a view, not a copy.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x[1:]
    return y.relu()
""",
        instead="""\
def f(y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return y.relu()
""",
        detect=_index,
    ),
    Form(
        code="RXTP-FORM-071",
        id="keyword",
        title="a keyword argument that is no literal",
        reason="Rextio hands a keyword to plugins only where its value is a literal int, None, "
        "bool, str or tuple of ints: no float, no name, no tensor.",
        advice="Pass tensors and floats by position, and write options as literals.",
        example="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu2D:
    return F.linear(x, w, bias=b)
""",
        instead="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu2D:
    return F.linear(x, w, b)
""",
        detect=_keyword,
    ),
    Form(
        code="RXTP-FORM-072",
        id="starred_argument",
        title="an unpacked argument",
        reason="Rextio does not translate `*` in a call.",
        advice="Write the arguments out.",
        example="""\
def f(x: TensorF32Cpu2D, dims: list[int]) -> TensorF32Cpu1D:
    return torch.mean(x, *dims)
""",
        instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu1D:
    return torch.mean(x, 1)
""",
        detect=_starred,
    ),
    Form(
        code="RXTP-FORM-073",
        id="expression_receiver",
        title="a method of an expression in parentheses",
        reason="Rextio offers methods of a name or of another call, not of an operator's result.",
        advice="Give the result a name, or write the function: `torch.relu(x + w)`.",
        example="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return (x + w).relu()
""",
        instead="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.relu(x + w)
""",
        detect=_receiver,
    ),
    Form(
        code="RXTP-FORM-074",
        id="tensor_function",
        title="a call of another function with tensors",
        reason="Functions with tensors are called from Python only.",
        advice="Write the operations out, or call one after the other from Python.",
        example="""\
def scaled(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.tanh()


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return scaled(x)
""",
        instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.tanh()
""",
        detect=_tensor_function,
    ),
    Form(
        code="RXTP-FORM-075",
        id="unknown_function",
        title="a function of torch that is not in the operator table",
        reason="docs/operators.md lists what runs natively.",
        advice="Write it with those operators, or compute it in the caller.",
        example="""\
def f(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.mm(x, y)
""",
        instead="""\
def f(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.matmul(x, y)
""",
        detect=_unknown_function,
    ),
    Form(
        code="RXTP-FORM-076",
        id="in_place",
        title="an in-place method",
        reason="Native functions change nothing in place.",
        advice="Write the method without the underscore, and use its result.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.tanh()
    return y.relu_()
""",
        instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.tanh()
    return y.relu()
""",
        detect=_in_place,
    ),
    Form(
        code="RXTP-FORM-077",
        id="unknown_method",
        title="a tensor's method that is not in the operator table",
        reason="docs/operators.md lists what runs natively.",
        advice="Write it with those operators, or leave it out: results are detached and "
        "contiguous anyway.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.relu()
    return y.detach()
""",
        instead=_RELU,
        detect=_unknown_method,
    ),
    Form(
        code="RXTP-FORM-086",
        id="method_of_call",
        title="a method of a call's result that is not in the operator table",
        reason="Rextio's analysis accepts it, its code generator does not: it stops with RXT050, "
        "and nothing of the project is built.",
        advice="Leave it out, or write it with the operators of docs/operators.md.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu().detach()
""",
        instead=_RELU,
        detect=_method_of_call,
        stops_build=True,
    ),
    Form(
        code="RXTP-FORM-078",
        id="builtin",
        title="a builtin that Rextio does not translate here",
        reason="Builtins work on scalars, and not all of them.",
        advice="Pass the number in.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    h = x.relu()
    for _ in range(len(x)):
        h = h.tanh()
    return h
""",
        instead="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    for _ in range(n):
        h = h.tanh()
    return h
""",
        detect=_python_call,
    ),
    Form(
        code="RXTP-FORM-079",
        id="hidden_module",
        title="a call of a name that is also a local",
        reason="The name of an import is that of a parameter or local here too.",
        advice="Give the parameter or local another name.",
        example="""\
def f(F: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return F.relu()
""",
        instead=_RELU,
        detect=_hidden_module,
    ),
    Form(
        code="RXTP-FORM-080",
        id="module_name",
        title="a name of the module",
        reason="A native function sees its parameters and locals, not the variables of its module.",
        advice="Write the literal, or pass the value in.",
        example="""\
STEPS = 3


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    h = x.relu()
    for _ in range(STEPS):
        h = h.tanh()
    return h
""",
        instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    h = x.relu()
    for _ in range(3):
        h = h.tanh()
    return h
""",
        detect=_module_name,
    ),
    Form(
        code="RXTP-FORM-081",
        id="list_of_tensors",
        title="a list or tuple of tensors",
        reason="There is no native type for it.",
        advice="Name each tensor.",
        example="""\
def f(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    both = [x, y]
    return x + y
""",
        instead="""\
def f(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x + y
""",
        detect=_list_of_tensors,
    ),
    Form(
        code="RXTP-FORM-082",
        id="comprehension",
        title="a comprehension over tensors, or a generator expression",
        reason="Rextio translates comprehensions of scalars only, and no generator expressions.",
        advice="Write a loop over `range`.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    parts = [x.relu() for _ in range(3)]
    return x.tanh()
""",
        instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.tanh()
""",
        detect=_comprehension,
    ),
    Form(
        code="RXTP-FORM-083",
        id="function_value",
        title="a lambda",
        reason="Rextio does not translate it.",
        advice="Write its expression where it is called.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    twice = lambda y: y + y
    return twice(x)
""",
        instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x + x
""",
        detect=lambda facts: facts.nodes(cst.Lambda),
    ),
    Form(
        code="RXTP-FORM-084",
        id="f_string",
        title="an f-string",
        reason="Rextio does not translate it.",
        advice="Write text in the caller.",
        example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    print(f"n is {n}")
    return x.relu()
""",
        instead="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    print("n is", n)
    return x.relu()
""",
        detect=lambda facts: facts.nodes(cst.FormattedString),
    ),
    Form(
        code="RXTP-FORM-085",
        id="assignment_expression",
        title="an assignment inside an expression",
        reason="Rextio does not translate `:=` there.",
        advice="Assign in a line before.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return (y := x.relu()) + y
""",
        instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.relu()
    return y + y
""",
        detect=lambda facts: facts.nodes(cst.NamedExpr),
    ),
)
