"""Forms of assignments, and of what they do to names."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from rextio_torch.explain.facts import Facts
from rextio_torch.explain.model import Form


def _annotated_tensor(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.AnnAssign):
        kind = facts.file.resolver.annotation(item.annotation).kind
        if item.value is not None and kind != "supported":
            yield item


ANNOTATED_LOCAL = Form(
    code="RXTP-FORM-041",
    id="annotated_local",
    title="a local with a tensor annotation",
    reason="Rextio takes annotations of locals for its own scalars and lists only; the type of a "
    "tensor follows from its value.",
    advice="Leave the annotation out.",
    rewritten="Left out, as Python does, which never evaluates it.",
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
)


def _declared_local(facts: Facts) -> Iterator[cst.CSTNode]:
    return (item for item in facts.nodes(cst.AnnAssign) if item.value is None)


DECLARED_LOCAL = Form(
    code="RXTP-FORM-042",
    id="declared_local",
    title="a local declared without a value",
    reason="Rextio does not translate a declaration alone.",
    advice="Leave it out.",
    rewritten="Left out.",
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
)


def _rebound(facts: Facts) -> Iterator[cst.CSTNode]:
    return iter(facts.rebound)


CHANGED_TYPE = Form(
    code="RXTP-FORM-043",
    id="changed_type",
    title="a name that changes its type",
    reason="A native variable, a parameter too, has one type: dtype and rank stay the same.",
    advice="Give the new value a name of its own.",
    rewritten="The new value gets a name of its own.",
    except_where="the name changes its type from one round of a loop to the next",
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
)


def _augmented_tensor(facts: Facts) -> Iterator[cst.CSTNode]:
    return (item for item in facts.nodes(cst.AugAssign) if facts.is_tensor(item.target))


AUGMENTED_TENSOR = Form(
    code="RXTP-FORM-044",
    id="augmented_tensor",
    title="augmented assignment to a tensor",
    reason="`y += z` changes the tensor in place, for everyone who has it.",
    advice="Write `y = y + z`.",
    rewritten="`h += x` becomes the new value of `h`, checked to have the old one's shape.",
    except_where="the tensor is a parameter, has a second name, or may be a view of another: "
    "somebody else would see the change",
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
)


def _unpacking(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.nodes(cst.Assign):
        if any(isinstance(target.target, (cst.Tuple, cst.List)) for target in item.targets):
            yield item


TUPLE_UNPACKING = Form(
    code="RXTP-FORM-045",
    id="tuple_unpacking",
    title="tuple unpacking",
    reason="Rextio assigns to one name at a time.",
    advice="Write an assignment for each name.",
    rewritten="An assignment for each name, all values read before any is assigned; also of a "
    "call of a function of the project that returns a tuple.",
    except_where="the right side is neither a tuple that is written there nor such a call, or a "
    "target is no name",
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
)


def _several_targets(facts: Facts) -> Iterator[cst.CSTNode]:
    return (item for item in facts.nodes(cst.Assign) if len(item.targets) > 1)


SEVERAL_TARGETS = Form(
    code="RXTP-FORM-046",
    id="several_targets",
    title="an assignment to several names",
    reason="Rextio assigns to one name at a time.",
    advice="Write an assignment for each name.",
    rewritten="An assignment for each name.",
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
)


def _into_tensor(facts: Facts) -> Iterator[cst.CSTNode]:
    written: list[tuple[cst.CSTNode, cst.CSTNode]] = [
        (item, target.target) for item in facts.nodes(cst.Assign) for target in item.targets
    ]
    written += [(item, item.target) for item in facts.nodes(cst.AugAssign)]
    for item, target in written:
        of_tensor = isinstance(target, cst.Subscript) and facts.is_tensor(target.value)
        if of_tensor or isinstance(target, cst.Attribute):
            yield item


ASSIGNMENT_INTO = Form(
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
)

FIRST_IN_BLOCK = Form(
    code="RXTP-FORM-051",
    id="first_in_block",
    title="a name that only a block assigns, read after it",
    reason="A native variable lives in the block that first assigns it, also where every "
    "branch does.",
    advice="Assign it before the block, or return from the branches.",
    rewritten="The name is declared before the block, or what follows is written into each branch.",
    except_where="one way leaves the name without a value, or only a loop assigns it",
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
)

ASSIGNMENT_EXPRESSION = Form(
    code="RXTP-FORM-085",
    id="assignment_expression",
    title="an assignment inside an expression",
    reason="Rextio does not translate `:=` there.",
    advice="Assign in a line before.",
    rewritten="Becomes an assignment before the statement.",
    except_where="it is inside what may not be evaluated at all",
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
)
