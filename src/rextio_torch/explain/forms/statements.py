"""Forms of statements and of what they do to names."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from rextio_torch.explain.inference import Facts
from rextio_torch.explain.model import Form
from rextio_torch.explain.names import blocks, dotted_name, statements

_RELU = """\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
"""
_TANH_LOOP = """\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    h = x.relu()
    for _ in range(n):
        h = h.tanh()
    return h
"""
_BRANCHES = """\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n > 0:
        return x.relu()
    return x.tanh()
"""
_STRINGS = (cst.SimpleString, cst.ConcatenatedString)


def _docstring(facts: Facts) -> Iterator[cst.CSTNode]:
    first = _first(facts.node.body)
    if isinstance(first, cst.Expr) and isinstance(first.value, _STRINGS):
        yield first


def _first(suite: cst.BaseSuite) -> cst.CSTNode | None:
    statement = suite.body[0] if suite.body else None
    return statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else statement


def _bare_expression(facts: Facts) -> Iterator[cst.CSTNode]:
    docstrings = set(_docstring(facts))
    for item in facts.nodes(cst.Expr):
        called = dotted_name(item.value.func) if isinstance(item.value, cst.Call) else None
        # `list.append`, `print` and a logger's methods are what Rextio translates.
        supported = called == "print" or (
            called is not None and "." in called and not facts.is_tensor(item.value)
        )
        yielded = isinstance(item.value, (cst.Yield, cst.Await))
        if item not in docstrings and not supported and not yielded:
            yield item


def _annotated_tensor(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.AnnAssign):
        if item.value is not None and facts.file.resolver.annotation(item.annotation).tensor:
            yield item


def _declared_local(facts: Facts) -> Iterator[cst.CSTNode]:
    return (item for item in facts.nodes(cst.AnnAssign) if item.value is None)


def _rebound(facts: Facts) -> Iterator[cst.CSTNode]:
    return iter(facts.rebound)


def _augmented_tensor(facts: Facts) -> Iterator[cst.CSTNode]:
    return (item for item in facts.nodes(cst.AugAssign) if facts.is_tensor(item.target))


def _unpacking(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.Assign):
        if any(isinstance(target.target, (cst.Tuple, cst.List)) for target in item.targets):
            yield item


def _several_targets(facts: Facts) -> Iterator[cst.CSTNode]:
    return (item for item in facts.nodes(cst.Assign) if len(item.targets) > 1)


def _into_tensor(facts: Facts) -> Iterator[cst.CSTNode]:
    written: list[tuple[cst.CSTNode, cst.CSTNode]] = [
        (item, target.target) for item in facts.nodes(cst.Assign) for target in item.targets
    ]
    written += [(item, item.target) for item in facts.nodes(cst.AugAssign)]
    for item, target in written:
        of_tensor = isinstance(target, cst.Subscript) and facts.is_tensor(target.value)
        if of_tensor or isinstance(target, cst.Attribute):
            yield item


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


def _written_list(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.For):
        elements = item.iter.elements if isinstance(item.iter, (cst.List, cst.Tuple)) else None
        tensors = any(facts.is_tensor(element.value) for element in elements or ())
        if (elements is not None and not tensors) or isinstance(item.iter, cst.ListComp):
            yield item


def _range_step(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.For):
        iterable = item.iter
        if isinstance(iterable, cst.Call) and dotted_name(iterable.func) == "range":
            step = iterable.args[2].value if len(iterable.args) == 3 else None
            positive = isinstance(step, cst.Integer) and step.evaluated_value > 0
            if step is not None and not positive:
                yield step


def _loop_else(facts: Facts) -> Iterator[cst.CSTNode]:
    yield from (item for item in facts.nodes(cst.For) if item.orelse is not None)
    yield from (item for item in facts.nodes(cst.While) if item.orelse is not None)


def _return_in_try(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.Try):
        inside = (s for part in blocks(item) for s in statements(part.body))
        if any(isinstance(statement, cst.Return) for statement in inside):
            yield item


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


def _wrong_result(facts: Facts) -> Iterator[cst.CSTNode]:
    returns = facts.node.returns
    expected = None if returns is None else facts.file.resolver.annotation(returns).tensor
    for item in facts.nodes(cst.Return):
        found = facts.types.get(item.value) if item.value is not None else "None"
        known = found is not None and (found == "None" or "/" in found)
        if expected is not None and known and found != expected.key:
            yield item


ROWS = (
    Form(
        code="RXTP-FORM-030",
        id="docstring",
        title="a docstring",
        reason="To Rextio a string on its own is a statement that it does not translate.",
        advice="Write it as a comment above the function.",
        example='''\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    """Clip from below."""
    return x.relu()
''',
        instead="""\
# Clip from below.
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
        detect=_docstring,
    ),
    Form(
        code="RXTP-FORM-031",
        id="bare_expression",
        title="an expression as statement",
        reason="Rextio translates no expression without an effect that it knows (`print` of a "
        "scalar, `list.append`, logging).",
        advice="Leave it out, or give its value a name.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    x.tanh()
    return x.relu()
""",
        instead=_RELU,
        detect=_bare_expression,
    ),
    Form(
        code="RXTP-FORM-032",
        id="pass_statement",
        title="pass",
        reason="Rextio does not translate it.",
        advice="Leave it out.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    pass
    return x.relu()
""",
        instead=_RELU,
        detect=lambda facts: facts.nodes(cst.Pass),
    ),
    Form(
        code="RXTP-FORM-033",
        id="assertion",
        title="assert",
        reason="Rextio does not translate exceptions. Types and ranks of the arguments are checked "
        "in any case, and shapes at each operation.",
        advice="Check in the caller.",
        example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    assert n > 0
    return x.relu()
""",
        instead="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    return x.relu()
""",
        detect=lambda facts: facts.nodes(cst.Assert),
    ),
    Form(
        code="RXTP-FORM-034",
        id="exception",
        title="raise",
        reason="Rextio does not translate exceptions.",
        advice="Check in the caller.",
        example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n < 0:
        raise ValueError("n")
    return x.relu()
""",
        instead="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    return x.relu()
""",
        detect=lambda facts: facts.nodes(cst.Raise),
    ),
    Form(
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
    ),
    Form(
        code="RXTP-FORM-036",
        id="with_statement",
        title="with",
        reason="Rextio does not translate context managers. Native functions compute without grad "
        "and without autocast in any case.",
        advice="Leave it out.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    with torch.no_grad():
        return x.relu()
""",
        instead=_RELU,
        detect=lambda facts: facts.nodes(cst.With),
    ),
    Form(
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
    ),
    Form(
        code="RXTP-FORM-038",
        id="delete",
        title="del",
        reason="Rextio does not translate it. Values that nothing needs are freed anyway.",
        advice="Leave it out.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.relu()
    z = y.tanh()
    del y
    return z
""",
        instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.relu()
    return y.tanh()
""",
        detect=lambda facts: facts.nodes(cst.Del),
    ),
    Form(
        code="RXTP-FORM-039",
        id="outer_name",
        title="global or nonlocal",
        reason="A native function does not reach the variables of its module.",
        advice="Return the value, and let the caller keep it.",
        example="""\
COUNT = 0


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    global COUNT
    COUNT = 1
    return x.relu()
""",
        instead=_RELU,
        detect=lambda facts: facts.nodes(cst.Global, cst.Nonlocal),
    ),
    Form(
        code="RXTP-FORM-040",
        id="import_inside",
        title="an import inside a function",
        reason="Rextio resolves the imports of the module only.",
        advice="Import at the top of the module.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    import math

    return x.relu()
""",
        instead=_RELU,
        detect=lambda facts: facts.nodes(cst.Import, cst.ImportFrom),
    ),
    Form(
        code="RXTP-FORM-041",
        id="annotated_local",
        title="a local with a tensor annotation",
        reason="Rextio takes tensor types in signatures only; a local's type follows from its "
        "value.",
        advice="Leave the annotation out.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y: TensorF32Cpu2D = x.relu()
    return y.tanh()
""",
        instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.relu()
    return y.tanh()
""",
        detect=_annotated_tensor,
    ),
    Form(
        code="RXTP-FORM-042",
        id="declared_local",
        title="a local declared without a value",
        reason="Rextio does not translate a declaration alone.",
        advice="Leave it out.",
        example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    k: int
    k = n
    return x.relu()
""",
        instead="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    k = n
    return x.relu()
""",
        detect=_declared_local,
    ),
    Form(
        code="RXTP-FORM-043",
        id="changed_type",
        title="a name that changes its type",
        reason="A native variable, a parameter too, has one type: dtype and rank stay the same.",
        advice="Give the new value a name of its own.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu1D:
    y = x.relu()
    y = y.mean(dim=1)
    return y
""",
        instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu1D:
    y = x.relu()
    means = y.mean(dim=1)
    return means
""",
        detect=_rebound,
    ),
    Form(
        code="RXTP-FORM-044",
        id="augmented_tensor",
        title="augmented assignment to a tensor",
        reason="`y += z` changes the tensor in place, for everyone who has it.",
        advice="Write `y = y + z`.",
        example="""\
def f(x: TensorF32Cpu2D, z: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.relu()
    y += z
    return y
""",
        instead="""\
def f(x: TensorF32Cpu2D, z: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.relu()
    y = y + z
    return y
""",
        detect=_augmented_tensor,
    ),
    Form(
        code="RXTP-FORM-045",
        id="tuple_unpacking",
        title="tuple unpacking",
        reason="Rextio assigns to one name at a time.",
        advice="Write an assignment for each name.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    a, b = x.relu(), x.tanh()
    return a + b
""",
        instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    a = x.relu()
    b = x.tanh()
    return a + b
""",
        detect=_unpacking,
    ),
    Form(
        code="RXTP-FORM-046",
        id="several_targets",
        title="an assignment to several names",
        reason="Rextio assigns to one name at a time.",
        advice="Write an assignment for each name.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    a = b = x.relu()
    return a + b
""",
        instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    a = x.relu()
    return a + a
""",
        detect=_several_targets,
    ),
    Form(
        code="RXTP-FORM-047",
        id="assignment_into",
        title="an assignment into a tensor or object",
        reason="Native functions change nothing in place.",
        advice="Compute a new tensor.",
        example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.relu()
    y[0] = 1.0
    return y
""",
        instead="""\
def f(x: TensorF32Cpu2D, mask: TensorF32Cpu2D) -> TensorF32Cpu2D:
    y = x.relu()
    return y * mask
""",
        detect=_into_tensor,
    ),
    Form(
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
        instead=_TANH_LOOP,
        detect=_other_iterable,
    ),
    Form(
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
        instead=_TANH_LOOP,
        detect=_range_step,
    ),
    Form(
        code="RXTP-FORM-055",
        id="written_list",
        title="a loop over a list that is written there",
        reason="Rextio's analysis accepts it, its code generator does not: it stops with RXT050, "
        "and nothing of the project is built.",
        advice="Loop over `range`, or give the list a name first.",
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
        stops_build=True,
    ),
    Form(
        code="RXTP-FORM-050",
        id="loop_else",
        title="else of a loop",
        reason="Rextio does not translate it.",
        advice="Write what belongs after the loop after it.",
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
    ),
    Form(
        code="RXTP-FORM-051",
        id="first_in_block",
        title="a name that only a block assigns, read after it",
        reason="A native variable lives in the block that first assigns it, also where every "
        "branch does.",
        advice="Assign it before the block, or return from the branches.",
        example="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    if n > 0:
        y = x.relu()
    else:
        y = x.tanh()
    return y.exp()
""",
        instead="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    y = x.tanh()
    if n > 0:
        y = x.relu()
    return y.exp()
""",
        detect=lambda facts: facts.branch_reads,
    ),
    Form(
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
        instead=_TANH_LOOP,
        detect=lambda facts: facts.returned_parameters,
    ),
    Form(
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
        instead=_BRANCHES,
        detect=_falls_through,
    ),
    Form(
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
    ),
)
