"""Forms of calls."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

import libcst as cst

from rextio_torch.explain.facts import Facts
from rextio_torch.explain.forms.examples import RELU
from rextio_torch.explain.model import Form
from rextio_torch.ops.table import BY_SPELLING
from rextio_torch.syntax.output import output_calls
from rextio_torch.syntax.tree import dotted_name, imported_names, literal

#: What Rextio translates with scalar arguments.
_SCALAR_BUILTINS = frozenset(
    {"abs", "all", "any", "enumerate", "len", "max", "min", "print", "range", "sum", "zip"}
    | {"sorted"}
)


def _method_name(facts: Facts, call: cst.Call, *, of_call: bool = False) -> str | None:
    """Return the name of the method that is called on a tensor, itself a call's result or not."""
    if not isinstance(call.func, cst.Attribute) or not facts.is_tensor(call.func.value):
        return None
    return call.func.attr.value if isinstance(call.func.value, cst.Call) == of_call else None


def _keyword(facts: Facts) -> Iterator[cst.CSTNode]:
    for call in facts.nodes(cst.Call):
        for item in call.args:
            value = item.keyword is not None and not literal(item.value)[0]
            if value or item.star == "**":
                yield item


KEYWORD = Form(
    code="RXTP-FORM-071",
    id="keyword",
    title="a keyword argument that is no literal",
    reason="Rextio hands a keyword to plugins only where its value is a literal int, None, "
    "bool, str or tuple of ints: no float, no name, no tensor.",
    advice="Pass tensors and floats by position, and write options as literals.",
    rewritten="Arguments are bound as PyTorch binds them, negative dimensions counted from the "
    "front, constants of the module written out.",
    except_where="the value is known only when the function runs",
    example="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu2D:
    return F.linear(x, w, bias=b)
""",
    instead="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu2D:
    return F.linear(x, w, b)
""",
    detect=_keyword,
)


def _starred(facts: Facts) -> Iterator[cst.CSTNode]:
    for call in facts.nodes(cst.Call):
        yield from (item for item in call.args if item.star == "*")


STARRED_ARGUMENT = Form(
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
)


def _receiver(facts: Facts) -> Iterator[cst.CSTNode]:
    bare = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.IfExp, cst.NamedExpr)
    for call in facts.nodes(cst.Call):
        receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
        if isinstance(receiver, bare) and facts.is_tensor(receiver):
            yield receiver


EXPRESSION_RECEIVER = Form(
    code="RXTP-FORM-073",
    id="expression_receiver",
    title="a method of an expression in parentheses",
    reason="Rextio offers methods of a name or of another call, not of an operator's result.",
    advice="Give the result a name, or write the function: `torch.relu(x + w)`.",
    rewritten="The receiver gets a name.",
    example="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return (x + w).relu()
""",
    instead="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.relu(x + w)
""",
    detect=_receiver,
)


def _tensor_function(facts: Facts) -> Iterator[cst.CSTNode]:
    for call in facts.nodes(cst.Call):
        if _callee_has_tensors(facts, call):
            yield call


def _callee_has_tensors(facts: Facts, call: cst.Call) -> bool:
    name = dotted_name(call.func)
    if name is None or name.partition(".")[0] in facts.local_names:
        return False
    return facts.file.is_tensor_function(name)


TENSOR_FUNCTION = Form(
    code="RXTP-FORM-074",
    id="tensor_function",
    title="a call of another function with tensors",
    reason="Functions with tensors are called from Python only.",
    advice="Write the operations out, or call one after the other from Python.",
    rewritten="The function's body is written in the place of the call, under other names.",
    except_where="it calls itself, returns from a loop, takes `*args`, has a default that is no "
    "literal, or a form that stays on Python",
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
)


def _unknown_function(facts: Facts) -> Iterator[cst.CSTNode]:
    managers = {item.item for statement in facts.nodes(cst.With) for item in statement.items}
    for call in facts.nodes(cst.Call):
        name = dotted_name(call.func)
        if name is None or not facts.is_known_module(name) or call in managers:
            continue
        target = facts.file.resolver.target(name) or ""
        if target.startswith("torch.") and ("function", target) not in BY_SPELLING:
            yield call


UNKNOWN_FUNCTION = Form(
    code="RXTP-FORM-075",
    id="unknown_function",
    title="a function of torch that is not in the operator table",
    reason="docs/operators.md lists what runs natively.",
    advice="Write it with those operators, or compute it in the caller.",
    rewritten="Some are another operator under a different name: `torch.mm`, `torch.subtract`, "
    "`F.dropout(x, training=False)` and more.",
    except_where="docs/python.md does not list it",
    example="""\
def f(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.mm(x, y)
""",
    instead="""\
def f(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.matmul(x, y)
""",
    detect=_unknown_function,
)


def _in_place(facts: Facts) -> Iterator[cst.CSTNode]:
    for call in facts.nodes(cst.Call):
        name = _method_name(facts, call) or ""
        if name.endswith("_") and not name.endswith("__"):
            yield call


IN_PLACE = Form(
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
)


def _unknown_method(facts: Facts) -> Iterator[cst.CSTNode]:
    for call in facts.nodes(cst.Call):
        name = _method_name(facts, call)
        if name is not None and ("method", name) not in BY_SPELLING and not name.endswith("_"):
            yield call


UNKNOWN_METHOD = Form(
    code="RXTP-FORM-077",
    id="unknown_method",
    title="a tensor's method that is not in the operator table",
    reason="docs/operators.md lists what runs natively.",
    advice="Write it with those operators, or leave it out: results are detached anyway.",
    rewritten="Some are another operator under a different name or do nothing at inference: "
    "`x.mm(w)`, `x.add(y)`, `x.detach()` and more.",
    except_where="docs/python.md does not list it",
    example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.relu()
    return y.detach()
""",
    instead=RELU,
    detect=_unknown_method,
)


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


BUILTIN = Form(
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
)


def _hidden_module(facts: Facts) -> Iterator[cst.CSTNode]:
    # An import inside the function is a form of its own.
    inside = {name for statement in facts.imports() for name in imported_names(statement)}
    for call in facts.nodes(cst.Call):
        head = (dotted_name(call.func) or "").partition(".")[0]
        if head in facts.local_names - inside and head in facts.file.names.imports:
            yield call


HIDDEN_MODULE = Form(
    code="RXTP-FORM-079",
    id="hidden_module",
    title="a call of a name that is also a local",
    reason="The name of an import is that of a parameter or local here too.",
    advice="Give the parameter or local another name.",
    example="""\
def f(F: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return F.relu()
""",
    instead=RELU,
    detect=_hidden_module,
)


def _method_of_call(facts: Facts) -> Iterator[cst.CSTNode]:
    for call in facts.nodes(cst.Call):
        name = _method_name(facts, call, of_call=True)
        if name is not None and ("method", name) not in BY_SPELLING:
            yield call


METHOD_OF_CALL = Form(
    code="RXTP-FORM-086",
    id="method_of_call",
    title="a method of a call's result that is not in the operator table",
    reason="Rextio's analysis accepts it, its code generator does not: it stops with RXT050, and "
    "`rextio build` builds nothing of the project; `rextio-torch build` builds the rest.",
    advice="Leave it out, or write it with the operators of docs/operators.md.",
    rewritten="As for a tensor with a name.",
    except_where="docs/python.md does not list it",
    example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu().detach()
""",
    instead=RELU,
    detect=_method_of_call,
    stops="generator",
)


def _output(facts: Facts) -> Iterator[cst.CSTNode]:
    return output_calls(facts.file, facts.node)


OUTPUT = Form(
    code="RXTP-FORM-099",
    id="output",
    title="print or logging",
    reason="Rextio has native code for it that reaches neither the handlers of Python's logging "
    "nor `sys.stdout`: what is logged is lost. `rextio-torch build` keeps the function on Python.",
    advice="Print and log in the caller.",
    example="""\
import logging

logger = logging.getLogger(__name__)


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    logger.info("called")
    return x.relu()
""",
    instead=RELU,
    detect=_output,
    fails_calls=True,
)
