"""Forms of a function as a whole: what it is defined as, where, and under which decorators."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from rextio_torch.explain.facts import Facts
from rextio_torch.explain.forms.examples import RELU
from rextio_torch.explain.model import Form
from rextio_torch.syntax.tree import dotted_name


def _marker(facts: Facts, item: cst.Decorator) -> str | None:
    node = item.decorator.func if isinstance(item.decorator, cst.Call) else item.decorator
    target = facts.file.resolver.target(dotted_name(node) or "")
    return target if target in ("rextio.native", "rextio.exempt") else None


def _async(facts: Facts) -> Iterator[cst.CSTNode]:
    if facts.node.asynchronous is not None:
        yield facts.node.asynchronous


ASYNC_FUNCTION = Form(
    code="RXTP-FORM-012",
    id="async_function",
    title="an async function",
    reason="Rextio compiles ordinary functions only.",
    advice="Compute in an ordinary function, and call that from the coroutine.",
    example="""\
async def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead=RELU,
    detect=_async,
)


GENERATOR = Form(
    code="RXTP-FORM-013",
    id="generator",
    title="a generator",
    reason="A native function runs to its end and returns once.",
    advice="Return one tensor, and let the caller loop.",
    example="""\
from collections.abc import Iterator


def f(x: TensorF32Cpu2D) -> Iterator[TensorF32Cpu2D]:
    yield x.relu()
""",
    instead=RELU,
    detect=lambda facts: facts.nodes(cst.Yield),
)


def _decorator(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.node.decorators:
        if _marker(facts, item) is None:
            yield item.decorator


DECORATOR = Form(
    code="RXTP-FORM-014",
    id="decorator",
    title="a decorator",
    reason="A decorator may replace the function. Native functions compute without grad in any "
    "case.",
    advice="Leave it out, or decorate a function that calls this one.",
    rewritten="`@torch.no_grad()` and `@torch.inference_mode()` are left out: native functions "
    "compute without grad.",
    except_where="it is any other decorator",
    example="""\
@torch.no_grad()
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead=RELU,
    detect=_decorator,
)


def _method(facts: Facts) -> Iterator[cst.CSTNode]:
    if any(isinstance(parent, cst.ClassDef) for parent in facts.function.parents):
        yield facts.node


METHOD = Form(
    code="RXTP-FORM-015",
    id="method",
    title="a method of a class",
    reason="Rextio compiles functions of modules, not methods.",
    advice="Move the computation into a function that takes the tensors, and call it from the "
    "method.",
    example="""\
class Layer:
    def f(self, x: TensorF32Cpu2D, w: TensorF32Cpu2D) -> TensorF32Cpu2D:
        return x @ w
""",
    instead="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x @ w
""",
    detect=_method,
)


def _inside_function(facts: Facts) -> Iterator[cst.CSTNode]:
    if any(isinstance(parent, cst.FunctionDef) for parent in facts.function.parents):
        yield facts.node


FUNCTION_IN_FUNCTION = Form(
    code="RXTP-FORM-016",
    id="function_in_function",
    title="a function inside a function",
    reason="Neither the inner function nor the one around it is compiled.",
    advice="Write the operations out, or give the inner function a place at module level and "
    "call it from Python.",
    example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    def twice(y: TensorF32Cpu2D) -> TensorF32Cpu2D:
        return y + y

    return twice(x)
""",
    instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x + x
""",
    detect=lambda facts: (*_inside_function(facts), *facts.nodes(cst.FunctionDef)),
)


def _conditional(facts: Facts) -> Iterator[cst.CSTNode]:
    parents = facts.function.parents
    definitions = (cst.FunctionDef, cst.ClassDef)
    if parents and not any(isinstance(parent, definitions) for parent in parents):
        yield facts.node


CONDITIONAL_DEFINITION = Form(
    code="RXTP-FORM-017",
    id="conditional_definition",
    title="a function defined inside if, try, with or a loop",
    reason="Rextio reads the functions at the top of a module only.",
    advice="Define it at the top of the module.",
    example="""\
FAST = True
if FAST:

    def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
        return x.relu()
""",
    instead=RELU,
    detect=_conditional,
)


def _exempt(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.node.decorators:
        if _marker(facts, item) == "rextio.exempt":
            yield item.decorator


EXEMPT = Form(
    code="RXTP-FORM-018",
    id="exempt",
    title="@rextio.exempt",
    reason="The mark keeps the function on Python on purpose.",
    advice="Leave it out.",
    example="""\
import rextio


@rextio.exempt
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead=RELU,
    detect=_exempt,
)


def _defined_again(facts: Facts) -> Iterator[cst.CSTNode]:
    if facts.function.parents:
        return
    name = facts.node.name.value
    body = facts.file.tree.body
    later = body[next(i for i, item in enumerate(body) if item is facts.node) + 1 :]
    if any(isinstance(i, (cst.FunctionDef, cst.ClassDef)) and i.name.value == name for i in later):
        yield facts.node


DEFINED_AGAIN = Form(
    code="RXTP-FORM-019",
    id="defined_again",
    title="a name that is defined again below",
    reason="Only the last definition of a name is what callers get.",
    advice="Give one of them another name.",
    example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()


class f:
    pass
""",
    instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()


class Other:
    pass
""",
    detect=_defined_again,
)
