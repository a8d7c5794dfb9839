"""Forms of branches and loops, and of the ways out of a function."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from rextio_torch.explain.facts import Facts
from rextio_torch.explain.forms.examples import BRANCHES, TANH_LOOP
from rextio_torch.explain.model import Form
from rextio_torch.syntax.tree import blocks, dotted_name, statements


def _return_in_try(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.Try):
        inside = (s for part in blocks(item) for s in statements(part.body))
        if any(isinstance(statement, cst.Return) for statement in inside):
            yield item


RETURN_IN_TRY = Form(
    code="RXTP-FORM-035",
    id="return_in_try",
    title="return inside try",
    reason="Rextio does not translate it.",
    advice="Assign before and inside, and return after; or catch in the caller.",
    example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    try:
        return x.relu()
    except RuntimeError:
        return x.tanh()
""",
    instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.tanh()
    try:
        y = x.relu()
    except RuntimeError:
        y = x.exp()
    return y
""",
    detect=_return_in_try,
)

MATCH_STATEMENT = Form(
    code="RXTP-FORM-037",
    id="match_statement",
    title="match",
    reason="Rextio does not translate it.",
    advice="Write `if` with comparisons.",
    example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    match n:
        case 1:
            return x.relu()
    return x.tanh()
""",
    instead="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n == 1:
        return x.relu()
    return x.tanh()
""",
    detect=lambda facts: facts.nodes(cst.Match),
)


def _other_iterable(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.For):
        iterable = item.iter
        elements = iterable.elements if isinstance(iterable, (cst.Tuple, cst.List)) else ()
        if facts.is_tensor(iterable) or any(facts.is_tensor(e.value) for e in elements):
            yield item
        elif isinstance(iterable, cst.Call) and dotted_name(iterable.func) in ("enumerate", "zip"):
            inner = [argument.value for argument in iterable.args]
            if any(isinstance(value, cst.Call) or facts.is_tensor(value) for value in inner):
                yield item


OTHER_ITERABLE = Form(
    code="RXTP-FORM-048",
    id="other_iterable",
    title="a loop over tensors, or over enumerate or zip of a call",
    reason="Loops run over `range`, or over lists of scalars.",
    advice="Loop over `range`; write operations on whole tensors.",
    example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    for _, _ in enumerate(range(n)):
        h = h.tanh()
    return h
""",
    instead=TANH_LOOP,
    detect=_other_iterable,
)


def _range_step(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.For):
        iterable = item.iter
        if isinstance(iterable, cst.Call) and dotted_name(iterable.func) == "range":
            step = iterable.args[2].value if len(iterable.args) == 3 else None
            positive = isinstance(step, cst.Integer) and step.evaluated_value > 0
            if step is not None and not positive:
                yield step


RANGE_STEP = Form(
    code="RXTP-FORM-049",
    id="range_step",
    title="a step of range that is not a positive literal",
    reason="Rextio translates a positive literal as step only.",
    advice="Count up, and compute the number from it.",
    example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    for _ in range(n, 0, -1):
        h = h.tanh()
    return h
""",
    instead=TANH_LOOP,
    detect=_range_step,
)


def _loop_else(facts: Facts) -> Iterator[cst.CSTNode]:
    yield from (item for item in facts.nodes(cst.For) if item.orelse is not None)
    yield from (item for item in facts.nodes(cst.While) if item.orelse is not None)


LOOP_ELSE = Form(
    code="RXTP-FORM-050",
    id="loop_else",
    title="else of a loop",
    reason="Rextio does not translate it.",
    advice="Write what belongs after the loop after it.",
    rewritten="Written after the loop.",
    except_where="the loop has `break`",
    example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    for _ in range(n):
        h = h.tanh()
    else:
        h = h.exp()
    return h
""",
    instead="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    for _ in range(n):
        h = h.tanh()
    return h.exp()
""",
    detect=_loop_else,
)

RETURNED_PARAMETER = Form(
    code="RXTP-FORM-052",
    id="returned_parameter",
    title="returning a parameter",
    reason="Python gives the caller's own tensor back, a native function would give a copy. "
    "That goes for another name of a parameter too, and where a loop or branch may leave it as "
    "it was.",
    advice="Start from a computed value.",
    example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x
    for _ in range(n):
        h = h.tanh()
    return h
""",
    instead=TANH_LOOP,
    detect=lambda facts: facts.returned_parameters,
)


def _falls_through(facts: Facts) -> Iterator[cst.CSTNode]:
    returns = facts.node.returns
    wanted = returns is not None and facts.file.resolver.annotation(returns).tensor
    if wanted and not any(facts.nodes(cst.Yield)) and not _returns(facts.node.body):
        yield facts.node


def _returns(suite: cst.CSTNode) -> bool:
    """Whether a block returns or raises on every way, as far as its statements say."""
    for statement in suite.body if isinstance(suite, cst.BaseSuite) else ():
        small = statement.body if isinstance(statement, cst.SimpleStatementLine) else [statement]
        for item in small:
            if isinstance(item, (cst.Return, cst.Raise)):
                return True
            if isinstance(item, cst.If) and item.orelse is not None:
                parts = list(blocks(item))
                last: cst.CSTNode = item
                while isinstance(last, cst.If) and last.orelse is not None:
                    last = last.orelse
                if isinstance(last, cst.Else) and all(map(_returns, parts)):
                    return True
            if isinstance(item, (cst.With, cst.Try, cst.TryStar, cst.Match)):
                # What these say is reported by their own rows.
                return True
    return False


FALLS_THROUGH = Form(
    code="RXTP-FORM-053",
    id="falls_through",
    title="an end without return",
    reason="On some way the function returns None instead of a tensor.",
    advice="Return a tensor on every way.",
    example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n > 0:
        return x.relu()
""",
    instead=BRANCHES,
    detect=_falls_through,
)


def _wrong_result(facts: Facts) -> Iterator[cst.CSTNode]:
    returns = facts.node.returns
    expected = None if returns is None else facts.file.resolver.annotation(returns).tensor
    for item in facts.nodes(cst.Return):
        found = facts.types.get(item.value) if item.value is not None else "None"
        known = found is not None and (found == "None" or "/" in found)
        if expected is not None and known and found != expected.key:
            yield item


WRONG_RESULT = Form(
    code="RXTP-FORM-054",
    id="wrong_result",
    title="a result of another type than annotated",
    reason="The annotation of the result promises another dtype or rank.",
    advice="Correct the annotation, or what is returned.",
    example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.mean(dim=1)
""",
    instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu1D:
    return x.mean(dim=1)
""",
    detect=_wrong_result,
)


def _written_list(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.For):
        elements = item.iter.elements if isinstance(item.iter, (cst.List, cst.Tuple)) else None
        tensors = any(facts.is_tensor(element.value) for element in elements or ())
        if (elements is not None and not tensors) or isinstance(item.iter, cst.ListComp):
            yield item


WRITTEN_LIST = Form(
    code="RXTP-FORM-055",
    id="written_list",
    title="a loop over a list that is written there",
    reason="Rextio's analysis accepts it, its code generator does not: it stops with RXT050, and "
    "`rextio build` builds nothing of the project; `rextio-torch build` builds the rest.",
    advice="Loop over `range`, or give the list a name first.",
    rewritten="The list gets a name before the loop.",
    example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    h = x.relu()
    for _ in [1, 2, 3]:
        h = h.tanh()
    return h
""",
    instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    h = x.relu()
    steps = [1, 2, 3]
    for _ in steps:
        h = h.tanh()
    return h
""",
    detect=_written_list,
    stops="generator",
)


def _declared_twice(facts: Facts) -> Iterator[cst.CSTNode]:
    # What is read after its block is a form of its own.
    read_after = {item.value for item in facts.branch_reads}
    for target in facts.declared_twice:
        if isinstance(target, cst.Name) and target.value not in read_after:
            yield target


DECLARED_TWICE = Form(
    code="RXTP-FORM-056",
    id="declared_twice",
    title="a name that two blocks assign first",
    reason="Rextio declares a name once in a function, in the block that assigns it first. Its "
    "analysis accepts a second block that does so, the Rust that it writes does not compile, and "
    "`rextio build` builds nothing of the project; `rextio-torch build` builds the rest.",
    advice="Give one of them another name, or assign it before the blocks.",
    rewritten="One of them gets another name.",
    example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n > 0:
        y = x.relu()
        return y.exp()
    y = x.tanh()
    return y.exp()
""",
    instead="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n > 0:
        y = x.relu()
        return y.exp()
    z = x.tanh()
    return z.exp()
""",
    detect=_declared_twice,
    stops="compiler",
)
