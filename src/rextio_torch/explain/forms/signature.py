"""Forms of a function's signature: annotations, parameters, defaults, names."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from rextio_torch.explain.facts import Facts
from rextio_torch.explain.forms.examples import RELU
from rextio_torch.explain.model import Form, FunctionDetection
from rextio_torch.ops.tensor_types import dtypes_and_ranks
from rextio_torch.syntax.tree import dotted_name, parameters

#: Names that Rust reserves even where it lets others be written `r#name`.
_NO_RUST_NAMES = frozenset({"self", "Self", "super", "crate"})


def _annotated(*kinds: str) -> FunctionDetection:
    """Detect annotations of some kinds, of parameters and of the result."""

    def detect(facts: Facts) -> Iterator[cst.CSTNode]:
        of = facts.file.resolver.annotation
        nodes = [item.annotation for item in parameters(facts.node.params) if item.annotation]
        if facts.node.returns is not None:
            nodes.append(facts.node.returns)
        yield from (node.annotation for node in nodes if of(node).kind in kinds)

    return detect


def _is_tuple(facts: Facts, node: cst.BaseExpression) -> bool:
    holds_tensor = facts.file.resolver.annotation(node).kind == "container"
    head = dotted_name(node.value) if isinstance(node, cst.Subscript) else None
    return holds_tensor and (head or "").rpartition(".")[2] in ("tuple", "Tuple")


def _method_of(facts: Facts) -> cst.ClassDef | None:
    parents = facts.function.parents
    return parents[-1] if parents and isinstance(parents[-1], cst.ClassDef) else None


OPTIONAL_TENSOR = Form(
    code="RXTP-FORM-001",
    id="optional_tensor",
    title="a tensor that may be None",
    reason="Rextio knows a tensor type alone, not in a union with None.",
    advice="Make it a plain tensor type, and write a second function for calls without it.",
    example="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D | None) -> TensorF32Cpu2D:
    return F.linear(x, w, b)
""",
    instead="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu2D:
    return F.linear(x, w, b)


def without_bias(x: TensorF32Cpu2D, w: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return F.linear(x, w)
""",
    detect=_annotated("optional"),
)


def _tuple_result(facts: Facts) -> Iterator[cst.CSTNode]:
    returns = facts.node.returns
    if returns is not None and _is_tuple(facts, returns.annotation):
        yield returns.annotation


TUPLE_RESULT = Form(
    code="RXTP-FORM-002",
    id="tuple_result",
    title="a tuple of tensors as result",
    reason="A native function returns one tensor or one scalar.",
    advice="Write a function for each tensor.",
    example="""\
def f(x: TensorF32Cpu2D) -> tuple[TensorF32Cpu2D, TensorF32Cpu1D]:
    return x.relu(), x.mean(dim=1)
""",
    instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()


def means(x: TensorF32Cpu2D) -> TensorF32Cpu1D:
    return x.mean(dim=1)
""",
    detect=_tuple_result,
)


def _missing_result(facts: Facts) -> Iterator[cst.CSTNode]:
    if facts.node.returns is None:
        yield facts.node


MISSING_RESULT = Form(
    code="RXTP-FORM-003",
    id="missing_result",
    title="no annotation of the result",
    reason="Rextio needs the type of the result.",
    advice="Annotate what the function returns.",
    example="""\
def f(x: TensorF32Cpu2D):
    return x.relu()
""",
    instead=RELU,
    detect=_missing_result,
)


def _missing_parameter(facts: Facts) -> Iterator[cst.CSTNode]:
    positional = [*facts.node.params.posonly_params, *facts.node.params.params]
    for index, item in enumerate([*positional, *facts.node.params.kwonly_params]):
        if item.annotation is None and not (index == 0 and _method_of(facts)):
            yield item.name


MISSING_PARAMETER = Form(
    code="RXTP-FORM-004",
    id="missing_parameter",
    title="a parameter without annotation",
    reason="Rextio needs the type of every parameter.",
    advice="Annotate it.",
    example="""\
def f(x: TensorF32Cpu2D, n) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead="""\
def f(x: TensorF32Cpu2D, n: int) -> TensorF32Cpu2D:
    return x.relu()
""",
    detect=_missing_parameter,
)

PLAIN_TENSOR = Form(
    code="RXTP-FORM-005",
    id="plain_tensor",
    title="torch.Tensor as annotation",
    reason="torch.Tensor alone says neither dtype nor rank.",
    advice="Write the type of rextio_torch.types that the function is called with.",
    example="""\
def f(x: torch.Tensor) -> TensorF32Cpu2D:
    return torch.relu(x)
""",
    instead="""\
def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.relu(x)
""",
    detect=_annotated("plain"),
)

QUOTED_ANNOTATION = Form(
    code="RXTP-FORM-006",
    id="quoted_annotation",
    title="a tensor type in quotes",
    reason="Rextio does not read annotations in strings.",
    advice="Leave the quotes out; `from __future__ import annotations` keeps all of them "
    "unevaluated.",
    rewritten="Read as what the text says.",
    example="""\
def f(x: "TensorF32Cpu2D") -> TensorF32Cpu2D:
    return x.relu()
""",
    instead=RELU,
    detect=_annotated("quoted"),
)

ANNOTATED_METADATA = Form(
    code="RXTP-FORM-007",
    id="annotated_metadata",
    title="a tensor type inside Annotated",
    reason="Rextio does not look into Annotated.",
    advice="Write the tensor type itself; to a type checker it is torch.Tensor.",
    rewritten="Read as the tensor type inside.",
    example="""\
from typing import Annotated


def f(x: Annotated[torch.Tensor, TensorF32Cpu2D]) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead=RELU,
    detect=_annotated("annotated"),
)

ALIAS_OF_TYPE = Form(
    code="RXTP-FORM-008",
    id="alias_of_type",
    title="another name for a tensor type",
    reason="Rextio resolves the imports of the module itself, not assignments and not names "
    "that another module of the project imports.",
    advice="Import the type from rextio_torch.types, with `as` for another name.",
    rewritten="Read as the type that the name stands for.",
    except_where="the name is assigned in more than one way",
    example="""\
Matrix = TensorF32Cpu2D


def f(x: Matrix) -> Matrix:
    return x.relu()
""",
    instead="""\
from rextio_torch.types import TensorF32Cpu2D as Matrix


def f(x: Matrix) -> Matrix:
    return x.relu()
""",
    detect=_annotated("alias"),
)


def _container(facts: Facts) -> Iterator[cst.CSTNode]:
    yields = any(facts.nodes(cst.Yield))
    result = None if facts.node.returns is None else facts.node.returns.annotation
    for node in _annotated("container")(facts):
        if result is None or node is not result or not (yields or _is_tuple(facts, result)):
            yield node


JAXTYPING = Form(
    code="RXTP-FORM-022",
    id="jaxtyping",
    title="an annotation of jaxtyping",
    reason="Rextio knows the tensor types of rextio_torch.types.",
    advice="Write the type of rextio_torch.types.",
    rewritten="Read as its dtype and as many dimensions as it has words.",
    example="""\
from jaxtyping import Float32


def f(x: Float32[torch.Tensor, "batch dim"]) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead=RELU,
    detect=_annotated("jaxtyping"),
)

UNSIZED = Form(
    code="RXTP-FORM-023",
    id="unsized",
    title="an annotation without one dtype and rank",
    reason=f"Native code is for one dtype and rank: {dtypes_and_ranks()}. `...` "
    "and `*dims` leave the rank open, `Float` the dtype; other types are not supported yet.",
    advice='Write `Float32[torch.Tensor, "a b"]` with a word for each dimension.',
    example="""\
from jaxtyping import Float


def f(x: Float[torch.Tensor, "..."]) -> TensorF32Cpu2D:
    return torch.relu(x)
""",
    instead=RELU,
    detect=_annotated("unsized"),
)

CONTAINER_OF_TENSORS = Form(
    code="RXTP-FORM-009",
    id="container_of_tensors",
    title="a container of tensors",
    reason="Tensors come in one by one: no list, tuple, dict or iterator of them.",
    advice="Give each tensor a parameter of its own.",
    example="""\
def f(xs: list[TensorF32Cpu2D]) -> TensorF32Cpu2D:
    return torch.add(xs[0], xs[1])
""",
    instead="""\
def f(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.add(x, y)
""",
    detect=_container,
)

UNKNOWN_ANNOTATION = Form(
    code="RXTP-FORM-010",
    id="unknown_annotation",
    title="an annotation that Rextio does not know",
    reason="Besides tensor types Rextio knows int, float, bool, str, bytes, None and "
    "containers of them.",
    advice="Pass scalars instead, or drop the parameter.",
    example="""\
def f(x: TensorF32Cpu2D, options: object) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead="""\
def f(x: TensorF32Cpu2D, steps: int) -> TensorF32Cpu2D:
    return x.relu()
""",
    detect=_annotated("other"),
)


def _star_parameters(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in (facts.node.params.star_arg, facts.node.params.star_kwarg):
        if isinstance(item, cst.Param):
            yield item.name


STAR_PARAMETERS = Form(
    code="RXTP-FORM-011",
    id="star_parameters",
    title="*args or **kwargs",
    reason="A native function has a fixed number of parameters.",
    advice="Name every parameter.",
    example="""\
def f(*xs: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.add(xs[0], xs[1])
""",
    instead="""\
def f(x: TensorF32Cpu2D, y: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return torch.add(x, y)
""",
    detect=_star_parameters,
)


def _no_rust_name(facts: Facts) -> Iterator[cst.CSTNode]:
    names = [facts.node.name, *(item.name for item in parameters(facts.node.params))]
    first = names[1:2] if _method_of(facts) else []
    targets = (item.target for item in facts.nodes(cst.AssignTarget))
    names += [target for target in targets if isinstance(target, cst.Name)]
    for name in names:
        if name not in first and (not name.value.isascii() or name.value in _NO_RUST_NAMES):
            yield name


RUST_NAME = Form(
    code="RXTP-FORM-020",
    id="rust_name",
    title="a name that Rust cannot have",
    reason="Names become Rust names: ASCII, and not self, Self, super or crate.",
    advice="Choose another name.",
    example="""\
def f(größe: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return größe.relu()
""",
    instead="""\
def f(size: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return size.relu()
""",
    detect=_no_rust_name,
)


def _default_of_tensor(facts: Facts) -> Iterator[cst.CSTNode]:
    for item in facts.file.constant_defaults(facts.node):
        if item.default is not None:
            yield item.default


DEFAULT_OF_TENSOR = Form(
    code="RXTP-FORM-021",
    id="default_of_tensor",
    title="a default value of a tensor parameter",
    reason="The function is native and takes tensors only: a call that leaves this parameter "
    "out raises TypeError, also where the Python function would not.",
    advice="Leave the default out, and write a second function for calls without the tensor.",
    example="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D = None) -> TensorF32Cpu2D:
    return F.linear(x, w, b)
""",
    instead="""\
def f(x: TensorF32Cpu2D, w: TensorF32Cpu2D, b: TensorF32Cpu1D) -> TensorF32Cpu2D:
    return F.linear(x, w, b)


def without_bias(x: TensorF32Cpu2D, w: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return F.linear(x, w)
""",
    detect=_default_of_tensor,
    fails_calls=True,
)
