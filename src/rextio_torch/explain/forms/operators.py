"""Forms of operators and conditions."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from rextio_torch.explain.facts import Facts
from rextio_torch.explain.forms.examples import BRANCHES, RELU
from rextio_torch.explain.model import Form

_UNSUPPORTED = (
    cst.FloorDivide,
    cst.BitAnd,
    cst.BitOr,
    cst.BitXor,
    cst.LeftShift,
    cst.RightShift,
)


def _unary_minus(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.UnaryOperation):
        if isinstance(item.operator, cst.Minus) and facts.is_tensor(item.expression):
            yield item


UNARY_MINUS = Form(
    code="RXTP-FORM-060",
    id="unary_minus",
    title="minus before a tensor",
    reason="Rextio does not offer it to plugins.",
    advice="Write `x.neg()`.",
    rewritten="`-x` becomes `x.neg()`.",
    example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return -x
""",
    instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.neg()
""",
    detect=_unary_minus,
)


def _other_unary(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.UnaryOperation):
        if isinstance(item.operator, (cst.Plus, cst.BitInvert)):
            yield item


UNARY_OPERATOR = Form(
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
    instead=RELU,
    detect=_other_unary,
)


def _power(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.BinaryOperation):
        if isinstance(item.operator, cst.Power):
            yield item


POWER = Form(
    code="RXTP-FORM-062",
    id="power",
    title="the operator **",
    reason="Rextio does not translate it, for numbers neither.",
    advice="Write `x.square()`, `x.sqrt()` or products.",
    rewritten="`x**2` becomes `x.square()`, `x**0.5` becomes `x.sqrt()`, and a power of an int "
    "up to 4 a product.",
    except_where="the exponent is another number, or no literal",
    example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x**2
""",
    instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.square()
""",
    detect=_power,
)


def _other_binary(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.BinaryOperation):
        remainder = isinstance(item.operator, cst.Modulo)
        tensors = facts.is_tensor(item.left) or facts.is_tensor(item.right)
        if isinstance(item.operator, _UNSUPPORTED) or (remainder and tensors):
            yield item


BINARY_OPERATOR = Form(
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
)


def _integer_division(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.BinaryOperation):
        types = [facts.types.get(side) for side in (item.left, item.right)]
        if isinstance(item.operator, cst.Divide) and types == ["int", "int"]:
            yield item


INTEGER_DIVISION = Form(
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
)


def _tensor_comparisons(facts: Facts) -> Iterator[cst.Comparison]:
    for item in facts.nodes(cst.Comparison):
        operands = [item.left, *(part.comparator for part in item.comparisons)]
        if any(map(facts.is_tensor, operands)):
            yield item


def _none_test(facts: Facts) -> Iterator[cst.CSTNode]:
    conditions = {item.test for item in facts.nodes(cst.If)}
    conditions |= {item.test for item in facts.nodes(cst.IfExp)}
    for item in _tensor_comparisons(facts):
        match item:
            case cst.Comparison(
                left=cst.Name(),
                comparisons=[
                    cst.ComparisonTarget(
                        operator=cst.Is() | cst.IsNot(), comparator=cst.Name(value="None")
                    )
                ],
            ) if item in conditions:
                yield item


NONE_TEST = Form(
    code="RXTP-FORM-098",
    id="none_test",
    title="a condition that asks whether a tensor is None",
    reason="Rextio compares no tensors, and a tensor is never None here.",
    advice="Leave it out.",
    example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    if x is None:
        return x.tanh()
    return x.relu()
""",
    instead=RELU,
    rewritten="Decided when the project is built; also that of an optional parameter, where the "
    "function is called.",
    detect=_none_test,
)


def _tensor_comparison(facts: Facts) -> Iterator[cst.CSTNode]:
    tests = set(_none_test(facts))
    yield from (item for item in _tensor_comparisons(facts) if item not in tests)


TENSOR_COMPARISON = Form(
    code="RXTP-FORM-065",
    id="tensor_comparison",
    title="a comparison of tensors",
    reason="There is no native type for a tensor of bools.",
    advice="Compare scalars.",
    example="""\
def f(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    larger = x > y
    return x.relu()
""",
    instead=RELU,
    detect=_tensor_comparison,
)


def _membership(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.Comparison):
        if any(isinstance(part.operator, (cst.In, cst.NotIn)) for part in item.comparisons):
            yield item


MEMBERSHIP = Form(
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
)


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


TRUTH = Form(
    code="RXTP-FORM-067",
    id="truth",
    title="the truth of what is no bool",
    reason="A native condition is a bool. Of a tensor only the run time knows it.",
    advice="Compare a scalar: `n != 0`.",
    rewritten="`if n:` becomes `if n != 0:`, of an int or float; `not n` becomes `n == 0`.",
    except_where="it is a tensor, a string or a list, or no part of a condition",
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
)

CONDITIONAL_EXPRESSION = Form(
    code="RXTP-FORM-068",
    id="conditional_expression",
    title="a conditional expression",
    reason="Rextio does not translate it.",
    advice="Write `if` with a `return` in each branch, or assign before the `if`.",
    rewritten="Becomes `if` and `else`.",
    except_where="it is inside what may not be evaluated at all, such as the right side of `and`, "
    "or in the condition of `while`",
    example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    return x.relu() if n > 0 else x.tanh()
""",
    instead=BRANCHES,
    detect=lambda facts: facts.nodes(cst.IfExp),
)
