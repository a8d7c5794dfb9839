"""Forms of attributes, indices, names and values that are written out."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from rextio_torch.explain.facts import Facts
from rextio_torch.explain.model import Form
from rextio_torch.syntax.tree import dotted_name, names_in


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


ATTRIBUTE = Form(
    code="RXTP-FORM-069",
    id="attribute",
    title="an attribute",
    reason="Rextio reads no attributes, neither of tensors (`x.T`, `x.shape`) nor of modules "
    "(`torch.float32`).",
    advice="Pass it in: the transposed tensor, or the size as int. `F.linear(x, w)` is `x @ w.T`.",
    rewritten="`x @ w.T` becomes `F.linear(x, w)`, which is the same product; `w.mT`, `w.t()` "
    "and `w.transpose(0, 1)` likewise.",
    except_where="it is any other attribute, or a transposed tensor anywhere else than on the "
    "right of a product",
    example="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x @ w.T
""",
    instead="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return F.linear(x, w)
""",
    detect=_attribute,
)


def _index(facts: Facts) -> Iterator[cst.CSTNode]:
    written = {t.target for t in facts.nodes(cst.AssignTarget)}
    for item in facts.nodes(cst.Subscript):
        if facts.is_tensor(item.value) and item not in written:
            yield item


INDEX = Form(
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
)


def _module_name(facts: Facts) -> Iterator[cst.CSTNode]:
    return iter(facts.module_reads)


MODULE_NAME = Form(
    code="RXTP-FORM-080",
    id="module_name",
    title="a name of the module",
    reason="A native function sees its parameters and locals, not the variables of its module.",
    advice="Write the literal, or pass the value in.",
    rewritten="A literal constant of a module is written out.",
    except_where="the name is assigned more than once, or is no literal",
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
)


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


LIST_OF_TENSORS = Form(
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
)


def _comprehension(facts: Facts) -> Iterator[cst.CSTNode]:
    yield from facts.nodes(cst.GeneratorExp)
    for item in facts.nodes(cst.ListComp, cst.SetComp, cst.DictComp):
        if facts.tensor_names & names_in(item):
            yield item


COMPREHENSION = Form(
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
)

FUNCTION_VALUE = Form(
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
)

F_STRING = Form(
    code="RXTP-FORM-084",
    id="f_string",
    title="an f-string",
    reason="Rextio does not translate it.",
    advice="Write text in the caller.",
    example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    text = f"{n}"
    if text == "1":
        return x.tanh()
    return x.relu()
""",
    instead="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n == 1:
        return x.tanh()
    return x.relu()
""",
    detect=lambda facts: facts.nodes(cst.FormattedString),
)
