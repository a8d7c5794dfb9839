"""Forms at module level that keep all functions of a file, or of the project, on Python.

Rextio trusts an import only while nothing at module level could have bound the name again. It takes
that for possible wherever a statement runs code that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from rextio_torch.explain.forms.examples import RELU
from rextio_torch.explain.model import Form
from rextio_torch.syntax.source import SourceFile
from rextio_torch.syntax.tree import children, dotted_name, parameters, statements

_PURE_DECORATORS = frozenset(
    {
        "rextio.native",
        "rextio.exempt",
        "staticmethod",
        "classmethod",
        "property",
        "functools.cached_property",
    }
)
_GENERIC = frozenset({"list", "dict", "tuple", "set", "frozenset", "type"})
#: A call that Rextio knows: the usual way to make a logger.
_KNOWN_CALLS = frozenset({"logging.getLogger", "range"})


def _executed(file: SourceFile) -> Iterator[cst.CSTNode]:
    """Yield the statements that importing the module runs, those of class bodies included."""
    for statement in statements(file.tree.body):
        yield statement
        if isinstance(statement, cst.ClassDef):
            yield from _class_body(statement)


def _class_body(node: cst.ClassDef) -> Iterator[cst.CSTNode]:
    for statement in statements(node.body.body):
        yield statement
        if isinstance(statement, cst.ClassDef):
            yield from _class_body(statement)


def _evaluated(file: SourceFile, statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the expressions that a statement evaluates itself."""
    match statement:
        case cst.FunctionDef(params=params):
            yield from (item.default for item in parameters(params) if item.default)
        case cst.ClassDef():
            return
        case cst.BaseCompoundStatement():
            for name in ("test", "iter", "subject"):
                part = getattr(statement, name, None)
                if part is not None:
                    yield part
            for item in getattr(statement, "items", ()):
                yield item.item
        case cst.AnnAssign(value=value):
            yield from () if value is None else (value,)
        case cst.AugAssign(value=value) | cst.Assign(value=value):
            yield value
        case cst.Import() | cst.ImportFrom() | cst.Del() | cst.Global():
            return
        case _:
            yield from (c for c in children(statement) if isinstance(c, cst.BaseExpression))


def _inside(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    if isinstance(node, (cst.Lambda, cst.GeneratorExp)):
        return
    for child in children(node):
        yield from _inside(child)


def _calls(file: SourceFile) -> Iterator[cst.CSTNode]:
    for statement in _executed(file):
        for expression in _evaluated(file, statement):
            for node in _inside(expression):
                name = dotted_name(node.func) if isinstance(node, cst.Call) else ""
                target = file.resolver.target(name or "") or name
                if isinstance(node, cst.Call) and target not in _KNOWN_CALLS:
                    yield node
                    break


MODULE_CALL = Form(
    code="RXTP-FORM-090",
    id="module_call",
    title="a call at module level",
    reason="A call that runs on import, also in a default value or under "
    '`if __name__ == "__main__":`, could bind an imported name again.',
    advice="Move it into another file, or into a function that other code calls.",
    example="""\
WEIGHT = torch.zeros(3)


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead=RELU,
    detect_in_file=_calls,
    scope="file",
)


def _decorators(file: SourceFile) -> Iterator[cst.CSTNode]:
    for statement in _executed(file):
        for item in getattr(statement, "decorators", ()):
            node = item.decorator.func if isinstance(item.decorator, cst.Call) else item.decorator
            name = dotted_name(node) or ""
            target = file.resolver.target(name) or name
            local = target in {
                other.name.value
                for other in statements(file.tree.body)
                if isinstance(other, cst.FunctionDef)
            }
            if target not in _PURE_DECORATORS and not local:
                yield item.decorator


MODULE_DECORATOR = Form(
    code="RXTP-FORM-091",
    id="module_decorator",
    title="a decorator at module level",
    reason="A decorator, of another function or of a class too, could bind an imported name again.",
    advice="Move what is decorated into another file.",
    example="""\
from dataclasses import dataclass


@dataclass
class Options:
    steps: int


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead="""\
class Options:
    steps = 3


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    detect_in_file=_decorators,
    scope="file",
)


def _base_classes(file: SourceFile) -> Iterator[cst.CSTNode]:
    for statement in _executed(file):
        if isinstance(statement, cst.ClassDef):
            yield from (*statement.bases, *statement.keywords)


BASE_CLASS = Form(
    code="RXTP-FORM-092",
    id="base_class",
    title="a class with a base class",
    reason="Making the class runs code of its base class.",
    advice="Move the class into another file that imports the functions from this one.",
    example="""\
class Model(torch.nn.Module):
    pass


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead=RELU,
    detect_in_file=_base_classes,
    scope="file",
)


def _star_imports(file: SourceFile) -> Iterator[cst.CSTNode]:
    for statement in _executed(file):
        if isinstance(statement, cst.ImportFrom) and isinstance(statement.names, cst.ImportStar):
            yield statement


STAR_IMPORT = Form(
    code="RXTP-FORM-093",
    id="star_import",
    title="from … import *",
    reason="It may bind any name again.",
    advice="Name what is imported.",
    example="""\
from math import *


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead="""\
from math import pi


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    detect_in_file=_star_imports,
    scope="file",
)


def _annotations(file: SourceFile) -> Iterator[cst.CSTNode]:
    """Yield annotations that are evaluated with an operator or a subscript on unknown objects."""
    if file.future_annotations:
        return
    for statement in _executed(file):
        nodes: list[cst.Annotation] = []
        if isinstance(statement, cst.FunctionDef):
            nodes = [item.annotation for item in parameters(statement.params) if item.annotation]
            nodes += [statement.returns] if statement.returns is not None else []
        elif isinstance(statement, cst.AnnAssign):
            nodes = [statement.annotation]
        for node in nodes:
            if any(_runs_code(file, inner) for inner in _inside(node.annotation)):
                yield node.annotation


def _runs_code(file: SourceFile, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return not all(_is_plain_type(file, side) for side in (node.left, node.right))
    if isinstance(node, cst.Subscript):
        return dotted_name(node.value) not in _GENERIC
    return isinstance(node, cst.Call)


def _is_plain_type(file: SourceFile, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return all(_is_plain_type(file, side) for side in (node.left, node.right))
    if isinstance(node, cst.Subscript):
        return dotted_name(node.value) in _GENERIC
    name = dotted_name(node)
    return name in {*_GENERIC, "int", "float", "bool", "str", "bytes", "complex", "None", "object"}


EVALUATED_ANNOTATION = Form(
    code="RXTP-FORM-094",
    id="evaluated_annotation",
    title="an annotation that runs code",
    reason="`X | None` and `X[…]` of an imported type run code of it when the function is defined.",
    advice="Write `from __future__ import annotations` first in the file: annotations are not "
    "evaluated then.",
    example="""\
def g(x: TensorF32Cpu2D | None) -> int:
    return 1


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead="""\
from __future__ import annotations


def g(x: TensorF32Cpu2D | None) -> int:
    return 1


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    detect_in_file=_annotations,
    scope="file",
)


def _other_statements(file: SourceFile) -> Iterator[cst.CSTNode]:
    for statement in _executed(file):
        if isinstance(statement, (cst.With, cst.AugAssign)):
            yield statement
        elif isinstance(statement, cst.Assign):
            targets = [item.target for item in statement.targets]
            if any(isinstance(target, cst.Subscript) for target in targets):
                yield statement


MODULE_STATEMENT = Form(
    code="RXTP-FORM-095",
    id="module_statement",
    title="a statement at module level that changes something",
    reason="`with`, an augmented assignment and an assignment to an index run code on import "
    "that could bind an imported name again.",
    advice="Write the final value, or move it into another file.",
    example="""\
SIZES = {}
SIZES["hidden"] = 3


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    instead="""\
SIZES = {"hidden": 3}


def f(x: TensorF32Cpu2D) -> TensorF32Cpu2D:
    return x.relu()
""",
    detect_in_file=_other_statements,
    scope="file",
)


def _rebinding(file: SourceFile) -> Iterator[cst.CSTNode]:
    """Yield what may bind attributes of the project's modules: assignments and calls."""
    for statement in _executed(file):
        targets = [t.target for t in statement.targets] if isinstance(statement, cst.Assign) else []
        for target in targets:
            head = (dotted_name(target) or "").partition(".")[0]
            if isinstance(target, cst.Attribute) and file.imports_from_project(head):
                yield statement
        for expression in _evaluated(file, statement):
            for node in _inside(expression):
                name = dotted_name(node.func) if isinstance(node, cst.Call) else None
                if name is not None and file.imports_from_project(name.partition(".")[0]):
                    yield node


PROJECT_CALL = Form(
    code="RXTP-FORM-096",
    id="project_call",
    title="a use of the project's modules on import",
    reason="A file of the project that calls another one's functions, or assigns to its "
    "attributes, while it is imported could replace its functions.",
    advice="Keep such scripts outside the project's folder or in .rextioignore, or put the "
    "code into a function.",
    example=RELU,
    other="""\
import torch

import example

print(example.f(torch.zeros(2, 2)))
""",
    instead=RELU,
    detect_in_file=_rebinding,
    scope="project",
)
