"""Forms of statements without native code."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from rextio_torch.explain.facts import Facts
from rextio_torch.explain.forms.examples import RELU
from rextio_torch.explain.model import Form
from rextio_torch.syntax.tree import dotted_name

_STRINGS = (cst.SimpleString, cst.ConcatenatedString)


def _docstring(facts: Facts) -> Iterator[cst.CSTNode]:
    first = _first(facts.node.body)
    if isinstance(first, cst.Expr) and isinstance(first.value, _STRINGS):
        yield first


def _first(suite: cst.BaseSuite) -> cst.CSTNode | None:
    statement = suite.body[0] if suite.body else None
    return statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else statement


DOCSTRING = Form(
    code="RXTP-FORM-030",
    id="docstring",
    title="a docstring",
    reason="To Rextio a string on its own is a statement that it does not translate.",
    advice="Write it as a comment above the function.",
    rewritten="Left out of the native code; the function keeps it.",
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
)


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


BARE_EXPRESSION = Form(
    code="RXTP-FORM-031",
    id="bare_expression",
    title="an expression as statement",
    reason="Rextio translates no expression without an effect that it knows (`print` of a "
    "scalar, `list.append`, logging).",
    advice="Leave it out, or give its value a name.",
    rewritten="Constants and names are left out; an operation is computed, since it may raise, "
    "and its value dropped.",
    except_where="it is a call that may have an effect",
    example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    x.tanh()
    return x.relu()
""",
    instead=RELU,
    detect=_bare_expression,
)

PASS_STATEMENT = Form(
    code="RXTP-FORM-032",
    id="pass_statement",
    title="pass",
    reason="Rextio does not translate it.",
    advice="Leave it out.",
    rewritten="Left out.",
    example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    pass
    return x.relu()
""",
    instead=RELU,
    detect=lambda facts: facts.nodes(cst.Pass),
)

ASSERTION = Form(
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
)

EXCEPTION = Form(
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
)

WITH_STATEMENT = Form(
    code="RXTP-FORM-036",
    id="with_statement",
    title="with",
    reason="Rextio does not translate context managers. Native functions compute without grad "
    "and without autocast in any case.",
    advice="Leave it out.",
    rewritten="`with torch.no_grad():` and `with torch.inference_mode():` are left out, their "
    "bodies stay.",
    except_where="it is any other context, or has a name",
    example="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    with torch.no_grad():
        return x.relu()
""",
    instead=RELU,
    detect=lambda facts: facts.nodes(cst.With),
)

DELETE = Form(
    code="RXTP-FORM-038",
    id="delete",
    title="del",
    reason="Rextio does not translate it. Values that nothing needs are freed anyway.",
    advice="Leave it out.",
    rewritten="Left out; a read of the name after it keeps the function on Python.",
    except_where="it deletes an item or an attribute",
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
)

OUTER_NAME = Form(
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
    instead=RELU,
    detect=lambda facts: facts.nodes(cst.Global, cst.Nonlocal),
)

IMPORT_INSIDE = Form(
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
    instead=RELU,
    detect=lambda facts: facts.nodes(cst.Import, cst.ImportFrom),
)
